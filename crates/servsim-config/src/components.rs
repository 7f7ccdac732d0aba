//! The parts of a machine, as the engines want them: quantities with units, names checked.

use servsim_units::{Bytes, Cycles, Picos};

/// A cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Capacity.
    pub size: Bytes,
    /// Ways per set.
    pub associativity: u32,
    /// Line size.
    pub line: Bytes,
}

/// Who has a cache of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Each processor.
    Processor,
    /// Each core group.
    Group,
    /// All processors together.
    All,
}

/// A level outside the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterLevel {
    /// Capacity of each of its caches.
    pub size: Bytes,
    /// Ways per set.
    pub associativity: u32,
    /// Registered replacement policy.
    pub replacement: String,
    /// Who has one.
    pub sharing: Sharing,
    /// `inclusive`, `exclusive` or `neither`.
    pub inclusion: String,
    /// Lines written from inside that are not there go on outward.
    pub write_around: bool,
    /// Time of a hit beyond that of a first-level hit.
    pub latency: Cycles,
}

impl OuterLevel {
    /// Whether several processors share it, beyond the point of coherence.
    pub fn is_shared(&self) -> bool {
        self.sharing != Sharing::Processor
    }
}

/// The coherence protocol and its open points.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent switches, one per open point
pub struct Protocol {
    /// Registered name.
    pub name: String,
    /// Clean copies supply too.
    pub any_copy_supplies: bool,
    /// Invalidates and fetches of stores drain asynchronously, not only writes.
    pub all_asynchronous: bool,
    /// A write miss keeps the migratory classification.
    pub sticky_migratory: bool,
    /// Blocks begin migratory.
    pub start_migratory: bool,
    /// Private hand-over updates memory.
    pub private_handover_updates_memory: bool,
    /// Two hand-overs show that a block migrates.
    pub two_hand_overs: bool,
    /// Written words go to memory too.
    pub write_updates_memory: bool,
    /// Who supplies a private fetch, unless as for any other.
    pub any_copy_supplies_private: Option<bool>,
    /// Per-process kernel data count as private.
    pub private_kernel: bool,
    /// Private copies leave the cache when their task leaves the processor.
    pub flush_private: bool,
}

/// Bus times, in processor cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bus {
    /// Invalidate.
    pub invalidate: Cycles,
    /// One-word write.
    pub write: Cycles,
    /// Fetch from memory, without its bytes.
    pub memory_read: Cycles,
    /// Fetch from a cache, without its bytes.
    pub cache_read: Cycles,
    /// What the caches of a processor take longer than that.
    pub intervention: Cycles,
    /// Write-back, without its bytes.
    pub write_back: Cycles,
    /// Bytes moved per cycle.
    pub bytes_per_cycle: u64,
    /// Further occupancy of a memory fetch.
    pub memory_hold: Cycles,
    /// First come, first served instead of round-robin.
    pub fifo: bool,
}

/// What joins processors and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interconnect {
    /// Registered name.
    pub kind: String,
    /// Time of a transaction at the order point of a crossbar or network.
    pub order: Cycles,
    /// Time of a hop of a network.
    pub hop: Cycles,
    /// Memory banks.
    pub banks: usize,
    /// Time that an access keeps a bank busy.
    pub bank_time: Cycles,
}

/// Which frames the pages of a trace lie in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Registered policy.
    pub policy: String,
    /// Seed of a random policy.
    pub seed: u64,
}

/// How a processor executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreModel {
    /// A fixed time per reference.
    Fixed,
    /// Blocks at the first use of a load's data.
    InOrder,
    /// Runs on until its window is full.
    OutOfOrder,
}

/// The processor core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    /// How it executes.
    pub model: CoreModel,
    /// Instructions per cycle.
    pub width: u64,
    /// Instructions in the window.
    pub window: u64,
    /// From the execution of a mispredicted branch to the next entry.
    pub branch_penalty: Cycles,
    /// Latencies of integer operations, multiplications and divisions, and of the same of floating
    /// point.
    pub latencies: [Cycles; 6],
    /// From the registers of an address to the look-up.
    pub agen: Cycles,
    /// From the registers of an address to the data of a first-level hit.
    pub load_to_use: Cycles,
}

/// Which recorded locks are taken again in simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arbitration {
    /// None.
    Off,
    /// Those whose waiters spin.
    Spinlocks,
    /// Those whose waiters sleep as well.
    All,
}

/// Tasks of the load generator that run on a machine of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clients {
    /// Time of one of their references.
    pub cycles_per_reference: Cycles,
    /// Time until a wake-up has crossed the network.
    pub latency: Picos,
}

/// Locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locks {
    /// Taken again in simulated time.
    pub arbitrated: Arbitration,
    /// Between two loads of a processor that spins.
    pub spin_interval: Cycles,
}

/// Translation look-aside buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlb {
    /// Entries of the first level; of each half when it is split.
    pub entries: usize,
    /// Its ways.
    pub associativity: usize,
    /// Whether instructions and data have one each.
    pub split: bool,
    /// Entries and ways of a second level.
    pub second: Option<(usize, usize)>,
    /// Time of a hit in the second level.
    pub second_latency: Cycles,
    /// Whether entries keep the number of their address space.
    pub tagged: bool,
    /// Entries of the cache of upper table levels.
    pub walk_entries: usize,
    /// Time of a page-walk reference that hits.
    pub walk_step: Cycles,
    /// Whether a trace with one address per reference is taken as one address space.
    pub identity: bool,
}

/// A prefetcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefetch {
    /// Registered policy.
    pub policy: String,
    /// Lines or strides ahead.
    pub degree: u64,
    /// Level that takes the lines, 1 or 2.
    pub level: usize,
    /// Entries of its table.
    pub entries: usize,
}
