//! The functional engine agrees to the unit with the oracle on random small traces. A disagreement
//! is shrunk and printed as a plain-text trace. `SERVSIM_DIFFERENTIAL_CASES` sets the number of
//! traces per protocol; the default keeps the test short.

use crate::support::counts::by_oracle_names;

use servsim_core::{GlobalSource, Op, Privacy, RandomStream, Record, TaskInfo, TaskKind};
use servsim_import::ListSource;
use servsim_machine::{functional, Setup};
use servsim_mem::protocol::{by_name, Options, Rules};
use servsim_mem::{Geometry, GroupSpec, HierarchySpec, Inclusion, LevelSpec};
use servsim_oracle::{Counts, Facts, Keeps, Layout, Oracle, Outer, Protocol, Shape, Variant};
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
struct Case {
    processors: usize,
    shape: Shape,
    records: Vec<Record>,
    options: Options,
    levels: Option<Layout>,
}

/// The task that stands for interrupt handlers: it begins no quantum.
const HANDLER: u32 = 3;

/// Few lines, packed for false sharing and mapped to conflict; tiny caches; some accesses cross
/// lines; tasks stay for a few references and migrate; handlers come between; P is stated at
/// random; every open point is decided at random, half of the time as by default.
fn random_case(seed: u64) -> Case {
    let mut r = RandomStream::new(seed, "case");
    let line = [4, 16, 32, 64, 128, 256, 1024][r.below(7) as usize];
    let ways = [1, 2, 3, 4][r.below(4) as usize];
    let sets = [1, 2, 3, 4, 6][r.below(5) as usize];
    let processors = 2 + r.below(3) as usize;
    let lines = 2 + r.below(10);
    let length = 4 + r.below(160);
    let mut running = vec![0; processors];
    let records = (0..length).map(|_| random_record(&mut r, &mut running, line, lines)).collect();
    let options = if r.below(2) == 0 { Options::default() } else { random_options(&mut r) };
    Case {
        processors,
        shape: Shape { size: line * ways * sets, ways: ways as usize, line },
        records,
        options,
        levels: None,
    }
}

const POLICIES: [&str; 5] = ["lru", "fifo", "tree-plru", "random", "srrip"];
const INCLUSIONS: [Keeps; 3] = [Keeps::All, Keeps::Nothing, Keeps::Either];

/// The same with one or two more levels, of which the caller chooses the first one's inclusion.
/// Sizes are free: an inclusive level may be too small for what it includes.
fn random_levels(seed: u64, split: bool, policy: &'static str, keeps: Keeps) -> Case {
    let mut case = random_case(seed);
    case.options.rules.flush_private = false;
    let mut r = RandomStream::new(seed, "levels");
    let mut outer = |keeps: Option<Keeps>| {
        let ways = [1, 2, 3, 4, 5, 8][r.below(6) as usize];
        let size = case.shape.line * ways * [1, 2, 3, 4][r.below(4) as usize];
        Outer {
            shape: Shape { size, ways: ways as usize, line: case.shape.line },
            policy: POLICIES[r.below(5) as usize],
            keeps: keeps.unwrap_or(INCLUSIONS[r.below(3) as usize]),
            around: false,
        }
    };
    let levels = [outer(Some(keeps)), outer(None)];
    let count = 1 + r.below(2) as usize;
    let private = r.below(count as u64 + 1) as usize;
    let (private, shared) = levels[..count].split_at(private);
    let (private, mut shared) = (private.to_vec(), shared.to_vec());
    // Where a description may ask for it.
    for level in shared.iter_mut().filter(|level| level.keeps == Keeps::Either) {
        level.around = r.below(2) == 0;
    }
    let takes_stores = private.first().is_some_and(|level| level.keeps != Keeps::Nothing);
    let around = takes_stores && r.below(2) == 0;
    let (groups, clean_supplies) = (1, false);
    case.levels = Some(Layout { split, policy, around, private, shared, groups, clean_supplies, seed });
    case
}

