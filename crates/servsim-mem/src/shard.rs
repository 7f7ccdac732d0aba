//! A part of all lines: those whose low bits have one value. Sets of caches are indexed by the low
//! bits of the line, so the lines of one shard share sets with one another only, and what happens to
//! one shard does not depend on the others, as long as nothing but sets ties lines together.

use servsim_core::LineAddr;

/// One of a power of two of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    mask: u64,
    index: u64,
}

impl Shard {
    /// All lines.
    pub const WHOLE: Self = Self { mask: 0, index: 0 };

    /// Number `index` of `count`.
    ///
    /// # Panics
    /// When `count` is not a power of two above `index`.
    pub fn new(index: usize, count: usize) -> Self {
        assert!(count.is_power_of_two() && index < count, "shard {index} of {count}");
        Self { mask: count as u64 - 1, index: index as u64 }
    }

    /// Whether `line` belongs to it.
    #[inline]
    pub fn has(self, line: LineAddr) -> bool {
        line.0 & self.mask == self.index
    }

    /// The number of the shard of `line` among as many as this one is of.
    #[inline]
    pub fn of(self, line: LineAddr) -> usize {
        (line.0 & self.mask) as usize
    }

    /// Whether it is the first.
    pub fn is_first(self) -> bool {
        self.index == 0
    }
}
