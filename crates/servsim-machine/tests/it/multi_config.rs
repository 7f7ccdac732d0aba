//! One pass for several machines counts what as many runs count, to the unit.

use crate::support::text::trace;

use servsim_core::reference::KERNEL;
use servsim_core::{Event, GlobalSource, Op, Privacy, RandomStream, Record, TaskInfo, TaskKind};
use servsim_import::ListSource;
use servsim_machine::functional::{self, Counted};
use servsim_machine::{multi_config, Setup};
use servsim_mem::protocol::{by_name, Options, Rules, PROTOCOLS};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};
use std::fmt::Write;

const PROCESSORS: usize = 3;

fn open(text: &str) -> Box<dyn GlobalSource> {
    Box::new(servsim_import::text::read(text.as_bytes(), "t", PROCESSORS).unwrap())
}

fn setup(protocol: &str, size: u64, ways: u32, shadow: bool, rules: Rules) -> Setup {
    let options = Options { rules, ..Options::default() };
    let protocol = by_name(protocol, &options).unwrap();
    Setup { processors: PROCESSORS, geometry: Geometry { size, ways, line: 32 }, protocol, shadow }
}

/// Compares one pass with single runs; returns what they counted.
fn compare(text: &str, machines: &[(Setup, HierarchySpec)]) -> Vec<Counted> {
    compare_on(&|| open(text), machines)
}

/// The same on a source that is opened for each run.
fn compare_on(open: &dyn Fn() -> Box<dyn GlobalSource>, machines: &[(Setup, HierarchySpec)]) -> Vec<Counted> {
    let run = |threads| multi_config::run(open().as_mut(), machines, threads, &mut |_| true).unwrap();
    let counted = run(1);
    assert_eq!(counted, run(3), "on three threads");
    for ((setup, spec), counted) in machines.iter().zip(&counted) {
        let single = functional::run_on(open().as_mut(), setup, spec, &mut |_| true).unwrap();
        let (size, name) = (setup.geometry.size, setup.protocol.name);
        // One pass keeps one list of ages instead of each machine's shadow.
        let counted = &Counted { host_bytes: single.host_bytes, ..counted.clone() };
        assert_eq!(counted, &single, "{name}, {size} bytes, {spec:?}, exact: {}", setup.shadow);
    }
    counted
}

/// Sixteen sizes, associativity growing with them.
fn sizes(protocol: &str, shadow: bool, spec: &HierarchySpec) -> Vec<(Setup, HierarchySpec)> {
    let machine = |n: u32| setup(protocol, 512 << n, 1 << (n / 4), shadow, Rules::default());
    (0..16).map(|n| (machine(n), spec.clone())).collect()
}

#[test]
fn sixteen_sizes_of_every_protocol_count_what_sixteen_runs_count() {
    for (seed, (name, _)) in PROTOCOLS.iter().enumerate() {
        let text = trace(seed as u64 + 20);
        for shadow in [false, true] {
            for split in [false, true] {
                let spec = HierarchySpec { split, ..HierarchySpec::default() };
                let counted = compare(&text, &sizes(name, shadow, &spec));
                let misses = |counted: &Counted| counted.total().total_misses();
                assert!(misses(&counted[0]) > misses(&counted[15]) + 100, "sizes differ in what they count");
            }
        }
    }
}

#[test]
fn words_and_times_told_late_change_nothing_where_few_lines_are_shared_by_all() {
    for seed in 0..6 {
        let mut r = RandomStream::new(seed, "few lines");
        let mut text = String::new();
        for _ in 0..8000 {
            // Each processor keeps to some lines for a while, so that most uses are known to change nothing.
            let (cpu, line) = (r.below(3), if r.below(12) == 0 { r.below(40) } else { r.below(6) });
            let (op, word) = (["L", "S", "L", "I"][r.below(4) as usize], r.below(8));
            writeln!(text, "{cpu} {op} {:x}", 0x4000 + line * 32 + word * 4).unwrap();
        }
        for name in ["mesi", "mosi", "pscr", "amsd"] {
            let machines: Vec<_> = (0..4)
                .map(|n| (setup(name, 512 << n, 2, n % 2 == 0, Rules::default()), HierarchySpec::default()))
                .collect();
            compare(&text, &machines);
        }
    }
}

#[test]
fn sizes_whose_sets_divide_one_another_or_not_count_what_their_own_runs_count() {
    let machine = |sets: u64| {
        let shared = setup("mesi", 2 * 32 * sets, 2, false, Rules::default());
        (shared, HierarchySpec::default())
    };
    for sets in [[24, 36, 8], [12, 18, 27], [5, 7, 64]] {
        compare(&trace(60), &sets.map(machine));
    }
}

