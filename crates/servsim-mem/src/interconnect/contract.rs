//! What engines and kinds of interconnects say to one another: requests, grants, and what was performed at them.

use crate::protocol::BusOp;
use crate::system::Outcome;
use servsim_core::{CpuId, LineAddr};

/// Where a line lives: the number of its node, or of its bank in a machine with one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Home(pub usize);

/// Who supplied a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supplier {
    /// The caches of a processor.
    Processor(CpuId),
    /// A shared level, from the inside out; with core groups that of the asking processor's group.
    Shared(usize),
    /// The level of another core group, of which this is the first processor.
    Group(CpuId),
    /// Memory.
    Memory,
}

/// Priority class, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A block that a processor or its store buffer waits for.
    Fetch,
    /// Invalidate or write.
    Coherence,
    /// A block that nobody waits for.
    Prefetch,
    /// Write-back.
    WriteBack,
}

/// A request that waits for its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusRequest {
    /// Processor.
    pub cpu: CpuId,
    /// When it was made.
    pub ready: u64,
    /// Line number.
    pub line: LineAddr,
    /// Priority class.
    pub class: Class,
    /// What of the processor asks.
    pub origin: Origin,
}

/// What of a processor asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The access that the processor waits for.
    Processor,
    /// The oldest store of its buffer.
    StoreBuffer,
    /// A load under way beside execution, by its number.
    Load(u64),
    /// A prefetch, by its number.
    Prefetch(u64),
}

/// The time of what is complete at a time that is not known yet.
pub const LATER: u64 = u64::MAX;

/// A request that has been granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// When.
    pub time: u64,
    /// What was asked for.
    pub request: BusRequest,
    /// The home of its line.
    pub home: Home,
}

/// What was performed at a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// The transaction; `None` when the state found at the grant needs none any more.
    pub op: Option<BusOp>,
    /// Who has the block.
    pub supplier: Supplier,
    /// Line whose dirty copy made room and is written back to its own home.
    pub victim: Option<LineAddr>,
    /// It concerned nothing outside the core group of its processor, and takes neither the order point nor any way.
    pub within_group: bool,
}

impl Transaction {
    /// A dirty line goes to its home.
    pub const WRITE_BACK: Self =
        Self { op: Some(BusOp::WriteBack), supplier: Supplier::Memory, victim: None, within_group: false };

    /// What a transaction of the caches, whose block `supplier` has, means here.
    pub fn of(outcome: &Outcome, supplier: Supplier) -> Self {
        let (op, victim, within_group) = (outcome.op, outcome.write_back, outcome.within_group);
        Self { op, supplier, victim, within_group }
    }
}
