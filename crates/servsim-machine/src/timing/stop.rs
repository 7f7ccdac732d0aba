//! What stepping a processor works on, how far it may go, and why it stops.

use super::pending::Pending;
use super::translator::TranslationTimes;
use servsim_core::{Batch, Cycles, Instruction, Privacy};

/// Why stepping stopped.
#[derive(Debug, Clone, Copy)]
pub enum Stop<W> {
    /// The time bound was passed.
    Limit,
    /// The time slice is over.
    Slice,
    /// The record at the position is an event.
    Event,
    /// All records are done.
    End,
    /// A fetch or load that does not hit, and blocks.
    Miss(Pending<W>),
    /// A load that goes on beside execution.
    Load(Pending<W>, Way),
    /// A load that found its data in a level outside the first, when as many as can are under way.
    Busy,
    /// Loads under way keep the next instruction out.
    Full,
    /// A hit has asked for a write-back, which may be granted before the time bound.
    Posted,
    /// The prefetcher wishes to ask for the bus.
    Prefetch,
    /// A reference to the page tables that does not hit.
    Walk(Pending<W>),
    /// A store that does not hit, or must wait behind others.
    Store(Pending<W>),
    /// A core's store that hit in a level outside the first: it is in the buffer for so many cycles.
    FarStore(Pending<W>, Cycles),
}

/// How a load goes on beside execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It misses, and asks at this time at the earliest.
    Asks(u64),
    /// It waits for its address.
    Address,
    /// It waits for the line that this load asked for.
    Merged(u64),
}

/// The records to step through.
pub struct Records<'a> {
    /// Records, with their code and virtual pages where these are asked for.
    pub batch: &'a Batch,
    /// Next one.
    pub position: &'a mut usize,
    /// The address space of each task.
    pub spaces: &'a [Option<u32>],
    /// The list.
    pub instructions: &'a [Instruction],
    /// Which pages are private.
    pub privacy: &'a Privacy,
    /// References per task.
    pub tasks: &'a mut [[[u64; 3]; 2]],
}

/// How far and how fast to step.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Time bound.
    pub limit: u64,
    /// log2 of the line size.
    pub shift: u32,
    /// Cycles per reference, of processors without core.
    pub cycles: Cycles,
    /// Cycles lost at a mispredicted branch.
    pub branch_penalty: Cycles,
    /// Stores that may be in the buffer, where they go there whatever they need; otherwise 0.
    pub most_stores: usize,
    /// Times of address translation.
    pub translation: Option<TranslationTimes>,
}
