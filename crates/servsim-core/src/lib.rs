//! What trace readers, schedulers and memory systems share: memory references, the events that
//! order tasks, the traits of a trace source, and seeded random streams.
//!
//! Nothing here reads a file, a clock or the environment: sources are handed in by the crate that
//! assembles a machine.

pub mod code;
pub mod counters;
pub mod drive;
pub mod earliest;
pub mod event;
pub mod hash;
mod ids;
mod processors;
pub mod random;
pub mod reference;
pub mod shard;
pub mod source;
pub mod steps;
pub mod watch;

pub use code::Instruction;
pub use drive::{DiskRequest, Drive, FileRange, SECTOR};
pub use event::{Event, LockClass, TaskId, TaskInfo, TaskKind, WakeId};
pub use ids::{CacheId, CpuId, LineAddr, NodeId};
pub use processors::ProcessorSet;
pub use random::RandomStream;
pub use reference::{Batch, Op, Record, ANY_CPU};
pub use servsim_units::Cycles;
pub use shard::{BytesOfShard, Shard};
pub use source::{
    BatchPosition, GlobalSource, Interrupt, PageOrigin, Privacy, SourceError, TaskCursor, TaskSource,
    TransactionEnds, MAX_SPACES, PAGE_SHIFT,
};
pub use watch::{Stage, Watch};
