//! Functional runs of drawn traces on drawn machines: one thread, several, reading ahead, one pass for several machines and a pass
//! that finds out along the way which pages are private count the same, to the unit.

use super::{drawn, machine_of, with_fresh_seeds, Setting, NONE};
use crate::builders::{hierarchy_of, setup_of};
use crate::functional::{needs_first_pass, run_ahead, run_on, Counted};
use crate::setup::Setup;
use crate::{multi_config, sharded};
use servsim_core::{GlobalSource, RandomStream};
use servsim_import::raw16::Raw16;
use servsim_mem::HierarchySpec;
use std::path::Path;

/// Little room, and nothing that is refused or of no effect in functional runs.
const NARROW: &[Setting] = &[
    ("processors", 1, &["1", "2", "3", "5", "17", "40"]),
    ("cache.size", 1, &["64 B", "128 B", "512 B", "1 KiB", "2 KiB", "6 KiB", "16 KiB"]),
    ("cache.line", 1, &["16 B", "32 B", "64 B", "256 B"]),
    ("l2.size", 2, &["1 KiB", "4 KiB", "24 KiB"]),
    ("l2.associativity", 1, &["1", "2", "3"]),
    ("l3.size", 3, &["16 KiB", "96 KiB"]),
    ("protocol.word_write", 2, &["update-memory"]),
    ("prefetch.policy", NONE, &["next-line"]),
    ("tlb.entries", NONE, &["16"]),
    ("node.count", NONE, &["2"]),
    ("clients.place", NONE, &["elsewhere"]),
    ("processor.model", NONE, &["ooo"]),
];

/// References of some processes that move between processors now and then, to pages of their own and to some that others use.
fn write(path: &Path, processors: u64, random: &mut RandomStream) {
    let (records, processes) = (100 + random.below(6000), 1 + random.below(12));
    let (moves, shared, lines) = (1 + random.below(40), 2 + random.below(12), 1 + random.below(60));
    let mut at: Vec<u64> = (0..processes).map(|_| random.below(processors)).collect();
    let mut bytes = Vec::new();
    for _ in 0..records {
        let process = random.below(processes);
        if random.below(moves) == 0 {
            at[process as usize] = random.below(processors);
        }
        let page =
            if random.below(shared) == 0 { 900 + random.below(3) } else { 16 * process + random.below(5) };
        // Few lines of a page, and now and then an access into the next line or page.
        let offset = if random.below(30) == 0 { 4092 } else { random.below(lines) * 64 + random.below(62) };
        bytes.extend(((page << 12) + offset).to_le_bytes());
        let mode = (random.below(2) << 7) as u8;
        let size = [1, 4, 8, 8, 64][random.below(5) as usize];
        bytes.extend([random.below(3) as u8 | mode, size, 0, 0, at[process as usize] as u8, 0]);
        bytes.extend((700 + process as u16).to_le_bytes());
    }
    std::fs::write(path, bytes).expect("a file");
}

fn without_host(counted: Counted) -> Counted {
    Counted { host_bytes: 0, ..counted }
}

/// Machines that one trace is run on: of so many processors and such lines.
fn machines(random: &mut RandomStream) -> Vec<(Vec<String>, Setup, HierarchySpec)> {
    let settings = drawn(random, NARROW);
    let mut all = vec![settings.clone()];
    for _ in 0..random.below(5) {
        // The same of another size, or another of as many processors with the same lines.
        let mut others = if random.below(2) == 0 { settings.clone() } else { drawn(random, NARROW) };
        let kept =
            |setting: &String| setting.starts_with("processors=") || setting.starts_with("cache.line=");
        others.retain(|setting| !kept(setting) && !setting.starts_with("cache.size="));
        others.extend(settings.iter().filter(|setting| kept(setting)).cloned());
        others.push(format!("cache.size={} B", 1024 << random.below(6)));
        all.push(others);
    }
    let built = all.into_iter().filter_map(|settings| {
        let machine = machine_of(&settings)?;
        Some((settings, setup_of(&machine).ok()?, hierarchy_of(&machine, 1).ok()?))
    });
    let mut built: Vec<_> = built.collect();
    if let Some((_, setup, spec)) = built.first().cloned() {
        built.retain(|(_, other, of)| multi_config::together((&setup, &spec), (other, of)));
    }
    built
}

/// All ways count the same of what is drawn by `seed`.
fn agrees(seed: u64) {
    let mut random = RandomStream::new(seed, "drawn pass");
    let machines = machines(&mut random);
    let Some((_, first, _)) = machines.first() else { return };
    let processors = first.processors;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.raw16");
    write(&path, processors as u64, &mut random);
    let known = || -> Box<dyn GlobalSource> { Box::new(Raw16::open(&path, processors).expect("a trace")) };
    let found_out =
        || -> Box<dyn GlobalSource> { Box::new(Raw16::unsurveyed(&path, processors).expect("a trace")) };
    println!("{seed}: {:?}", machines.iter().map(|(settings, ..)| settings).collect::<Vec<_>>());
    let mut singly = Vec::new();
    for (settings, setup, spec) in &machines {
        let one = without_host(run_on(known().as_mut(), setup, spec, &mut |_| true).expect("counts"));
        let threads = sharded::shards(setup, spec, 2 + random.below(7) as usize);
        let opened: Vec<&dyn Fn() -> Box<dyn GlobalSource>> =
            if needs_first_pass(setup, spec) { vec![&known] } else { vec![&known, &found_out] };
        for (which, open) in opened.into_iter().enumerate() {
            let ahead = run_ahead(open().as_mut(), setup, spec, &mut |_| true).expect("counts");
            assert!(without_host(ahead) == one, "seed {seed}, read ahead, {which}: {settings:?}");
            if which == 1 {
                let counted = run_on(open().as_mut(), setup, spec, &mut |_| true).expect("counts");
                assert!(without_host(counted) == one, "seed {seed}, one pass: {settings:?}");
            }
            if threads > 1 {
                let sum = sharded::run(open().as_mut(), setup, spec, threads, &mut |_| true).expect("counts");
                assert!(without_host(sum) == one, "seed {seed}, {threads} threads, {which}: {settings:?}");
            }
        }
        singly.push(one);
    }
    if machines.len() > 1 {
        let all: Vec<_> = machines.iter().map(|(_, setup, spec)| (setup.clone(), spec.clone())).collect();
        for threads in [1, 2 + random.below(3) as usize] {
            let together = multi_config::run(known().as_mut(), &all, threads, &mut |_| true).expect("counts");
            for ((one, counted), (settings, ..)) in singly.iter().zip(together).zip(&machines) {
                assert!(
                    &without_host(counted) == one,
                    "seed {seed}, together, {threads} threads: {settings:?}"
                );
            }
        }
    }
}

#[test]
fn a_few_drawn_passes_count_the_same() {
    (1..60).for_each(agrees);
}

/// `SERVSIM_FIRST_SEED` repeats a run, `SERVSIM_MINUTES` bounds it.
#[test]
#[ignore = "as many passes as there is time for: run with --ignored"]
fn drawn_passes_count_the_same() {
    with_fresh_seeds(agrees);
}
