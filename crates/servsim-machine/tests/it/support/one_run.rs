//! One run of a text trace on a machine without random delays, from description to JSON.

use serde_json::Value;
use servsim_machine::{simulate, RunSpec};

/// The first replication of `trace` on `processors` processors and the rest of `machine`.
pub fn one_run(trace: &str, processors: usize, machine: &str, functional: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, trace).unwrap();
    let request = RunSpec {
        trace: path,
        format: None,
        trace_hash: String::new(),
        machine: format!("processors = {processors}\n[perturbation]\nmemory_delay = \"0 cycles\"\n{machine}"),
        machine_file: "m.toml".into(),
        overrides: Vec::new(),
        functional,
        transactions: servsim_machine::Transactions::All,
        warmup: Some(0),
        start: servsim_machine::Start::Cold,
        users: None,
        replications: 1,
        seed: 1,
        threads: 1,
    };
    simulate(&request, &mut |_| true).unwrap()["replications"][0].clone()
}
