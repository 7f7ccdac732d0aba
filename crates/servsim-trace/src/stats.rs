//! What a trace holds, counted by walking it: the figures of `servsim trace stats`.

use crate::cursor::GlobalCursor;
use crate::error::TraceError;
use crate::event::{EventKind, MarkKind, SwitchReason};
use crate::item::Item;
use crate::model::{Counts, TaskInfo, TaskKind};
use crate::reader::TraceReader;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Figures of one task.
#[derive(Debug, Clone, Serialize)]
pub struct TaskStatistics {
    /// Who.
    #[serde(flatten)]
    pub task: TaskInfo,
    /// Instructions and references.
    pub counts: Counts,
    /// Times it gave up the processor to wait.
    pub blocks: u64,
    /// Times the processor was taken from it.
    pub preemptions: u64,
    /// Tasks it woke.
    pub wakes: u64,
    /// Transactions it marked as ended.
    pub transactions: u64,
}

/// Figures of a whole trace.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// Per task, in task-table order.
    pub tasks: Vec<TaskStatistics>,
    /// All streams.
    pub total: Counts,
    /// All streams but the load generator's and the idle task's.
    pub measured: Counts,
    /// The part of `measured` that ran while a server task was current: without the interrupts
    /// that came while the load generator or the idle task was. An observer of the guest that knows
    /// only which task is current counts exactly this.
    pub while_server_current: Counts,
    /// Transactions ended, by kind name.
    pub transactions: BTreeMap<String, u64>,
    /// Of these, rolled back as the specification asks.
    pub rolled_back: u64,
    /// System calls, by number.
    pub syscalls: BTreeMap<u32, u64>,
    /// Interrupt episodes, by source.
    pub interrupts: BTreeMap<u32, u64>,
    /// Block-device reads, writes and flushes submitted.
    pub io_reads: u64,
    /// Writes submitted.
    pub io_writes: u64,
    /// Cache flushes submitted.
    pub io_flushes: u64,
    /// Bytes read.
    pub io_read_bytes: u64,
    /// Bytes written.
    pub io_written_bytes: u64,
    /// Requests completed within the trace.
    pub io_completed: u64,
    /// Lock acquisitions.
    pub lock_acquires: u64,
    /// Lock releases.
    pub lock_releases: u64,
    /// Guest time from the first to the last event, in nanoseconds.
    pub duration_ns: u64,
    /// Bytes of the file per data reference.
    pub bytes_per_data_reference: f64,
}

/// Walks the whole trace and counts.
///
/// # Errors
/// When the trace is damaged, or its streams disagree with the counts stored beside them.
pub fn statistics(reader: &Arc<TraceReader>) -> Result<Statistics, TraceError> {
    let mut statistics = Statistics::empty(reader);
    let mut cursor = GlobalCursor::new(reader.clone());
    let is_server = |task: &TaskInfo| !task.client && !matches!(task.kind, TaskKind::Idle);
    let mut interrupted_server = false;
    while let Some(step) = cursor.next()? {
        let task = step.task as usize;
        match step.item {
            Item::Block(block) => {
                let mut counts = Counts::default();
                reader.dictionary().count(block.shape, &mut counts);
                statistics.tasks[task].counts += counts;
                let info = &reader.tasks()[task];
                let server =
                    if info.kind == TaskKind::Interrupt { interrupted_server } else { is_server(info) };
                if server {
                    statistics.while_server_current += counts;
                }
            }
            Item::Event(event) => {
                statistics.duration_ns = statistics.duration_ns.max(event.time_ns);
                if let EventKind::InterruptBegin { interrupted, .. } = event.kind {
                    interrupted_server = reader.tasks().get(interrupted as usize).is_some_and(is_server);
                }
                statistics.event(reader, task, event.kind);
            }
        }
    }
    statistics.close(reader);
    Ok(statistics)
}

impl Statistics {
    fn empty(reader: &TraceReader) -> Self {
        let task = |task: &TaskInfo| TaskStatistics {
            task: task.clone(),
            counts: Counts::default(),
            blocks: 0,
            preemptions: 0,
            wakes: 0,
            transactions: 0,
        };
        Statistics {
            tasks: reader.tasks().iter().map(task).collect(),
            total: Counts::default(),
            measured: Counts::default(),
            while_server_current: Counts::default(),
            transactions: BTreeMap::new(),
            rolled_back: 0,
            syscalls: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            io_reads: 0,
            io_writes: 0,
            io_flushes: 0,
            io_read_bytes: 0,
            io_written_bytes: 0,
            io_completed: 0,
            lock_acquires: 0,
            lock_releases: 0,
            duration_ns: 0,
            bytes_per_data_reference: f64::NAN,
        }
    }

    fn event(&mut self, reader: &TraceReader, task: usize, kind: EventKind) {
        let own = &mut self.tasks[task];
        match kind {
            EventKind::SyscallEnter { number } => *self.syscalls.entry(number).or_default() += 1,
            EventKind::SwitchOut(SwitchReason::Preempted) => own.preemptions += 1,
            EventKind::SwitchOut(SwitchReason::Blocked { .. }) => own.blocks += 1,
            EventKind::Wake { .. } => own.wakes += 1,
            EventKind::InterruptBegin { source, .. } => *self.interrupts.entry(source).or_default() += 1,
            EventKind::IoSubmit { bytes, write, .. } => self.submit(bytes, write),
            EventKind::IoComplete { .. } => self.io_completed += 1,
            EventKind::Mark { kind: MarkKind::TransactionEnd, transaction, .. } => {
                own.transactions += 1;
                self.rolled_back += u64::from(transaction >> 7);
                let index = usize::from(transaction & 0x7f);
                let name = reader.meta().transaction_kinds.get(index).cloned();
                *self.transactions.entry(name.unwrap_or_else(|| format!("kind {index}"))).or_default() += 1;
            }
            EventKind::LockAcquire { .. } => self.lock_acquires += 1,
            EventKind::LockRelease { .. } => self.lock_releases += 1,
            _ => {}
        }
    }

    fn submit(&mut self, bytes: u32, write: bool) {
        match (bytes, write) {
            (0, _) => self.io_flushes += 1,
            (_, true) => {
                self.io_writes += 1;
                self.io_written_bytes += u64::from(bytes);
            }
            (_, false) => {
                self.io_reads += 1;
                self.io_read_bytes += u64::from(bytes);
            }
        }
    }

    /// Sums up.
    fn close(&mut self, reader: &TraceReader) {
        for task in &self.tasks {
            self.total += task.counts;
            if !task.task.client && task.task.kind != TaskKind::Idle {
                self.measured += task.counts;
            }
        }
        self.bytes_per_data_reference = reader.file_bytes() as f64 / self.total.data_references() as f64;
    }
}