fn spec_of(layout: &Layout) -> HierarchySpec {
    let level = |level: &Outer| LevelSpec {
        geometry: geometry(level.shape),
        replacement: level.policy.into(),
        inclusion: match level.keeps {
            Keeps::All => Inclusion::Inclusive,
            Keeps::Nothing => Inclusion::Exclusive,
            Keeps::Either => Inclusion::Neither,
        },
        write_around: level.around,
    };
    HierarchySpec {
        split: layout.split,
        replacement: layout.policy.into(),
        write_around: layout.around,
        private: layout.private.iter().map(level).collect(),
        shared: layout.shared.iter().map(level).collect(),
        groups: GroupSpec::default(),
        seed: layout.seed,
        prefetch: None,
        tlb: None,
    }
}

fn geometry(shape: Shape) -> Geometry {
    Geometry { size: shape.size, ways: shape.ways as u32, line: shape.line }
}

fn random_options(r: &mut RandomStream) -> Options {
    let mut coin = || r.below(2) == 0;
    Options {
        any_copy_supplies: coin(),
        sticky_migratory: coin(),
        two_hand_overs: coin(),
        start_migratory: coin(),
        private_handover_updates_memory: coin(),
        write_updates_memory: coin(),
        any_copy_supplies_private: if coin() { None } else { Some(coin()) },
        rules: Rules { flush_private: coin(), judge_at_miss: coin() },
    }
}

fn variant(o: &Options) -> Variant {
    Variant {
        any_copy: o.any_copy_supplies,
        any_copy_private: o.any_copy_supplies_private,
        sticky: o.sticky_migratory,
        begins_migratory: o.start_migratory,
        two_hand_overs: o.two_hand_overs,
        move_updates_memory: o.private_handover_updates_memory,
        write_through: o.write_updates_memory,
    }
}

fn random_record(r: &mut RandomStream, running: &mut [u32], line: u64, lines: u64) -> Record {
    let op = [Op::Fetch, Op::Load, Op::Load, Op::Store, Op::Store][r.below(5) as usize];
    let word = r.below(4) * 4 + if r.below(8) == 0 { line.saturating_sub(8) } else { 0 };
    let size = [1, 4, 8, 16, 64][r.below(5) as usize];
    let address = 0x1000 + r.below(lines) * line + word;
    let cpu = r.below(running.len() as u64) as usize;
    if r.below(5) == 0 {
        running[cpu] = r.below(3) as u32;
    }
    let task = if r.below(10) == 0 { HANDLER } else { running[cpu] };
    let mut record = Record::new(task, op, address, size);
    record.cpu = cpu as u8;
    record.flags = [0, 1][r.below(2) as usize] | [2, 4][usize::from(r.below(4) != 0)];
    record
}

fn oracle_counts(case: &Case, protocol: Protocol) -> Counts {
    let rules = case.options.rules;
    let mut oracle = Oracle::new(case.processors, case.shape, protocol)
        .deciding(variant(&case.options))
        .with(rules.flush_private, rules.judge_at_miss, BTreeSet::from([HANDLER]));
    if let Some(layout) = &case.levels {
        oracle = oracle.with_levels(layout.clone());
    }
    for record in &case.records {
        let private = record.flags & 2 != 0;
        let facts = |address: u64| Facts { private, kernel: address >> 12 & 1 == 0 };
        oracle.reference(usize::from(record.cpu), record, true, &facts);
    }
    oracle.finish()
}

fn engine_counts(case: &Case, protocol: &str) -> Counts {
    let tasks = (0..4).map(|task| TaskInfo {
        name: task.to_string(),
        pid: task,
        kind: if task == HANDLER { TaskKind::Interrupt } else { TaskKind::User },
        client: false,
    });
    let items = case.records.iter().map(|r| (*r, None)).collect();
    // Pages with an odd number are the users'.
    let privacy = Privacy::default().with_user_pages((1..64).step_by(2));
    let mut source = ListSource::new(tasks.collect(), Vec::new(), privacy, items);
    counts_of(&mut source, case, protocol)
}

