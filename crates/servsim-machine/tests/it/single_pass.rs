//! A run that finds out along the way which pages are private counts what a run counts that knew it from a first pass.

use crate::sharded::{hierarchies, without_host};
use servsim_core::RandomStream;
use servsim_import::raw16::Raw16;
use servsim_machine::functional::{self, needs_first_pass, Counted};
use servsim_machine::{sharded, Setup};
use servsim_mem::protocol::{by_name, Options, Rules, PROTOCOLS};
use servsim_mem::{Geometry, HierarchySpec};
use std::path::Path;

const PROCESSORS: usize = 3;
const RECORDS: u64 = 12_000;

/// References of five processes that move between processors now and then, to pages of their own and to pages that all
/// share, some of them only in the last fifth of the trace.
fn write(path: &Path, seed: u64) {
    let mut random = RandomStream::new(seed, "single pass");
    let mut at = [0, 1, 2, 0, 1];
    let mut bytes = Vec::new();
    for number in 0..RECORDS {
        let process = random.below(5);
        let cpu = &mut at[process as usize];
        if random.below(12) == 0 {
            *cpu = random.below(PROCESSORS as u64);
        }
        let whose = if number > RECORDS * 4 / 5 && random.below(40) == 0 { random.below(5) } else { process };
        let of_own = random.below(if whose == process { 6 } else { 2 });
        let page = if random.below(3) == 0 { 90 } else { 16 * whose + of_own };
        // Few lines of a page, and now and then an access into the next line or page.
        let offset = if random.below(30) == 0 { 4092 } else { page % 16 * 128 + random.below(10) * 12 };
        bytes.extend(((page << 12) + offset).to_le_bytes());
        let mode = (random.below(2) << 7) as u8;
        bytes.extend([random.below(3) as u8 | mode, 1 + random.below(8) as u8, 0, 0, *cpu as u8, 0]);
        bytes.extend((700 + process as u16).to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

/// With a first pass, without one, with the file read ahead, and in up to four shards.
fn counted(path: &Path, setup: &Setup, spec: &HierarchySpec) -> [Counted; 4] {
    let mut known = Raw16::open(path, PROCESSORS).unwrap();
    let shards = sharded::shards(setup, spec, 4);
    let found_out = || Raw16::unsurveyed(path, PROCESSORS).unwrap();
    [
        functional::run_on(&mut known, setup, spec, &mut |_| true).unwrap(),
        functional::run_on(&mut found_out(), setup, spec, &mut |_| true).unwrap(),
        functional::run_ahead(&mut found_out(), setup, spec, &mut |_| true).unwrap(),
        sharded::run(&mut found_out(), setup, spec, shards, &mut |_| true).unwrap(),
    ]
    .map(without_host)
}

#[test]
fn a_run_without_a_first_pass_counts_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.raw16");
    let mut tried = 0;
    for seed in 0..6 {
        write(&path, seed);
        for (name, _) in PROTOCOLS {
            let rules = Rules { judge_at_miss: seed % 2 == 1, ..Rules::default() };
            let setup = Setup {
                processors: PROCESSORS,
                geometry: Geometry { size: 4096, ways: 2, line: 32 },
                protocol: by_name(name, &Options { rules, ..Options::default() }).unwrap(),
                shadow: seed % 3 == 0,
            };
            for spec in hierarchies() {
                if needs_first_pass(&setup, &spec) {
                    continue;
                }
                let [known, found_out, ahead, shared] = counted(&path, &setup, &spec);
                let passive: u64 = known.total().misses.iter().map(|mode| mode[5]).sum();
                assert!(passive > 100, "{name}: {passive} misses by passive sharing");
                assert_eq!(found_out, known, "{name}, seed {seed}, {spec:?}");
                assert_eq!(ahead, known, "{name}, seed {seed}, {spec:?}, read ahead");
                assert_eq!(shared, known, "{name}, seed {seed}, {spec:?}, on several threads");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried} machines");
}

#[test]
#[should_panic(expected = "must know private pages")]
fn a_machine_that_does_more_on_private_pages_needs_the_first_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.raw16");
    write(&path, 1);
    let setup = Setup {
        processors: PROCESSORS,
        geometry: Geometry { size: 4096, ways: 2, line: 32 },
        protocol: by_name("pscr", &Options::default()).unwrap(),
        shadow: false,
    };
    let mut source = Raw16::unsurveyed(&path, PROCESSORS).unwrap();
    let _ = functional::run_on(&mut source, &setup, &HierarchySpec::default(), &mut |_| true);
}
