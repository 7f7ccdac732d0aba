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
    /// and the loads and stores among them, as [`COUNTED`] tells.
    pub data: u64,
}

/// By operation, what it adds to [`Tally::data`]: loads count in the lower half, stores in the upper one, for which a run has
/// room; one number, because the loop of hits has no register to spare.
const COUNTED: [u64; 4] = {
    let mut counted = [0; 4];
    (counted[Op::Load as usize], counted[Op::Store as usize]) = (1, 1 << 32);
    counted
};

impl Tally {
    /// Adds a record of operation `op` that stands for so many references, if it is joined.
    #[inline(always)]
    pub fn add<const JOINED: bool, const BOUNDED: bool>(&mut self, op: usize, references: u64) {
        self.data += COUNTED[op & 3];
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
        let (loads, stores) = (self.data & u64::from(u32::MAX), self.data >> 32);
        let fetches = (position - self.counted) as u64 - loads - stores;
        let counts = &mut counts[self.mode];
        counts[Op::Fetch as usize] += if JOINED { self.fetches } else { fetches };
        counts[Op::Load as usize] += loads;
        counts[Op::Store as usize] += stores;
        self.counted = position;
        (self.fetches, self.data) = (0, 0);
    }
}
