//! A run from the first reference of a trace to its last, once, without warm-up.

use servsim_machine::{NodeOptions, RunSpec, Start, Transactions};
use std::path::PathBuf;
use std::sync::Arc;

/// All of `trace` on the described machine, functionally.
pub fn whole_trace(trace: impl Into<PathBuf>, machine: impl Into<String>) -> RunSpec {
    RunSpec {
        trace: trace.into(),
        format: None,
        trace_hash: String::new(),
        findings: None,
        machine: machine.into(),
        machine_file: "m.toml".into(),
        overrides: Vec::new(),
        functional: true,
        transactions: Transactions::All,
        warmup: Some(0),
        start: Start::Cold,
        users: None,
        nodes: NodeOptions::default(),
        replications: 1,
        seed: 1,
        threads: 1,
        watch: Arc::default(),
    }
}
