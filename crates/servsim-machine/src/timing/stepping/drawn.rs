//! Machines drawn at random run the captured trace that is shipped: runs of hits, and processors that go on alone, leave what
//! one record at a time leaves.

use super::one_by_one;
use crate::builders::{hierarchy_of, reading_of, setup_of};
use crate::drawn::{drawn, machine_of, shipped, with_fresh_seeds};
use crate::storage::Plan;
use crate::timing::{run, Model};
use crate::translation;
use servsim_core::RandomStream;
use servsim_import::{open_by_task, TraceFile};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Machines on which the two ways once differed, with their windows and seeds: a write-back at a hit outside the first level, granted
/// before the time bound (twice, with a core and without); a handler that waits for the end of a page walk; a fetch in two lines
/// whose instruction is kept out, and lines that come meanwhile.
const FOUND: &[(&str, (u64, u64), u64)] = &[
    ("cache.size=16 KiB; l2.size=96 KiB; l2.inclusion=exclusive; write_buffer.entries=1", (0, 1), 1327),
    (
        "processor.model=ooo; cache.size=6 KiB; cache.line=16 B; l2.size=64 KiB; l2.inclusion=exclusive",
        (0, 1),
        1116,
    ),
    (
        "processors=3; processor.store_buffer=64 words; cache.size=6 KiB; cache.line=64 B; cache.organisation=split; \
         tlb.entries=16; bus.memory_read=400 cycles; bus.invalidate=90 cycles; scheduler.policy=affinity; \
         scheduler.time_slice=5000 references; disk.parallel=1",
        (0, 2),
        3817,
    ),
    ("processor.model=ooo; processor.window=200 instructions; cache.size=1 KiB", (1, 1), 4536),
];

/// Whether both ways leave the same on the machine of these settings, for a window of so many transactions after others.
fn agree(settings: &[String], (warmup, transactions): (u64, u64), seed: u64) -> bool {
    let machine = machine_of(settings).expect("a machine that can be");
    let setup = setup_of(&machine).expect("a protocol");
    let path = shipped();
    let mut source =
        open_by_task(&TraceFile::new(&path, None), &reading_of(&machine, &setup)).expect("a trace");
    if let Some(tlb) = &machine.tlb {
        source = translation::tasks_with_pages(source, tlb.identity).expect("a trace with pages");
    }
    let model = Model::new(&machine, &setup, None, 0)
        .with_hierarchy(hierarchy_of(&machine, seed).expect("levels"))
        .with_storage(Plan::of(&machine, source.as_ref()).expect("a trace of its disks"));
    let model = Model { warmup, transactions: Some(transactions), ..model };
    let result = |apart: bool| {
        let once = || run(source.as_ref(), &model, seed, &AtomicBool::new(false), &AtomicU64::new(0));
        format!("{:?}", one_by_one(apart, once))
    };
    result(false) == result(true)
}

#[test]
fn machines_that_once_differed_agree_with_one_record_at_a_time() {
    for &(settings, window, seed) in FOUND {
        let list: Vec<String> = settings.split("; ").map(Into::into).collect();
        assert!(agree(&list, window, seed), "{settings}");
    }
}

fn a_drawn_machine_agrees(seed: u64) {
    let mut random = RandomStream::new(seed, "drawn machine");
    let (settings, window) = (drawn(&mut random, &[]), (random.below(2), 1 + random.below(2)));
    assert!(agree(&settings, window, seed), "seed {seed}: {settings:?}, window {window:?}");
}

#[test]
fn a_few_drawn_machines_agree_with_one_record_at_a_time() {
    (1..5).for_each(a_drawn_machine_agrees);
}

#[test]
#[ignore = "as many machines as there is time for, seconds each: run with --ignored"]
fn drawn_machines_agree_with_one_record_at_a_time() {
    with_fresh_seeds(a_drawn_machine_agrees);
}
