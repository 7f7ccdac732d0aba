//! Prefetchers in the timing engine, to the cycle, and what both engines count where their order is the
//! same. That the functional engine agrees with the oracle is in `translation.rs`.

use crate::support::one_run::one_run;

use serde_json::{json, Value};
use std::fmt::Write;

/// Lines of 128 bytes by default: a fetch from memory takes 64 + 16 cycles and the bus for 8 + 16, a
/// reference 2.
fn timed(trace: &str, prefetch: &str) -> Value {
    one_run(trace, 1, &format!("[prefetch]\n{prefetch}"), false)
}

const NEXT: &str = "policy = \"next-line\"\n";

#[test]
fn the_next_line_comes_behind_a_miss_and_is_there_when_it_is_asked_for() {
    // The prefetch of line 1 is granted when the bus is free, at 24, and arrives at 104. Twenty hits
    // later, at 122, line 1 hits, and line 2 is prefetched.
    let trace = "0 L 0\n".repeat(21) + "0 L 80\n";
    let run = timed(&trace, NEXT);
    assert_eq!(run["cycles"], 80 + 22 * 2);
    assert_eq!(run["prefetch"], json!({"issued": 1, "useful": 1, "useless": 0, "late": 0}));
    assert_eq!(run["misses"]["total"]["user"], 1);
    assert_eq!(run["bus"]["read"], 2);
}

#[test]
fn a_late_prefetch_is_waited_for() {
    // At 82 the line is on its way since 24: it arrives at 104.
    let run = timed("0 L 0\n0 L 80\n", NEXT);
    assert_eq!(run["cycles"], 104 + 2);
    assert_eq!(run["prefetch"]["late"], 1);
    assert_eq!(run["processors"][0]["memory_stall"], 80 + 22);
    // With two ahead the third line is granted at 48 and arrives at 128; the first use of the second
    // prefetches the fourth at 106, granted at once.
    let run = timed("0 L 0\n0 L 80\n0 L 100\n0 L 180\n", &format!("{NEXT}degree = 2\n"));
    assert_eq!(run["cycles"], 106 + (128 - 106) + 2 + (106 + 80 - 130) + 2);
    assert_eq!(run["prefetch"]["late"], 3);
}

#[test]
fn no_prefetch_crosses_a_page() {
    let run = timed("0 L f80\n0 L 1000\n", &format!("{NEXT}degree = 4\n"));
    assert_eq!(run["processors"][0]["memory_stall"], 2 * 80);
    assert_eq!(run["prefetch"]["issued"], 4);
    // The second load is on its page's first line and leads to four more.
    assert_eq!(run["misses"]["total"]["user"], 2);
}

#[test]
fn a_prefetched_copy_that_is_evicted_unused_is_useless() {
    // One line of 128 bytes: the prefetch of line 1 takes the place of line 0.
    let machine = format!("[cache]\nsize = \"128 B\"\nassociativity = 1\n[prefetch]\n{NEXT}");
    let run = one_run(&("0 L 0\n".to_owned() + &"0 L 0\n".repeat(3)), 1, &machine, true);
    // Every reference misses and prefetches, which drives out what it asked for.
    assert_eq!(run["prefetch"], json!({"issued": 4, "useful": 0, "useless": 3}));
    assert_eq!(run["misses"]["capacity"]["user"], 0);
    assert_eq!(run["misses"]["cold"]["user"], 1);
    assert_eq!(run["misses"]["conflict"]["user"], 3);
}

#[test]
fn strides_are_learnt_per_instruction() {
    // One instruction loads every 256 bytes: the third load has the stride confirmed; the second one's
    // guess, from its first stride, is already line 4.
    let load = |i: u64| format!("0 I 400000\n0 L {:x}\n", i * 0x100);
    let loads = (0..6).map(load).collect::<Vec<_>>().concat();
    let policy = "policy = \"stride\"\nentries = 64\n";
    let functional = one_run(&loads, 1, &format!("[prefetch]\n{policy}"), true);
    assert_eq!(functional["prefetch"], json!({"issued": 5, "useful": 4, "useless": 0}));
    assert_eq!(functional["misses"]["total"]["user"], 1 + 2);
    // Another instruction in between does not disturb; one that shares the table's only entry does.
    let other = |i: u64| format!("0 I 400010\n0 L {:x}\n", 0x9000 + i * 0x10);
    let mixed = (0..6).map(|i| load(i) + &other(i)).collect::<Vec<_>>().concat();
    let useful = |entries: u64| {
        let machine = format!("[prefetch]\npolicy = \"stride\"\nentries = {entries}\n");
        one_run(&mixed, 1, &machine, true)["prefetch"]["useful"].clone()
    };
    assert_eq!((useful(64), useful(1)), (json!(4), json!(0)));
}

#[test]
fn the_second_level_may_take_what_is_prefetched() {
    let machine = format!("[prefetch]\n{NEXT}level = \"l2\"\n[l2]\nsize = \"8 MiB\"\n");
    let run = one_run(&("0 L 0\n".repeat(21) + "0 L 80\n"), 1, &machine, false);
    // Line 1 is 12 cycles away.
    assert_eq!(run["cycles"], 80 + 22 * 2 + 12);
    assert_eq!(run["prefetch"]["useful"], 1);
}

#[test]
fn a_prefetch_gives_way_to_whoever_waits() {
    // Two processors miss at once: the second one's fetch goes before the first one's prefetch.
    let run = one_run("0 L 0\n1 L 10000\n", 2, &format!("[prefetch]\n{NEXT}"), false);
    // Grants at 0 and 24; the prefetches at 48 and 72.
    assert_eq!(run["cycles"], 24 + 80 + 2);
    assert_eq!(run["prefetch"]["issued"], 2);
}

#[test]
fn every_miss_has_a_class_and_every_cycle_a_place() {
    let mut random = servsim_core::RandomStream::new(8, "prefetch");
    let mut trace = String::new();
    for task in 0..3 {
        for _ in 0..2000 {
            let op = ['I', 'L', 'L', 'S'][random.below(4) as usize];
            let base = if random.below(3) == 0 { 0 } else { (task + 1) << 16 };
            writeln!(trace, "{task} {op} {:x}", base + random.below(0x2000)).unwrap();
        }
    }
    for policy in ["next-line", "stride"] {
        for model in ["fixed", "inorder", "ooo"] {
            for protocol in ["mesi", "pscr"] {
                let machine = format!(
                    "[prefetch]\npolicy = \"{policy}\"\ndegree = 2\n[cache]\nsize = \"2 KiB\"\nline = \"64 B\"\n\
                     [processor]\nmodel = \"{model}\"\n[protocol]\nname = \"{protocol}\"\n"
                );
                let run = one_run(&trace, 3, &machine, false);
                let level = run["levels"][0]["misses"].as_u64().unwrap();
                let classes = &run["misses"]["total"];
                assert_eq!(classes["user"].as_u64().unwrap() + classes["kernel"].as_u64().unwrap(), level);
                let [issued, useful, useless, late] = ["issued", "useful", "useless", "late"]
                    .map(|name| run["prefetch"][name].as_u64().unwrap());
                assert!(useful + useless <= issued && late <= issued && useful > 0 && useless > 0, "{run}");
                for (stack, times) in run["cycle_stacks"].as_array().unwrap().iter().zip(0..) {
                    let sum: u64 = stack.as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
                    assert!(sum.abs_diff(run["cycles"].as_u64().unwrap()) <= 200, "{times}: {stack}");
                }
            }
        }
    }
}
