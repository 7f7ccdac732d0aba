//! How caches lost their copies: to whom, and when.

use crate::array::EMPTY;
use crate::sparse::Entry;
use servsim_core::{CacheId, LineAddr};

/// How a cache lost the copy that a miss lacks, in the order of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LossCause {
    /// It never had one.
    NeverHeld = 0,
    /// A transaction of another cache ended it, whatever became of the frame since.
    Invalidated = 1,
    /// Another line took its frame, here or in an inclusive level further out.
    Replaced = 2,
    /// It was flushed at a switch.
    Flushed = 3,
}

impl LossCause {
    /// Names in results, in order.
    pub const NAMES: [&'static str; 4] = ["never_held", "invalidated", "replaced", "flushed"];
}

/// Who ended a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// The fill of a task.
    Fill(u32),
    /// A transaction of another cache.
    Snoop,
    /// The flush at a switch.
    Flush,
}

/// Who took the last copy of a line from a cache, and the number of quanta begun by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loss {
    /// The taker, and in the lowest bits the cache.
    pub(super) taken: u32,
    pub(super) quantum: u32,
}

/// Bits for the number of a cache.
const CACHE_BITS: u32 = crate::MAX_CACHES.ilog2();
/// Takers that are no task, and up from the last the tasks.
const BY_NOBODY: u32 = 0;
const BY_SNOOP: u32 = 1;
const BY_FLUSH: u32 = 2;
const BY_TASK: u32 = 3;
/// One more than the largest number of a task.
const MOST_TASKS: u32 = (1 << (32 - CACHE_BITS)) - BY_TASK;

impl Loss {
    /// That of a copy that a cache never had.
    pub const NEVER: Self = Self { taken: BY_NOBODY << CACHE_BITS, quantum: 0 };

    /// That of `cache`'s copy to `taker` after so many quanta.
    ///
    /// # Panics
    /// For a task whose number is too large.
    #[inline]
    pub fn of(cache: CacheId, taker: Taker, quantum: u32) -> Self {
        let taker = match taker {
            Taker::Snoop => BY_SNOOP,
            Taker::Flush => BY_FLUSH,
            Taker::Fill(task) => {
                assert!(task < MOST_TASKS, "task {task}: no more than {MOST_TASKS} tasks are told apart");
                BY_TASK + task
            }
        };
        Self { taken: taker << CACHE_BITS | cache.0 as u32, quantum }
    }

    /// How the copy was lost.
    #[inline]
    pub fn cause(self) -> LossCause {
        match self.taker() {
            None => LossCause::NeverHeld,
            Some(Taker::Snoop) => LossCause::Invalidated,
            Some(Taker::Fill(_)) => LossCause::Replaced,
            Some(Taker::Flush) => LossCause::Flushed,
        }
    }

    /// The cache that lost it.
    #[inline]
    pub(super) fn cache(self) -> u32 {
        self.taken & ((1 << CACHE_BITS) - 1)
    }

    #[inline]
    pub(super) fn taker(self) -> Option<Taker> {
        match self.taken >> CACHE_BITS {
            BY_NOBODY => None,
            BY_SNOOP => Some(Taker::Snoop),
            BY_FLUSH => Some(Taker::Flush),
            task => Some(Taker::Fill(task - BY_TASK)),
        }
    }
}

/// The loss of a line by a cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct LossOf {
    pub line: LineAddr,
    pub loss: Loss,
}

impl Entry for LossOf {
    type Key = (LineAddr, u32);
    const FREE: Self = Self { line: EMPTY, loss: Loss::NEVER };
    #[inline]
    fn new((line, cache): (LineAddr, u32)) -> Self {
        Self { line, loss: Loss { taken: BY_NOBODY << CACHE_BITS | cache, quantum: 0 } }
    }
    #[inline]
    fn is(&self, (line, cache): (LineAddr, u32)) -> bool {
        self.line == line && self.loss.cache() == cache
    }
    #[inline]
    fn is_free(&self) -> bool {
        self.line == EMPTY
    }
    fn key(&self) -> (LineAddr, u32) {
        (self.line, self.loss.cache())
    }
    #[inline]
    fn number((line, cache): (LineAddr, u32)) -> u64 {
        line.0 ^ u64::from(cache) << 52
    }
}
