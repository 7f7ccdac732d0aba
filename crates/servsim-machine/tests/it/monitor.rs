//! The monitor in a run: what a card sees of it, and what the run is like with one.

use crate::support::whole_trace::whole_trace;
use serde_json::{json, Value};
use servsim_machine::{simulate, NodeOptions, RunSpec, SimulateError, TextFile};
use std::fmt::Write as _;

const MACHINE: &str = "processors = 4\nname = \"four\"\n[perturbation]\nmemory_delay = \"0 cycles\"\n[cache]\n\
     size = \"4 KiB\"\nassociativity = 2\nline = \"64 B\"\n[interconnect]\nkind = \"network\"\n[node]\ncount = 4\n\
     threads = \"pinned\"\n";
const PROGRAM: &str =
    "[[filter]]\nstart = \"0x100000\"\nsize = \"4 MiB\"\ngranularity = \"4 KiB\"\ntypes = \"read\"\n\
     threshold = 64\n[[secondary]]\nfilters = 1\n";

/// Four tasks that read 16 pages each, page 0x100 * (task + 1) on.
fn run(machine: &str, program: Option<&str>) -> Result<Value, SimulateError> {
    let mut text = String::new();
    for step in 0..16 * 64 {
        for task in 0..4_u64 {
            let _ = writeln!(text, "{task} L {:x} 4 p", 0x10_0000 * (task + 1) + step * 64);
        }
    }
    watched(machine, &text, Some("node = 2\n").filter(|_| machine == MACHINE), program)
}

fn watched(
    machine: &str,
    trace: &str,
    placement: Option<&str>,
    program: Option<&str>,
) -> Result<Value, SimulateError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, trace).unwrap();
    let file = |name: &str, text: &str| TextFile { name: name.into(), text: text.into() };
    let nodes = NodeOptions {
        placement: placement.map(|text| file("p.toml", text)),
        monitor: program.map(|text| file("m.toml", text)),
    };
    simulate(&RunSpec { functional: false, nodes, ..whole_trace(path, machine) }, &mut |_| true)
}

#[test]
fn a_card_sees_remote_pages_only_and_the_simulator_all() {
    let result = run(MACHINE, Some(PROGRAM)).unwrap();
    let monitor = &result["replications"][0]["monitor"];
    let histogram = &monitor["histogram"];
    // All pages lie in node 2: of its own task no card sees anything, of each other 16 pages of 64 lines.
    assert_eq!(histogram["count"], json!(vec![64; 48]));
    let nodes: Vec<u64> =
        histogram["node"].as_array().unwrap().iter().map(|node| node.as_u64().unwrap()).collect();
    assert_eq!(nodes, [[1; 16], [3; 16], [4; 16]].concat());
    assert_eq!(histogram["address"][0], "0x100000");
    assert_eq!(histogram["address"][47], "0x40f000");
    assert_eq!(monitor["thresholds"]["reached"], 48);
    let whole: Vec<u64> =
        monitor["secondary"].as_array().unwrap().iter().map(|s| s["counts"][0].as_u64().unwrap()).collect();
    assert_eq!(whole, [1024, 0, 1024, 1024]);

    let all = run(MACHINE, Some(&format!("mode = \"simulator\"\n{PROGRAM}"))).unwrap();
    let seen = &all["replications"][0]["monitor"]["histogram"];
    assert_eq!(seen["count"], json!(vec![64; 64]));
    let of = |name: &str, place: usize| seen[name][place].as_u64().unwrap();
    assert!((0..64)
        .all(|row| of("processor", row) == of("node", row) - 1 && of("node", row) == row as u64 / 16 + 1));
}

#[test]
fn a_run_is_the_same_with_a_monitor_and_without() {
    let mut watched = run(MACHINE, Some(PROGRAM)).unwrap();
    assert!(watched["replications"][0]["monitor"].is_object());
    watched["replications"][0].as_object_mut().unwrap().remove("monitor");
    assert_eq!(watched.to_string(), run(MACHINE, None).unwrap().to_string());
}

#[test]
fn a_machine_with_one_memory_has_nothing_to_watch() {
    let refused = run("name = \"one\"\n", Some(PROGRAM)).unwrap_err().to_string();
    assert!(
        refused.starts_with("m.toml: a monitor watches traffic between nodes, and one has one memory"),
        "{refused}"
    );
}

#[test]
fn a_request_that_bash_sends_again_counts_once() {
    let nodes = MACHINE
        .replace("4 KiB", "1 KiB")
        .replace("kind = \"network\"\n", "kind = \"network\"\norder = \"1 cycles\"\n");
    let machine = format!(
        "{nodes}coherence = \"bash\"\nlink_bytes_per_cycle = \"0.5 B\"\nrequest = \"8 B\"\nheader = \"8 B\"\n\
         [protocol]\nname = \"mosi\"\n"
    );
    // Four tasks that write the same 32 lines in turn.
    let mut text = String::new();
    for step in 0..2000_u64 {
        for task in 0..4 {
            let op = if (step + task) % 2 == 0 { "S" } else { "L" };
            let _ = writeln!(text, "{task} {op} {:x} 4 s", 0x10_0000 + (step * 7 + task * 5) % 24 * 64);
        }
    }
    let filter = |served| {
        format!(
            "[[filter]]\nstart = 0\nsize = \"4 MiB\"\ngranularity = \"4 KiB\"\ntypes = \"read read-exclusive\"\n\
             served = \"{served}\"\n"
        )
    };
    let program = format!("mode = \"simulator\"\n{}{}", filter("memory"), filter("cache"));
    let run = watched(&machine, &text, None, Some(&program)).unwrap();
    let (nodes, histogram) =
        (&run["replications"][0]["nodes"], &run["replications"][0]["monitor"]["histogram"]);
    assert!(nodes["retries"].as_u64().unwrap() > 100, "{nodes}");
    let pairs = nodes["pairs"].as_array().unwrap();
    for (filter, key) in [(1, "memory_reads"), (2, "cache_reads")] {
        let of = |rows: &str| histogram[rows].as_array().unwrap().iter().map(|value| value.as_u64().unwrap());
        let counted: u64 = of("filter").zip(of("count")).filter(|row| row.0 == filter).map(|row| row.1).sum();
        let fetched: u64 = pairs.iter().map(|pair| pair[key].as_u64().unwrap()).sum();
        assert!(counted > 500);
        assert_eq!(counted, fetched, "{key}");
    }
    let card = program.replace("simulator", "card");
    let refused = watched(&machine, &text, None, Some(&card)).unwrap_err().to_string();
    assert!(refused.contains("a card does not see who serves"), "{refused}");
}
