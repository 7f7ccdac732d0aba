//! Machines with as many processors as a description may ask for.

use crate::support::one_run::one_run;
use crate::support::whole_trace::whole_trace;
use servsim_machine::{simulate, RunSpec};
use std::fmt::Write as _;

/// Every one of 1,024 tasks reads a line of all, twice, so that all processors have a copy; then one writes it.
fn everybody_reads() -> String {
    let mut text = String::new();
    for round in 0..2 {
        for task in 0..1024 {
            let _ = writeln!(text, "{task} L 8000 4 s");
            let _ = writeln!(text, "{task} L {:x} 4 s", 0x10_0000 + 128 * task + 131_072 * round);
        }
    }
    text + "1000 S 8000 4 s\n"
}

#[test]
fn one_write_invalidates_a_thousand_copies() {
    let run = one_run(&everybody_reads(), 1024, "", false);
    assert_eq!(run["processors"].as_array().map(Vec::len), Some(1024));
    let of = |key: &str| run["bus"][key].as_u64().unwrap_or_else(|| panic!("{key} in {}", run["bus"]));
    // Each task misses the common line once, or again after the write, and its own two lines of memory.
    let reads = of("read") + of("read_exclusive");
    assert!((3 * 1024..4 * 1024).contains(&reads), "{reads} fetches");
    assert_eq!((of("invalidate"), run["distinct_lines"].as_u64()), (1, Some(1 + 2 * 1024)));
}

#[test]
fn formats_that_name_processors_have_no_names_for_a_thousand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, "1 L 8000 4 s\n").unwrap();
    let request = RunSpec { functional: true, ..whole_trace(path, "processors = 256") };
    let error = simulate(&request, &mut |_| true).expect_err("256 processors").to_string();
    assert!(error.contains("at most 255 processors") && error.contains("set processors=255"), "{error}");
}
