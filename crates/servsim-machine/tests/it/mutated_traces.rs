//! Whatever a trace claims, a simulation of it ends: with a result, or with one sentence that blames the trace.
//! Never with an internal fault, and never not at all.
//!
//! The corpus holds mutants that once ended otherwise. `SERVSIM_MUTANTS` sets how many fresh ones are tried, and
//! `SERVSIM_MUTANTS_SEED` with which seed; those that fail are written to `SERVSIM_MUTANTS_KEEP`.

use crate::support::every_machine::{run, MACHINES};
use crate::support::mutation;
use crate::support::small_trace;

use servsim_core::RandomStream;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// Mutants tried in a quick test.
const QUICK: u64 = 400;
/// Threads that try mutants; most of their time is waiting.
const THREADS: usize = 4;

/// What goes wrong with the trace at `path`, if anything does: the machine and the fault.
fn fault(path: &Path) -> Option<String> {
    MACHINES.iter().find_map(|(name, functional, machine)| {
        let panic = catch_unwind(|| run(path, *functional, machine)).err()?;
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Some(format!("{name}: {}", text.unwrap_or_default()))
    })
}

#[test]
fn the_trace_that_is_mutated_runs_on_every_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.svt");
    small_trace::write(&path);
    for (name, functional, machine) in MACHINES {
        let result = run(&path, functional, machine).unwrap_or_else(|sentence| panic!("{name}: {sentence}"));
        let transactions = &result["replications"][0]["transactions"];
        assert_eq!(*transactions, small_trace::TRANSACTIONS, "{name}");
    }
}

#[test]
fn every_trace_of_the_corpus_is_refused_or_simulated() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "svt"));
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        assert_eq!(fault(&path), None, "{}", path.display());
    }
}

#[test]
fn every_mutant_is_refused_or_simulated() {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (count, seed) =
        (given("SERVSIM_MUTANTS").unwrap_or(QUICK), given("SERVSIM_MUTANTS_SEED").unwrap_or(1));
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.svt");
    small_trace::write(&whole);
    let whole = std::fs::read(&whole).unwrap();
    let (next, faults) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let work = |thread: usize| loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return;
        }
        let mut random = RandomStream::new(seed.wrapping_add(number), "mutants");
        let mutant = mutation::mutant(&whole, &mut random);
        let path = folder.path().join(format!("{thread}.svt"));
        std::fs::write(&path, &mutant).unwrap();
        if let Some(fault) = fault(&path) {
            if let Ok(keep) = std::env::var("SERVSIM_MUTANTS_KEEP") {
                std::fs::write(Path::new(&keep).join(format!("{}.svt", seed.wrapping_add(number))), &mutant)
                    .unwrap();
            }
            faults.lock().unwrap().push(format!("seed {}: {fault}", seed.wrapping_add(number)));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {count} mutants:\n{}", faults.len(), faults.join("\n"));
}
