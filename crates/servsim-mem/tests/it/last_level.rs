//! The rules of a shared last level that other simulators have otherwise (docs/parts/hierarchy.md), each
//! shown by the fewest accesses that tell it.

use servsim_core::{CpuId, LineAddr};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{Access, Geometry, Hierarchy, HierarchySpec, Inclusion, LevelCounters, LevelSpec, Page};

/// Two processors with one frame each, around a shared level of one set of `ways` lines.
fn machine(ways: u32, options: &Options) -> Hierarchy<u16> {
    of_shared(ways, options, false)
}

fn of_shared(ways: u32, options: &Options, write_around: bool) -> Hierarchy<u16> {
    of_inclusion(ways, options, write_around, Inclusion::Neither)
}

fn of_inclusion(ways: u32, options: &Options, write_around: bool, inclusion: Inclusion) -> Hierarchy<u16> {
    let level = LevelSpec {
        geometry: Geometry { size: 64 * u64::from(ways), ways, line: 64 },
        replacement: "lru".into(),
        inclusion,
        write_around,
    };
    let spec = HierarchySpec { shared: vec![level], ..HierarchySpec::default() };
    let table = by_name("mesi", options).unwrap();
    Hierarchy::new(2, Geometry { size: 64, ways: 1, line: 64 }, table, false, &spec)
}

fn access(caches: &mut Hierarchy<u16>, cpu: usize, line: u64, write: bool) {
    let access =
        Access { at: CpuId(cpu), line: LineAddr(line), words: 1, write, kernel: false, task: 0, slot: 1 };
    caches.access(&access, |_| Page::from(false));
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

#[test]
fn dirty_victims_go_around_a_level_that_does_not_allocate_for_writes() {
    // As above with one line each way: 7 is not there when it is given up, and goes to memory, so that 8 and
    // then 9 keep the only frame.
    let mut caches = of_shared(1, &Options::default(), true);
    store(&mut caches, 0, 7);
    load(&mut caches, 1, 8);
    load(&mut caches, 0, 9);
    assert_eq!(
        (caches.memory_traffic(), last(&caches).write_backs),
        ((3, 1), 0),
        "7 came from inside, not from here"
    );
    load(&mut caches, 1, 9);
    assert_eq!(last(&caches).hits, 1);
    // With two ways 7 is still there: it is written in place, and comes to memory when it makes room for 10.
    let mut caches = of_shared(2, &Options::default(), true);
    store(&mut caches, 0, 7);
    load(&mut caches, 0, 8);
    assert_eq!(caches.memory_traffic(), (2, 0));
    load(&mut caches, 1, 10);
    assert_eq!((caches.memory_traffic(), last(&caches).write_backs), ((3, 1), 1));
}

#[test]
fn stores_go_around_a_first_level_that_does_not_allocate_for_them() {
    let geometry = |lines: u64| Geometry { size: 64 * lines, ways: lines as u32, line: 64 };
    for write_around in [false, true] {
        let replacement = "lru".to_owned();
        let level = LevelSpec {
            geometry: geometry(4),
            replacement,
            inclusion: Inclusion::Inclusive,
            write_around: false,
        };
        let spec = HierarchySpec { private: vec![level], write_around, ..HierarchySpec::default() };
        let table = by_name("mesi", &Options::default()).unwrap();
        let mut caches: Hierarchy<u16> = Hierarchy::new(1, geometry(1), table, false, &spec);
        load(&mut caches, 0, 7);
        // 8 drives 7 out of the only frame of the first level, unless it goes around.
        store(&mut caches, 0, 8);
        load(&mut caches, 0, 7);
        store(&mut caches, 0, 7);
        let counters = caches.counters();
        let (first, second) = (counters[0].1, counters[1].1);
        let expected = if write_around { (2, 0) } else { (1, 2) };
        assert_eq!((first.hits, first.evictions), expected, "around: {write_around}");
        // 8 is dirty in either case, in the second level: 9, 10 and 11 make it the oldest but 7, and 12 takes it.
        assert_eq!(first.write_backs, u64::from(!write_around), "8 was handed outward when 7 took its frame");
        for line in 9..=12 {
            load(&mut caches, 0, line);
        }
        let written = caches.counters()[1].1.write_backs - second.write_backs;
        assert_eq!(written, 2, "8 and 7 were written once each, around: {write_around}");
    }
}

#[test]
fn a_fetch_from_a_cache_that_wrote_the_line_is_a_hit_on_a_modified_one() {
    let options = Options { any_copy_supplies: true, ..Options::default() };
    let mut caches = machine(4, &options);
    let counted = |caches: &Hierarchy<u16>| {
        let total = caches.system.total();
        (total.cache_to_cache[0][0], total.hit_modified[0][0])
    };
    load(&mut caches, 0, 7);
    load(&mut caches, 1, 7);
    assert_eq!(counted(&caches), (1, 0), "a clean copy supplied");
    store(&mut caches, 1, 7);
    assert_eq!(counted(&caches), (1, 0), "an invalidation fetches nothing");
    load(&mut caches, 0, 7);
    assert_eq!(counted(&caches), (2, 1), "the copy that supplied had been written");
}

#[test]
fn a_dirty_line_that_an_inclusive_level_takes_back_is_handed_to_the_interconnect() {
    let mut caches = of_inclusion(2, &Options::default(), false, Inclusion::Inclusive);
    caches.system.times_write_backs = true;
    store(&mut caches, 1, 7);
    load(&mut caches, 0, 8);
    assert_eq!(caches.system.written_back, []);
    // The level has room for two lines: 7 goes from the cache that wrote it.
    load(&mut caches, 0, 9);
    assert_eq!(caches.system.written_back, [(CpuId(1), LineAddr(7))]);
    assert_eq!(caches.counters()[0].1.back_invalidations, 1);
}
