//! A functional run over several threads counts what one thread counts, to the unit.

use crate::support::text::trace;
use servsim_import::FirstPass;

use servsim_core::{Batch, GlobalSource, Privacy, RandomStream, SourceError, TaskInfo};
use servsim_machine::functional::{self, Counted};
use servsim_machine::{sharded, Setup};
use servsim_mem::protocol::{by_name, Options, PROTOCOLS};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};

use std::sync::LazyLock;
use std::time::{Duration, Instant};

const PROCESSORS: usize = 3;

fn setup(protocol: &str, shadow: bool) -> Setup {
    Setup {
        processors: PROCESSORS,
        geometry: Geometry { size: 2048, ways: 2, line: 32 },
        protocol: by_name(protocol, &Options::default()).unwrap(),
        shadow,
    }
}

pub fn hierarchies() -> Vec<HierarchySpec> {
    let level = |size, inclusion| LevelSpec {
        geometry: Geometry { size, ways: 4, line: 32 },
        replacement: "srrip".into(),
        inclusion,
        write_around: false,
    };
    let mut all = vec![HierarchySpec::default()];
    for inclusion in [Inclusion::Inclusive, Inclusion::Exclusive, Inclusion::Neither] {
        for split in [false, true] {
            let (two, three) = (level(4096, inclusion), level(8192, inclusion));
            let shared = HierarchySpec { split, shared: vec![two.clone()], ..HierarchySpec::default() };
            let both =
                HierarchySpec { split, private: vec![two], shared: vec![three], ..HierarchySpec::default() };
            all.extend([shared, both]);
        }
    }
    all
}

pub fn without_host(mut counted: Counted) -> Counted {
    counted.host_bytes = 0;
    counted
}

#[test]
fn several_threads_count_what_one_counts() {
    for (seed, (name, _)) in PROTOCOLS.iter().enumerate() {
        let (text, setup) = (trace(seed as u64), setup(name, false));
        let open = || -> Result<Box<dyn GlobalSource>, SourceError> {
            Ok(Box::new(servsim_import::text::read(text.as_bytes(), "t", PROCESSORS)?))
        };
        for spec in hierarchies() {
            let one = functional::run_on(open().unwrap().as_mut(), &setup, &spec, &mut |_| true).unwrap();
            let one = without_host(one);
            assert!(one.total().total_misses() > 500 && one.transactions.iter().sum::<u64>() == 12);
            for count in [2, 4, 8] {
                assert_eq!(sharded::shards(&setup, &spec, count), count);
                let mut first = open().unwrap();
                let sum = sharded::run(first.as_mut(), &setup, &spec, count, &mut |_| true).unwrap();
                assert_eq!(without_host(sum), one, "{name}, {count} shards, {spec:?}");
            }
        }
    }
}

#[test]
fn sets_that_are_no_power_of_two_are_divided_as_far_as_lines_of_a_set_stay_together() {
    let text = trace(3);
    let open = || servsim_import::text::read(text.as_bytes(), "t", PROCESSORS).unwrap();
    let sets = |count: u64| Geometry { size: 2 * 32 * count, ways: 2, line: 32 };
    let setup = Setup { geometry: sets(12), ..setup("mesi", false) };
    let level = LevelSpec {
        geometry: sets(20),
        replacement: "lru".into(),
        inclusion: Inclusion::Neither,
        write_around: true,
    };
    let spec = HierarchySpec { shared: vec![level], ..HierarchySpec::default() };
    let count = sharded::shards(&setup, &spec, 8);
    assert_eq!(count, 4, "12 and 20 sets");
    let one = functional::run_on(&mut open(), &setup, &spec, &mut |_| true).unwrap();
    let sum = sharded::run(&mut open(), &setup, &spec, count, &mut |_| true).unwrap();
    assert_eq!(without_host(sum), without_host(one));
}

#[test]
fn what_ties_sets_together_stays_on_one_thread() {
    let plain = HierarchySpec::default();
    assert_eq!(sharded::shards(&setup("mesi", false), &plain, 7), 4, "a power of two");
    assert_eq!(sharded::shards(&setup("mesi", false), &plain, 1000), 32, "as many as there are sets");
    assert_eq!(sharded::shards(&setup("mesi", true), &plain, 8), 1, "exact conflicts");
    let six = Setup { geometry: Geometry { size: 6 * 32, ways: 1, line: 32 }, ..setup("mesi", false) };
    assert_eq!(sharded::shards(&six, &plain, 8), 2, "lines of one of six sets are of one shard");
    let random = HierarchySpec { replacement: "random".into(), ..plain };
    assert_eq!(sharded::shards(&setup("mesi", false), &random, 8), 1);
}

#[test]
fn an_interruption_stops_every_thread() {
    let text = trace(1);
    let open = || -> Result<Box<dyn GlobalSource>, SourceError> {
        Ok(Box::new(servsim_import::text::read(text.as_bytes(), "t", PROCESSORS)?))
    };
    let (setup, spec) = (setup("mesi", false), HierarchySpec::default());
    let mut first = open().unwrap();
    let stopped = sharded::run(first.as_mut(), &setup, &spec, 4, &mut |_| false);
    assert_eq!(stopped.unwrap_err().0, "interrupted");
}

