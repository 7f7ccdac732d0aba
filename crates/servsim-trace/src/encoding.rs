//! The threads behind a [`TraceWriter`](crate::TraceWriter): one turns what was noted into streams, the other compresses
//! and writes each epoch. So whoever captures does no more than note what happened.

use crate::chunk::{compress, write_chunk, write_file_header, ChunkKind};
use crate::dictionary::Dictionary;
use crate::encode::StreamEncoder;
use crate::epoch::RawEpoch;
use crate::event::{Event, EventKind, MarkKind};
use crate::model::{Ref, Segment, Shape, ShapeId, TaskId};
use crate::writer::{Footer, WriterTotals};
use std::fs::File;
use std::io::{BufWriter, Error, Result};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::{spawn, JoinHandle};

/// Items of a batch that are no blocks: shapes are fewer, since a dictionary with so many would fill the memory.
const EVENT: u32 = u32::MAX;
/// The next word is the task that the items from here on belong to.
const SWITCH: u32 = u32::MAX - 1;
/// A batch of so many words or references is full: small enough to stay in the host's caches.
const FULL: usize = 16 << 10;
/// Batches that may wait for the encoding thread, and jobs for the writing one.
const WAITING_BATCHES: usize = 4;
const WAITING_JOBS: usize = 2;

/// What was appended, in order.
#[derive(Debug, Default)]
pub struct Batch {
    /// Shapes added since the batch before.
    pub shapes: Vec<Shape>,
    items: Vec<u32>,
    refs: Vec<Ref>,
    events: Vec<Event>,
    /// Whose the last item is; that of the first is always told.
    current: Option<TaskId>,
    ends_epoch: bool,
    ends_trace: bool,
    /// The table of tasks in the format's bytes, if an epoch ends and it has changed.
    tasks: Option<Vec<u8>>,
}

impl Batch {
    /// Notes one execution of `shape`.
    #[inline]
    pub fn block(&mut self, task: TaskId, shape: ShapeId, refs: &[Ref]) {
        self.belongs_to(task);
        self.items.push(shape);
        self.refs.extend_from_slice(refs);
    }

    /// Notes an event.
    pub fn event(&mut self, task: TaskId, event: Event) {
        self.belongs_to(task);
        self.items.push(EVENT);
        self.events.push(event);
    }

    #[inline]
    fn belongs_to(&mut self, task: TaskId) {
        if self.current != Some(task) {
            self.current = Some(task);
            self.items.extend([SWITCH, task]);
        }
    }

    /// An epoch ends here; `tasks` is the table of tasks in the format's bytes, if it has changed.
    pub fn end_epoch(&mut self, tasks: Option<Vec<u8>>) {
        (self.ends_epoch, self.tasks) = (true, tasks);
    }

    /// The last batch.
    pub fn end_trace(&mut self) {
        self.ends_trace = true;
    }

    /// Whether it should be handed over.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.refs.len() >= FULL || self.items.len() >= FULL
    }

    /// Empty again, with its memory.
    fn cleared(mut self) -> Self {
        self.items.clear();
        self.refs.clear();
        self.events.clear();
        Batch {
            shapes: Vec::new(),
            items: self.items,
            refs: self.refs,
            events: self.events,
            ..Batch::default()
        }
    }
}

/// The two threads.
pub struct Encoding {
    /// `None` once there is nothing more.
    batches: Option<SyncSender<Batch>>,
    empty: Receiver<Batch>,
    thread: Option<JoinHandle<Result<WriterTotals>>>,
}

impl Encoding {
    /// Begins a trace in `file` with this chunk of what it is.
    pub fn begin(file: File, meta: Vec<u8>) -> Self {
        let (batches, inbox) = sync_channel::<Batch>(WAITING_BATCHES);
        // As many as can be on their way: giving one back never waits.
        let (back, empty) = sync_channel::<Batch>(WAITING_BATCHES + 2);
        let thread = spawn(move || {
            let mut encoder = Encoder::new(Output::begin(file));
            encoder.output.send(Job::Chunk(ChunkKind::Meta, meta))?;
            for mut batch in inbox {
                encoder.encode(&mut batch)?;
                if batch.ends_trace {
                    return encoder.finish();
                }
                let _ = back.try_send(batch.cleared());
            }
            Err(Error::other("the trace was given up"))
        });
        Encoding { batches: Some(batches), empty, thread: Some(thread) }
    }

    /// Takes a batch and leaves an empty one; false if the threads have ended, which they do on an error.
    pub fn take(&mut self, batch: &mut Batch) -> bool {
        let full = std::mem::replace(batch, self.empty.try_recv().unwrap_or_default());
        self.batches.as_ref().is_some_and(|batches| batches.send(full).is_ok())
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// Whatever stopped the threads.
    pub fn end(mut self) -> Result<WriterTotals> {
        self.batches = None;
        self.thread.take().map_or_else(|| Err(Error::other("the encoding thread is gone")), joined)
    }
}

impl Drop for Encoding {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a thread ended with.
fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(Error::other("a writing thread panicked")))
}

/// What the writing thread does next.
enum Job {
    Chunk(ChunkKind, Vec<u8>),
    Epoch(Box<RawEpoch>),
}

