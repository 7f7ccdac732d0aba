//! Rules by allocation site and by the name of a mapping, and threads dealt, for an unmodified program.

use crate::kernel;
use serde_json::{json, Value};
use std::fs;
use std::process::Command;

/// Runs `/ruled` with the preloaded library and returns what it prints and what the library reports.
fn run(words: &str, settings: &[(&str, &str)]) -> (String, Value) {
    const REPORT: &str = "/report-of-rules";
    let _ = fs::remove_file(REPORT);
    let ended = Command::new("/ruled")
        .args(words.split_ascii_whitespace())
        .env("LD_PRELOAD", "/preload.so")
        .env("SERVSIM_RSET_REPORT", REPORT)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let told = serde_json::from_str(&fs::read_to_string(REPORT).unwrap()).unwrap();
    (String::from_utf8(ended.stdout).unwrap(), told)
}

/// The site that allocated so often.
fn site(told: &Value, allocations: u64) -> String {
    let sites = told["sites"].as_array().unwrap();
    let found = sites.iter().find(|site| site["allocations"] == allocations).unwrap();
    found["site"].as_str().unwrap().to_owned()
}

/// Small pieces to node 3, halves of large ones to nodes 0 and 2, a mapping's beginning to node 2 and its rest striped;
/// some pages of the mapping existed on node 1 before its name was known, or all of it as one huge page.
pub fn rules() -> Value {
    kernel::set("/sys/kernel/mm/transparent_hugepage/enabled", "always");
    let threads = ("SERVSIM_RSET_THREADS", r#"{"processors": [[0], [5, 6]], "again": false}"#);
    let (said, told) = run("", &[threads, ("SERVSIM_RSET_POLICY", "touch")]);
    assert_eq!(said, "first: 0\nsecond: 5 6\n");
    let (small, large) = (site(&told, 3000), site(&told, 2));
    let mut all = serde_json::Map::new();
    for (words, stripes) in [("", "striped(1)"), ("huge", "striped(1)"), ("huge", "striped(4)")] {
        let rules = json!([
            {"site": small, "policy": "node(3)"},
            {"site": large, "policy": "node(0)", "start": 0, "end": 0x80000},
            {"site": large, "policy": "node(2)", "start": 0x80000, "end": 0x10_0000},
            {"structure": "test.grid", "policy": "node(2)", "start": 0, "end": 0x10_0000},
            {"structure": "test.grid", "policy": stripes, "nodes": "0-3"},
        ]);
        let rules = ("SERVSIM_RSET_RULES", &*rules.to_string());
        let (_, told) = run(words, &[threads, ("SERVSIM_RSET_POLICY", "touch"), rules]);
        let mut pages = serde_json::Map::new();
        for rule in told["rules"].as_array().unwrap().iter().chain([&told]) {
            let wrong = (&rule["pages_elsewhere"], &rule["ranges_refused"]);
            assert_eq!(wrong, (&json!(0), &json!(0)), "{words} {stripes}: {told}");
            pages.insert(rule["rule"].as_str().unwrap_or("all else").into(), rule["pages_per_node"].clone());
        }
        let of = |name: &str| &pages[name];
        assert!(of(&format!("site {small}"))["3"].as_u64() >= Some(3000 * 1024 / 4096), "{told}");
        assert_eq!(of(&format!("site {large} 0x0..0x80000")), &json!({"0": 256}));
        assert_eq!(of(&format!("site {large} 0x80000..0x100000")), &json!({"2": 256}));
        assert_eq!(of("structure test.grid 0x0..0x100000"), &json!({"2": 256}));
        assert_eq!(of("structure test.grid"), &json!({"0": 64, "1": 64, "2": 64, "3": 64}));
        all.insert(format!("{words} {stripes}"), Value::Object(pages));
    }
    Value::Object(all)
}
