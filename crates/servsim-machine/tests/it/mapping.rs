//! Page mappings: what they change, what they must not, and how many conflicts two of them remove.
//! The engine under each mapping is compared with the oracle fed the same renamed references.

use crate::support::counts;
use crate::support::whole_trace::whole_trace;

use servsim_config::Machine;
use servsim_core::reference::CONTINUATION;
use servsim_core::{Batch, GlobalSource, Op, Privacy, RandomStream, Record, TaskInfo, TaskKind};
use servsim_import::ListSource;
use servsim_machine::functional;
use servsim_machine::mapped::{self, Frames};
use servsim_machine::{simulate, RunSpec, Setup};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::Geometry;
use servsim_oracle::{Counts, Facts, Oracle, Protocol, Shape};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

const MAPPINGS: [&str; 4] = ["captured", "sequential", "scattered", "coloured"];

fn machine(overrides: &[&str]) -> Machine {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Machine::from_toml("", "m.toml", &overrides).unwrap()
}

fn task(number: usize) -> TaskInfo {
    TaskInfo { name: format!("t{number}"), pid: number as u32, kind: TaskKind::User, client: false }
}

/// References of three tasks, many across lines and pages.
fn source(seed: u64) -> Box<dyn GlobalSource> {
    let mut random = RandomStream::new(seed, "mapping");
    let mut survey = servsim_import::Survey::default();
    let mut items = Vec::new();
    for _ in 0..20_000 {
        let own = random.below(3);
        let page = if random.below(3) == 0 { random.below(8) } else { 100 * (own + 1) + random.below(40) };
        let address = page << 12 | random.below(4096);
        let (op, size) = ([Op::Load, Op::Store][random.below(2) as usize], 1 + random.below(64) as u8);
        let record = Record::new(own as u32, op, address, size);
        survey.touch(own as u32, address, address + u64::from(size) - 1);
        items.push((record, None));
    }
    let tasks = (0..3).map(task).collect();
    Box::new(ListSource::new(tasks, Vec::new(), survey.privacy(), items))
}

fn all(source: &mut dyn GlobalSource) -> Vec<Record> {
    let (mut batch, mut records) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        records.extend_from_slice(&batch.records);
    }
    records
}

/// Bytes in the order they are touched, with what else a reference says.
fn bytes(records: &[Record]) -> Vec<(u64, u32, Op)> {
    let touched = |r: &Record| {
        (r.address..r.address + u64::from(r.size)).map(|byte| (byte, r.task, r.op)).collect::<Vec<_>>()
    };
    records.iter().flat_map(touched).collect()
}

#[test]
fn every_mapping_renames_pages_one_to_one_and_keeps_who_shares_them() {
    for mapping in MAPPINGS {
        for seed in 0..10 {
            let machine = machine(&[&format!("memory.mapping={mapping}")]);
            let frames = Frames::of(&machine, || Ok(source(seed))).unwrap();
            let mut mapped = mapped::in_order(source(seed), frames.as_ref());
            let mut plain = source(seed);
            let (after, before) = (all(mapped.as_mut()), all(plain.as_mut()));
            let (after, before) = (bytes(&after), bytes(&before));
            assert_eq!(after.len(), before.len(), "{mapping}");
            let (mut to, mut from) = (HashMap::new(), HashMap::new());
            let mut sharers: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
            for (&(new, task, op), &(old, was, did)) in after.iter().zip(&before) {
                assert_eq!((new & 0xFFF, task, op), (old & 0xFFF, was, did), "{mapping}");
                assert_eq!(*to.entry(old >> 12).or_insert(new >> 12), new >> 12, "{mapping}");
                assert_eq!(*from.entry(new >> 12).or_insert(old >> 12), old >> 12, "{mapping}");
                sharers.entry(new >> 12).or_default().insert(task);
            }
            assert!(mapping == "captured" || to.iter().any(|(old, new)| old != new), "{mapping}");
            for (&page, who) in &sharers {
                let record = Record::new(0, Op::Load, page << 12, 1);
                assert_eq!(mapped.privacy().is_private(&record), who.len() == 1, "{mapping}");
            }
        }
    }
}

