//! The trace format of servsim: what real software did, independent of any machine.
//!
//! A trace holds one reference stream per task and the events that order the tasks (switches,
//! wake-ups, interrupts, disk requests, transaction marks). `FORMAT.md` beside this crate is the
//! normative description of the bytes; this crate is its only implementation, used by the capture
//! plug-in to write and by everyone else to read.
//!
//! * [`TraceWriter`] writes beside the final name and renames when the trace is whole.
//! * [`TraceReader`] opens a trace; [`TaskCursor`] walks one task's stream, [`GlobalCursor`] all
//!   streams in the order in which they were captured.
//! * Nothing here knows about caches, processors or disks.

mod annotate;
mod budget;
mod check;
mod chunk;
mod cursor;
mod decode;
mod dictionary;
mod encode;
mod encoding;
mod epoch;
mod error;
mod event;
mod item;
mod model;
mod predict;
mod reader;
mod select;
mod stats;
mod validate;
mod varint;
mod writer;

pub use annotate::annotate;
pub use budget::{Budget, Claim};
pub use check::{check, CheckReport};
pub use chunk::FILE_MAGIC;
pub use cursor::{epoch_events, Epochs, GlobalCursor, GlobalItem, SkimCursor, TaskCursor};
pub use dictionary::Dictionary;
pub use error::TraceError;
pub use event::{Event, EventKind, LockClass, MarkKind, SwitchReason};
pub use item::{Block, Item, Sink};
pub use model::{Counts, Insn, MemOp, Meta, Ref, Segment, Shape, ShapeId, TaskId, TaskInfo, TaskKind};
pub use predict::{slots, Slot};
pub use reader::{EpochSummary, TraceReader};
pub use select::{cut, merge, sample, Selection};
pub use stats::{statistics, Statistics, TaskStatistics};
pub use writer::{TraceWriter, WriterOptions, WriterTotals};

/// Extension of trace files.
pub const EXTENSION: &str = "svt";

/// Version of the format written by this crate; readers refuse any other.
pub const FORMAT_VERSION: u32 = 1;
