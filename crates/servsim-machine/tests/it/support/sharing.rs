//! A trace of tasks that share lines, and numbers of its results.

use serde_json::Value;
use servsim_core::RandomStream;
use std::fmt::Write as _;

/// Tasks that read and write lines of all pages at random, some far more often than others.
pub fn sharing(tasks: u64) -> String {
    let (mut text, mut r) = (String::new(), RandomStream::new(7, "sharing"));
    for _ in 0..12_000 / tasks {
        for task in 0..tasks {
            let op = if r.below(3) == 0 { "S" } else { "L" };
            let line = if r.below(3) == 0 { r.below(8) } else { r.below(300) };
            let _ = writeln!(text, "{task} {op} {:x} 4 s", 0x10_0000 + line * 64);
        }
    }
    text
}

/// A whole number of a result.
pub fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}
