//! What a run of hits counts.

// The loop of hits is one function.
#![allow(clippy::inline_always)]

use servsim_core::Op;

/// References by mode and operation; the fourth of each mode stays 0.
pub type RunCounts = [[u64; 4]; 2];

/// References that were performed.
#[derive(Default)]
pub(super) struct Tally {
    /// As far as somebody asks for it.
    pub made: u64,
    pub mode: usize,
    /// Records before this are counted already, and those after it are of one mode:
    pub counted: usize,
    /// how many fetches they stand for that are joined,
    pub fetches: u64,
    /// the sum of their operations as numbers,
    pub operations: u64,
    /// and the stores among them.
    pub stores: u64,
}

impl Tally {
    /// Adds a record of operation `op` that stands for so many references, if it is joined.
    #[inline(always)]
    pub fn add<const JOINED: bool, const BOUNDED: bool>(&mut self, op: usize, references: u64) {
        self.operations += op as u64;
        self.stores += op as u64 >> 1;
        if JOINED && op == Op::Fetch as usize {
            self.fetches += references;
        }
        if BOUNDED {
            self.made += references;
        }
    }

    /// Adds what is not counted yet of the records before `position` to `counts`.
    #[inline(always)]
    pub fn add_to<const JOINED: bool>(&mut self, position: usize, counts: &mut RunCounts) {
        let (loads, counts) = (self.operations - 2 * self.stores, &mut counts[self.mode]);
        let fetches = (position - self.counted) as u64 - loads - self.stores;
        counts[Op::Fetch as usize] += if JOINED { self.fetches } else { fetches };
        counts[Op::Load as usize] += loads;
        counts[Op::Store as usize] += self.stores;
        self.counted = position;
        (self.fetches, self.operations, self.stores) = (0, 0, 0);
    }
}