/// References in the form of raw16, some of which lie in several lines. Tasks run a few references here and a few there.
fn raw16(path: &std::path::Path, records: u64) {
    let mut random = RandomStream::new(9, "parts");
    let mut bytes = Vec::new();
    let mut running = [100_u16, 101, 102];
    for _ in 0..records {
        let cpu = random.below(PROCESSORS as u64);
        if random.below(4) == 0 {
            let next = 100 + random.below(6) as u16;
            match running.iter().position(|&task| task == next) {
                Some(elsewhere) => running.swap(elsewhere, cpu as usize),
                None => running[cpu as usize] = next,
            }
        }
        let task = running[cpu as usize];
        let address =
            if random.below(4) == 0 { 0x9000 } else { u64::from(task) << 16 } + random.below(0x1800);
        let size = if random.below(50) == 0 { 1 + random.below(255) } else { 1 + random.below(9) };
        bytes.extend(address.to_le_bytes());
        bytes.extend([random.below(3) as u8, size as u8, 0, 0, cpu as u8, 0]);
        bytes.extend(task.to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn threads_that_each_read_the_file_count_what_one_counts_and_know_its_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.raw16");
    raw16(&path, 300_000);
    for (protocol, first_pass) in [("pscr", FirstPass::ALONE), ("mesi", FirstPass::LeftOut)] {
        let (setup, spec) = (setup(protocol, false), HierarchySpec::default());
        let open = || servsim_import::raw16::open(&path, PROCESSORS, first_pass).unwrap();
        let mut alone = open();
        let one = functional::run_on(alone.as_mut(), &setup, &spec, &mut |_| true).unwrap();
        assert_eq!(one.total().total_references(), 300_000);
        for count in [2, 4, 32] {
            let (mut first, mut done) = (open(), 0);
            let mut proceed = |now| {
                done = now;
                true
            };
            let sum = sharded::run(first.as_mut(), &setup, &spec, count, &mut proceed).unwrap();
            assert_eq!(without_host(sum), without_host(one.clone()), "{protocol}, {count} shards");
            assert_eq!((first.tasks(), done), (alone.tasks(), 300_000));
        }
    }
}

/// A source that has nothing for the first thread; with the other, `next` decides.
struct Apart {
    next: fn() -> bool,
    is_first: bool,
    privacy: Privacy,
}

fn apart(next: fn() -> bool) -> Apart {
    Apart { next, is_first: true, privacy: Privacy::default() }
}

impl GlobalSource for Apart {
    fn tasks(&self) -> &[TaskInfo] {
        &[]
    }

    fn transaction_kinds(&self) -> Vec<String> {
        Vec::new()
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        Ok(!self.is_first && (self.next)())
    }

    fn in_shards(&mut self, _: usize, _: u32) -> Option<Vec<Box<dyn GlobalSource + Send>>> {
        Some(vec![Box::new(Apart { is_first: false, ..apart(self.next) })])
    }
}

#[test]
fn a_thread_that_has_nothing_left_still_hears_of_an_interruption() {
    // Twenty seconds at most, so that the test ends also where the run is not stopped.
    static END: LazyLock<Instant> = LazyLock::new(|| Instant::now() + Duration::from_secs(20));
    let mut asked = 0;
    let mut proceed = |_| {
        asked += 1;
        asked < 3
    };
    let (setup, spec) = (setup("mesi", false), HierarchySpec::default());
    let stopped = sharded::run(&mut apart(|| Instant::now() < *END), &setup, &spec, 2, &mut proceed);
    assert_eq!(stopped.unwrap_err().0, "interrupted");
    assert_eq!(asked, 3);
}

#[test]
#[should_panic(expected = "amid the trace")]
fn a_panic_of_another_thread_is_passed_on() {
    let (setup, spec) = (setup("mesi", false), HierarchySpec::default());
    let _ = sharded::run(&mut apart(|| panic!("amid the trace")), &setup, &spec, 2, &mut |_| true);
}

#[test]
fn a_fault_is_told_whichever_thread_meets_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.raw16");
    raw16(&path, 60_000);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40_000 * 16 + 9] = 0;
    std::fs::write(&path, bytes).unwrap();
    let (setup, spec) = (setup("mesi", false), HierarchySpec::default());
    for _ in 0..40 {
        let mut source = servsim_import::raw16::open(&path, PROCESSORS, FirstPass::LeftOut).unwrap();
        let fault = sharded::run(source.as_mut(), &setup, &spec, 4, &mut |_| true).unwrap_err().0;
        assert!(fault.contains("record 40000 ") && fault.contains("size 0"), "{fault}");
    }
}

#[test]
fn a_trace_read_ahead_counts_what_one_thread_counts() {
    let text = trace(5);
    let open = || servsim_import::text::read(text.as_bytes(), "t", PROCESSORS).unwrap();
    for spec in hierarchies() {
        for exact in [false, true] {
            let setup = setup("mesi", exact);
            let one = functional::run_on(&mut open(), &setup, &spec, &mut |_| true).unwrap();
            let ahead = functional::run_ahead(&mut open(), &setup, &spec, &mut |_| true).unwrap();
            assert_eq!(ahead, one, "exact: {exact}, {spec:?}");
        }
    }
}
