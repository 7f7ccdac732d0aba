//! Cache levels in the timing engine: times to the cycle, and counts equal to the functional engine's
//! where the order of references is the same.

use crate::support::one_run::one_run;

use serde_json::Value;
use servsim_core::RandomStream;
use std::fmt::Write;

fn result(trace: &str, machine: &str, functional: bool) -> Value {
    one_run(trace, 1, machine, functional)
}

/// Two lines of 64 bytes, direct-mapped; lines 0 and 2 collide.
const SMALL: &str = "[cache]\nsize = \"128 B\"\nassociativity = 1\nline = \"64 B\"\n";

fn stall(second: &str) -> u64 {
    let machine = format!("{SMALL}[l2]\nsize = \"1 KiB\"\nlatency = \"12 cycles\"\n{second}");
    let run = result("0 L 0\n0 L 80\n0 L 0\n", &machine, false);
    let time = run["cycles"].as_u64().unwrap();
    let stall = run["processors"][0]["memory_stall"].as_u64().unwrap();
    assert_eq!(time, stall + 3 * 2, "three references of two cycles");
    stall
}

#[test]
fn a_hit_in_the_second_level_takes_its_latency() {
    // Two fetches from memory, 64 + 64/8 cycles each; then a private second level answers at once,
    // a shared one over the bus, 8 + 64/8 cycles more.
    assert_eq!(stall(""), 72 + 72 + 12);
    assert_eq!(stall("sharing = \"shared\"\n"), 72 + 72 + 12 + 16);
}

#[test]
fn a_store_does_not_wait_for_the_second_level() {
    let machine = format!("{SMALL}[l2]\nsize = \"1 KiB\"\n");
    let trace = "0 L 0\n0 S 0\n0 L 80\n0 S 0\n";
    assert_eq!(result(trace, &machine, false)["processors"][0]["memory_stall"], 144);
}

/// Fetches and loads with some locality: without stores nothing is reordered.
fn reads() -> String {
    let mut random = RandomStream::new(11, "reads");
    let mut trace = String::new();
    for _ in 0..4000 {
        let (op, base) = if random.below(3) == 0 { ("I", 0x10_0000) } else { ("L", 0) };
        let reach = [0x400, 0x1000, 0x8000][random.below(3) as usize];
        writeln!(trace, "0 {op} {:x}", base + random.below(reach)).unwrap();
    }
    trace
}

#[test]
fn one_processor_that_only_reads_counts_what_the_functional_engine_counts() {
    let trace = reads();
    for organisation in ["unified", "split"] {
        for sharing in ["private", "shared"] {
            for inclusion in ["inclusive", "exclusive", "neither"] {
                let machine = format!(
                    "[cache]\nsize = \"512 B\"\nline = \"32 B\"\norganisation = \"{organisation}\"\n\
                     [l2]\nsize = \"2 KiB\"\ninclusion = \"{inclusion}\"\n\
                     [l3]\nsize = \"8 KiB\"\nsharing = \"{sharing}\"\ninclusion = \"{inclusion}\"\n"
                );
                let [functional, timing] = [true, false].map(|f| result(&trace, &machine, f));
                for key in ["levels", "misses", "bus"] {
                    assert_eq!(functional[key], timing[key], "{key}: {machine}");
                }
                assert!(timing["levels"].as_array().unwrap().iter().all(|l| l["misses"] != 0), "{machine}");
            }
        }
    }
}
