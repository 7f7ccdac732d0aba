//! What `classify` says of traces whose answer is known, and that its groups add up.

use crate::support::whole_trace::whole_trace;

use serde_json::Value;
use servsim_machine::classify::{classify, Grouping, Order, Question, Symbols};
use servsim_machine::{simulate, RunSpec, SimulateError, Transactions};
use std::path::{Path, PathBuf};

fn request(trace: PathBuf, overrides: &[&str]) -> RunSpec {
    RunSpec {
        machine_file: "test.toml".into(),
        overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        ..whole_trace(trace, "name = \"test\"\nprocessors = 2\n")
    }
}

fn ask(by: Option<Grouping>) -> Question {
    Question { by, order: Order::Total, top: usize::MAX, watch: None, symbols: None }
}

/// Writes a text trace that lives as long as the folder.
fn text_trace(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Two processors write different words of one line in turn; then one reads the other's word.
const FALSE_THEN_TRUE: &str = "\
0 S 1000 4 s\n1 S 1040 4 s\n0 S 1000 4 s\n0 X order\n1 L 1000 4 s k\n1 X payment\n0 L 2000 4 p\n";

fn count(row: &Value, table: &str, class: &str) -> u64 {
    let modes = &row[table][class];
    modes["user"].as_u64().unwrap() + modes["kernel"].as_u64().unwrap()
}

fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let found = document["rows"].as_array().unwrap().iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no row {name}: {document:#}"))
}

#[test]
fn a_line_falsely_and_a_line_truly_shared_are_told_apart() {
    let trace = text_trace("false_then_true.txt", FALSE_THEN_TRUE);
    let by = |by| classify(&request(trace.clone(), &[]), &ask(by), &mut |_| true).unwrap();
    let lines = by(None);
    let shared = row(&lines, "0x1000");
    assert_eq!(count(shared, "misses", "cold"), 2);
    assert_eq!(count(shared, "misses", "false_sharing"), 1);
    assert_eq!(shared["misses"]["true_sharing"]["kernel"], 1);
    assert_eq!(count(row(&lines, "0x2000"), "misses", "total"), 1);
    let words: Vec<u64> =
        shared["words"].as_array().unwrap().iter().map(|w| w["offset"].as_u64().unwrap()).collect();
    assert_eq!(words, [0], "both invalidation misses are at the first word");
    let kinds = by(Some(Grouping::Kind));
    assert_eq!(count(row(&kinds, "order"), "misses", "false_sharing"), 1);
    assert_eq!(count(row(&kinds, "payment"), "misses", "true_sharing"), 1);
    assert_eq!(count(row(&kinds, "outside transactions"), "misses", "total"), 1);
    let tasks = by(Some(Grouping::Task));
    assert_eq!(count(row(&tasks, "0"), "misses", "total"), 3);
}

#[test]
fn a_watched_line_shows_every_transition() {
    let trace = text_trace("watched.txt", FALSE_THEN_TRUE);
    let question = Question { watch: Some(0x1044), ..ask(None) };
    let document = classify(&request(trace, &[]), &question, &mut |_| true).unwrap();
    let step = |step: &Value| {
        let text = |key: &str| step[key].as_str().unwrap_or("").to_owned();
        let (number, cpu) = (&step["reference"], &step["cpu"]);
        let change = format!("{} {} {}", text("from"), text("event"), text("to"));
        format!("{number} {cpu} {change} {} {}", text("transaction"), text("class")).trim().to_owned()
    };
    let steps: Vec<String> = document["watch"]["steps"].as_array().unwrap().iter().map(step).collect();
    assert_eq!(
        steps,
        [
            "1 0 I PrWr M BusRdX cold",
            "2 0 M BusRdX I",
            "2 1 I PrWr M BusRdX cold",
            "3 1 M BusRdX I",
            "3 0 I PrWr M BusRdX to be judged",
            "4 0 M BusRd S",
            "4 1 I PrRd S BusRd to be judged",
            "4 1     true_sharing",
            "5 0     false_sharing",
        ]
    );
}

#[test]
fn what_a_trace_cannot_tell_is_refused_with_the_remedy() {
    let trace = text_trace("refused.txt", FALSE_THEN_TRUE);
    let fault = |by| match classify(&request(trace.clone(), &[]), &ask(Some(by)), &mut |_| true) {
        Err(SimulateError::Usage(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(fault(Grouping::Area).contains("group this one by line"));
    assert!(fault(Grouping::Relation).contains("--by area"));
    assert!(matches!(Grouping::named("tsk"), Err(SimulateError::Usage(text)) if text.contains("`task`")));
}

/// The shipped trace: every grouping adds up to the totals, whatever the protocol.
#[test]
fn the_groups_of_a_captured_trace_add_up() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let cases = [
        ("protocol.name=mesi", [Grouping::Symbol, Grouping::Kind]),
        ("protocol.name=pscr", [Grouping::Area, Grouping::Task]),
    ];
    for (protocol, groupings) in cases {
        let asked = request(trace.clone(), &["processors=4", "cache.size=128 KiB", protocol]);
        let symbols = || Some(Symbols::parse("ffffffff81000000 T _text\n", "map").unwrap());
        for by in groupings {
            let question = Question { top: 5, symbols: symbols(), ..ask(Some(by)) };
            let document = classify(&asked, &question, &mut |_| true).unwrap();
            let rows = document["rows"].as_array().unwrap();
            assert!(rows.len() <= 5);
            let rows: Vec<&Value> = rows.iter().chain([&document["left_out"]["sum"]]).collect();
            for table in ["misses", "coherence"] {
                for (class, modes) in document["total"][table].as_object().unwrap() {
                    for mode in ["user", "kernel"] {
                        let sum: u64 = rows.iter().map(|r| r[table][class][mode].as_u64().unwrap()).sum();
                        assert_eq!(modes[mode], sum, "{by:?} {table} {class} {mode}");
                    }
                }
            }
        }
    }
}

/// Transactions are classified whose misses functional runs up to the first and the last of them differ by.
#[test]
fn the_misses_of_some_transactions_are_those_between_two_runs() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let asked = request(trace, &["processors=4", "cache.size=1 MiB"]);
    let up_to = |transactions| {
        let run =
            RunSpec { functional: true, transactions: Transactions::Number(transactions), ..asked.clone() };
        simulate(&run, &mut |_| true).unwrap()["replications"][0].take()
    };
    let part = RunSpec { transactions: Transactions::Number(4), warmup: Some(3), ..asked.clone() };
    let (before, after) = (up_to(3), up_to(7));
    let all = classify(&asked, &ask(None), &mut |_| true).unwrap();
    for by in [Grouping::Kind, Grouping::Line] {
        let found = classify(&part, &ask(Some(by)), &mut |_| true).unwrap();
        assert_eq!([&found["window"]["first"], &found["window"]["last"]], [4, 7]);
        let between = |table, class| count(&after, table, class) - count(&before, table, class);
        let rows = |table, class| -> u64 {
            found["rows"].as_array().unwrap().iter().map(|row| count(row, table, class)).sum()
        };
        for (table, classes) in [
            ("misses", &["cold", "capacity", "conflict", "total"][..]),
            ("coherence", &["needless", "true_sharing", "false_sharing", "total"]),
        ] {
            for class in classes {
                assert!(between(table, class) > 0 || *class == "needless", "{table} {class}");
                assert_eq!(count(&found["total"], table, class), between(table, class), "{table} {class}");
                assert_eq!(rows(table, class), between(table, class), "{by:?} {table} {class}");
            }
        }
        let warnings = |document: &Value| document["warnings"].as_array().unwrap().len();
        assert_eq!(
            [warnings(&found), warnings(&all)],
            [0, 1],
            "only the first transactions find empty caches"
        );
    }
}

/// What each level holds decides which misses there are, and `simulate` counts the same ones.
#[test]
fn machines_with_more_caches_are_classified_where_they_keep_coherence() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let split = "cache.organisation=split";
    let cases: [&[&str]; 3] = [
        &["l2.size=256 KiB", "l2.sharing=private", "l3.size=1 MiB", "l3.sharing=shared"],
        &[split, "cache.replacement=tree-plru", "l2.size=256 KiB", "l2.sharing=group", "group.count=2"],
        &["interconnect.kind=network", "node.count=2", split, "l2.size=96 KiB", "l2.associativity=12"],
    ];
    let mut seen = Vec::new();
    for case in cases {
        let overrides = [&["processors=4", "cache.size=32 KiB"], case].concat();
        let asked = request(trace.clone(), &overrides);
        let document = classify(&asked, &ask(Some(Grouping::Line)), &mut |_| true).unwrap();
        let functional = RunSpec { functional: true, ..asked };
        let run = simulate(&functional, &mut |_| true).unwrap();
        let counted = &run["replications"][0];
        for table in ["misses", "coherence"] {
            assert_eq!(document["total"][table], counted[table], "{case:?} {table}");
            let rows = document["rows"].as_array().unwrap();
            let sum: u64 = rows.iter().map(|row| count(row, table, "total")).sum();
            assert_eq!(sum, count(&document["total"], table, "total"), "{case:?} {table}");
        }
        seen.push(count(&document["total"], "misses", "total"));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), cases.len(), "machines that differ miss differently: {seen:?}");
}

#[test]
fn halves_of_a_split_cache_are_told_apart_in_a_watched_line() {
    // Processor 0 runs what processor 1 then writes.
    let trace = text_trace("halves.txt", "0 I 1000 4 s\n1 S 1000 4 s\n");
    let question = Question { watch: Some(0x1000), ..ask(None) };
    let document =
        classify(&request(trace, &["cache.organisation=split"]), &question, &mut |_| true).unwrap();
    let steps = document["watch"]["steps"].as_array().unwrap();
    let lost = steps.iter().find(|step| step["to"] == "I").expect("the copy goes");
    let said = ["cpu", "cache", "by_cpu", "by_cache"].map(|key| &lost[key]);
    assert_eq!(serde_json::json!(said), serde_json::json!([0, "instruction", 1, "data"]), "{lost:#}");
}