fn counts_of(source: &mut dyn GlobalSource, case: &Case, protocol: &str) -> Counts {
    let setup = Setup {
        processors: case.processors,
        geometry: geometry(case.shape),
        protocol: by_name(protocol, &case.options).unwrap(),
        shadow: true,
    };
    let Some(layout) = &case.levels else {
        let counted = functional::run(source, &setup, &mut |_| true).unwrap();
        return by_oracle_names(&counted.total());
    };
    let counted = functional::run_on(source, &setup, &spec_of(layout), &mut |_| true).unwrap();
    let mut counts = by_oracle_names(&counted.total());
    let mut put = |name: String, count: u64| {
        if count > 0 {
            counts.insert(name, [count, 0]);
        }
    };
    for (name, c) in &counted.levels {
        put(format!("level.{name}.hits"), c.hits);
        put(format!("level.{name}.misses"), c.misses);
        put(format!("level.{name}.evictions"), c.evictions);
        put(format!("level.{name}.write_backs"), c.write_backs);
        put(format!("level.{name}.back_invalidations"), c.back_invalidations);
        put(format!("level.{name}.unfilled"), c.unfilled);
    }
    put("memory.reads".into(), counted.memory.0);
    put("memory.writes".into(), counted.memory.1);
    counts
}

fn disagrees(case: &Case, name: &str, protocol: Protocol) -> bool {
    oracle_counts(case, protocol) != engine_counts(case, name)
}

/// Removes references one at a time as long as the disagreement stays.
fn shrink(mut case: Case, name: &str, protocol: Protocol) -> Case {
    let mut index = 0;
    while index < case.records.len() {
        let mut smaller = case.clone();
        smaller.records.remove(index);
        if disagrees(&smaller, name, protocol) {
            case = smaller;
            index = 0;
        } else {
            index += 1;
        }
    }
    case
}

fn plain_text(case: &Case) -> String {
    let line = |r: &Record| {
        let op = ["I", "L", "S"][r.op as usize];
        let p = if r.flags & 2 != 0 { "p" } else { "s" };
        let mode = if r.is_kernel() { "k" } else { "u" };
        let handler = if r.task == HANDLER { " # an interrupt handler" } else { "" };
        format!("{} {op} {:x} {} {p} {mode} @{}{handler}\n", r.task, r.address, r.size, r.cpu)
    };
    case.records.iter().map(line).collect()
}

/// Counters that some trace of a few hundred must move, or the comparison shows nothing of them.
const MUST_MOVE: [&str; 15] = [
    "context_switch_misses.evicted",
    "context_switch_misses.migrated",
    "context_switch_misses.flushed",
    "flushed_copies",
    "misses_by_loss.invalidated",
    "misses_by_loss.replaced",
    "misses_by_loss.flushed",
    "removed.copies",
    "removed.misses",
    "misses_true_by_self",
    "misses.true_sharing",
    "misses.false_sharing",
    "misses.passive_sharing",
    "misses.conflict",
    "bus.write_back",
];

