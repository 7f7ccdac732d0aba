//! Exporters: any readable trace, written in a foreign format. One file per format, one entry each in
//! [`TARGETS`]. What a format cannot hold is counted and said once, not guessed into it.
//!
//! The file is whole or not there; an extension of [`sink`] compresses it.

mod champsim;
mod din;
mod lackey;
mod raw16;
mod sink;
mod text;

use servsim_core::reference::{address_on, ATOMIC, CONTINUATION, PRIVATE, SHARED};
use servsim_core::{Batch, CpuId, Event, GlobalSource, Op, Record, SourceError, TaskInfo, ANY_CPU};
use servsim_files::WriteError;
use sink::Sink;
use std::io::{self, Write};
use std::path::Path;

/// One reference as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Reference {
    /// What it is; never an event.
    pub op: Op,
    /// First byte.
    pub address: u64,
    /// Bytes touched, as many as the target can hold.
    pub size: u64,
    /// Made in kernel mode.
    pub kernel: bool,
    /// The page's privacy as far as the trace states it: [`PRIVATE`], [`SHARED`] or 0.
    pub stated: u8,
    /// Index in the task table.
    pub task: u32,
    /// Processor.
    pub cpu: usize,
}

/// What a format can hold of a reference.
#[allow(clippy::struct_excessive_bools)] // independent abilities
#[derive(Debug, Clone, Copy)]
pub struct Holds {
    /// Longest access; `None` without sizes.
    pub size: Option<u64>,
    /// Which task made it.
    pub tasks: bool,
    /// Processors.
    pub processors: bool,
    /// Kernel mode.
    pub kernel: bool,
    /// Statements that a page is private.
    pub private: bool,
    /// Ends of transactions.
    pub transactions: bool,
    /// References other than whole instructions.
    pub single: bool,
}

impl Holds {
    /// Operation, address and any size of every reference, and nothing else.
    pub const REFERENCES: Self = Self {
        size: Some(u64::MAX),
        tasks: false,
        processors: false,
        kernel: false,
        private: false,
        transactions: false,
        single: true,
    };
}

/// Writes one format, into a buffer that goes to the file now and then.
pub trait Writer {
    /// Called once, with the task table.
    ///
    /// # Errors
    /// When the format cannot hold these tasks.
    fn begin(&mut self, _tasks: &[TaskInfo], _out: &mut Vec<u8>) -> Result<(), String> {
        Ok(())
    }

    /// Writes a reference.
    fn reference(&mut self, reference: &Reference, out: &mut Vec<u8>);

    /// Writes the end of a transaction, in formats that hold it.
    fn transaction(&mut self, _task: u32, _kind: &str, _out: &mut Vec<u8>) {}

    /// Called once, after the last reference.
    fn end(&mut self, _out: &mut Vec<u8>) {}

    /// What was lost or added beyond what [`Holds`] tells.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Appends a hexadecimal number of at least `digits` digits.
fn hexadecimal(out: &mut Vec<u8>, value: u64, digits: u32) {
    let needed = (64 - value.leading_zeros()).div_ceil(4).max(digits);
    out.extend((0..needed).rev().map(|digit| b"0123456789abcdef"[(value >> (4 * digit)) as usize & 15]));
}

/// Appends a decimal number.
fn decimal(out: &mut Vec<u8>, value: u64) {
    if value >= 10 {
        decimal(out, value / 10);
    }
    out.push(b'0' + (value % 10) as u8);
}

/// A format that can be written.
pub struct Target {
    /// Name for `--format`; that of the importer.
    pub name: &'static str,
    /// What it can hold.
    pub holds: Holds,
    /// Makes its writer.
    pub writer: fn() -> Box<dyn Writer>,
}

/// Every format that is written.
#[rustfmt::skip]
pub const TARGETS: &[Target] = &[
    Target { name: "text", holds: text::HOLDS, writer: || Box::<text::Text>::default() },
    Target { name: "raw16", holds: raw16::HOLDS, writer: || Box::<raw16::Raw16>::default() },
    Target { name: "din", holds: din::HOLDS, writer: || Box::new(din::Din) },
    Target { name: "lackey", holds: lackey::HOLDS, writer: || Box::new(lackey::Lackey) },
    Target { name: "champsim", holds: champsim::HOLDS, writer: || Box::<champsim::ChampSim>::default() },
];

/// The target called `name`.
///
/// # Errors
/// When there is none, with the names of all.
pub fn target_of(name: &str) -> Result<&'static Target, SourceError> {
    TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        let hint = servsim_units::nearest::suggestion(name, names.iter().copied());
        SourceError(format!("no trace format `{name}` is written{hint}; accepted are {}", names.join(", ")))
    })
}