#[test]
fn what_is_told_once_for_all_is_what_each_run_finds_out() {
    let mut r = RandomStream::new(7, "told once");
    let task = |n: u32| TaskInfo {
        name: n.to_string(),
        pid: n,
        kind: if n == 4 { TaskKind::Interrupt } else { TaskKind::User },
        client: false,
    };
    let mut items = Vec::new();
    for n in 0..20_000 {
        let (task, op) = (r.below(5) as u32, [Op::Fetch, Op::Load, Op::Store][r.below(3) as usize]);
        // Pages that some tasks share, of users and of the kernel; some accesses lie in two lines.
        let page = r.below(4) + r.below(2) * u64::from(task);
        let address = page * 4096 + r.below(40) * 20;
        let flags = if r.below(3) == 0 { KERNEL } else { 0 };
        let record = Record::new(task, op, address, 1 + r.below(16) as u8);
        items.push((Record { cpu: (task % 3) as u8, flags, ..record }, None));
        if n % 100 == 0 {
            let kind = r.below(2) as u32;
            items.push((Record::new(0, Op::Event, 0, 1), Some(Event::TransactionEnd { kind, user: 0 })));
        }
    }
    let open = || -> Box<dyn GlobalSource> {
        let privacy = Privacy::from_shared_pages(0..4).with_user_pages((1..64).step_by(2));
        let kinds = vec!["a".to_owned(), "b".to_owned()];
        Box::new(ListSource::new((0..5).map(task).collect(), kinds, privacy, items.clone()))
    };
    for split in [false, true] {
        let spec = HierarchySpec { split, ..HierarchySpec::default() };
        let machine =
            |n: u32| (setup("mesi", 512 << n, 2, n.is_multiple_of(2), Rules::default()), spec.clone());
        let counted = compare_on(&open, &(0..6).map(machine).collect::<Vec<_>>());
        let total = counted[0].total();
        assert!(counted[0].transactions.iter().all(|&ends| ends > 50), "{:?}", counted[0].transactions);
        assert!(total.context_switch.as_flattened().iter().sum::<u64>() > 0, "{:?}", total.context_switch);
    }
}

#[test]
fn machines_that_differ_in_more_than_size_count_what_their_own_runs_count() {
    let level = |inclusion| LevelSpec {
        geometry: Geometry { size: 8192, ways: 4, line: 32 },
        replacement: "srrip".into(),
        inclusion,
        write_around: false,
    };
    let all = [Inclusion::Inclusive, Inclusion::Exclusive, Inclusion::Neither];
    for (seed, flush_private) in [(40, false), (41, true)] {
        let text = trace(seed);
        let rules = Rules { flush_private, judge_at_miss: seed == 41 };
        let machine = |protocol: &str, spec| (setup(protocol, 2048, 2, false, rules), spec);
        // Different protocols on one level.
        let protocols = PROTOCOLS.iter().map(|(name, _)| machine(name, HierarchySpec::default()));
        compare(&text, &protocols.collect::<Vec<_>>());
        // Outer levels of every kind, private and shared.
        for inclusion in all {
            let shared = HierarchySpec { shared: vec![level(inclusion)], ..HierarchySpec::default() };
            let private = HierarchySpec { private: vec![level(inclusion)], ..HierarchySpec::default() };
            compare(&text, &[machine("mesi", shared.clone()), machine("pscr", shared.clone())]);
            compare(&text, &[machine("mesi", shared), machine("mesi", private)]);
        }
        // Policies with a memory of their own.
        for replacement in ["tree-plru", "random", "srrip"] {
            let spec = HierarchySpec { replacement: replacement.into(), ..HierarchySpec::default() };
            compare(&text, &[machine("mesi", HierarchySpec::default()), machine("mesi", spec)]);
        }
    }
}

#[test]
fn what_tells_machines_apart_for_a_pass_is_seen() {
    let spec = HierarchySpec::default();
    let one = setup("mesi", 2048, 2, false, Rules::default());
    let other = Setup { processors: 2, ..one.clone() };
    assert!(multi_config::together((&one, &spec), (&setup("pscr", 512, 1, true, Rules::default()), &spec)));
    assert!(!multi_config::together((&one, &spec), (&other, &spec)));
    let split = HierarchySpec { split: true, ..HierarchySpec::default() };
    assert!(!multi_config::together((&one, &spec), (&one, &split)));
}
