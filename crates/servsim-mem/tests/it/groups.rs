//! Core groups against the oracle: what every level, the bus, memory and the groups among themselves count on random
//! traces of few lines in tiny caches; and their times, by hand.

use servsim_core::{CpuId, LineAddr, Op, RandomStream, Record};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{
    Access, Geometry, GroupSpec, Hierarchy, HierarchySpec, Inclusion, LevelSpec, Page, Supplier,
};
use servsim_oracle::{Facts, Keeps, Layout, Oracle, Outer, Protocol, Shape, Variant};
use std::collections::BTreeMap;

const POLICIES: [&str; 5] = ["lru", "fifo", "tree-plru", "random", "srrip"];
const INCLUSIONS: [(Keeps, Inclusion); 3] = [
    (Keeps::All, Inclusion::Inclusive),
    (Keeps::Nothing, Inclusion::Exclusive),
    (Keeps::Either, Inclusion::Neither),
];
const LINE: u64 = 16;

/// A machine as both sides describe it, and how many processors it has.
struct Case {
    processors: usize,
    layout: Layout,
    spec: HierarchySpec,
    first: Shape,
    any_copy: bool,
}

fn case(r: &mut RandomStream, seed: u64, grouped: bool) -> Case {
    let mut level = |keeps: usize| {
        let (ways, sets) = (1 + r.below(4) as usize, 1 + r.below(3));
        let shape = Shape { size: LINE * ways as u64 * sets, ways, line: LINE };
        let policy = POLICIES[r.below(5) as usize];
        let geometry = Geometry { size: shape.size, ways: ways as u32, line: LINE };
        let (replacement, write_around) = (policy.to_owned(), false);
        let inclusion = INCLUSIONS[keeps].1;
        (
            Outer { shape, policy, keeps: INCLUSIONS[keeps].0, around: false },
            LevelSpec { geometry, replacement, inclusion, write_around },
        )
    };
    let (first, _) = level(0);
    let second = level(2);
    let last = level(seed as usize % 3);
    let private = if seed.is_multiple_of(2) { vec![second] } else { Vec::new() };
    let (groups, each) =
        if grouped { ([2, 3, 4][r.below(3) as usize], 1 + r.below(3) as usize) } else { (1, 3) };
    let (any_copy, split) = (r.below(2) == 0, r.below(3) == 0);
    let (outer, inner): (Vec<Outer>, Vec<LevelSpec>) = private.into_iter().unzip();
    let layout = Layout {
        split,
        policy: first.policy,
        around: false,
        private: outer,
        shared: vec![last.0],
        groups,
        clean_supplies: any_copy,
        seed,
    };
    let spec = HierarchySpec {
        split,
        replacement: first.policy.to_owned(),
        private: inner,
        shared: vec![last.1],
        groups: GroupSpec { count: groups, clean_supplies: any_copy },
        seed,
        ..HierarchySpec::default()
    };
    Case { processors: groups * each, layout, spec, first: first.shape, any_copy }
}

fn caches_of(case: &Case, protocol: &str) -> Hierarchy<u16> {
    let options = Options { any_copy_supplies: case.any_copy, ..Options::default() };
    let Shape { size, ways, line } = case.first;
    let first = Geometry { size, ways: ways as u32, line };
    Hierarchy::new(case.processors, first, by_name(protocol, &options).unwrap(), true, &case.spec)
}

/// What both count, of the same references.
fn both(case: &Case, name: &str, protocol: Protocol, r: &mut RandomStream) -> [BTreeMap<String, u64>; 2] {
    let mut caches = caches_of(case, name);
    let variant = Variant { any_copy: case.any_copy, ..Variant::default() };
    let mut oracle = Oracle::new(case.processors, case.first, protocol).deciding(variant);
    oracle = oracle.with_levels(case.layout.clone());
    let lines = 2 + r.below(10);
    for _ in 0..r.below(220) {
        let (cpu, line) = (r.below(case.processors as u64) as usize, 64 + r.below(lines));
        let op = [Op::Fetch, Op::Load, Op::Load, Op::Store, Op::Store][r.below(5) as usize];
        let mut record = Record::new(0, op, line * LINE, 4);
        record.cpu = cpu as u8;
        oracle.reference(cpu, &record, true, &|_| Facts { private: false, kernel: false });
        let (at, line, write, slot) = (CpuId(cpu), LineAddr(line), op == Op::Store, op as usize);
        let access = Access { at, line, words: 1, write, kernel: false, task: 0, slot };
        caches.access(&access, |_| Page::from(false));
    }
    caches.system.finish();
    let mut counted = BTreeMap::new();
    for (counter, values) in caches.system.total().registered() {
        for (name, value) in counter.names().into_iter().zip(counter.both_modes(values)) {
            counted.insert(name, value);
        }
    }
    for (name, c) in caches.counters() {
        counted.insert(format!("level.{name}.hits"), c.hits);
        counted.insert(format!("level.{name}.misses"), c.misses);
        counted.insert(format!("level.{name}.evictions"), c.evictions);
        counted.insert(format!("level.{name}.write_backs"), c.write_backs);
        counted.insert(format!("level.{name}.back_invalidations"), c.back_invalidations);
        counted.insert(format!("level.{name}.unfilled"), c.unfilled);
    }
    let (reads, writes) = caches.memory_traffic();
    counted.extend([("memory.reads".to_owned(), reads), ("memory.writes".to_owned(), writes)]);
    if let Some(groups) = caches.group_counts() {
        counted.insert("groups.from_caches".into(), groups.from_caches);
        counted.insert("groups.from_levels".into(), groups.from_levels);
        counted.insert("groups.taken".into(), groups.taken);
        let all: u64 =
            ["read", "read_exclusive", "invalidate"].iter().map(|op| counted[&format!("bus.{op}")]).sum();
        assert_eq!(groups.within + groups.between, all, "every transaction is one or the other");
    }
    let wanted = ["level.", "memory.", "groups.", "bus.", "misses."];
    let kept =
        |name: &String| wanted.iter().any(|start| name.starts_with(start)) && name != "bus.hit_modified";
    counted.retain(|name, value| kept(name) && *value > 0);
    let mut expected: BTreeMap<_, _> =
        oracle.finish().into_iter().map(|(name, [u, k])| (name, u + k)).collect();
    expected.retain(|name, value| kept(name) && *value > 0);
    counted.retain(|name, _| expected.contains_key(name) || !name.starts_with("misses."));
    [expected, counted]
}

