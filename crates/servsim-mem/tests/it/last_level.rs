//! The rules of a shared last level that other simulators have otherwise (docs/parts/hierarchy.md), each
//! shown by the fewest accesses that tell it.

use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{Access, Geometry, Hierarchy, HierarchySpec, Inclusion, LevelCounters, LevelSpec, Page};

/// Two processors with one frame each, around a shared level of one set of `ways` lines.
fn machine(ways: u32, options: &Options) -> Hierarchy<u16> {
    let level = LevelSpec {
        geometry: Geometry { size: 64 * u64::from(ways), ways, line: 64 },
        replacement: "lru".into(),
        inclusion: Inclusion::Neither,
    };
    let spec = HierarchySpec { shared: vec![level], ..HierarchySpec::default() };
    let table = by_name("mesi", options).unwrap();
    Hierarchy::new(2, Geometry { size: 64, ways: 1, line: 64 }, table, false, &spec)
}

fn access(caches: &mut Hierarchy<u16>, cpu: usize, line: u64, write: bool) {
    let access = Access { cpu, line, words: 1, write, kernel: false, task: 0, slot: 1 };
    caches.access(&access, || Page { private: false, kernel: None });
}

fn load(caches: &mut Hierarchy<u16>, cpu: usize, line: u64) {
    access(caches, cpu, line, false);
}

fn store(caches: &mut Hierarchy<u16>, cpu: usize, line: u64) {
    access(caches, cpu, line, true);
}

fn last(caches: &Hierarchy<u16>) -> LevelCounters {
    caches.counters()[1].1
}

#[test]
fn a_fetch_that_a_cache_supplies_skips_the_last_level() {
    for (any_copy, looked_up) in [(false, 2), (true, 1)] {
        let options = Options { any_copy_supplies: any_copy, ..Options::default() };
        // A clean copy supplies under one option only.
        let mut caches = machine(4, &options);
        load(&mut caches, 0, 7);
        load(&mut caches, 1, 7);
        let counters = last(&caches);
        assert_eq!(counters.hits + counters.misses, looked_up, "any copy supplies: {any_copy}");
        // A dirty one under both.
        let mut caches = machine(4, &options);
        store(&mut caches, 0, 7);
        store(&mut caches, 1, 7);
        let counters = last(&caches);
        assert_eq!((counters.hits, counters.misses), (0, 1), "only the first store looks there");
    }
}

#[test]
fn dirty_victims_and_flushes_allocate_in_the_last_level() {
    // One line each way: what the fetch of a store fills is pushed out by the next before anybody gives
    // it up.
    let mut caches = machine(1, &Options::default());
    store(&mut caches, 0, 7);
    load(&mut caches, 1, 8);
    assert_eq!((last(&caches).evictions, caches.memory_traffic()), (1, (2, 0)));
    // The dirty victim 7 comes back, though 8 lies there and 9 is fetched meanwhile.
    load(&mut caches, 0, 9);
    assert_eq!(caches.memory_traffic(), (3, 1), "7 allocated, then was written to memory to make room for 9");

    // A read that makes a dirty copy clean leaves the data here: the next fetch hits, once nobody has it.
    let mut caches = machine(1, &Options::default());
    store(&mut caches, 0, 7);
    load(&mut caches, 1, 8);
    load(&mut caches, 1, 7);
    assert_eq!(last(&caches).hits, 0);
    load(&mut caches, 0, 8);
    assert_eq!(caches.memory_traffic(), (3, 1), "the flushed line allocated, dirty, and made room again");
}

#[test]
fn a_write_back_that_hits_leaves_the_order_of_replacement() {
    // Lines 7, 8, 9 are fetched in this order; the write-back of 7 comes last and is no use of it.
    let mut caches = machine(3, &Options::default());
    store(&mut caches, 0, 7);
    load(&mut caches, 1, 8);
    load(&mut caches, 1, 9);
    load(&mut caches, 0, 9);
    assert_eq!(caches.memory_traffic(), (3, 0), "the write-back of 7 hit");
    // 10 needs room: 7 is still the oldest, and goes to memory.
    load(&mut caches, 1, 10);
    assert_eq!(caches.memory_traffic(), (4, 1));
    load(&mut caches, 0, 8);
    assert_eq!(caches.memory_traffic(), (4, 1), "8 stayed");
}
