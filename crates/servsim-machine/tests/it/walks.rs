//! Page walks in the timing engine, to the cycle; that both engines count the same where their order is;
//! which traces can be translated.

use crate::support::one_run::one_run;
use crate::support::whole_trace::whole_trace;

use serde_json::Value;
use servsim_core::RandomStream;
use std::fmt::Write;

const TLB: &str = "[tlb]\nplain_addresses = \"identity\"\n";

fn timed(trace: &str, tlb: &str) -> Value {
    one_run(trace, 1, &format!("{TLB}{tlb}"), false)
}

fn cycles(trace: &str, tlb: &str) -> u64 {
    timed(trace, tlb)["cycles"].as_u64().unwrap()
}

#[test]
fn a_walk_reads_four_entries_one_after_the_other() {
    // Four fetches from memory, 64 + 128/8 cycles and a step of 2 each; the load itself, 80 + 2.
    let first = 4 * 82 + 82;
    assert_eq!(cycles("0 L 0\n", "entries = 4\n"), first);
    assert_eq!(cycles("0 L 0\n0 L 40\n", "entries = 4\n"), first + 2);
    // The next page: the entry one further out is known, the last one lies in a line just read.
    let run = timed("0 L 0\n0 L 40\n0 L 1000\n", "entries = 4\n");
    assert_eq!(run["cycles"], first + 2 + 2 + 82);
    assert_eq!(run["tlb"]["cycles"], 4 * 82 + 2);
    assert_eq!(run["cycle_stacks"][0]["translation"], 4 * 82 + 2);
    assert_eq!(run["cycle_stacks"][0]["load_miss"], 160);
    assert_eq!(run["tlb"]["walk_references"], serde_json::json!({"user": 5, "kernel": 0}));
    assert_eq!(run["tlb"]["walk_misses"]["user"], 4);
    assert_eq!((&run["bus"]["read"], &run["references"]), (&6.into(), &3.into()));
    assert_eq!(run["misses"]["total"], serde_json::json!({"user": 2, "kernel": 4}));
    // Without the page-walk cache the second walk finds all four in the data cache.
    assert_eq!(cycles("0 L 0\n0 L 1000\n", "entries = 4\nwalk_entries = 0\n"), first + 4 * 2 + 82);
}

#[test]
fn a_hit_in_the_second_level_takes_its_latency() {
    let trace = "0 L 0\n0 L 1000\n0 L 0\n";
    let one = "entries = 1\nassociativity = 1\nl2_entries = 4\nl2_latency = \"7 cycles\"\n";
    assert_eq!(cycles(trace, one), 410 + 84 + 7 + 2);
}

#[test]
fn an_access_that_crosses_pages_is_translated_twice() {
    let run = timed("0 L ffc 8\n", "entries = 4\n");
    assert_eq!(run["cycles"], 4 * 82 + 80 + 2 + 80 + 2);
    assert_eq!(run["tlb"]["data_misses"]["user"], 2);
    assert_eq!(run["references"], 1);
}

#[test]
fn a_store_waits_for_its_translation_but_not_for_its_block() {
    // The walk of one reference blocks for 2 cycles; the store buffer hides the fetch of the block.
    let run = timed("0 L 0\n0 S 1000\n0 L 0\n", "entries = 4\n");
    assert_eq!(run["processors"][0]["memory_stall"], 4 * 82 + 80 + 2);
}

#[test]
fn a_walk_that_hits_in_an_outer_level_takes_its_latency() {
    // First level of one line of 128 bytes: everything is in the second level, 12 cycles further.
    let caches = "[cache]\nsize = \"128 B\"\nassociativity = 1\n[l2]\nsize = \"64 KiB\"\n";
    let trace = "0 L 0\n0 L 1000\n0 L 2000\n0 L 0\n";
    let machine = format!("{TLB}entries = 1\nassociativity = 1\nwalk_entries = 0\n{caches}");
    let run = one_run(trace, 1, &machine, false);
    // Pages 1 and 2 walk four entries in the second level and fetch; page 0 finds its line there too.
    let walk = 4 * (2 + 12);
    assert_eq!(run["cycles"], 410 + 2 * (walk + 82) + walk + 12 + 2);
}

#[test]
fn one_processor_counts_the_same_in_both_engines_and_every_cycle_once() {
    let mut random = RandomStream::new(5, "reads");
    let mut trace = String::new();
    for _ in 0..4000 {
        let (op, base) = if random.below(3) == 0 { ('I', 0x10_0000) } else { ('L', 0) };
        let address = base + (random.below(12) << [12, 21][random.below(2) as usize]) + random.below(0x200);
        let mode = ["u", "k"][random.below(2) as usize];
        writeln!(trace, "0 {op} {address:x} 8 {mode}").unwrap();
    }
    for organisation in ["split", "unified"] {
        for model in ["fixed", "inorder", "ooo"] {
            let machine = format!(
                "{TLB}entries = 8\norganisation = \"{organisation}\"\nl2_entries = 16\nwalk_entries = 4\n\
                 [cache]\nsize = \"4 KiB\"\n[processor]\nmodel = \"{model}\"\n"
            );
            let timing = one_run(&trace, 1, &machine, false);
            let stack = timing["cycle_stacks"][0].as_object().unwrap();
            assert_eq!(stack.values().map(|v| v.as_u64().unwrap()).sum::<u64>(), timing["cycles"]);
            let functional = one_run(&trace, 1, &machine, true);
            for (name, counts) in functional["tlb"].as_object().unwrap() {
                // Loads beside execution change the order in which the caches are used.
                if name != "walk_misses" || model == "fixed" {
                    assert_eq!(*counts, timing["tlb"][name], "{name}, {machine}");
                }
                let none = name == "flushes";
                assert_eq!(
                    *counts == serde_json::json!({"user": 0, "kernel": 0}),
                    none && counts["kernel"] == 0
                );
            }
        }
    }
}

#[test]
fn a_trace_without_virtual_addresses_is_refused_unless_the_user_says_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    let fault = |machine: &str, trace: &str, functional: bool| {
        std::fs::write(&path, trace).unwrap();
        let request = servsim_machine::RunSpec { functional, ..whole_trace(&path, machine) };
        servsim_machine::simulate(&request, &mut |_| true).map_err(|error| error.to_string())
    };
    for functional in [false, true] {
        let refused = fault("[tlb]\nentries = 4\n", "0 L 0\n", functional).unwrap_err();
        assert!(refused.contains("tlb.plain_addresses"), "{refused}");
        let odd = fault(&format!("{TLB}entries = 4\n"), "0 L 800000000000\n", functional).unwrap_err();
        assert!(odd.contains("0x800000000000 is not a virtual address"), "{odd}");
        let taken = fault(&format!("{TLB}entries = 4\n"), "0 L 0\n", functional).unwrap();
        assert!(taken["warnings"].to_string().contains("identity"), "{taken}");
    }
}
