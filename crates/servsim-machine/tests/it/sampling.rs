//! Sampled simulation: what live-points belong to, that windows do not depend on who times them when, what is refused.

use crate::support::whole_trace::whole_trace;

use serde_json::Value;
use servsim_machine::sampling::{sample, Paces, Store, Wish};
use servsim_machine::{RunSpec, SimulateError, Start, Transactions};
use std::cell::Cell;
use std::path::{Path, PathBuf};

const MACHINE: &str = "processors = 1\n[cache]\nsize = \"64 KiB\"\n";

fn request(overrides: &[&str]) -> RunSpec {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    RunSpec {
        trace_hash: "sha256:0".into(),
        findings: None,
        overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        functional: false,
        transactions: Transactions::Number(3),
        warmup: Some(2),
        start: Start::Cold,
        replications: 1,
        threads: 1,
        ..whole_trace(trace, MACHINE)
    }
}

/// Times these windows, in this order and one round for each list.
fn timed(request: &RunSpec, store: &Store, rounds: &[&[usize]]) -> Result<Value, SimulateError> {
    let mut left = rounds.iter().peekable();
    sample(
        request,
        store,
        &mut |known| match left.next_if(|_| is_there(known)) {
            Some(round) => Ok(windows(round.iter().copied())),
            None => Ok(Wish::default()),
        },
        &mut |_| true,
    )
}

/// Whether the live-points are made.
fn is_there(known: &Value) -> bool {
    !known["points"].is_null()
}

fn windows(numbers: impl IntoIterator<Item = usize>) -> Wish {
    Wish { windows: numbers.into_iter().collect(), ..Wish::default() }
}

