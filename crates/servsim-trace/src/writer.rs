//! Writes a trace: streams gather in memory, a second thread compresses and writes each epoch.
//!
//! The trace gets its name when it is whole ([`AtomicFile`]), so that nothing half-written ever passes
//! for a trace. Dropping an unfinished writer leaves nothing.

use crate::chunk::{write_chunk, write_file_header, ChunkKind};
use crate::dictionary::Dictionary;
use crate::encode::StreamEncoder;
use crate::epoch::RawEpoch;
use crate::error::TraceError;
use crate::event::{Event, EventKind, MarkKind};
use crate::model::{Counts, Meta, Ref, Segment, Shape, ShapeId, TaskId, TaskInfo};
use serde::{Deserialize, Serialize};
use servsim_files::{AtomicFile, Special, WriteError};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::thread::JoinHandle;

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

enum Job {
    Chunk(ChunkKind, Vec<u8>),
    Epoch(Box<RawEpoch>),
}

/// Writes one trace.
pub struct TraceWriter {
    path: PathBuf,
    /// `None` once it has its name.
    file: Option<AtomicFile>,
    options: WriterOptions,
    dictionary: Dictionary,
    written_shapes: usize,
    tasks: Vec<TaskInfo>,
    tasks_changed: bool,
    streams: Vec<Option<Box<StreamEncoder>>>,
    current: TaskId,
    segments: Vec<Segment>,
    epoch_start_ns: u64,
    now_ns: u64,
    gathered: usize,
    totals: WriterTotals,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<std::io::Result<File>>>,
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
        let (jobs, inbox) = sync_channel::<Job>(2);
        let thread = std::thread::spawn(move || {
            let mut out = BufWriter::new(handle);
            write_file_header(&mut out)?;
            for job in inbox {
                match job {
                    Job::Chunk(kind, payload) => write_chunk(&mut out, kind, &payload)?,
                    Job::Epoch(epoch) => write_chunk(&mut out, ChunkKind::Epoch, &epoch.encode())?,
                };
            }
            out.into_inner().map_err(std::io::IntoInnerError::into_error)
        });
        let mut writer = TraceWriter {
            path: path.to_owned(),
            file: Some(file),
            options,
            dictionary: Dictionary::default(),
            written_shapes: 0,
            tasks: Vec::new(),
            tasks_changed: true,
            streams: Vec::new(),
            current: 0,
            segments: Vec::new(),
            epoch_start_ns: 0,
            now_ns: 0,
            gathered: 0,
            totals: WriterTotals::default(),
            jobs: Some(jobs),
            thread: Some(thread),
        };
        let meta = serde_json::to_vec(meta).map_err(|error| TraceError::Request(error.to_string()))?;
        writer.send(Job::Chunk(ChunkKind::Meta, meta))?;
        Ok(writer)
    }

    /// Adds a block shape to the dictionary.
    pub fn add_shape(&mut self, shape: Shape) -> ShapeId {
        self.dictionary.push(shape)
    }

    /// The dictionary so far.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Adds a task to the task table.
    pub fn add_task(&mut self, task: TaskInfo) -> TaskId {
        self.tasks.push(task);
        self.streams.push(None);
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
        assert_eq!(
            refs.len(),
            self.dictionary.packed[shape as usize].ops_len as usize,
            "one reference per access"
        );
        self.count_item();
        let stream = self.streams[self.current as usize].get_or_insert_with(Box::default);
        stream.block(&self.dictionary, shape, refs);
        // An estimate is enough to decide when an epoch is full: two bytes a token, two an access.
        self.gathered += 2 + 2 * refs.len();
        if self.gathered >= self.options.epoch_bytes {
            self.end_epoch()?;
        }
        Ok(())
    }

    /// Appends an event to the current task's stream.
    pub fn event(&mut self, event: Event) {
        self.count_item();
        self.now_ns = event.time_ns;
        if let EventKind::Mark { kind: MarkKind::TransactionEnd, .. } = event.kind {
            self.totals.transactions += 1;
        }
        self.streams[self.current as usize].get_or_insert_with(Box::default).event(&event);
        self.gathered += 8;
    }

    #[inline]
    fn count_item(&mut self) {
        match self.segments.last_mut() {
            Some(segment) if segment.task == self.current => segment.items += 1,
            _ => self.segments.push(Segment { task: self.current, items: 1 }),
        }
    }

    /// Instructions, references and transactions so far, those of unfinished epochs included.
    pub fn totals(&self) -> WriterTotals {
        let mut totals = self.totals.clone();
        self.streams.iter().flatten().for_each(|stream| totals.counts += stream.counts);
        totals
    }

    /// Hands the gathered streams to the writing thread.
    fn end_epoch(&mut self) -> Result<(), TraceError> {
        self.send_tables()?;
        let mut epoch = RawEpoch { start_ns: self.epoch_start_ns, ..RawEpoch::default() };
        epoch.segments = std::mem::take(&mut self.segments);
        for (task, slot) in (0..).zip(&mut self.streams) {
            if let Some(stream) = slot.take() {
                self.totals.counts += stream.counts;
                epoch.streams.push((task, *stream));
            }
        }
        self.gathered = 0;
        self.epoch_start_ns = self.now_ns;
        self.totals.epochs += 1;
        self.send(Job::Epoch(Box::new(epoch)))
    }

    /// Everything an epoch refers to is in the file before it.
    fn send_tables(&mut self) -> Result<(), TraceError> {
        if self.written_shapes < self.dictionary.len() {
            let mut raw = Vec::new();
            self.dictionary.encode_from(self.written_shapes, &mut raw);
            self.written_shapes = self.dictionary.len();
            let mut payload = (raw.len() as u64).to_le_bytes().to_vec();
            payload.extend(crate::chunk::compress(&raw));
            self.send(Job::Chunk(ChunkKind::Dictionary, payload))?;
        }
        if std::mem::take(&mut self.tasks_changed) {
            let json =
                serde_json::to_vec(&self.tasks).map_err(|error| TraceError::Request(error.to_string()))?;
            self.send(Job::Chunk(ChunkKind::Tasks, json))?;
        }
        Ok(())
    }

    fn send(&mut self, job: Job) -> Result<(), TraceError> {
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent {
            return Ok(());
        }
        // The thread has ended early: it met an error, which is the one to report.
        Err(self.join().err().unwrap_or_else(|| TraceError::Request("the trace is already finished".into())))
    }

    fn join(&mut self) -> Result<(), TraceError> {
        self.jobs = None;
        let thread =
            self.thread.take().ok_or_else(|| TraceError::Request("the trace is already closed".into()))?;
        let done =
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the writing thread panicked")));
        done.map(drop).map_err(|source| write_error(&self.path, source))
    }

    /// Writes what is left, makes the trace durable and gives it its name.
    ///
    /// # Errors
    /// When anything cannot be written; nothing is left then.
    pub fn finish(mut self) -> Result<WriterTotals, TraceError> {
        self.end_epoch()?;
        let totals = self.totals.clone();
        let footer = Footer { totals: totals.clone() };
        let json = serde_json::to_vec(&footer).map_err(|error| TraceError::Request(error.to_string()))?;
        self.send(Job::Chunk(ChunkKind::Footer, json))?;
        self.join()?;
        let file =
            self.file.take().ok_or_else(|| TraceError::Request("the trace is already closed".into()))?;
        let file_bytes = file.commit().map_err(|source| write_error(&self.path, source))?;
        Ok(WriterTotals { file_bytes, ..totals })
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn io_error(path: &Path, source: std::io::Error) -> TraceError {
    TraceError::Io { path: path.to_owned(), source }
}

pub(crate) fn write_error(path: &Path, source: std::io::Error) -> TraceError {
    WriteError::new(path, source).into()
}
