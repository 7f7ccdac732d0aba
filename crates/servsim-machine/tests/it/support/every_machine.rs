//! Runs of a captured trace on machines that together use everything a trace holds.

use super::whole_trace::whole_trace;
use servsim_machine::{simulate, RunSpec, SimulateError};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

/// Looks, 20 ms apart, after which a run of some hundred items is taken for one without end.
const PATIENCE: u32 = 1000;
/// Machines that use every part of a trace.
pub const MACHINES: [(&str, bool, &str); 3] = [
    ("functional", true, "processors = 2\n[protocol]\nname = \"pscr\"\n"),
    ("timing", false, "processors = 2\n"),
    (
        "everything",
        false,
        "processors = 2\n[processor]\nmodel = \"ooo\"\n[locks]\narbitrated = \"all\"\n[tlb]\nentries = 8\n\
         [disk]\ncount = 2\n[io]\nbuses = 1\n[cache]\nsize = \"4 KiB\"\n[prefetch]\n",
    ),
];

/// Simulates a captured trace; why it was refused, in one sentence, if it was.
///
/// # Panics
/// On an internal fault, and when the run does not end.
pub fn run(trace: &Path, functional: bool, machine: &str) -> Result<serde_json::Value, String> {
    let request = RunSpec {
        format: Some("servsim".into()),
        machine_file: "machine.toml".into(),
        functional,
        ..whole_trace(trace, machine)
    };
    let mut looks = 0;
    let mut proceed = |_| {
        looks += 1;
        looks < PATIENCE
    };
    let done = catch_unwind(AssertUnwindSafe(|| simulate(&request, &mut proceed)));
    match done {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(SimulateError::Usage(sentence))) if !sentence.contains('\n') => Err(sentence),
        Ok(Err(SimulateError::Interrupted)) => panic!("the run does not end"),
        Ok(Err(error)) => panic!("{error}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