fn refused(request: &RunSpec, store: &Store) -> String {
    match timed(request, store, &[&[0]]) {
        Err(SimulateError::Usage(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn by_point(document: &Value) -> Vec<Value> {
    let mut windows = document["windows"].as_array().unwrap().clone();
    windows.sort_by_key(|window| window["point"].as_u64());
    windows
}

#[test]
fn a_window_depends_on_its_live_point_alone_and_machines_of_one_shape_share_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Folder(folder.path().to_owned());
    let first = timed(&request(&[]), &store, &[&[0, 3, 5]]).unwrap();
    assert_eq!(first["live_points"]["made"], true);
    let (points, range) = (first["points"].as_array().unwrap(), &first["range"]);
    assert!(points.len() > 5 && range["transactions"].as_u64() >= Some(3), "{range}");
    let sum = |key: &str| points.iter().map(|point| point["counts"][key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("misses") > 0 && sum("misses") < range["counts"]["misses"].as_u64().unwrap());
    let counted =
        |key: &str| points.iter().map(|point| point["counts"][key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(counted("memory_reads"), counted("misses"), "one processor has nobody else to supply a line");

    let number = |value: &Value| value.as_u64().unwrap();
    for place in points.iter().chain([range]) {
        for what in ["instructions", "references", "misses", "memory_reads"] {
            let of_names: u64 =
                place["groups"].as_object().unwrap().values().map(|of| number(&of[what])).sum();
            assert_eq!(of_names, number(&place["counts"][what]), "{what}");
        }
    }
    // Tasks take turns at other times in some windows than in the pass, not in all.
    let agrees = |window: &Value| {
        let groups = window["groups"].as_object().unwrap();
        let (most, of) = groups.iter().max_by_key(|(_, of)| number(&of[0])).unwrap();
        let of_pass = &points[number(&window["point"]) as usize]["groups"][most]["instructions"];
        of_pass.as_u64().is_some_and(|counted| counted.abs_diff(number(&of[0])) < 10_000)
    };
    assert!(by_point(&first).iter().any(agrees), "{:?}", by_point(&first));

    let again = timed(&RunSpec { threads: 2, ..request(&[]) }, &store, &[&[5, 0], &[3]]).unwrap();
    assert_eq!(again["live_points"]["made"], false);
    assert_eq!(by_point(&again), by_point(&first));

    let faster =
        timed(&request(&["bus.memory_read=10 cycles", "disk.read_time=1 ms"]), &store, &[&[0, 3, 5]])
            .unwrap();
    assert_eq!(faster["live_points"]["made"], false, "timings do not matter");
    for (slow, fast) in by_point(&first).iter().zip(by_point(&faster)) {
        assert!(slow["cycles"].as_u64() > fast["cycles"].as_u64(), "{slow} {fast}");
        let measured = slow["instructions"].as_u64().unwrap();
        assert!((100_000..110_000).contains(&measured), "{slow}");
        let each = |window: &Value| {
            let (reads, cycles) = (number(&window["memory_reads"]), number(&window["memory_reads_take"]));
            assert!(0 < reads && reads <= number(&window["misses"]), "{window}");
            assert!(cycles <= number(&window["transactions_take"]), "{window}");
            cycles / reads
        };
        let gap = each(slow) - each(&fast);
        assert!((52..=56).contains(&gap), "64 cycles and 10, a block and some delay besides: {gap}");
    }
    let wider = timed(&request(&["cache.size=128 KiB"]), &store, &[&[0]]).unwrap();
    assert_eq!(wider["live_points"]["made"], true, "another shape has its own");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let two = timed(&request(&["processors=2"]), &store, &[&[0]]).unwrap();
    let of = |key: &str| two["range"]["counts"][key].as_u64().unwrap();
    assert!(0 < of("memory_reads") && of("memory_reads") < of("misses"), "caches supply one another");
}

#[test]
fn live_points_of_something_else_and_damaged_ones_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.live");
    let store = Store::File(path.clone());
    timed(&request(&[]), &store, &[&[0]]).unwrap();
    let why = refused(&request(&["cache.size=128 KiB"]), &store);
    assert!(
        why.contains("cache.size was 64 KiB, and is 128 KiB here") && why.contains("--live-points"),
        "{why}"
    );
    let other = RunSpec { trace_hash: "sha256:1".into(), ..request(&[]) };
    assert!(refused(&other, &store).contains("made from the trace quickstart.svt (sha256:0)"));
    let fewer = RunSpec { transactions: Transactions::Number(2), ..request(&[]) };
    assert!(refused(&fewer, &store).contains("sampled transactions was 3 to 5, and is 3 to 4 here"));

    let bytes = std::fs::read(&path).unwrap();
    let with = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        refused(&request(&[]), &store)
    };
    let flipped = |place: usize| {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1;
        flipped
    };
    for cut in [12, 20, bytes.len() / 2, bytes.len() - 1] {
        assert!(with(&bytes[..cut]).contains("damaged"), "{cut}");
    }
    assert!(with(&bytes[..5]).contains("holds no live-points"));
    for place in [30, bytes.len() - 2, bytes.len() - 8, bytes.len() - 40] {
        assert!(with(&flipped(place)).contains("damaged"), "{place}");
    }
    assert!(with(&flipped(9)).contains("format"));

    // In the cache they are made again.
    let cache = Store::Folder(folder.path().join("cache"));
    std::fs::create_dir(folder.path().join("cache")).unwrap();
    let first = timed(&request(&[]), &cache, &[&[0]]).unwrap();
    let cached = PathBuf::from(first["live_points"]["file"].as_str().unwrap());
    std::fs::write(&cached, &bytes[..bytes.len() / 2]).unwrap();
    let again = timed(&request(&[]), &cache, &[&[0]]).unwrap();
    assert_eq!((&again["live_points"]["made"], &again["windows"]), (&Value::Bool(true), &first["windows"]));
}

#[test]
fn an_interruption_keeps_the_windows_that_had_ended_and_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.live");
    let store = Store::File(path.clone());
    let stopped = sample(&request(&[]), &store, &mut |_| Ok(windows([0])), &mut |_| false);
    assert_eq!(stopped.err(), Some(SimulateError::Interrupted));
    assert!(!path.exists(), "the pass was stopped");
    // Stopped in the second round, which is all windows: far more than end before anybody asks.
    let stop = Cell::new(false);
    let mut choose = |known: &Value| {
        if known["windows"].as_array().is_none_or(Vec::is_empty) {
            return Ok(windows([1, 0]));
        }
        stop.set(true);
        Ok(windows((0..known["points"].as_array().unwrap().len()).cycle().take(2_000)))
    };
    let kept = sample(&request(&[]), &store, &mut choose, &mut |_| !stop.get()).unwrap();
    assert_eq!(kept["interrupted"], true);
    let windows = kept["windows"].as_array().unwrap();
    assert!((2..2_000).contains(&windows.len()), "{}", windows.len());
    assert_eq!((&windows[0]["point"], &windows[1]["point"]), (&1.into(), &0.into()));
}

#[test]
fn who_chooses_is_asked_before_live_points_are_made_and_who_waits_is_told_of_each_stage() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Folder(folder.path().to_owned());
    let mut first = vec![];
    for _ in 0..2 {
        let asked = request(&[]);
        let (mut stages, mut known_first) = (vec![], None);
        let mut choose = |known: &Value| {
            known_first.get_or_insert_with(|| known.clone());
            let timed = known["windows"].as_array().is_none_or(|windows| !windows.is_empty());
            Ok(if timed { Wish::default() } else { Wish { coarse: vec![Paces::default()], ..windows([2]) } })
        };
        let mut proceed = |_| {
            let stage = asked.watch.stage();
            if stages.last().is_none_or(|&(what, _)| what != stage.what) {
                stages.push((stage.what, stage.of));
            }
            true
        };
        sample(&asked, &store, &mut choose, &mut proceed).unwrap();
        first.push((stages, known_first.unwrap()));
    }
    let (made, known) = &first[0];
    assert_eq!(known["range"]["window"], serde_json::json!({"warmup": 50_000, "measured": 100_000}));
    assert_eq!((&known["points"], &known["range"]["transactions"]), (&Value::Null, &3.into()));
    let names = |stages: &[(&'static str, u64)]| stages.iter().map(|&(what, _)| what).collect::<Vec<_>>();
    assert_eq!(names(made), ["live-points", "windows", "coarse runs"]);
    let (there, known) = &first[1];
    assert!(known["points"].is_array());
    assert_eq!(names(there), ["windows", "coarse runs"]);
    assert!((150_000..300_000).contains(&there[0].1), "references of a window: {there:?}");
    assert_eq!(there[1].1, 1);
}

#[test]
fn who_insists_on_stopping_does_not_wait_for_coarse_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Folder(folder.path().to_owned());
    // Far more than end before anybody asks.
    for (asks, count) in [(1, 2), (2, 2_000)] {
        let asked = request(&[]);
        let mut choose = |known: &Value| {
            let done = |key: &str| known[key].as_array().is_some_and(|done| !done.is_empty());
            let coarse =
                if done("windows") && !done("coarse") { vec![Paces::default(); count] } else { vec![] };
            Ok(Wish { coarse, ..windows((!done("windows")).then_some(0)) })
        };
        // On a busy host it is asked more than once in that stage; whoever stops each time insists.
        let mut stops = asks;
        let mut proceed = |_| {
            if asked.watch.stage().what == "coarse runs" {
                (0..std::mem::take(&mut stops)).for_each(|_| asked.watch.stop());
            }
            asked.watch.goes_on()
        };
        let found = sample(&asked, &store, &mut choose, &mut proceed);
        match found {
            Ok(kept) => assert_eq!(
                (asks, &kept["interrupted"], kept["coarse"].as_array().unwrap().len()),
                (1, &true.into(), 2)
            ),
            Err(error) => assert_eq!((asks, error), (2, SimulateError::Interrupted)),
        }
    }
}

#[test]
fn a_first_pass_can_be_stopped() {
    let asked = request(&[]);
    asked.watch.stop();
    let store = Store::File(PathBuf::from("/nowhere/w.live"));
    assert_eq!(timed(&asked, &store, &[&[0]]).err(), Some(SimulateError::Interrupted));
}

#[test]
fn what_cannot_be_sampled_is_refused_before_anything_is_read() {
    let store = Store::File(PathBuf::from("/nowhere/w.live"));
    let functional = RunSpec { functional: true, ..request(&[]) };
    assert!(refused(&functional, &store).contains("leave out --engine functional"));
    let warm = RunSpec { start: Start::Checkpoint("c".into()), ..request(&[]) };
    assert!(refused(&warm, &store).contains("leave out --functional-warm-up"));
    let all = RunSpec { transactions: Transactions::All, ..request(&[]) };
    assert!(refused(&all, &store).contains("leave out --transactions all"));
    let text = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
    std::fs::write(text.path(), "0 L 1000\n").unwrap();
    let unmarked = RunSpec { trace: text.path().to_owned(), ..request(&[]) };
    assert!(refused(&unmarked, &store).contains("or leave out --precision, --transactions and --warm-up"));
    assert!(
        refused(&request(&["prefetch.policy=next-line"]), &store).contains("neither TLBs nor prefetchers")
    );
}

/// Coarse runs of three transactions at these cycles for a reference, jitters and seeds.
fn coarse(request: &RunSpec, store: &Store, runs: &[(f64, f64, u64)]) -> Vec<Value> {
    let mut wish = Some(Wish {
        windows: vec![0],
        coarse: runs
            .iter()
            .map(|&(pace, jitter, seed)| Paces {
                seed,
                jitter,
                groups: [(String::new(), [pace, 0.0])].into(),
            })
            .collect(),
    });
    let mut choose = |known: &Value| Ok(wish.take_if(|_| is_there(known)).unwrap_or_default());
    let found = sample(request, store, &mut choose, &mut |_| true).unwrap();
    found["coarse"].as_array().unwrap().clone()
}

#[test]
fn a_coarse_run_at_the_pace_of_a_machine_without_misses_is_a_full_run_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Folder(folder.path().to_owned());
    // Next to nothing but references takes time: the pace is two cycles each.
    let free = [
        "cache.size=16 MiB",
        "bus.memory_read=1 cycles",
        "bus.memory_hold=1 cycles",
        "bus.invalidate=1 cycles",
        "bus.write=1 cycles",
        "bus.cache_read=1 cycles",
        "bus.write_back=1 cycles",
        "bus.bytes_per_cycle=64 B",
        "perturbation.memory_delay=0 cycles",
    ];
    let request = request(&free);
    let full = servsim_machine::simulate(&request, &mut |_| true).unwrap();
    let full = &full["replications"][0];
    let runs = coarse(&request, &store, &[(2.0, 0.0, 1), (4.0, 0.0, 1), (2.0, 0.5, 1), (2.0, 0.5, 2)]);
    let number = |value: &Value| value.as_f64().unwrap();
    let near = |key: &str| (number(&runs[0][key]) / number(&full[key]) - 1.0).abs();
    assert!(
        near("cycles") < 0.05 && near("instructions") < 0.02,
        "{} {} {}",
        runs[0],
        full["cycles"],
        full["instructions"]
    );
    assert_eq!(runs[0]["transactions"], 3);
    assert!(number(&runs[1]["cycles"]) > 1.5 * number(&runs[0]["cycles"]), "{} {}", runs[0], runs[1]);
    assert_ne!(runs[2]["cycles"], runs[3]["cycles"], "jitter");
    assert_eq!(coarse(&request, &store, &[(2.0, 0.5, 2)]), runs[3..], "of the seed alone");
}
