//! Counters of the memory system: plain integers, split by the mode of the reference (0 user,
//! 1 kernel), added up at the end. A further counter is a further line of the declaration below.

use crate::protocol::BusOp;
use crate::switches::{LossCause, SwitchCause};

/// Class of a miss; see the head of `system.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MissClass {
    /// This cache never held the block.
    Cold = 0,
    /// A fully associative cache of the same size would have missed too.
    Capacity = 1,
    /// A fully associative cache of the same size would have hit.
    Conflict = 2,
    /// Invalidated, and a word newly written elsewhere was used.
    TrueSharing = 3,
    /// Invalidated, and no such word was used.
    FalseSharing = 4,
    /// Invalidated although private: the task had migrated.
    PassiveSharing = 5,
}

impl MissClass {
    /// Names in results, in order.
    pub const NAMES: [&'static str; 6] =
        ["cold", "capacity", "conflict", "true_sharing", "false_sharing", "passive_sharing"];
}

/// Class of a coherence transaction (invalidate or write).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CoherenceClass {
    /// No other copy existed.
    Needless = 0,
    /// A holder had touched the written word.
    TrueSharing = 1,
    /// No holder had touched it.
    FalseSharing = 2,
    /// The page is private.
    PassiveSharing = 3,
}

impl CoherenceClass {
    /// Names in results, in order.
    pub const NAMES: [&'static str; 4] = ["needless", "true_sharing", "false_sharing", "passive_sharing"];
}

/// Names of references by operation, in the order of the counters.
const OPERATIONS: [&str; 3] = ["fetch", "load", "store"];

servsim_core::counters! {
    /// What one processor's references caused. The first index is the mode, or the owner of the page where so named.
    pub struct Counters {
        references: [[u64; 3]; 2] = "references_by_kind" OPERATIONS, "references", Modes, [],
            "References by operation: instruction fetches, loads and stores";
        misses: [[u64; 6]; 2] = "misses" MissClass::NAMES, "misses", ModesAndTotal, [summary windows],
            "Misses of the outermost private caches by class: cold, capacity, conflict, or by sharing; if the end comes before what \
             tells true from false, false";
        misses_at_once: [[u64; 1]; 2] = "misses_at_once" [], "misses", Hidden, [],
            "Misses when they happen, whatever their class turns out to be";
        true_by_self: [[u64; 1]; 2] = "misses_true_by_self" [], "misses", Modes, [],
            "True-sharing misses whose new words were all written by the same task elsewhere";
        coherence: [[u64; 4]; 2] = "coherence" CoherenceClass::NAMES, "transactions", ModesAndTotal, [summary windows],
            "Coherence transactions (invalidations and updates) by the sharing that caused them";
        removed: [[u64; 2]; 2] = "removed" ["copies", "misses"], "lines", Modes, [summary],
            "Copies removed because another processor fetched the line, and misses on copies that were removed so";
        misses_by_owner: [[u64; 6]; 2] = "misses_by_owner" MissClass::NAMES, "misses", ModesAndTotal, [],
            "Misses of the outermost private caches by class and by owner of the page (user or kernel), whatever the mode";
        coherence_by_owner: [[u64; 4]; 2] = "coherence_by_owner" CoherenceClass::NAMES, "transactions", ModesAndTotal, [],
            "Coherence transactions by class and by owner of the page (user or kernel), whatever the mode";
        context_switch: [[u64; 3]; 2] = "context_switch_misses" SwitchCause::NAMES, "misses", ModesAndTotal, [],
            "Misses on lines that a task lost because of a switch: evicted by another task, left behind, or flushed";
        misses_by_loss: [[u64; 4]; 2] = "misses_by_loss" LossCause::NAMES, "misses", ModesAndTotal, [],
            "Misses of the outermost private caches by how the cache lost the copy that they lack";
        flushed: [[u64; 1]; 2] = "flushed_copies" [], "lines", Parts, [],
            "Private copies flushed when their task left the processor";
        bus: [[u64; 5]; 2] = "bus" BusOp::NAMES, "transactions", Parts, [summary windows],
            "Transactions on the bus or interconnect by kind: fetches to read or to own, invalidations, one-word writes to \
             other copies, write-backs";
        cache_to_cache: [[u64; 1]; 2] = "bus.cache_to_cache" [], "lines", Parts, [windows],
            "Fetched lines that another cache supplied";
        hit_modified: [[u64; 1]; 2] = "bus.hit_modified" [], "lines", Parts, [summary windows],
            "Fetched lines that another cache supplied and had written (HITM of performance counters)";
    }
}

impl Counters {
    /// Every reference.
    pub fn total_references(&self) -> u64 {
        self.references.iter().flatten().sum()
    }

    /// Instruction fetches: one per instruction.
    pub fn instructions(&self) -> u64 {
        self.references[0][0] + self.references[1][0]
    }

    /// Counts a miss of this class, in mode `mode` and on a page of owner `owner`.
    #[inline]
    pub(crate) fn count_miss(&mut self, [mode, owner]: [usize; 2], class: MissClass) {
        self.misses[mode][class as usize] += 1;
        self.misses_by_owner[owner][class as usize] += 1;
    }

    /// The same of a coherence transaction.
    #[inline]
    pub(crate) fn count_coherence(&mut self, [mode, owner]: [usize; 2], class: CoherenceClass) {
        self.coherence[mode][class as usize] += 1;
        self.coherence_by_owner[owner][class as usize] += 1;
    }

    /// Misses of both modes; equals the sum of the classes once the run is finished.
    pub fn total_misses(&self) -> u64 {
        self.misses_at_once[0][0] + self.misses_at_once[1][0]
    }

    /// Bus transactions of one kind.
    pub fn bus_total(&self, op: BusOp) -> u64 {
        self.bus[0][op as usize] + self.bus[1][op as usize]
    }
}
