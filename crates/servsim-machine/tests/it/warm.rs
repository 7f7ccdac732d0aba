//! Warm starts: what they keep, what they save, what they refuse.

use crate::support::handlers::WithHandlers;
use crate::support::setup::setup;
use crate::support::whole_trace::whole_trace;

use serde_json::Value;
use servsim_config::Machine;
use servsim_core::{Batch, Event, Interrupt, Op, Record, TaskInfo, TaskKind};
use servsim_import::InMemory;
use servsim_machine::timing::Model;
use servsim_machine::warm::{warm_up, Amount, WarmStart};
use servsim_machine::{simulate, RunSpec, SimulateError, Start};
use servsim_mem::snapshot::{Reader, Writer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn quickstart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt")
}

const MACHINE: &str =
    "processors = 2\n[cache]\nsize = \"64 KiB\"\n[classification]\nreplacement = \"exact\"\n";

fn request(trace: PathBuf, start: Start, overrides: &[&str]) -> RunSpec {
    RunSpec {
        trace_hash: "sha256:0".into(),
        findings: None,
        overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        functional: false,
        transactions: servsim_machine::Transactions::Number(2),
        start,
        replications: 2,
        threads: 2,
        watch: Arc::default(),
        ..whole_trace(trace, MACHINE)
    }
}

fn run(request: &RunSpec) -> Result<Value, SimulateError> {
    simulate(request, &mut |_| true)
}

fn functional(amount: Amount, save: Option<&Path>) -> Start {
    Start::Functional { amount, save: save.map(Path::to_path_buf) }
}

