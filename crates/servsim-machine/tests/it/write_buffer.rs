//! Write buffers in the timing engine, to the cycle.

use crate::support::one_run::one_run;

use serde_json::{json, Value};
use std::fmt::Write;

/// Caches of one line of 128 bytes: a fetch from memory takes 80 cycles and the bus for 24, one from a cache
/// or buffer 24 and 24, a write-back 20.
fn timed(trace: &str, entries: usize, bus: &str) -> Value {
    let machine = format!(
        "[cache]\nsize = \"128 B\"\nassociativity = 1\n[write_buffer]\nentries = {entries}\n[bus]\n{bus}\n"
    );
    one_run(trace, 2, &machine, false)
}

/// Task 0 gives line 0 up dirty at 84, when its load of line 1 is granted; task 1's first fetch takes the
/// bus from 24 to 48 and returns at 104, and its next reference to line 0 comes at 106, while the bus is
/// taken until 108: before the write-back, which has waited for an idle bus.
fn meeting(op: char) -> String {
    format!("0 L 0\n0 S 0\n0 L 80\n1 L 10000\n1 {op} 0\n")
}

#[test]
fn a_fetch_is_served_from_a_buffer() {
    let run = timed(&meeting('L'), 4, "");
    let second = &run["processors"][1];
    assert_eq!((&second["bus_wait"], &second["memory_stall"]), (&json!(24 + 2), &json!(80 + 24)));
    assert_eq!(run["write_buffer"], json!({"entered": 1, "supplied": 1, "cancelled": 0, "most_used": 1}));
    // Memory still lacks the line: it is written back.
    assert_eq!(run["bus"]["write_back"], 1);
    // Without a buffer memory has the line at once.
    let none = timed(&meeting('L'), 0, "");
    assert_eq!(none["processors"][1]["memory_stall"], 80 + 80);
    assert!(none.get("write_buffer").is_none());
}

#[test]
fn who_writes_the_line_takes_over_the_duty_to_write_it_back() {
    // Ten hits later, when nothing else is left to do, the write-back has gone unless it was cancelled.
    let trace = meeting('S') + &"0 L 80\n".repeat(40);
    let run = timed(&trace, 4, "");
    assert_eq!(run["write_buffer"], json!({"entered": 1, "supplied": 1, "cancelled": 1, "most_used": 1}));
    assert_eq!(run["bus_busy_cycles"], 4 * 24);
    assert_eq!(timed(&trace, 0, "")["bus_busy_cycles"], 4 * 24 + 20);
}

#[test]
fn an_upgrade_takes_over_the_duty_to_write_the_line_back() {
    // Two tasks of nothing but fetches keep the bus from ever being idle, which the write-back waits for. Its
    // buffer serves task 1, then task 2 has the line as well, and task 1 writes it.
    let mut trace = "0 L 0\n0 S 0\n0 L 80\n1 L 10000\n1 L 10080\n1 L 0\n".to_owned();
    trace += "2 L 20000\n2 L 20080\n2 L 20100\n2 L 0\n";
    trace += &"1 L 0\n".repeat(1000);
    trace += "1 S 0\n";
    for line in 0..40 {
        write!(trace, "3 L {0:x}\n4 L {0:x}\n", 0x30000 + 0x80 * line).unwrap();
    }
    let machine = "[cache]\nsize = \"128 B\"\nassociativity = 1\n[write_buffer]\nentries = 4\n\
                   [bus]\nmemory_hold = \"56 cycles\"\n";
    let run = one_run(&trace, 5, machine, false);
    assert_eq!(run["bus"]["invalidate"], 1);
    assert_eq!(run["write_buffer"], json!({"entered": 1, "supplied": 2, "cancelled": 1, "most_used": 1}));
}

#[test]
fn a_full_buffer_is_emptied_before_its_processor_gets_a_block() {
    // The bus is held for the 80 cycles of each fetch, and the two processors take turns. Task 0 gives
    // line 0 up at 160; at 320, behind a turn of task 1, the write-back goes for 20 cycles, then task 1
    // at 340 and task 0 at 420.
    let trace = "0 L 0\n0 S 0\n0 L 80\n0 L 100\n1 L 10000\n1 L 10080\n1 L 10100\n";
    let hold = "memory_hold = \"56 cycles\"";
    assert_eq!(timed(trace, 1, hold)["cycles"], 500 + 2);
    // With room task 0 fetches at 320 and task 1 at 400; the write-back waits for an idle bus.
    for roomy in [0, 4] {
        assert_eq!(timed(trace, roomy, hold)["cycles"], 480 + 2, "{roomy}");
    }
}

#[test]
fn every_line_given_up_enters_and_every_cycle_has_a_place() {
    let mut random = servsim_core::RandomStream::new(2, "write buffer");
    let mut trace = String::new();
    for _ in 0..5000 {
        writeln!(trace, "0 {} {:x}", ['L', 'S'][random.below(2) as usize], random.below(0x1000)).unwrap();
    }
    let machine = |entries| format!("[cache]\nsize = \"1 KiB\"\n[write_buffer]\nentries = {entries}\n");
    for entries in [1, 4] {
        let run = one_run(&trace, 1, &machine(entries), false);
        assert_eq!(run["write_buffer"]["entered"], run["bus"]["write_back"]);
        assert!(run["bus"]["write_back"].as_u64().unwrap() > 500);
        assert!(run["write_buffer"]["most_used"].as_u64().unwrap() <= entries);
        let stack = run["cycle_stacks"][0].as_object().unwrap();
        let sum: u64 = stack.values().map(|v| v.as_u64().unwrap()).sum();
        assert!(run["cycles"].as_u64().unwrap().abs_diff(sum) <= 200, "{stack:?}");
    }
}

#[test]
fn what_an_inclusive_shared_level_takes_back_enters_too() {
    let mut random = servsim_core::RandomStream::new(3, "taken back");
    let mut trace = String::new();
    for _ in 0..5000 {
        let (task, op) = (random.below(2), ['L', 'S'][random.below(2) as usize]);
        writeln!(trace, "{task} {op} {:x} 4 p", task << 20 | random.below(0x400) << 2).unwrap();
    }
    // As small as it may be, direct-mapped below a wider first level, so that it takes many lines back.
    let machine = "[cache]\nsize = \"1 KiB\"\nassociativity = 8\n[l2]\nsize = \"2 KiB\"\nassociativity = 1\n\
                   sharing = \"shared\"\ninclusion = \"inclusive\"\n[write_buffer]\nentries = 4\n";
    let run = one_run(&trace, 2, machine, false);
    let taken = run["levels"][0]["back_invalidations"].as_u64().unwrap();
    assert!(taken > 100, "{}", run["levels"]);
    assert_eq!(run["write_buffer"]["entered"], run["bus"]["write_back"]);
}
