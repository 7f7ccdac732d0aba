//! What the shadow that tells conflict from capacity knows of lines that were used in ways other than by plain hits.

use servsim_core::{CacheId, LineAddr};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{Access, CoherentSystem, Geometry, MissClass, Page};

/// Of two processors, with two sets of one way: shadows of two lines.
fn small() -> CoherentSystem<u16> {
    let mesi = by_name("mesi", &Options::default()).expect("registered");
    CoherentSystem::new(2, Geometry { size: 128, ways: 1, line: 64 }, mesi, true)
}

fn access(cache: usize, line: u64, write: bool) -> Access<u16, CacheId> {
    Access { at: CacheId(cache), line: LineAddr(line), words: 1, write, kernel: false, task: 0, slot: 1 }
}

fn uses(caches: &mut CoherentSystem<u16>, cache: usize, line: u64, write: bool) {
    while !caches.transact(&access(cache, line, write), Page::from(false)).done {}
}

fn misses(caches: &CoherentSystem<u16>, class: MissClass) -> u64 {
    caches.counters[0].misses.iter().map(|by_class| by_class[class as usize]).sum()
}

#[test]
fn a_prefetch_into_the_frame_of_an_invalidated_copy_is_no_use_and_hides_none() {
    const A: u64 = 0;
    const B: u64 = 1;
    const C: u64 = 3;
    // Whether A is used after B or before it: that one is the younger when C takes room.
    for (again, class) in [(true, MissClass::Capacity), (false, MissClass::Conflict)] {
        let mut caches = small();
        uses(&mut caches, 0, A, false);
        uses(&mut caches, 0, B, false);
        if again {
            uses(&mut caches, 0, A, false);
        }
        uses(&mut caches, 1, A, true);
        assert!(caches.prefetch(&access(0, A, false), Page::from(false)).is_some());
        uses(&mut caches, 0, C, false);
        let before = misses(&caches, class);
        uses(&mut caches, 0, B, false);
        assert_eq!(misses(&caches, class), before + 1, "A used again: {again}");
    }
}