/// Bytes after which the buffer goes to the file.
const BUFFER: usize = 1 << 16;

/// Which references are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Only {
    /// All.
    #[default]
    All,
    /// Instruction fetches.
    Fetch,
    /// Loads and stores.
    Data,
}

/// What was written and what was not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exported {
    /// References written.
    pub references: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// One phrase for each thing the format could not hold.
    pub lost: Vec<String>,
    /// Notes of the trace that was read.
    pub notes: Vec<String>,
}

/// Writes `source` to `path`; tasks that the trace binds to no processor run on the one of their
/// rank modulo `processors`.
///
/// # Errors
/// When the source is damaged, the file cannot be written, or `proceed` says to stop.
pub fn export(
    source: &mut dyn GlobalSource,
    target: &Target,
    only: Only,
    processors: usize,
    path: &Path,
) -> Result<Exported, ExportError> {
    if only == Only::Data && !target.holds.single {
        let refused =
            format!("{} holds whole instructions; write --only data to another format", target.name);
        return Err(SourceError(refused).into());
    }
    let refused = |error| WriteError::new(path, error);
    let tasks = source.tasks().to_vec();
    let mut exporter = Exporter {
        target,
        writer: (target.writer)(),
        sink: Sink::create(path).map_err(refused)?,
        buffer: Vec::with_capacity(2 * BUFFER),
        kinds: source.transaction_kinds(),
        only,
        processors: processors.max(1),
        pending: None,
        count: Count { touched: vec![false; tasks.len()], ..Count::default() },
    };
    exporter.all(source, &tasks).map_err(|fault| match fault {
        Fault::Source(error) => error.into(),
        Fault::Io(error) => ExportError::from(refused(error)),
    })?;
    let bytes = exporter.sink.finish().map_err(refused)?;
    let lost = exporter.count.lost(&target.holds).into_iter().chain(exporter.writer.losses()).collect();
    Ok(Exported { references: exporter.count.references, bytes, lost, notes: source.notes() })
}

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The trace cannot be read, or the format cannot hold it.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why an export stopped.
enum Fault {
    Source(SourceError),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Exporter<'a> {
    target: &'a Target,
    writer: Box<dyn Writer>,
    sink: Sink,
    /// What the sink has not got yet.
    buffer: Vec<u8>,
    kinds: Vec<String>,
    only: Only,
    processors: usize,
    /// The reference to write next; a continuation may still belong to it.
    pending: Option<Reference>,
    count: Count,
}

