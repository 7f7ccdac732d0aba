//! One run of a text trace on a machine without random delays, from description to JSON.

use super::whole_trace::whole_trace;
use serde_json::Value;
use servsim_machine::{simulate, RunSpec};
use std::time::{Duration, Instant};

/// What takes longer never ends.
const LONGEST: Duration = Duration::from_mins(1);

/// The first replication of `trace` on `processors` processors and the rest of `machine`.
pub fn one_run(trace: &str, processors: usize, machine: &str, functional: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, trace).unwrap();
    let request = RunSpec {
        functional,
        ..whole_trace(
            path,
            format!("processors = {processors}\n[perturbation]\nmemory_delay = \"0 cycles\"\n{machine}"),
        )
    };
    let began = Instant::now();
    simulate(&request, &mut |_| began.elapsed() < LONGEST).unwrap()["replications"][0].clone()
}