fn refused(request: &RunSpec) -> String {
    match run(request) {
        Err(SimulateError::Usage(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_from_a_checkpoint_is_the_run_that_warmed_by_itself_also_with_other_free_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("warm.check");
    let warm = functional(Amount::Transactions(3), Some(&file));
    let first = run(&request(quickstart(), warm, &[])).unwrap();
    for variant in [
        &[][..],
        &["bus.bytes_per_cycle=32 B", "clock=2 GHz"],
        &["processor.model=ooo", "bus.memory_read=100 cycles", "disk.read_time=1 ms"],
    ] {
        let from = run(&request(quickstart(), Start::Checkpoint(file.clone()), variant)).unwrap();
        let own = run(&request(quickstart(), functional(Amount::Transactions(3), None), variant)).unwrap();
        assert!(from == own, "{variant:?}");
        assert_eq!(variant.is_empty(), from == first, "{variant:?}");
    }
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["warm.check"], "nothing but the checkpoint is left");
}

#[test]
fn every_level_and_policy_begins_warm() {
    let shape = [
        "cache.organisation=split",
        "cache.replacement=srrip",
        "l2.size=256 KiB",
        "l2.associativity=4",
        "l2.replacement=tree-plru",
        "l3.size=1 MiB",
        "l3.associativity=8",
        "l3.sharing=shared",
        "scheduler.policy=affinity",
        "protocol.name=moesi",
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("warm.check");
    let own = run(&request(quickstart(), functional(Amount::References(2_000_000), Some(&file)), &shape));
    let from = run(&request(quickstart(), Start::Checkpoint(file), &shape));
    assert!(from.unwrap() == own.unwrap());
}

#[test]
fn warm_caches_have_far_fewer_cold_misses() {
    let cold = |start| {
        let result = run(&request(quickstart(), start, &["cache.size=2 MiB"])).unwrap();
        result["replications"][0]["misses"]["cold"]["user"].as_u64().unwrap()
    };
    let (empty, warm) = (cold(Start::Cold), cold(functional(Amount::Transactions(3), None)));
    assert!(warm * 3 < empty, "{warm} after a warm-up, {empty} without");
}

#[test]
fn nobody_is_told_to_warm_by_the_whole_trace_who_did() {
    let texts = |start| {
        let result = run(&request(quickstart(), start, &["l2.size=4 MiB", "l2.sharing=shared"])).unwrap();
        result["warnings"].to_string()
    };
    let cold = texts(Start::Cold);
    assert!(cold.contains("began empty"));
    assert!(cold.contains("--functional-warm-up 'whole trace' shows"));
    assert!(!texts(functional(Amount::Whole, None)).contains("--functional-warm-up"));
}

#[test]
fn references_that_are_told_grow_from_the_warm_up_to_the_last_run() {
    let mut told = Vec::new();
    let request = request(quickstart(), functional(Amount::Transactions(3), None), &[]);
    let result = simulate(&request, &mut |references| {
        told.push(references);
        true
    })
    .unwrap();
    assert!(told.is_sorted());
    let warmed = result["options"]["functional_warmup_references"].as_u64().unwrap();
    let runs = result["replications"].as_array().unwrap();
    let measured: u64 = runs.iter().map(|run| run["references"].as_u64().unwrap()).sum();
    // The first is told while it warms, the last when all runs are over.
    assert!(told[0] < warmed && *told.last().unwrap() >= warmed + measured);
}

#[test]
fn after_the_whole_trace_it_begins_again_and_nothing_is_cold() {
    let overrides = ["processors=1", "cache.size=32 MiB", "locks.arbitrated=off"];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("warm.check");
    let all = |start| {
        let once = RunSpec {
            transactions: servsim_machine::Transactions::All,
            replications: 1,
            ..request(quickstart(), start, &overrides)
        };
        let result = run(&once).unwrap();
        let found = &result["replications"][0];
        let cold: Vec<u64> =
            ["user", "kernel"].iter().map(|who| found["misses"]["cold"][who].as_u64().unwrap()).collect();
        (found["references"].as_u64(), found["transactions"].as_u64(), cold, result)
    };
    let (empty, warm) = (all(Start::Cold), all(functional(Amount::Whole, Some(&file))));
    assert_eq!((empty.0, empty.1), (warm.0, warm.1), "all of it is measured");
    assert!(empty.2.iter().all(|&cold| cold > 1000), "{:?}", empty.2);
    assert_eq!(warm.2, [0, 0]);
    assert_eq!(warm.3["options"]["functional_warmup_references"].as_u64(), empty.0);
    assert!(all(Start::Checkpoint(file)).3["replications"] == warm.3["replications"]);
}

#[test]
fn no_reference_is_lost_or_made_twice_where_the_warm_up_ends() {
    let overrides = ["locks.arbitrated=off"];
    let total = |start| {
        let all = RunSpec {
            transactions: servsim_machine::Transactions::All,
            replications: 1,
            ..request(quickstart(), start, &overrides)
        };
        let result = run(&all).unwrap();
        let warm = result["options"]["functional_warmup_references"].as_u64().unwrap_or(0);
        (warm, warm + result["replications"][0]["references"].as_u64().unwrap())
    };
    let (_, whole) = total(Start::Cold);
    for amount in [Amount::References(1_000_000), Amount::Transactions(6)] {
        let (warm, sum) = total(functional(amount, None));
        assert!(warm > 100_000 && warm < whole);
        assert_eq!(sum, whole, "{amount}");
    }
}

#[test]
fn another_shape_or_trace_is_refused_with_both_values_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("warm.check");
    run(&request(quickstart(), functional(Amount::References(50_000), Some(&file)), &[])).unwrap();
    let before = std::fs::read(&file).unwrap();
    let from = || Start::Checkpoint(file.clone());
    let why = refused(&request(quickstart(), from(), &["cache.size=128 KiB"]));
    assert!(why.contains("cache.size was 64 KiB, and is 128 KiB here"), "{why}");
    assert!(!why.contains("processors"), "{why}");
    let two = ["processors=4", "protocol.name=moesi", "bus.bytes_per_cycle=16 B"];
    let why = refused(&request(quickstart(), from(), &two));
    assert!(why.contains("processors was 2, and is 4 here; protocol.name was mesi, and is moesi"), "{why}");
    assert!(!why.contains("bus"), "{why}");
    let other = RunSpec { trace_hash: "sha256:1".into(), ..request(quickstart(), from(), &[]) };
    let why = refused(&other);
    assert!(why.contains("made from the trace quickstart.svt (sha256:0)"), "{why}");
    let functional = RunSpec { functional: true, ..request(quickstart(), from(), &[]) };
    assert!(refused(&functional).contains("--engine timing"));
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_warm_up_longer_than_the_trace_is_refused() {
    let long = functional(Amount::Transactions(100_000), None);
    let why = refused(&request(quickstart(), long, &[]));
    assert!(why.contains("longer than the trace") && why.contains("--functional-warm-up"), "{why}");
}

/// A small checkpoint of a text trace: its file, and a request that begins from it.
fn small(folder: &Path) -> (PathBuf, RunSpec) {
    let trace = folder.join("t.txt");
    let lines: String = (0..400)
        .map(|i| format!("{} {} {:x}\n", i % 3, ["L", "S"][i % 2], i * 52 % 4096))
        .collect::<Vec<_>>()
        .concat();
    std::fs::write(&trace, lines).unwrap();
    let file = folder.join("small.check");
    let shape = ["cache.size=256 B", "cache.line=64 B"];
    let warm = functional(Amount::References(200), Some(&file));
    let mut made = request(trace, warm, &shape);
    made.transactions = servsim_machine::Transactions::All;
    run(&made).unwrap();
    made.start = Start::Checkpoint(file.clone());
    (file, made)
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_checkpoint_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (file, request) = small(folder.path());
    run(&request).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.len() < 10_000, "{} bytes", bytes.len());
    let refusal = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        let why = refused(&request);
        assert!(why.contains("damaged") || why.contains("is no checkpoint"), "{why}");
    };
    for place in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << (place % 8);
        refusal(&flipped);
        refusal(&bytes[..place]);
    }
    refusal(&[bytes.as_slice(), b"x"].concat());
}

