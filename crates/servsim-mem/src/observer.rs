//! What a [`CoherentSystem`](crate::CoherentSystem) tells whoever watches it: misses with their
//! class, coherence transactions with theirs, removals, and every transition of every copy.
//!
//! The observer is a type parameter. That of a plain simulation is `()`, whose [`Observer::ACTIVE`]
//! is false: the calls are compiled away, so that watching costs nothing where nobody watches.
//!
//! The class of an invalidation miss on a shared page is known only when a word written elsewhere
//! is touched or the copy is lost. Such a miss is reported twice: at once without a class, and
//! later by [`Observer::judged`], which names the processor and the line.

use crate::counters::{CoherenceClass, MissClass};
use crate::protocol::{BusOp, Snoop, State};
use servsim_core::{CacheId, LineAddr};

/// The reference that the system is working on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct By {
    /// The cache that it uses.
    pub cache: CacheId,
    /// Line number: address divided by the line size.
    pub line: LineAddr,
    /// The task.
    pub task: u32,
    /// Whether it was made in kernel mode.
    pub kernel: bool,
    /// Whether it is a store.
    pub write: bool,
    /// The operation's number.
    pub slot: usize,
}

/// What happens to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateEvent {
    /// Load or fetch by the own processor; the transaction that it needed.
    Read(Option<BusOp>),
    /// Store by the own processor; the transaction that it needed.
    Write(Option<BusOp>),
    /// The frame is taken for another line.
    Evict,
    /// The task that used the copy leaves the processor, and its private copies are flushed.
    Flush,
    /// A transaction of another cache.
    Snoop(Snoop),
}

impl StateEvent {
    /// Heading of the event's column in the printed tables.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Read(_) => "PrRd",
            Self::Write(_) => "PrWr",
            Self::Evict => "Evict",
            Self::Flush => "Flush",
            Self::Snoop(column) => column.heading(),
        }
    }
}

/// One step of one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Whose copy.
    pub cache: CacheId,
    /// Of which line.
    pub line: LineAddr,
    /// State before.
    pub from: State,
    /// What happened.
    pub event: StateEvent,
    /// State after.
    pub to: State,
}

/// Watches a coherent system.
#[allow(unused_variables)] // the bodies are empty, the names are the documentation
pub trait Observer {
    /// Whether the calls are made at all.
    const ACTIVE: bool = true;

    /// A miss, when it happens; without a class if [`Observer::judged`] will tell it.
    fn miss(&mut self, by: &By, class: Option<MissClass>) {}

    /// The class of an earlier miss of `cache` on `line`.
    fn judged(&mut self, cache: CacheId, line: LineAddr, class: MissClass) {}

    /// A coherence transaction (invalidate or write).
    fn coherence(&mut self, by: &By, op: BusOp, class: CoherenceClass) {}

    /// The copy of `by.line` in `cache` went because `by` fetched the block.
    fn removal(&mut self, by: &By, cache: CacheId) {}

    /// A copy changed its state, was snooped, or was fetched. Hits that leave the state as it was
    /// are not reported.
    fn transition(&mut self, by: &By, step: &Transition) {}
}

impl Observer for () {
    const ACTIVE: bool = false;
}