#[test]
fn the_oracle_agrees_under_every_mapping() {
    let geometry = Geometry { size: 16 << 10, ways: 2, line: 64 };
    for mapping in MAPPINGS {
        for (protocol, theirs) in Protocol::ALL {
            let machine = machine(&[&format!("memory.mapping={mapping}"), "cache.size=16 KiB"]);
            let frames = Frames::of(&machine, || Ok(source(7))).unwrap();
            let setup = Setup {
                processors: 3,
                geometry,
                protocol: by_name(protocol, &Options::default()).unwrap(),
                shadow: true,
            };
            let mut mapped = mapped::in_order(source(7), frames.as_ref());
            let ours = functional::run(mapped.as_mut(), &setup, &mut |_| true).unwrap();
            let mut mapped = mapped::in_order(source(7), frames.as_ref());
            let records = all(mapped.as_mut());
            let theirs = oracle(&records, mapped.privacy(), theirs);
            assert!(theirs.len() > 8, "{theirs:?}");
            assert_eq!(counts::by_oracle_names(&ours.total()), theirs, "{mapping} {protocol}");
        }
    }
}

/// What the oracle counts of these references.
fn oracle(records: &[Record], privacy: &Privacy, protocol: Protocol) -> Counts {
    let mut oracle = Oracle::new(3, Shape { size: 16 << 10, ways: 2, line: 64 }, protocol);
    for record in records {
        let facts = |address: u64| {
            let page = Record { address, ..*record };
            Facts { private: privacy.is_private(&page), kernel: false }
        };
        let counted = record.flags & CONTINUATION == 0;
        oracle.reference(record.task as usize, record, counted, &facts);
    }
    oracle.finish()
}

/// A text trace on one processor with a direct-mapped cache of four pages.
fn conflicts(lines: &str, mapping: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    std::fs::write(&trace, lines).unwrap();
    let of = |functional| {
        let request = RunSpec {
            overrides: vec![format!("memory.mapping={mapping}")],
            functional,
            ..whole_trace(&trace, "processors = 1\n[cache]\nsize = \"16 KiB\"\nassociativity = 1\n")
        };
        let result = simulate(&request, &mut |_| true).unwrap();
        result["replications"][0]["misses"]["conflict"]["user"].as_u64().unwrap()
    };
    assert_eq!(of(true), of(false), "both engines read the same frames");
    of(true)
}

/// Rounds over the first line of each of these pages.
fn rounds(pages: &[u64]) -> String {
    let round = pages.iter().map(|page| format!("0 L {:x}\n", page << 12)).collect::<Vec<_>>().concat();
    round.repeat(10)
}

#[test]
fn sequential_frames_part_pages_that_met_in_the_captured_machine() {
    // Four pages of one colour: all in one set of the cache of four pages.
    let trace = rounds(&[0, 4, 8, 12]);
    assert_eq!(conflicts(&trace, "captured"), 36);
    assert_eq!(conflicts(&trace, "sequential"), 0);
    // Colouring keeps what the addresses had in common.
    assert_eq!(conflicts(&trace, "coloured"), 36);
}

#[test]
fn colouring_parts_neighbours_that_the_order_of_first_touch_puts_together() {
    // Pages touched once between four neighbours send these to one set when frames go by first touch.
    let once = |pages: [u64; 3]| pages.map(|page| format!("0 L {:x}\n", page << 12)).concat();
    let mut trace = String::new();
    for (page, others) in [(0, [101, 102, 103]), (1, [105, 106, 107]), (2, [109, 110, 111])] {
        writeln!(trace, "0 L {:x}", page << 12).unwrap();
        trace += &once(others);
    }
    trace += &rounds(&[0, 1, 2]);
    assert!(conflicts(&trace, "coloured") <= 3, "only where a page touched once was in the way");
    assert!(conflicts(&trace, "sequential") >= 27);
}