#[test]
fn options_that_do_not_fit_together_are_refused() {
    let why = |amount, save: Option<&str>, from: Option<&str>| match Start::of(
        amount,
        save.map(PathBuf::from),
        from.map(PathBuf::from),
    ) {
        Err(SimulateError::Usage(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(why(Some("3"), None, Some("c")).contains("leave out --functional-warm-up"));
    assert!(why(None, Some("c"), None).contains("--functional-warm-up 200"));
    assert!(why(Some("some"), None, None).contains("write a number"));
    assert_eq!(Start::of(None, None, None), Ok(Start::Cold));
}

#[test]
fn a_request_that_is_complete_but_not_the_last_of_its_handler_stays_known() {
    // A handler waits for request 1, which a task submits at once, and for 2, which comes after the warm-up.
    let work = |task: u32, batch: &mut Batch| {
        let mut record = Record::new(task, Op::Fetch, 0x1000 * u64::from(task), 4);
        record.cpu = 250;
        batch.records.extend(vec![record; 8000]);
    };
    let submit = |task: u32, batch: &mut Batch, request: u64| {
        let (device, sector, bytes, write) = (0, 0, 4096, false);
        batch.push_event(task, Event::IoSubmit { request, device, sector, bytes, write });
    };
    let (mut first, mut second) = (Batch::default(), Batch::default());
    submit(0, &mut first, 1);
    work(0, &mut first);
    work(1, &mut second);
    submit(1, &mut second, 2);
    let tasks = vec![TaskInfo { name: "t".into(), pid: 0, kind: TaskKind::User, client: false }; 2];
    let inner = InMemory::from_streams(tasks, Vec::new(), vec![first, second]);
    let handler = Interrupt { requests: vec![1, 2], ..Interrupt::default() };
    let source = WithHandlers { inner, handlers: vec![handler] };
    let machine = Machine::from_toml("processors = 2", "test", &[]).unwrap();
    let shape = Model::new(&machine, &setup(&machine), None, 0).shape();
    let start = warm_up(&source, &shape, Amount::References(2_000_000), &mut |_| true).unwrap();
    assert_eq!((start.submitted.as_slice(), start.requests.as_slice()), (&[1][..], &[][..]));
    assert_eq!(start.handlers, [Some(1)]);
    let mut saved = Writer::default();
    start.save(&mut saved);
    let bytes = saved.into_bytes();
    let restored = WarmStart::restore((2, 1, 2), &mut Reader::new(&bytes)).unwrap();
    assert_eq!(WarmStart { caches: start.caches.clone(), ..restored }, start);
}

#[test]
fn what_waits_for_a_request_that_never_comes_goes_on_in_a_warm_up_when_all_have_come_to_rest() {
    let info = |kind| TaskInfo { name: "t".into(), pid: 0, kind, client: false };
    let work = |batch: &mut Batch, task, count: u64| {
        batch.records.extend((0..count).map(|i| {
            let mut record = Record::new(task, Op::Load, i * 64, 8);
            record.cpu = 1;
            record
        }));
    };
    let (mut sleeper, mut busy) = (Batch::default(), Batch::default());
    sleeper.push_event(0, Event::Block { wake: Some(9) });
    sleeper.push_event(0, Event::Sleep { nanos: 5000 });
    work(&mut sleeper, 0, 10);
    work(&mut busy, 1, 300);
    let mut handler = Interrupt { requests: vec![5], ..Interrupt::default() };
    handler.batch.push_event(2, Event::Wake { wake: 9 });
    let infos = [TaskKind::User, TaskKind::User, TaskKind::Interrupt].map(info).into();
    let inner = InMemory::from_streams(infos, Vec::new(), vec![sleeper, busy, Batch::default()]);
    let source = WithHandlers { inner, handlers: vec![handler] };
    let machine = Machine::from_toml("processors = 2", "test", &[]).unwrap();
    let shape = Model::new(&machine, &setup(&machine), None, 0).shape();
    // It sleeps from where the other came to rest, and then makes its references.
    let start = warm_up(&source, &shape, Amount::References(301), &mut |_| true).unwrap();
    assert_eq!((start.references, start.positions.as_slice()), (310, &[12, 300, 0][..]));
}