/// The writing thread.
struct Output {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<Result<File>>>,
}

impl Output {
    fn begin(file: File) -> Self {
        let (jobs, inbox) = sync_channel::<Job>(WAITING_JOBS);
        let thread = spawn(move || {
            let mut out = BufWriter::new(file);
            write_file_header(&mut out)?;
            for job in inbox {
                match job {
                    Job::Chunk(kind, payload) => write_chunk(&mut out, kind, &payload)?,
                    Job::Epoch(epoch) => write_chunk(&mut out, ChunkKind::Epoch, &epoch.encode())?,
                };
            }
            out.into_inner().map_err(std::io::IntoInnerError::into_error)
        });
        Output { jobs: Some(jobs), thread: Some(thread) }
    }

    fn send(&mut self, job: Job) -> Result<()> {
        if self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()) {
            return Ok(());
        }
        // The thread has ended early: it met an error, which is the one to report.
        self.end().and(Err(Error::other("the writing thread ended early")))
    }

    fn end(&mut self) -> Result<()> {
        self.jobs = None;
        self.thread.take().map_or(Ok(()), |thread| joined(thread).map(drop))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Streams of the epoch under way.
struct Encoder {
    output: Output,
    dictionary: Dictionary,
    written_shapes: usize,
    streams: Vec<Option<Box<StreamEncoder>>>,
    segments: Vec<Segment>,
    epoch_start_ns: u64,
    now_ns: u64,
    totals: WriterTotals,
}

impl Encoder {
    fn new(output: Output) -> Self {
        Encoder {
            output,
            dictionary: Dictionary::default(),
            written_shapes: 0,
            streams: Vec::new(),
            segments: Vec::new(),
            epoch_start_ns: 0,
            now_ns: 0,
            totals: WriterTotals::default(),
        }
    }

    /// Turns a batch into streams.
    fn encode(&mut self, batch: &mut Batch) -> Result<()> {
        for shape in batch.shapes.drain(..) {
            self.dictionary.push(shape);
        }
        let mut rest = batch.items.as_slice();
        let (mut refs, mut events) = (batch.refs.as_slice(), batch.events.as_slice());
        while let [SWITCH, task, items @ ..] = rest {
            let end = items.iter().position(|item| *item == SWITCH).unwrap_or(items.len());
            self.run(*task, &items[..end], &mut refs, &mut events);
            rest = &items[end..];
        }
        if batch.ends_epoch {
            self.end_epoch(batch.tasks.take())?;
        }
        Ok(())
    }

    /// Items of one task that follow one another; takes their references and events.
    fn run(&mut self, task: TaskId, items: &[u32], refs: &mut &[Ref], events: &mut &[Event]) {
        match self.segments.last_mut() {
            Some(segment) if segment.task == task => segment.items += items.len() as u64,
            _ => self.segments.push(Segment { task, items: items.len() as u64 }),
        }
        if self.streams.len() <= task as usize {
            self.streams.resize_with(task as usize + 1, || None);
        }
        let stream = self.streams[task as usize].get_or_insert_with(Box::default);
        for &item in items {
            if item == EVENT {
                let (event, behind) = events.split_at(1);
                *events = behind;
                self.now_ns = event[0].time_ns;
                let ends = matches!(event[0].kind, EventKind::Mark { kind: MarkKind::TransactionEnd, .. });
                self.totals.transactions += u64::from(ends);
                stream.event(&event[0]);
            } else {
                let (own, behind) = refs.split_at(self.dictionary.packed[item as usize].ops_len.into());
                *refs = behind;
                stream.block(&self.dictionary, item, own);
            }
        }
    }

    /// Hands the gathered streams to the writing thread.
    fn end_epoch(&mut self, tasks: Option<Vec<u8>>) -> Result<()> {
        if self.written_shapes < self.dictionary.len() {
            let mut raw = Vec::new();
            self.dictionary.encode_from(self.written_shapes, &mut raw);
            self.written_shapes = self.dictionary.len();
            let mut payload = (raw.len() as u64).to_le_bytes().to_vec();
            payload.extend(compress(&raw));
            self.output.send(Job::Chunk(ChunkKind::Dictionary, payload))?;
        }
        if let Some(tasks) = tasks {
            self.output.send(Job::Chunk(ChunkKind::Tasks, tasks))?;
        }
        let mut epoch = RawEpoch { start_ns: self.epoch_start_ns, ..RawEpoch::default() };
        epoch.segments = std::mem::take(&mut self.segments);
        for (task, slot) in (0..).zip(&mut self.streams) {
            if let Some(stream) = slot.take() {
                self.totals.counts += stream.counts;
                epoch.streams.push((task, *stream));
            }
        }
        self.epoch_start_ns = self.now_ns;
        self.totals.epochs += 1;
        self.output.send(Job::Epoch(Box::new(epoch)))
    }

    /// Says that the trace is whole, and waits until it is written.
    fn finish(mut self) -> Result<WriterTotals> {
        let footer = Footer { totals: self.totals.clone() };
        self.output.send(Job::Chunk(ChunkKind::Footer, serde_json::to_vec(&footer)?))?;
        self.output.end()?;
        Ok(self.totals)
    }
}