impl Exporter<'_> {
    fn all(&mut self, source: &mut dyn GlobalSource, tasks: &[TaskInfo]) -> Result<(), Fault> {
        let begun = self.writer.begin(tasks, &mut self.buffer);
        begun.map_err(|what| Fault::Source(SourceError(what)))?;
        let mut batch = Batch::default();
        while source.next_batch(&mut batch).map_err(Fault::Source)? {
            for record in &batch.records {
                match record.op {
                    Op::Event => self.event(record.task, &batch.events[record.address as usize]),
                    op if self.wanted(op) => self.record(record),
                    _ => {}
                }
            }
            if self.buffer.len() >= BUFFER {
                self.sink.write_all(&self.buffer)?;
                self.buffer.clear();
            }
        }
        self.flush();
        self.writer.end(&mut self.buffer);
        self.sink.write_all(&self.buffer)?;
        Ok(())
    }

    fn wanted(&self, op: Op) -> bool {
        match self.only {
            Only::All => true,
            Only::Fetch => op == Op::Fetch,
            Only::Data => op != Op::Fetch,
        }
    }

    fn record(&mut self, record: &Record) {
        let cpu = match record.cpu {
            ANY_CPU => record.task as usize % self.processors,
            cpu => usize::from(cpu),
        };
        let address = address_on(record, CpuId(cpu));
        let size = u64::from(record.size);
        if record.flags & CONTINUATION != 0 {
            if let Some(pending) = &mut self.pending {
                if pending.address + pending.size == address && pending.op == record.op {
                    pending.size += size;
                    return;
                }
            }
            self.count.continuations += 1;
        }
        self.flush();
        self.count.atomic += u64::from(record.flags & ATOMIC != 0);
        self.count.bound |= record.cpu != ANY_CPU && cpu != record.task as usize;
        self.pending = Some(Reference {
            op: record.op,
            address,
            size,
            kernel: record.is_kernel(),
            stated: record.flags & (PRIVATE | SHARED),
            task: record.task,
            cpu,
        });
    }

    fn event(&mut self, task: u32, event: &Event) {
        self.flush();
        let Event::TransactionEnd { kind, .. } = event else {
            self.count.events += 1;
            return;
        };
        self.count.transactions += 1;
        let name = self.kinds.get(*kind as usize).map_or("none", String::as_str);
        self.writer.transaction(task, name, &mut self.buffer);
    }

    /// Writes the pending reference, in pieces when it is longer than the format can say.
    fn flush(&mut self) {
        let Some(whole) = self.pending.take() else { return };
        self.count.reference(&whole);
        let longest = self.target.holds.size.unwrap_or(u64::MAX);
        let mut piece = whole;
        piece.size = whole.size.min(longest);
        loop {
            self.writer.reference(&piece, &mut self.buffer);
            self.count.references += 1;
            let end = piece.address + (piece.size - 1);
            let left = whole.address + (whole.size - 1) - end;
            if left == 0 {
                return;
            }
            self.count.pieces += 1;
            piece.address = end + 1;
            piece.size = left.min(longest);
        }
    }
}

/// What was seen, to tell what the format could not hold.
#[derive(Debug, Default)]
struct Count {
    references: u64,
    touched: Vec<bool>,
    kernel: u64,
    sized: u64,
    stated: u64,
    atomic: u64,
    bound: bool,
    transactions: u64,
    events: u64,
    continuations: u64,
    pieces: u64,
}

impl Count {
    fn reference(&mut self, reference: &Reference) {
        self.touched[reference.task as usize] = true;
        self.kernel += u64::from(reference.kernel);
        self.sized += u64::from(reference.size > 1);
        self.stated += u64::from(reference.stated != 0);
    }

    fn lost(&self, holds: &Holds) -> Vec<String> {
        let mut lost = Vec::new();
        let mut say = |really: bool, what: String| lost.extend(really.then_some(what));
        let tasks = self.touched.iter().filter(|&&touched| touched).count();
        say(tasks > 1 && !holds.tasks, format!("which of the {tasks} tasks made a reference"));
        say(self.bound && !holds.processors, "which processor made a reference".into());
        say(self.kernel > 0 && !holds.kernel, format!("the kernel mode of {} references", self.kernel));
        say(self.sized > 0 && holds.size.is_none(), format!("the size of {} references", self.sized));
        say(self.stated > 0 && !holds.private, format!("the stated privacy of {} references", self.stated));
        say(self.atomic > 0, format!("that {} references are atomic", self.atomic));
        let transactions = self.transactions > 0 && !holds.transactions;
        say(transactions, format!("the ends of {} transactions", self.transactions));
        say(self.events > 0, format!("{} blocks, wake-ups and disk requests", self.events));
        say(
            self.continuations > 0,
            format!("that {} references continue others (they now count)", self.continuations),
        );
        say(self.pieces > 0, format!("that {} references are parts of longer ones", self.pieces));
        lost
    }
}
