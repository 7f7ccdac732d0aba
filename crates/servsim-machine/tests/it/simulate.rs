//! A whole simulation from files to the result document.

use serde_json::Value;
use servsim_machine::{simulate, NodeOptions, RunSpec, SimulateError, Transactions};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

struct Files {
    _folder: tempfile::TempDir,
    trace: PathBuf,
}

/// Four tasks that share a page; every task ends a transaction each 50 references.
fn files() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    let mut text = String::new();
    for i in 0..2000_u64 {
        let task = i % 4;
        let address = if i % 7 == 0 { 0x9000 + i % 64 * 4 } else { ((task + 1) << 20) | (i * 36 % 32768) };
        let op = ["I", "L", "S"][(i % 3) as usize];
        let mode = if i % 5 == 0 { "k" } else { "u" };
        writeln!(text, "{task} {op} {address:x} 4 {mode}").unwrap();
        if i / 4 % 50 == 49 {
            writeln!(text, "{task} X kind{}", task % 2).unwrap();
        }
    }
    std::fs::write(&trace, text).unwrap();
    Files { _folder: folder, trace }
}

fn request(files: &Files) -> RunSpec {
    RunSpec {
        trace: files.trace.clone(),
        format: None,
        trace_hash: "sha256:0".into(),
        findings: None,
        machine: "[cache]\nsize = \"4 KiB\"\nline = \"64 B\"\n".into(),
        machine_file: "m.toml".into(),
        overrides: Vec::new(),
        functional: false,
        transactions: Transactions::Number(20),
        warmup: Some(4),
        start: servsim_machine::Start::Cold,
        users: None,
        nodes: NodeOptions::default(),
        replications: 4,
        seed: 3,
        threads: 2,
        watch: Arc::default(),
    }
}

fn run(request: &RunSpec) -> Value {
    simulate(request, &mut |_| true).unwrap()
}

