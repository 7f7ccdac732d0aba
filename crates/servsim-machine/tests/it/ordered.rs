//! Snooping, directory and BASH from description to result: nothing is lost, nothing differs from run to run, and the
//! homes know the owner of every line whatever lies around the caches (which the engine asserts at every fetch).

use crate::support::one_run::one_run;
use crate::support::sharing::{number, sharing};
use serde_json::Value;

/// A machine of `count` nodes.
fn machine(count: usize, policy: &str, more: &str) -> String {
    let nodes = if count == 1 {
        String::new()
    } else {
        format!(
            "[interconnect]\nkind = \"network\"\norder = \"1 cycles\"\n[node]\ncount = {count}\nlink_bytes_per_cycle = \
             \"0.5 B\"\ncoherence = \"{policy}\"\nrequest = \"8 B\"\nheader = \"8 B\"\nplacement = \"striped\"\n"
        )
    };
    format!(
        "[cache]\nsize = \"4 KiB\"\nassociativity = 2\nline = \"64 B\"\n[protocol]\nname = \"mosi\"\n{nodes}{more}"
    )
}

/// A run, held to what every run is held to.
fn run(processors: usize, count: usize, policy: &str, more: &str) -> Value {
    let run = one_run(&sharing(processors as u64), processors, &machine(count, policy, more), false);
    let (nodes, bus) = (&run["nodes"], &run["bus"]);
    if count > 1 {
        let made = number(nodes, "broadcasts") + number(nodes, "unicasts");
        let asked = number(bus, "read") + number(bus, "read_exclusive") + number(bus, "invalidate");
        let asked = asked + number(nodes, "superseded");
        assert_eq!(made, asked, "{policy} {more}: every request is sent once and performed once");
        let pairs = nodes["pairs"].as_array().expect("pairs");
        let sum = |key: &str| pairs.iter().map(|pair| number(pair, key)).sum::<u64>();
        let fetched = number(bus, "read") + number(bus, "read_exclusive");
        assert_eq!(sum("memory_reads") + sum("cache_reads"), fetched, "{policy} {more}");
        assert!(run["interconnect"]["busiest_way_utilization"].as_f64().unwrap() <= 1.0, "{policy} {more}");
        let windows = |key: &str| run["windows"][key].as_array().expect(key);
        let sum_of = |key: &str| windows(key).iter().map(|value| value.as_u64().unwrap()).sum::<u64>();
        assert!(sum_of("nodes.unicasts") <= number(nodes, "unicasts"), "{policy} {more}");
    }
    run
}

#[test]
fn nothing_is_lost_whatever_lies_around_the_caches() {
    let around = [
        "",
        "[write_buffer]\nentries = 2\n",
        "[processor]\nmodel = \"ooo\"\noutstanding_misses = 4\n",
        "[l2]\nsize = \"8 KiB\"\nassociativity = 2\ninclusion = \"exclusive\"\nlatency = \"5 cycles\"\n",
        "[prefetch]\npolicy = \"next-line\"\n",
    ];
    for policy in ["snooping", "directory", "bash"] {
        for more in around {
            for (processors, nodes) in [(4, 4), (8, 4)] {
                let run = run(processors, nodes, policy, more);
                let nodes = &run["nodes"];
                match policy {
                    "snooping" => assert_eq!(number(nodes, "unicasts"), 0),
                    "directory" => assert!(number(nodes, "forwards") > 500 && number(nodes, "retries") == 0),
                    _ => assert!(number(nodes, "retries") > 100 && number(nodes, "broadcasts") > 100),
                }
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_number_of_nodes() {
    for policy in ["snooping", "directory", "bash"] {
        for count in [1, 4, 16, 64] {
            let twice = [(); 2].map(|()| run(count.max(2), count, policy, "").to_string());
            assert_eq!(twice[0], twice[1], "{policy}, {count} nodes");
        }
    }
}

#[test]
fn a_split_first_level_is_known_to_homes() {
    let split = machine(4, "bash", "").replace("[cache]\n", "[cache]\norganisation = \"split\"\n");
    let run = one_run(&sharing(4), 4, &split, false);
    assert!(number(&run["nodes"], "retries") > 100);
}
