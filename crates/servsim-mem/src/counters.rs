//! Counters of the memory system: plain integers, split by the mode of the reference (0 user,
//! 1 kernel), added up at the end.

use crate::protocol::BusOp;

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

macro_rules! counters {
    ($(#[$doc:meta] $name:ident: [u64; $n:literal] $(x $m:literal)?,)+) => {
        /// What one processor's references caused. The first index is the mode.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $(#[$doc] pub $name: [[u64; $n]; 2],)+
        }
        impl Counters {
            /// Adds another set of counters.
            pub fn add(&mut self, other: &Self) {
                $(for mode in 0..2 {
                    for (a, b) in self.$name[mode].iter_mut().zip(other.$name[mode]) {
                        *a += b;
                    }
                })+
            }
            /// The difference to an earlier reading.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                let mut result = *self;
                $(for mode in 0..2 {
                    for (a, b) in result.$name[mode].iter_mut().zip(earlier.$name[mode]) {
                        // A false-sharing miss is told when its lifetime ends, never untold.
                        *a -= b;
                    }
                })+
                result
            }
        }
    };
}

counters! {
    /// References by operation: fetch, load, store.
    references: [u64; 3],
    /// Misses by [`MissClass`].
    misses: [u64; 6],
    /// Misses when they happen, whatever their class turns out to be.
    misses_at_once: [u64; 1],
    /// Coherence transactions by [`CoherenceClass`].
    coherence: [u64; 4],
    /// Bus transactions by [`BusOp`].
    bus: [u64; 5],
    /// Fetches supplied by a cache.
    cache_to_cache: [u64; 1],
    /// True-sharing misses whose new words were all written by the same task elsewhere.
    true_by_self: [u64; 1],
    /// Copies removed by a remote fetch: removals caused, and misses on such copies.
    removed: [u64; 2],
    /// Misses by [`MissClass`]; the first index is the owner of the page, not the mode.
    misses_by_owner: [u64; 6],
    /// Coherence transactions by [`CoherenceClass`]; the first index is the owner of the page.
    coherence_by_owner: [u64; 4],
    /// Context-switch misses by [`SwitchCause`](crate::switches::SwitchCause).
    context_switch: [u64; 3],
    /// Misses by [`LossCause`](crate::switches::LossCause).
    misses_by_loss: [u64; 4],
    /// Private copies flushed at switches (all in kernel mode).
    flushed: [u64; 1],
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

    /// Misses of both modes; equals the sum of the classes once the run is finished.
    pub fn total_misses(&self) -> u64 {
        self.misses_at_once[0][0] + self.misses_at_once[1][0]
    }

    /// Bus transactions of one kind.
    pub fn bus_total(&self, op: BusOp) -> u64 {
        self.bus[0][op as usize] + self.bus[1][op as usize]
    }
}
