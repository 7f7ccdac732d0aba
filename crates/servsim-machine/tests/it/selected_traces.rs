//! Whatever is cut, sampled or merged from a trace can be simulated to its end, and holds the transactions that it
//! should.

use crate::support::every_machine::{run, MACHINES};
use crate::support::small_trace::{self, SERVER, TRANSACTIONS};

use servsim_trace::{cut, merge, sample, statistics, Selection, TraceReader};
use std::path::Path;
use std::sync::Arc;

/// Runs the trace at `path` on every machine: `transactions` end in it.
fn runs(path: &Path, transactions: u64, what: &str) {
    for (name, functional, machine) in MACHINES {
        let result =
            run(path, functional, machine).unwrap_or_else(|sentence| panic!("{what}, {name}: {sentence}"));
        assert_eq!(result["replications"][0]["transactions"], transactions, "{what}, {name}");
    }
}

#[test]
fn every_cut_sample_and_merge_can_be_timed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, output) = (folder.path().join("whole.svt"), folder.path().join("made.svt"));
    small_trace::write(&path);
    let whole = Arc::new(TraceReader::open(&path).unwrap());
    for from in 0..TRANSACTIONS {
        let part = Selection { transactions: Some(from..TRANSACTIONS), ..Selection::default() };
        cut(&whole, &output, &part).unwrap();
        runs(&output, TRANSACTIONS - from, &format!("without the first {from}"));
    }
    let server = Selection { pids: Some(vec![SERVER]), ..Selection::default() };
    cut(&whole, &output, &server).unwrap();
    runs(&output, 0, "the server alone");
    for (keep, of, left) in [(1, 2, 2), (2, 3, 2), (1, 1, 3)] {
        sample(&whole, &output, keep, of).unwrap();
        runs(&output, left, &format!("{keep} of {of}"));
        let sampled = Arc::new(TraceReader::open(&output).unwrap());
        let merged = folder.path().join("merged.svt");
        merge(&[whole.clone(), sampled, whole.clone()], &merged).unwrap();
        runs(&merged, 2 * TRANSACTIONS + left, &format!("{keep} of {of} between two whole ones"));
    }
}

#[test]
fn merged_traces_run_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let (path, output) = (folder.path().join("whole.svt"), folder.path().join("made.svt"));
    small_trace::write(&path);
    let whole = Arc::new(TraceReader::open(&path).unwrap());
    merge(&[whole.clone(), whole], &output).unwrap();
    // A disk for each request and no lock: nothing that both have in common is waited for.
    let machine = "processors = 2\n[disk]\nparallel = 64\n[locks]\narbitrated = \"off\"\n";
    let cycles = |path| run(path, false, machine).unwrap()["replications"][0]["cycles"].as_u64().unwrap();
    let (one, both) = (cycles(&path), cycles(&output));
    assert!(both < one + one / 4, "{both} cycles of both, {one} of one");
}

#[test]
fn a_cut_at_any_moment_can_be_timed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, output) = (folder.path().join("whole.svt"), folder.path().join("made.svt"));
    small_trace::write(&path);
    let whole = Arc::new(TraceReader::open(&path).unwrap());
    // Steps of events are 700 ns: every edge lies between other events, many within the run of a handler.
    let end = statistics(&whole).unwrap().duration_ns;
    // Before and after, nobody executes anything.
    for edge in (8_000..end - 8_000).step_by(2_100) {
        for range in [0..edge, edge..u64::MAX] {
            let what = format!("{range:?} ns");
            cut(&whole, &output, &Selection { time_ns: Some(range), ..Selection::default() }).unwrap();
            for (name, functional, machine) in MACHINES {
                run(&output, functional, machine)
                    .unwrap_or_else(|sentence| panic!("{what}, {name}: {sentence}"));
            }
        }
    }
}
