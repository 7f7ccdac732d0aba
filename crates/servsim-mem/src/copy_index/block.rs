//! Blocks of neighbouring lines, by which their records are found.

use crate::sparse::Entry;

/// Lines of a block: a page of 64-byte lines.
pub(super) const BLOCK: u64 = 64;

/// Where the records of neighbouring lines are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// The first of the lines, divided by their number.
    pub number: u64,
    /// The place of its record, divided in the same way.
    pub rank: u32,
}

/// No block has this number, since a line has 4 bytes or more.
const NO_BLOCK: u64 = u64::MAX;

impl Entry for Block {
    type Key = u64;
    const FREE: Self = Self { number: NO_BLOCK, rank: u32::MAX };
    #[inline]
    fn new(number: u64) -> Self {
        Self { number, ..Self::FREE }
    }
    #[inline]
    fn is(&self, number: u64) -> bool {
        self.number == number
    }
    #[inline]
    fn is_free(&self) -> bool {
        self.number == NO_BLOCK
    }
    fn key(&self) -> u64 {
        self.number
    }
    #[inline]
    fn number(number: u64) -> u64 {
        number
    }
}
