//! Blocks of neighbouring lines, by which their records are found.

use crate::sparse::{Entry, Table};
use servsim_core::LineAddr;

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

/// Where the records of lines are: in blocks in the order in which these were made.
#[derive(Debug)]
pub struct Places {
    blocks: Table<Block>,
    /// log2 of the lines of a block.
    shift: u32,
}

impl Default for Places {
    fn default() -> Self {
        Self { blocks: Table::default(), shift: BLOCK.ilog2() }
    }
}

impl Places {
    /// Brings nearer what tells the place of `line`.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        self.blocks.prefetch(line.0 >> self.shift);
    }

    /// Places of lines each by itself, for [`super::CopyIndex::place_told`].
    pub fn by_line() -> Self {
        Self { shift: 0, ..Self::default() }
    }

    /// The place of `line`, in a block that is made if it is new.
    ///
    /// # Panics
    /// When there are more lines than places have numbers.
    #[inline]
    pub fn place_of(&mut self, line: LineAddr) -> usize {
        let block = self.blocks.at(line.0 >> self.shift);
        let mut rank = block.rank;
        if rank == Block::FREE.rank {
            rank = self.add_block(line);
        }
        self.place(rank, line)
    }

    /// Numbers a new block, that of `line`; its rank.
    #[cold]
    fn add_block(&mut self, line: LineAddr) -> u32 {
        let rank = self.blocks.len() - 1;
        let lines = (rank + 1) << self.shift;
        assert!(u32::try_from(lines).is_ok(), "more than {lines} lines");
        self.blocks.at(line.0 >> self.shift).rank = rank as u32;
        rank as u32
    }

    /// The place of `line`, if its block was made.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        self.blocks.get(line.0 >> self.shift).map(|block| self.place(block.rank, line))
    }

    /// The place of `line`, whose block has this rank.
    #[inline]
    fn place(&self, rank: u32, line: LineAddr) -> usize {
        (rank as usize) << self.shift | (line.0 & ((1 << self.shift) - 1)) as usize
    }

    /// Places up to the last block.
    pub(super) fn len(&self) -> usize {
        self.blocks.len() << self.shift
    }

    /// The blocks by ascending line.
    pub(super) fn sorted(&self) -> Vec<Block> {
        self.blocks.sorted()
    }

    /// Host memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.bytes()
    }
}
