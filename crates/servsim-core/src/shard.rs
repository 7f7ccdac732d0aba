//! A part of all lines: those whose low bits have one value. Sets of caches are indexed by the low
//! bits of the line, so the lines of one shard share sets with one another only, and what happens to
//! one shard does not depend on the others, as long as nothing but sets ties lines together.

use crate::ids::LineAddr;

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

    /// Its bytes, where lines are of `1 << shift`.
    pub fn bytes(self, shift: u32) -> BytesOfShard {
        let start = self.index << shift;
        BytesOfShard { mask: self.mask << shift, end: start | ((1 << shift) - 1) }
    }

    /// Whether it is the first.
    pub fn is_first(self) -> bool {
        self.index == 0
    }
}

/// The bytes of a shard.
#[derive(Debug, Clone, Copy)]
pub struct BytesOfShard {
    /// The bits of an address that tell shards apart.
    mask: u64,
    /// The last byte of the first line of the shard.
    end: u64,
}

impl BytesOfShard {
    /// Whether some byte from `first` to `last` is one of them; if these lie in several lines, also where perhaps none is. As few
    /// instructions as can be: whoever reads a trace for one shard asks for every reference.
    #[inline]
    pub fn may_include(self, first: u64, last: u64) -> bool {
        // How far the next line of the shard is, in whole lines. What two addresses differ by is at least their distance, and
        // less than a line if they lie in one.
        self.end.wrapping_sub(first) & self.mask <= first ^ last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_shard_are_found_and_those_of_a_line_in_one_only() {
        for (shift, count) in [(4, 1), (4, 2), (4, 4), (5, 8)] {
            for first in (0..1000).chain(u64::MAX - 300..u64::MAX) {
                for last in first..=first.saturating_add(70) {
                    let lines = LineAddr::of(first, shift).0..=LineAddr::of(last, shift).0;
                    for shard in (0..count).map(|index| Shard::new(index, count)) {
                        let has_some = lines.clone().any(|line| shard.has(LineAddr(line)));
                        let found = shard.bytes(shift).may_include(first, last);
                        let one_line = lines.start() == lines.end();
                        assert!(found == has_some || found && !one_line, "{shard:?}, {first} to {last}");
                    }
                }
            }
        }
    }
}
