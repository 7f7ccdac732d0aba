//! Machines with nodes, from description to result.

use crate::support::one_run::one_run;
use serde_json::Value;
use std::fmt::Write as _;

const MACHINE: &str =
    "[cache]\nsize = \"4 KiB\"\nassociativity = 2\nline = \"64 B\"\n[interconnect]\nkind = \"network\"\n\
                       [node]\ncount = 4\n";

/// Four tasks, each of which reads or writes 16 pages of its own, then the other way round, and all write one line at
/// the end.
fn private_pages() -> String {
    let mut text = String::new();
    for step in 0..2 * 16 * 64 {
        for task in 0..4_u64 {
            let op = if (step + step / 1024) % 2 == 0 { "L" } else { "S" };
            let _ = writeln!(text, "{task} {op} {:x} 4 p", 0x10_0000 * (task + 1) + step % (16 * 64) * 64);
        }
    }
    (0..4).for_each(|task| {
        let _ = writeln!(text, "{task} S f00040 4 s");
    });
    text
}

fn run(more: &str) -> Value {
    one_run(&private_pages(), 4, &format!("{MACHINE}{more}"), false)
}

/// The sum of `what` over the pairs that `which` takes, by asking node and node asked.
fn pairs(run: &Value, what: &str, which: impl Fn(u64, u64) -> bool) -> u64 {
    let number = |pair: &Value, key: &str| pair[key].as_u64().unwrap_or_else(|| panic!("{key} in {pair}"));
    let all = run["nodes"]["pairs"].as_array().expect("pairs");
    assert_eq!(all.len(), 16);
    let taken = all.iter().filter(|pair| which(number(pair, "from"), number(pair, "to")));
    taken.map(|pair| number(pair, what)).sum()
}

#[test]
fn every_fetch_comes_from_one_pair_of_nodes() {
    for placement in ["first-touch", "remote", "striped", "fill"] {
        let run = run(&format!("placement = \"{placement}\""));
        let bus = |key: &str| run["bus"][key].as_u64().unwrap();
        let both = pairs(&run, "memory_reads", |_, _| true) + pairs(&run, "cache_reads", |_, _| true);
        assert_eq!(both, bus("read") + bus("read_exclusive"), "{placement}");
        // Some still wait for their grant when the trace ends.
        let (back, given_up) = (pairs(&run, "write_backs", |_, _| true), bus("write_back"));
        assert!(back > 3500 && back <= given_up && given_up - back < 16, "{placement}: {back} of {given_up}");
        let cycles = run["cycles"].as_u64().unwrap();
        assert!(pairs(&run, "read_cycles", |_, _| true) > both * 64 && cycles > 0);
    }
}

#[test]
fn what_outer_private_levels_give_up_travels_too() {
    for inclusion in ["inclusive", "exclusive", "neither"] {
        let level = format!("[l2]\nsize = \"8 KiB\"\nassociativity = 2\ninclusion = \"{inclusion}\"\nlatency = \"5 cycles\"\n");
        let run = run(&level);
        let (back, given_up) =
            (pairs(&run, "write_backs", |_, _| true), run["bus"]["write_back"].as_u64().unwrap());
        assert!(back > 3500 && back <= given_up && given_up - back < 16, "{inclusion}: {back} of {given_up}");
    }
}

