//! Writes a trace: whoever appends only notes what happened; a second thread encodes it, and a third compresses and
//! writes each epoch.
//!
//! The trace gets its name when it is whole ([`AtomicFile`]), so that nothing half-written ever passes
//! for a trace. Dropping an unfinished writer leaves nothing.

use crate::encoding::{Batch, Encoding};
use crate::error::TraceError;
use crate::event::Event;
use crate::model::{Counts, Meta, Ref, Shape, ShapeId, TaskId, TaskInfo};
use serde::{Deserialize, Serialize};
use servsim_files::{AtomicFile, Special, WriteError};
use std::path::{Path, PathBuf};

/// How a trace is written.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Uncompressed bytes after which an epoch ends. Every stream's predictors start afresh in
    /// every epoch: larger epochs compress better, smaller ones seek better.
    pub epoch_bytes: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { epoch_bytes: 16 << 20 }
    }
}

/// What a finished trace holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WriterTotals {
    /// Instructions and references of all streams.
    pub counts: Counts,
    /// Transactions ended.
    pub transactions: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Number of epochs.
    pub epochs: u64,
}

/// The last chunk of a whole trace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Footer {
    pub totals: WriterTotals,
}

/// Writes one trace.
pub struct TraceWriter {
    path: PathBuf,
    /// `None` once it has its name.
    file: Option<AtomicFile>,
    options: WriterOptions,
    /// Accesses of each shape.
    accesses: Vec<u16>,
    tasks: Vec<TaskInfo>,
    tasks_changed: bool,
    current: TaskId,
    gathered: usize,
    blocks: u64,
    batch: Batch,
    /// `None` once it was told the end.
    encoding: Option<Encoding>,
}

impl TraceWriter {
    /// Begins a trace that will be called `path`.
    ///
    /// # Errors
    /// When the file beside it cannot be created.
    pub fn create(path: &Path, meta: &Meta, options: WriterOptions) -> Result<Self, TraceError> {
        let refused = |source| write_error(path, source);
        let file = AtomicFile::create(path, Special::Refuse).map_err(refused)?;
        let handle = file.file().try_clone().map_err(refused)?;
        let meta = serde_json::to_vec(meta).map_err(|error| TraceError::Request(error.to_string()))?;
        Ok(TraceWriter {
            path: path.to_owned(),
            file: Some(file),
            options,
            accesses: Vec::new(),
            tasks: Vec::new(),
            tasks_changed: true,
            current: 0,
            gathered: 0,
            blocks: 0,
            batch: Batch::default(),
            encoding: Some(Encoding::begin(handle, meta)),
        })
    }

    /// Adds a block shape to the dictionary.
    pub fn add_shape(&mut self, shape: Shape) -> ShapeId {
        self.accesses.push(shape.ops.len() as u16);
        self.batch.shapes.push(shape);
        self.accesses.len() as ShapeId - 1
    }

    /// How many shapes the dictionary has so far.
    pub fn shapes(&self) -> usize {
        self.accesses.len()
    }

    /// Whether no block has been appended.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Adds a task to the task table.
    pub fn add_task(&mut self, task: TaskInfo) -> TaskId {
        self.tasks.push(task);
        self.tasks_changed = true;
        self.tasks.len() as TaskId - 1
    }

    /// The task table so far.
    pub fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    /// Changes what is known of a task (its name after `exec`, say).
    pub fn update_task(&mut self, task: TaskId, change: impl FnOnce(&mut TaskInfo)) {
        change(&mut self.tasks[task as usize]);
        self.tasks_changed = true;
    }

    /// The items that follow belong to `task`.
    pub fn switch_to(&mut self, task: TaskId) {
        self.current = task;
    }

    /// Appends one execution of `shape` to the current task's stream.
    ///
    /// # Errors
    /// When an epoch is full and cannot be written.
    ///
    /// # Panics
    /// When the references are not as many as the accesses of the shape.
    #[inline]
    pub fn block(&mut self, shape: ShapeId, refs: &[Ref]) -> Result<(), TraceError> {
        assert_eq!(refs.len(), usize::from(self.accesses[shape as usize]), "one reference per access");
        self.blocks += 1;
        self.batch.block(self.current, shape, refs);
        // An estimate is enough to decide when an epoch is full: two bytes a token, two an access.
        self.gathered += 2 + 2 * refs.len();
        if self.gathered >= self.options.epoch_bytes {
            self.end_epoch()
        } else if self.batch.is_full() {
            self.hand_over()
        } else {
            Ok(())
        }
    }

    /// Appends an event to the current task's stream.
    pub fn event(&mut self, event: Event) {
        self.batch.event(self.current, event);
        self.gathered += 8;
    }

    /// What was gathered becomes an epoch.
    fn end_epoch(&mut self) -> Result<(), TraceError> {
        // Everything an epoch refers to is in the file before it.
        let tasks = std::mem::take(&mut self.tasks_changed).then(|| serde_json::to_vec(&self.tasks));
        let tasks = tasks.transpose().map_err(|error| TraceError::Request(error.to_string()))?;
        self.batch.end_epoch(tasks);
        self.gathered = 0;
        self.hand_over()
    }

    /// Gives what was noted to the encoding thread.
    fn hand_over(&mut self) -> Result<(), TraceError> {
        let Some(encoding) = &mut self.encoding else {
            return Err(TraceError::Request("the trace is already finished".into()));
        };
        if encoding.take(&mut self.batch) {
            return Ok(());
        }
        // The thread has ended early: it met an error, which is the one to report.
        let early = || TraceError::Request("the trace was ended before its time".into());
        Err(self.end_encoding().err().unwrap_or_else(early))
    }

    fn end_encoding(&mut self) -> Result<WriterTotals, TraceError> {
        let encoding =
            self.encoding.take().ok_or_else(|| TraceError::Request("the trace is already closed".into()))?;
        encoding.end().map_err(|source| write_error(&self.path, source))
    }

    /// Writes what is left, makes the trace durable and gives it its name.
    ///
    /// # Errors
    /// When anything cannot be written; nothing is left then.
    pub fn finish(mut self) -> Result<WriterTotals, TraceError> {
        self.batch.end_trace();
        self.end_epoch()?;
        let totals = self.end_encoding()?;
        let file =
            self.file.take().ok_or_else(|| TraceError::Request("the trace is already closed".into()))?;
        let file_bytes = file.commit().map_err(|source| write_error(&self.path, source))?;
        Ok(WriterTotals { file_bytes, ..totals })
    }
}

pub(crate) fn io_error(path: &Path, source: std::io::Error) -> TraceError {
    TraceError::Io { path: path.to_owned(), source }
}

pub(crate) fn write_error(path: &Path, source: std::io::Error) -> TraceError {
    WriteError::new(path, source).into()
}
