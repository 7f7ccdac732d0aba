//! Nodes that keep coherent by messages, from description to result: nothing is lost, nothing differs from run to run, and
//! what is missed is what any other machine of these caches misses.

use crate::support::one_run::one_run;
use crate::support::sharing::{number, sharing};
use crate::support::whole_trace::whole_trace;
use serde_json::Value;
use servsim_machine::{simulate, RunSpec, Transactions};
use std::path::{Path, PathBuf};

fn machine(count: usize, more: &str) -> String {
    let nodes = if count == 1 {
        String::new()
    } else {
        format!(
            "[interconnect]\nkind = \"network\"\n[node]\ncount = {count}\nlinks = \"switch\"\ncoherence = \
             \"messages\"\nplacement = \"striped\"\n"
        )
    };
    format!("[cache]\nsize = \"4 KiB\"\nassociativity = 2\nline = \"64 B\"\n{nodes}{more}")
}

/// A run, held to what every run is held to.
fn run(processors: usize, count: usize, more: &str) -> Value {
    let run = one_run(&sharing(processors as u64), processors, &machine(count, more), false);
    if count > 1 {
        let (nodes, bus) = (&run["nodes"], &run["bus"]);
        let messages = &nodes["messages"];
        let sent = ["requests", "forwards", "responses"].map(|key| number(messages, key)).iter().sum::<u64>();
        // What is under way when the trace ends is never received.
        let most = 8 * processors as u64;
        let (received, asked) = (number(messages, "received"), number(messages, "transactions"));
        assert!(sent > 1000 && received <= sent && sent - received <= most, "{more}: {received} of {sent}");
        let complete = number(messages, "completions");
        assert!(
            asked > 500 && complete <= asked && asked - complete <= most,
            "{more}: {complete} of {asked}"
        );
        let pairs = nodes["pairs"].as_array().expect("pairs");
        let sum = |key: &str| pairs.iter().map(|pair| number(pair, key)).sum::<u64>();
        let fetched = number(bus, "read") + number(bus, "read_exclusive");
        assert_eq!(sum("memory_reads") + sum("cache_reads"), fetched, "{more}");
        assert!(run["interconnect"]["busiest_way_utilization"].as_f64().unwrap() <= 1.0, "{more}");
    }
    run
}

#[test]
fn nothing_is_lost_whatever_lies_around_the_caches() {
    for more in [
        "",
        "[processor]\nmodel = \"ooo\"\noutstanding_misses = 4\n",
        "[l2]\nsize = \"8 KiB\"\nassociativity = 2\ninclusion = \"exclusive\"\nlatency = \"5 cycles\"\n",
        "[l2]\nsize = \"8 KiB\"\nassociativity = 2\ninclusion = \"inclusive\"\nlatency = \"5 cycles\"\n",
    ] {
        for processors in [4, 8, 16] {
            let messages = &run(processors, 4, more)["nodes"]["messages"];
            assert!(
                number(messages, "waits_at_home") > 10 && number(messages, "forwards") > 500,
                "{messages}"
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_number_of_nodes() {
    for count in [1, 4, 16, 64] {
        let twice = [(); 2].map(|()| run(count.max(2), count, "").to_string());
        assert_eq!(twice[0], twice[1], "{count} nodes");
    }
}

#[test]
fn a_task_alone_misses_what_it_misses_on_a_bus() {
    let alone = |count| one_run(&sharing(1), 4, &machine(count, ""), false);
    let (bus, messages) = (alone(1), alone(4));
    // Stores leave the buffer at other times, so that conflict and capacity misses differ by a few.
    assert_eq!(bus["misses"]["total"], messages["misses"]["total"]);
    // The last dirty line may still wait for its bus when the trace ends.
    let back = |run: &Value| number(&run["bus"], "write_back");
    assert!(back(&bus).abs_diff(back(&messages)) <= 1, "{} and {}", back(&bus), back(&messages));
    assert!(number(&bus, "cycles") < number(&messages, "cycles"));
}

/// The machine of Brock et al. on the shipped trace, or on that of the variable `SERVSIM_TRACE`.
#[test]
fn a_captured_trace_runs_on_sixteen_processors_in_four_nodes() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let trace = std::env::var_os("SERVSIM_TRACE").map_or(shipped, PathBuf::from);
    let machine = include_str!("../../../../python/servsim/machines/brock-2001-4x4.toml");
    let request = RunSpec {
        functional: false,
        transactions: Transactions::Number(1),
        overrides: vec!["node.coherence=messages".into(), "node.directory=10 cycles".into()],
        ..whole_trace(trace, machine)
    };
    let run = simulate(&request, &mut |_| true).unwrap()["replications"][0].clone();
    let messages = &run["nodes"]["messages"];
    assert!(number(messages, "transactions") > 100, "{messages}");
    // Two links of each of four nodes: bound by latency, not by links (Brock et al.: at most 18 % of a link).
    let share = number(&run["nodes"], "link_busy_cycles") as f64 / (8 * number(&run, "cycles")) as f64;
    assert!(share > 0.0 && share <= 0.18, "{share}");
}
