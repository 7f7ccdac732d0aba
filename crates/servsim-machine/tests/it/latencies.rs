//! How long a line that one core has written takes to another on the shipped machines, beside what programs that hand
//! a line to and fro show on the real ones (docs/machines.md has the table and the sources); and how far memory is.

use crate::support::whole_trace::whole_trace;
use serde_json::Value;
use servsim_machine::{simulate, RunSpec};
use std::fmt::Write as _;

const EPYC: &str = include_str!("../../../../python/servsim/machines/epyc-9124-16c.toml");
const TWO_SOCKETS: &str = include_str!("../../../../python/servsim/machines/epyc-9554-128c.toml");
const CXL: &str = include_str!("../../../../python/servsim/machines/epyc-9124-cxl.toml");
const ARM: &str = include_str!("../../../../python/servsim/machines/graviton4-192c.toml");

/// The machine's cycles in a nanosecond and its only replication of `trace`, without random delays.
fn run(machine: &str, trace: &str, overrides: &[&str], seed: u64) -> (f64, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, trace).unwrap();
    let overrides = [&["perturbation.memory_delay=0 cycles"], overrides].concat();
    let request = RunSpec {
        functional: false,
        seed,
        overrides: overrides.iter().map(|&text| text.to_owned()).collect(),
        ..whole_trace(path, machine)
    };
    let result = simulate(&request, &mut |_| true).unwrap_or_else(|why| panic!("{why}"));
    let clock = setting(machine, "clock").trim_matches('"').trim_end_matches(" GHz").parse().unwrap();
    (clock, result["replications"][0].clone())
}

/// What a description gives a setting outside sections.
fn setting<'a>(machine: &'a str, key: &str) -> &'a str {
    let value = machine.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value.and_then(|text| text.split('#').next()).expect(key).trim()
}

/// Lines that one processor writes and another reads.
const LINES: u64 = 200;

/// Two processors, and the nanoseconds of a load, one after the other, by the second of lines that the first has written.
fn handover(machine: &str, from: usize, to: usize, overrides: &[&str], seed: u64) -> (usize, usize, f64) {
    let mut trace = String::new();
    // A task for each processor, in its order.
    for task in 0..setting(machine, "processors").parse::<usize>().unwrap() {
        let _ = writeln!(trace, "{task} L {:x} 4 p", 0x1000_0000 + task * 0x1_0000);
    }
    (0..LINES).for_each(|line| {
        let _ = writeln!(trace, "{from} S {:x} 4 s", 0xf0_0000 + line * 64);
    });
    // Meanwhile the reader is busy with memory of its own.
    (0..4 * LINES).for_each(|line| {
        let _ = writeln!(trace, "{to} L {:x} 4 p", 0x2000_0000 + line * 64);
    });
    let overrides = [&["processor.outstanding_misses=1"], overrides].concat();
    let (clock, without) = run(machine, &trace, &overrides, seed);
    (0..LINES).for_each(|line| {
        let _ = writeln!(trace, "{to} L {:x} 4 s", 0xf0_0000 + line * 64);
    });
    let (_, with) = run(machine, &trace, &overrides, seed);
    let count = |run: &Value, key: &str| run["bus"][key].as_u64().unwrap();
    assert_eq!(count(&with, "read") - count(&without, "read"), LINES);
    let cycles = |run: &Value| run["cycles"].as_u64().unwrap();
    // The reader waits longest, then the writer.
    let mut busy: Vec<(u64, usize)> = with["processors"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(at, times)| (times["memory_stall"].as_u64().unwrap(), at))
        .collect();
    busy.sort_unstable_by(|a, b| b.cmp(a));
    (busy[1].1, busy[0].1, (cycles(&with) - cycles(&without)) as f64 / LINES as f64 / clock)
}

fn check(what: &str, ns: f64, low: f64, high: f64) {
    println!("{what}: {ns:.1} ns");
    assert!((low..=high).contains(&ns), "{what}: {ns:.1} ns instead of {low} to {high}");
}

#[test]
fn lines_go_from_core_to_core_as_fast_as_published() {
    let cases: [(&str, &str, usize, usize, f64, f64); 7] = [
        ("with CXL, within a group", CXL, 4, 7, 25.0, 29.0),
        ("with CXL, between groups", CXL, 3, 15, 92.0, 106.0),
        ("two sockets, within a group", TWO_SOCKETS, 8, 15, 25.0, 29.0),
        ("two sockets, between groups", TWO_SOCKETS, 0, 63, 92.0, 106.0),
        ("two sockets, between them", TWO_SOCKETS, 0, 64, 191.0, 203.0),
        ("Arm, within a socket", ARM, 0, 95, 30.0, 60.0),
        ("Arm, between sockets", ARM, 0, 96, 138.6 - 7.0, 138.6 + 7.0),
    ];
    for (what, machine, first, second, low, high) in cases {
        let (from, to, ns) = handover(machine, first, second, &["node.threads=pinned"], 1);
        assert_eq!((from, to), (first, second), "{what}");
        check(what, ns, low, high);
    }
}

#[test]
fn a_machine_without_nodes_has_core_groups_too() {
    // Nobody can bind its tasks, so several seeds are tried.
    let mut seen = [false; 2];
    for seed in 1..=12 {
        let (from, to, ns) = handover(EPYC, 0, 3, &[], seed);
        let within = from / 4 == to / 4;
        seen[usize::from(within)] = true;
        let (low, high) = if within { (25.0, 29.0) } else { (92.0, 106.0) };
        check(&format!("EPYC, processors {from} and {to}"), ns, low, high);
    }
    assert_eq!(seen, [true; 2]);
}

/// Nanoseconds of a load from memory, one after the other, by the first processor, of pages placed by `placement`.
fn memory(machine: &str, placement: &[&str]) -> f64 {
    let lines = 2000;
    let mut trace = String::new();
    (0..lines).for_each(|line| {
        let _ = writeln!(trace, "0 L {:x} 4 p", 0x1000_0000 + line * 64);
    });
    let overrides = [&["processor.outstanding_misses=1"], placement].concat();
    let (clock, run) = run(machine, &trace, &overrides, 1);
    run["cycles"].as_u64().unwrap() as f64 / f64::from(lines) / clock
}

#[test]
fn memory_is_as_far_as_described() {
    let cases: [(&str, &str, &[&str], f64, f64); 6] = [
        ("EPYC", EPYC, &[], 105.0, 115.0),
        ("two sockets, its own", TWO_SOCKETS, &[], 105.0, 115.0),
        ("two sockets, the other's", TWO_SOCKETS, &["node.placement=remote"], 195.0, 215.0),
        ("with CXL, its own", CXL, &[], 105.0, 115.0),
        ("with CXL, the expander's", CXL, &["node.memory=none, 128 GiB"], 170.0, 250.0),
        ("Arm, its own", ARM, &[], 105.0, 120.0),
    ];
    for (what, machine, placement, low, high) in cases {
        check(what, memory(machine, placement), low, high);
    }
}
