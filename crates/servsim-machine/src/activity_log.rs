//! The activity log of a result: the schedule of the processors, and the disk requests.

use serde_json::{json, Value};
use servsim_core::CpuId;

/// A task on a processor, from `start` to `end` in cycles of the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSpan {
    /// The processor.
    pub processor: CpuId,
    /// The task.
    pub task: servsim_core::TaskId,
    /// When it got the processor.
    pub start: u64,
    /// When it left.
    pub end: u64,
}

/// A disk request under way, from submission to completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpan {
    /// When it was submitted.
    pub start: u64,
    /// When it was done.
    pub end: u64,
    /// Whether it writes.
    pub write: bool,
}

/// Who ran where, and when disk requests were under way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActivityLog {
    /// Tasks on processors, by start.
    pub schedule: Vec<RunSpan>,
    /// Disk requests, in order of submission.
    pub disk: Vec<DiskSpan>,
    /// Entries left out because there were too many.
    pub dropped: u64,
}

impl ActivityLog {
    /// As in results: columns, since there may be thousands of entries.
    pub fn to_json(&self) -> Value {
        let (runs, disk) = (&self.schedule, &self.disk);
        json!({
            "schedule": {
                "processor": runs.iter().map(|s| s.processor.0).collect::<Vec<_>>(),
                "task": runs.iter().map(|s| s.task).collect::<Vec<_>>(),
                "start": runs.iter().map(|s| s.start).collect::<Vec<_>>(),
                "end": runs.iter().map(|s| s.end).collect::<Vec<_>>(),
            },
            "disk": {
                "write": disk.iter().map(|s| s.write).collect::<Vec<_>>(),
                "start": disk.iter().map(|s| s.start).collect::<Vec<_>>(),
                "end": disk.iter().map(|s| s.end).collect::<Vec<_>>(),
            },
            "dropped": self.dropped,
        })
    }
}