#[test]
fn core_groups_with_a_level_each_agree_with_the_oracle_to_the_unit() {
    let mut moved: BTreeMap<String, u64> = BTreeMap::new();
    for (name, protocol) in Protocol::ALL {
        let grouped = ["mesi", "moesi", "mosi"].contains(&name);
        for seed in 0..400 {
            let mut r = RandomStream::new(seed, "core groups");
            let case = case(&mut r, seed, grouped);
            let [expected, counted] = both(&case, name, protocol, &mut r);
            assert_eq!(expected, counted, "{name}, seed {seed}, {:?}", case.layout);
            expected.into_iter().for_each(|(name, count)| *moved.entry(name).or_default() += count);
        }
    }
    for name in [
        "groups.from_caches",
        "groups.from_levels",
        "groups.taken",
        "memory.writes",
        "level.l2.back_invalidations",
    ] {
        assert!(moved.get(name).is_some_and(|&count| count > 100), "{name} moves too little: {moved:?}");
    }
}

/// Four processors in two groups, moesi, a level of four lines each that takes what passes.
fn two_groups(any_copy: bool) -> Hierarchy<u16> {
    let level = LevelSpec {
        geometry: Geometry { size: 4 * 64, ways: 4, line: 64 },
        replacement: "lru".into(),
        inclusion: Inclusion::Neither,
        write_around: false,
    };
    let groups = GroupSpec { count: 2, clean_supplies: any_copy };
    let spec = HierarchySpec { shared: vec![level], groups, ..HierarchySpec::default() };
    let options = Options { any_copy_supplies: any_copy, ..Options::default() };
    Hierarchy::new(
        4,
        Geometry { size: 64, ways: 1, line: 64 },
        by_name("moesi", &options).unwrap(),
        false,
        &spec,
    )
}

/// Who supplies an access that misses, and whether it stays within its group, as both ways of asking say.
fn transact(caches: &mut Hierarchy<u16>, cpu: usize, line: u64, write: bool) -> (Supplier, bool) {
    let (at, line) = (CpuId(cpu), LineAddr(line));
    let access = Access { at, line, words: 1, write, kernel: false, task: 0, slot: 1 };
    let stays = caches.stays_within(&access);
    let (outcome, supplier) = caches.transact(&access, Page::from(false));
    assert_eq!(outcome.within_group, stays);
    (supplier, stays)
}

#[test]
fn a_line_comes_from_the_nearest_that_may_give_it() {
    let mut caches = two_groups(false);
    assert_eq!(transact(&mut caches, 0, 7, false), (Supplier::Memory, false));
    assert_eq!(caches.system.state_of(servsim_core::CacheId(0), LineAddr(7)), "E");
    assert_eq!(transact(&mut caches, 1, 7, false), (Supplier::Shared(0), true), "the own level");
    assert_eq!(
        transact(&mut caches, 2, 7, false),
        (Supplier::Memory, false),
        "clean copies of others stay there"
    );
    assert_eq!(transact(&mut caches, 3, 7, true), (Supplier::Shared(0), false), "others lose their copies");
    assert_eq!(caches.group_counts().unwrap().taken, 1);
    assert_eq!(transact(&mut caches, 2, 7, false), (Supplier::Processor(CpuId(3)), true));
    assert_eq!(
        transact(&mut caches, 0, 7, false),
        (Supplier::Processor(CpuId(3)), false),
        "the owner, across"
    );
    assert_eq!(
        transact(&mut caches, 1, 7, false),
        (Supplier::Shared(0), true),
        "the owner is not asked again"
    );
    // The owner gives its copy up to its level, which supplies the other group.
    assert_eq!(transact(&mut caches, 3, 9, false), (Supplier::Memory, false));
    for cpu in [0, 1, 2] {
        transact(&mut caches, cpu, 10 + cpu as u64, false);
    }
    for line in 20..24 {
        transact(&mut caches, 0, line, false);
    }
    assert_eq!(
        transact(&mut caches, 1, 7, false),
        (Supplier::Group(CpuId(2)), false),
        "memory lacks the line"
    );
    assert_eq!(
        caches.system.state_of(servsim_core::CacheId(1), LineAddr(7)),
        "S",
        "it is in the other level too"
    );
}

#[test]
fn clean_copies_of_another_level_supply_where_any_copy_does() {
    let mut caches = two_groups(true);
    transact(&mut caches, 0, 7, false);
    transact(&mut caches, 0, 8, false);
    assert_eq!(transact(&mut caches, 3, 7, false), (Supplier::Group(CpuId(0)), false));
    assert_eq!(caches.memory_traffic().0, 2);
}
