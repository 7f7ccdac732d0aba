//! One run of a text trace on a machine without random delays, from description to JSON.

use super::whole_trace::whole_trace;
use serde_json::Value;
use servsim_machine::{simulate, RunSpec};

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
    simulate(&request, &mut |_| true).unwrap()["replications"][0].clone()
}