#[test]
fn the_result_holds_everything_that_the_schema_promises() {
    let result = run(&request(&files()));
    assert_eq!(result["schema"], "servsim.simulate/1");
    assert_eq!(result["machine"]["cache"]["line"], "64 B");
    assert_eq!(result["trace"]["hash"], "sha256:0");
    let replications = result["replications"].as_array().unwrap();
    assert_eq!(replications.len(), 4);
    for (index, r) in replications.iter().enumerate() {
        assert_eq!(r["seed"], 3 + index as u64);
        assert_eq!(r["transactions"], 20);
        for key in
            ["references", "instructions", "cycles", "cycles_per_transaction", "gsp", "bus_utilization"]
        {
            assert!(r[key].as_f64().unwrap() > 0.0, "{key}");
        }
        assert_eq!(r["processor_utilization"].as_array().unwrap().len(), 4);
        for key in
            ["cold", "capacity", "conflict", "true_sharing", "false_sharing", "passive_sharing", "total"]
        {
            assert!(r["misses"][key]["user"].is_u64() && r["misses"][key]["kernel"].is_u64(), "{key}");
        }
        for key in ["read", "read_exclusive", "invalidate", "write", "write_back", "cache_to_cache"] {
            assert!(r["bus"][key].is_u64(), "{key}");
        }
        assert!(r["coherence"]["true_sharing"]["user"].is_u64());
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_threads() {
    let files = files();
    let text = |threads| run(&RunSpec { threads, ..request(&files) }).to_string();
    let one = text(1);
    assert_eq!(one, text(1));
    assert_eq!(one, text(3));
    assert_ne!(one, run(&RunSpec { seed: 4, ..request(&files) }).to_string());
}

#[test]
fn the_functional_engine_touches_exactly_the_recorded_references() {
    let files = files();
    let result =
        run(&RunSpec { functional: true, transactions: Transactions::All, warmup: None, ..request(&files) });
    let r = &result["replications"][0];
    assert_eq!(r["references"], 2000);
    assert_eq!(r["transactions"], 40);
    let by_task = r["tasks"].as_array().unwrap();
    let of_task = |task: &Value| -> u64 {
        ["fetch", "load", "store"]
            .iter()
            .map(|op| task[*op]["user"].as_u64().unwrap() + task[*op]["kernel"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(by_task.iter().map(of_task).collect::<Vec<_>>(), [500; 4]);
    assert!(r["cycles"].is_null());
    let codes: Vec<&Value> = result["warnings"].as_array().unwrap().iter().map(|w| &w["code"]).collect();
    assert_eq!(codes, ["began-empty", "run-once"], "all of a short trace, and no runs that differ");
}

#[test]
fn warnings_come_before_figures_that_would_mislead() {
    let files = files();
    let overrides = vec!["processors=16".to_owned()];
    let result = run(&RunSpec { replications: 2, overrides, ..request(&files) });
    let warnings = result["warnings"].to_string();
    for part in ["outnumber the ready tasks", "only 20 transactions", "too few for an interval"] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
}

#[test]
fn wrong_input_is_one_message_and_an_interruption_is_none() {
    let files = files();
    let usage = |request: RunSpec| match simulate(&request, &mut |_| true) {
        Err(SimulateError::Usage(message)) => message,
        other => panic!("{other:?}"),
    };
    let bad = RunSpec { machine: "procesors = 4\n[cache]\nline = \"48 B\"".into(), ..request(&files) };
    assert_eq!(usage(bad).lines().count(), 2, "all faults at once");
    let bad = RunSpec { format: Some("elf".into()), ..request(&files) };
    assert!(usage(bad).contains("accepted are servsim, text, raw16"));
    let bad = RunSpec { trace: "/nonexistent.txt".into(), ..request(&files) };
    assert!(usage(bad).contains("No such file"));
    let damaged = files.trace.with_extension("svt");
    std::fs::write(&damaged, b"not a trace").unwrap();
    assert!(!usage(RunSpec { trace: damaged, ..request(&files) }).is_empty());
    let stopped = simulate(&RunSpec { functional: true, warmup: None, ..request(&files) }, &mut |_| false);
    assert_eq!(stopped.unwrap_err(), SimulateError::Interrupted);
}

#[test]
fn a_hierarchy_is_counted_level_by_level() {
    let files = files();
    let machine = "[cache]\nsize = \"1 KiB\"\nline = \"64 B\"\norganisation = \"split\"\n\
                   [l2]\nsize = \"4 KiB\"\n[l3]\nsize = \"32 KiB\"\nsharing = \"shared\"\n";
    let functional = RunSpec { machine: machine.into(), functional: true, warmup: None, ..request(&files) };
    let result = run(&functional);
    let one = &result["replications"][0];
    let levels = one["levels"].as_array().unwrap();
    let names: Vec<_> = levels.iter().map(|level| level["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["l1i", "l1d", "l2", "l3"]);
    let count = |level: usize, key: &str| levels[level][key].as_u64().unwrap();
    let references = one["references"].as_u64().unwrap();
    let first = [0, 1].map(|level| count(level, "hits") + count(level, "misses"));
    assert!(first[0] + first[1] >= references && first[0] > 0);
    assert_eq!(count(2, "hits") + count(2, "misses"), count(0, "misses") + count(1, "misses"));
    assert_eq!(one["memory"]["reads"].as_u64().unwrap(), count(3, "misses"));
    for (index, key) in [(1, "evictions"), (2, "write_backs"), (3, "hits")] {
        assert!(count(index, key) > 0, "{index} {key}: {levels:#?}");
    }
}

fn wishing(transactions: Transactions, warmup: Option<u64>, files: &Files) -> RunSpec {
    RunSpec { transactions, warmup, replications: 3, ..request(files) }
}

#[test]
fn without_numbers_the_middle_half_of_the_trace_is_measured_on_every_machine() {
    let files = files();
    let chosen = wishing(Transactions::Chosen, None, &files);
    let result = run(&chosen);
    let options = &result["options"];
    assert_eq!((&options["warmup"], &options["transactions"]), (&10.into(), &20.into()));
    assert_eq!((&options["window"]["first"], &options["window"]["last"]), (&11.into(), &30.into()));
    for r in result["replications"].as_array().unwrap() {
        assert_eq!(r["transactions"], 20);
    }
    let asked = run(&wishing(Transactions::Number(20), Some(10), &files));
    assert_eq!(asked["replications"], result["replications"]);
    let wider =
        run(&RunSpec { overrides: vec!["processors=8".into(), "cache.size=32 KiB".into()], ..chosen });
    assert_eq!(wider["options"]["window"], options["window"]);
}

#[test]
fn a_window_of_references_begins_and_ends_where_so_many_have_been_made() {
    let files = files();
    let result = run(&wishing(Transactions::References(700), Some(500), &files));
    let counts = |key: &str| {
        result["replications"].as_array().unwrap().iter().map(|r| r[key].clone()).collect::<Vec<_>>()
    };
    for references in counts("references") {
        let references = references.as_u64().unwrap();
        assert!((700..1000).contains(&references), "{references}: at least, and hardly more");
    }
    // All of the time that passed is somewhere, and none from before or after.
    for r in result["replications"].as_array().unwrap() {
        for processor in r["processors"].as_array().unwrap() {
            let charged: u64 = processor.as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
            assert_eq!(charged, r["cycles"].as_u64().unwrap(), "{processor}");
        }
    }
    let options = &result["options"];
    assert_eq!((&options["references"], &options["warmup"]), (&700.into(), &500.into()));
    assert_eq!(options["window"]["warmup_references"], 500);
    let cold = run(&wishing(Transactions::References(700), Some(0), &files));
    assert!(cold["replications"][0]["misses"]["cold"] != result["replications"][0]["misses"]["cold"]);
    let as_many = run(&wishing(Transactions::References(700), None, &files));
    assert_eq!(as_many["options"]["warmup"], 700);
}

#[test]
fn a_trace_that_ends_before_so_many_references_says_so() {
    let files = files();
    let result = run(&wishing(Transactions::References(1900), Some(500), &files));
    let warnings = result["warnings"].as_array().unwrap();
    assert_eq!((&warnings[0]["rank"], &warnings[0]["code"]), (&"invalid".into(), &"exhausted".into()));
    let refused = |spec: &RunSpec| simulate(spec, &mut |_| true).unwrap_err().to_string();
    let unbegun = refused(&wishing(Transactions::References(10), Some(5000), &files));
    assert!(unbegun.contains("within the warm-up of 5000"), "{unbegun}");
    let functional = RunSpec { functional: true, ..wishing(Transactions::References(10), None, &files) };
    assert!(refused(&functional).contains("--transactions for --references"));
}

/// Four users, of whom one has ten times as many transactions as the others.
fn uneven() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    let mut text = String::new();
    for task in 0..4_u64 {
        for i in 0..if task == 0 { 2000 } else { 200 } {
            writeln!(text, "{task} L {:x} 4 u", (task + 1) << 20 | (i * 36 % 4096)).unwrap();
            if i % 20 == 19 {
                writeln!(text, "{task} X work").unwrap();
            }
        }
    }
    std::fs::write(&trace, text).unwrap();
    Files { _folder: folder, trace }
}

#[test]
fn a_window_in_which_users_have_run_out_of_work_is_invalid() {
    let files = uneven();
    let codes = |result: &Value| -> Vec<(String, String)> {
        let of = |w: &Value, key: &str| w[key].as_str().unwrap().to_owned();
        let found = result["warnings"].as_array().unwrap();
        found.iter().map(|w| (of(w, "rank"), of(w, "code"))).collect()
    };
    let whole = run(&wishing(Transactions::Number(130), Some(0), &files));
    assert_eq!(codes(&whole)[0], ("invalid".into(), "out-of-work".into()));
    let early = run(&wishing(Transactions::Number(30), Some(0), &files));
    assert!(codes(&early).iter().all(|(rank, _)| rank != "invalid"), "{early}");
}

#[test]
fn the_functional_engine_ends_with_the_transaction_that_was_asked_for() {
    let files = files();
    let of = |transactions, warmup| {
        let spec = RunSpec { functional: true, ..wishing(transactions, warmup, &files) };
        simulate(&spec, &mut |_| true)
    };
    let ten = of(Transactions::Number(10), None).unwrap();
    assert_eq!(ten["replications"][0]["transactions"], 10);
    assert_eq!(ten["options"]["transactions"], 10);
    let (all, found) = (of(Transactions::All, None).unwrap(), &ten["replications"][0]["references"]);
    assert!(found.as_u64() < all["replications"][0]["references"].as_u64(), "{found}");
    // Task 1 ends the tenth transaction, at its 150th reference; tasks 2 and 3 do so behind it.
    assert_eq!(found.as_u64(), Some(598));
    assert_eq!(all["options"]["transactions"], Value::Null);
    let refused = |result: Result<Value, SimulateError>| result.unwrap_err().to_string();
    assert!(refused(of(Transactions::Number(41), None)).contains("the trace holds 40"));
    assert!(refused(of(Transactions::Number(5), Some(3))).contains("--warm-up"));
}

#[test]
fn lines_known_before_the_measurement_are_not_counted_again() {
    let files = files();
    let lines = |warmup| {
        let result = run(&wishing(Transactions::Number(4), Some(warmup), &files));
        result["replications"][0]["distinct_lines"].as_u64().unwrap()
    };
    assert!(lines(30) < lines(0), "{} {}", lines(30), lines(0));
}

#[test]
fn of_many_replications_the_first_keep_what_happened_when_and_the_figures_are_those_of_all() {
    let files = files();
    let many = run(&RunSpec { replications: 35, ..request(&files) });
    let replications = many["replications"].as_array().unwrap();
    for (index, r) in replications.iter().enumerate() {
        for key in ["timeline", "windows", "activity"] {
            assert_eq!(r.get(key).is_some(), index < servsim_machine::DETAILED, "{key} of {index}");
        }
        assert!(r["cycles"].as_u64() > Some(0) && r["window_cycles"].is_u64(), "{index}");
    }
    let notes: Vec<&Value> =
        many["warnings"].as_array().unwrap().iter().filter(|w| w["code"] == "detail").collect();
    assert!(
        notes.len() == 1 && notes[0]["text"].as_str().unwrap().contains("the first 32 of 35"),
        "{notes:?}"
    );
    // The remedy of that note: the same run, with what was left out.
    let again = run(&RunSpec { seed: 3 + 34, replications: 1, ..request(&files) });
    let again = &again["replications"][0];
    assert_eq!(again["cycles"], replications[34]["cycles"]);
    assert_eq!(again["placement_digest"], replications[34]["placement_digest"]);
    assert!(again["timeline"].is_array());
}
