//! The memory system: cache arrays, coherence protocols as tables with their model checker, miss
//! and transaction classification, and what joins processors and memory.
//!
//! Reads no file, clock or environment; both engines drive the same [`CoherentSystem`].

pub mod array;
pub mod cache_set;
pub mod copy_index;
pub mod counters;
mod filled;
pub mod hierarchy;
pub mod history;
mod hits;
mod host;
pub mod interconnect;
pub mod late_uses;
pub mod level;
pub mod messages;
pub mod observer;
pub mod prefetch;
pub mod protocol;
pub mod replacement;
pub mod running_tasks;
pub mod shadow;
mod shared;
pub mod snapshot;
mod sparse;
pub mod switches;
pub mod system;
pub mod tlb;
mod undecided;
pub mod words;

pub use array::{Geometry, SetIndex};
pub use cache_set::MAX_CACHES;
pub use counters::{CoherenceClass, Counters, MissClass};
pub use hierarchy::{GroupCounters, GroupSpec, Hierarchy, HierarchySpec, Inclusion, LevelSpec};
pub use history::MissingCell;
pub use hits::{Few, Follower, RunCounts, Turn};
pub use interconnect::{
    Adaptive, BusRequest, BusTimes, Class, CoherenceSpec, Completed, Grant, Home, Interconnect,
    InterconnectSpec, LatencyTable, LinkCounters, MessageCounters, MessageSpec, MigrationCounters,
    MigrationSpec, NodeCounts, NodeMemory, NodeSpec, Origin, PageMove, PairCounters, PathSpec,
    RequestCounters, Supplier, Transaction, WriteBufferCounters,
};
pub use level::LevelCounters;
pub use observer::{By, Observer, StateEvent, Transition};
pub use prefetch::{PrefetchSpec, Prefetcher};
pub use switches::{LossCause, SwitchCause};
pub use system::{Access, CoherentSystem, Outcome, Page, PrefetchCounters};
pub use tlb::{Mmu, TlbCounters, TlbSpec, Translated, Walk};
pub use words::{Wide, WordMask};

/// Most processors.
pub const MAX_PROCESSORS: usize = 1024;