#[test]
fn the_functional_engine_agrees_with_the_oracle_to_the_unit() {
    let cases =
        std::env::var("SERVSIM_DIFFERENTIAL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let mut moved = BTreeSet::new();
    for (name, protocol) in Protocol::ALL {
        for seed in 0..cases {
            let case = random_case(seed);
            if seed < 500 {
                moved.extend(oracle_counts(&case, protocol).into_keys());
            }
            if disagrees(&case, name, protocol) {
                report(case, seed, name, protocol);
            }
        }
    }
    for name in MUST_MOVE {
        assert!(moved.contains(name), "no trace moves {name}");
    }
}

/// What is printed of a disagreement can be run again: the text gives the same counts.
#[test]
fn the_printed_trace_is_the_case() {
    for seed in 0..300 {
        let mut case = random_case(seed);
        // Handlers cannot be told from tasks in the text, nor a page's owner from its user's mode.
        case.records.retain(|record| record.task != HANDLER);
        let text = plain_text(&case);
        let mut source = servsim_import::text::read(text.as_bytes(), "case", case.processors).unwrap();
        let known = |(name, _): &(String, [u64; 2])| !name.contains("by_owner");
        let again: Counts = counts_of(&mut source, &case, "pscr").into_iter().filter(known).collect();
        let first: Counts = engine_counts(&case, "pscr").into_iter().filter(known).collect();
        assert_eq!(again, first, "seed {seed}:\n{text}");
    }
}

/// A disagreement shrinks to the few references that make it: here with an oracle of another
/// protocol, which must differ as soon as two caches share a line.
#[test]
fn a_disagreement_shrinks_to_a_minimal_trace() {
    let case = (0..100_000).map(random_case).find(|case| disagrees(case, "mesi", Protocol::Pscr)).unwrap();
    let small = shrink(case.clone(), "mesi", Protocol::Pscr);
    assert!(small.records.len() <= 3 && small.records.len() < case.records.len(), "{}", plain_text(&small));
}
fn report(case: Case, seed: u64, name: &str, protocol: Protocol) -> ! {
    let case = shrink(case, name, protocol);
    let (oracle, engine) = (oracle_counts(&case, protocol), engine_counts(&case, name));
    let differing: BTreeSet<_> =
        oracle.keys().chain(engine.keys()).filter(|&key| oracle.get(key) != engine.get(key)).collect();
    let difference =
        |key: &&String| format!("  {key}: oracle {:?}, engine {:?}", oracle.get(*key), engine.get(*key));
    panic!(
        "{name}, seed {seed}, {} processors, {:?}, {:#?}:\n{}\n{}\noracle {oracle:?}\nengine {engine:?}",
        case.processors,
        case.shape,
        case.levels,
        plain_text(&case),
        differing.iter().map(difference).collect::<Vec<_>>().join("\n"),
    );
}

/// Counters of levels that some trace must move.
const LEVELS_MUST_MOVE: [&str; 14] = [
    "level.l1.evictions",
    "level.l1i.write_backs",
    "level.l1d.back_invalidations",
    "level.l2.hits",
    "level.l2.evictions",
    "level.l2.write_backs",
    "level.l2.back_invalidations",
    "level.l3.hits",
    "level.l3.write_backs",
    "level.l1.unfilled",
    "level.l2.unfilled",
    "level.l3.unfilled",
    "memory.reads",
    "memory.writes",
];

#[test]
fn every_kind_of_hierarchy_agrees_with_the_oracle_to_the_unit() {
    let all = std::env::var("SERVSIM_DIFFERENTIAL_CASES").ok().and_then(|text| text.parse().ok());
    let each = all.unwrap_or(10_000_u64) / 200;
    let (mut moved, mut seed) = (BTreeSet::new(), 0);
    for (name, protocol) in Protocol::ALL {
        for split in [false, true] {
            for policy in POLICIES {
                for keeps in INCLUSIONS {
                    for _ in 0..each {
                        seed += 1;
                        let case = random_levels(seed, split, policy, keeps);
                        let oracle = oracle_counts(&case, protocol);
                        if oracle != engine_counts(&case, name) {
                            report(case, seed, name, protocol);
                        }
                        moved.extend(oracle.into_keys());
                    }
                }
            }
        }
    }
    for name in LEVELS_MUST_MOVE {
        assert!(moved.contains(name), "no trace moves {name}");
    }
}

/// Two coherent caches for each of 33 to 240 processors: sets of two host words and of more.
#[test]
fn machines_with_more_caches_than_a_host_word_has_bits_agree_with_the_oracle() {
    let (mut beyond_two_words, mut r) = (0, RandomStream::new(7, "many caches"));
    for (name, protocol) in Protocol::ALL {
        for seed in 0..40 {
            let mut case = random_case(seed);
            case.options.rules.flush_private = false;
            case.processors = 33 + r.below(if seed % 2 == 0 { 32 } else { 208 }) as usize;
            let (line, mut running) = (case.shape.line, vec![0; case.processors]);
            let lines = 2 + r.below(6);
            case.records = (0..500).map(|_| random_record(&mut r, &mut running, line, lines)).collect();
            let (split, policy, around) = (true, "lru", false);
            let (private, shared) = (Vec::new(), Vec::new());
            let (groups, clean_supplies) = (1, false);
            case.levels =
                Some(Layout { split, policy, around, private, shared, groups, clean_supplies, seed });
            beyond_two_words += case.records.iter().filter(|r| r.cpu >= 64).count();
            if disagrees(&case, name, protocol) {
                report(case, seed, name, protocol);
            }
        }
    }
    assert!(beyond_two_words > 10_000, "{beyond_two_words} references by caches beyond the first 128");
}