#[test]
fn placement_decides_which_memory_serves() {
    // Two passes over 16 pages of 64 lines, of four tasks: no line of the first is left for the second.
    let lines = 4 * 2 * 16 * 64;
    let local = run("placement = \"first-touch\"");
    assert_eq!(pairs(&local, "memory_reads", |from, to| from == to), lines + 1);
    let remote = run("placement = \"remote\"");
    assert_eq!(pairs(&remote, "memory_reads", |from, to| to == from % 4 + 1), lines + 1);
    let striped = run("placement = \"striped\"");
    let fill = run("placement = \"fill\"\nmemory = \"256 KiB, unlimited, unlimited, unlimited\"");
    for node in 1..=4 {
        assert_eq!(pairs(&striped, "memory_reads", |_, to| to == node) / 2048, lines / 4 / 2048);
    }
    assert_eq!(pairs(&fill, "memory_reads", |_, to| to == 1), lines, "64 pages fill the first node");
    assert_eq!(pairs(&fill, "memory_reads", |_, to| to == 2), 1, "the last page lies in the next");
    let cycles = |run: &Value| run["cycles"].as_u64().unwrap();
    assert!(cycles(&local) < cycles(&striped) && cycles(&striped) < cycles(&remote));
    let packets = |run: &Value| run["nodes"]["data_packets"].as_u64().unwrap();
    let back = pairs(&remote, "write_backs", |_, _| true);
    // The line that all write comes from caches of other nodes three times, over two links each.
    assert_eq!((packets(&local), packets(&remote)), (3 * 2, (lines + 1 + 3 + back) * 2));
}

#[test]
fn memory_beyond_a_link_is_far_and_pages_beyond_all_memory_are_counted() {
    let pool = "processors = \"2, 2, 0, 0\"\nmemory = \"none, none, 128 KiB, 64 KiB\"\nlinks = \"1-2 1-3 2-3 3-4\"\n\
                placement = \"first-touch\"\nmemory_latency = \"250 cycles\"";
    let run = run(pool);
    assert_eq!(pairs(&run, "memory_reads", |_, to| to < 3), 0);
    assert_eq!(
        pairs(&run, "memory_reads", |_, to| to == 3),
        2 * 32 * 64,
        "32 pages, the nearest memory, are full"
    );
    assert_eq!(run["nodes"]["pages_without_room"], 65 - 48);
}

/// Twice the same, to the byte, however many nodes; and what began is over, or was under way at the end.
#[test]
fn runs_repeat_to_the_byte_and_lose_nothing_at_any_number_of_nodes() {
    let trace = private_pages();
    for (count, coherence, protocol) in [
        (1, "", ""),
        (4, "snooping", "mesi"),
        (4, "messages", "mesi"),
        (16, "directory", "mosi"),
        (16, "bash", "mosi"),
        (64, "messages", "mesi"),
        (64, "bash", "mosi"),
    ] {
        let machine = if count == 1 {
            "[cache]\nsize = \"4 KiB\"\nassociativity = 2\nline = \"64 B\"".to_owned()
        } else {
            let nodes = MACHINE.replace("count = 4", &format!("count = {count}"));
            format!("{nodes}coherence = \"{coherence}\"\nplacement = \"striped\"\n[protocol]\nname = \"{protocol}\"\n")
        };
        let run = || one_run(&trace, count.max(4), &machine, false);
        let first = run();
        assert_eq!(first.to_string(), run().to_string(), "{count} nodes, {coherence}");
        if count == 1 {
            continue;
        }
        let nodes = &first["nodes"];
        let bus = |key: &str| first["bus"][key].as_u64().unwrap();
        let sum = |key: &str| -> u64 {
            nodes["pairs"].as_array().unwrap().iter().map(|pair| pair[key].as_u64().unwrap()).sum()
        };
        let fetched = sum("memory_reads") + sum("cache_reads");
        assert_eq!(fetched, bus("read") + bus("read_exclusive"), "{count} nodes, {coherence}: fetches");
        // Write-backs wait for their turn when the trace ends, a few for each processor.
        let (back, given_up) = (sum("write_backs"), bus("write_back"));
        assert!(
            back > 0 && back <= given_up && given_up - back < 16,
            "{count}, {coherence}: {back} of {given_up}"
        );
        if coherence == "messages" {
            let counted = |key: &str| nodes["messages"][key].as_u64().unwrap();
            let sent = counted("requests") + counted("forwards") + counted("responses");
            assert!(counted("completions") > 0 && counted("transactions") - counted("completions") <= 4);
            assert!(sent >= counted("received") && sent - counted("received") < 64, "{count} nodes: packets");
        }
        let busiest = first["interconnect"]["busiest_way_utilization"].as_f64().unwrap();
        assert!(busiest > 0.0 && busiest <= 1.0, "{count} nodes, {coherence}: a link is taken for {busiest}");
    }
}
