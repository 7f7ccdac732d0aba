//! Captured traces as sources of the engines: in captured order ([`CapturedOrder`]) or one stream
//! per task ([`CapturedTasks`]).
//!
//! One instruction is one fetch reference at its own address, followed by its data references in
//! program order. The physical address is the sharing key. References to the captured processor's
//! per-CPU area become offsets flagged `PER_CPU`, which the engine turns into the simulated
//! processor's own copy; without that they would be false sharing that no real machine has. The
//! idle task is left out.

mod code;
mod contention;
mod episode;
mod files;
mod findings;
mod locks;
mod order;
mod packed;
mod pages;
mod plan;
mod tasks;
mod template;

pub use code::CodeDetail;
pub use findings::Findings;
pub use order::CapturedOrder;
pub use tasks::CapturedTasks;

use servsim_core::{SourceError, TaskInfo, TaskKind, Watch};
pub use servsim_trace::EXTENSION;
use servsim_trace::{TraceError, TraceReader};
use std::path::Path;
use std::sync::Arc;

/// Name of the format for `--format`.
pub const NAME: &str = "servsim";

fn error(error: &TraceError) -> SourceError {
    SourceError(error.to_string())
}

/// Opens the trace at `path`, which must hold something.
fn open(path: &Path) -> Result<Arc<TraceReader>, SourceError> {
    let reader = TraceReader::open(path).map_err(|e| error(&e))?;
    if reader.epoch_count() > 0 {
        return Ok(Arc::new(reader));
    }
    Err(SourceError(match reader.truncated() {
        Some(why) => format!("{why}, and nothing was recorded before that: capture it again"),
        None => format!("{}: nothing was recorded in it: capture it again", path.display()),
    }))
}

/// Stops where `watch` says so.
fn go_on(watch: Option<&Watch>) -> Result<(), SourceError> {
    watch.is_none_or(Watch::goes_on).then_some(()).ok_or_else(SourceError::stopped)
}

/// The address space of each task: that of its process. Kernel threads and handlers have none.
fn spaces_of(reader: &TraceReader) -> Vec<Option<u32>> {
    let mut numbers = std::collections::HashMap::new();
    let space = |task: &servsim_trace::TaskInfo| {
        let next = numbers.len() as u32;
        (task.kind == servsim_trace::TaskKind::User).then(|| *numbers.entry(task.tgid).or_insert(next))
    };
    reader.tasks().iter().map(space).collect()
}

fn tasks_of(reader: &TraceReader) -> Vec<TaskInfo> {
    let kind = |kind| match kind {
        servsim_trace::TaskKind::User => TaskKind::User,
        servsim_trace::TaskKind::Kernel => TaskKind::Kernel,
        servsim_trace::TaskKind::Interrupt => TaskKind::Interrupt,
        servsim_trace::TaskKind::Idle => TaskKind::Idle,
    };
    let info = |task: &servsim_trace::TaskInfo| TaskInfo {
        name: task.name.clone(),
        pid: task.pid,
        kind: kind(task.kind),
        client: task.client,
    };
    reader.tasks().iter().map(info).collect()
}
