//! Where a pool holds which line, and which of its frames are free.

use crate::array::EMPTY;
use crate::sparse::{Entry, Table};
use servsim_core::LineAddr;

/// The frame of one line.
#[derive(Debug, Clone, Copy)]
struct Place {
    line: LineAddr,
    index: u32,
}

impl Entry for Place {
    type Key = LineAddr;
    const FREE: Self = Self { line: EMPTY, index: 0 };
    fn new(line: LineAddr) -> Self {
        Self { line, index: 0 }
    }
    #[inline]
    fn is(&self, line: LineAddr) -> bool {
        self.line == line
    }
    #[inline]
    fn is_free(&self) -> bool {
        self.line == EMPTY
    }
    fn key(&self) -> LineAddr {
        self.line
    }
    #[inline]
    fn number(line: LineAddr) -> u64 {
        line.0
    }
}

/// Frames by line.
#[derive(Debug)]
pub(super) struct Pool {
    places: Table<Place>,
    /// Frames without a line.
    pub free: Vec<usize>,
}

impl Pool {
    /// No lines, and these frames without one.
    pub fn new(free: Vec<usize>) -> Self {
        Self { places: Table::default(), free }
    }

    /// The frame of `line`.
    #[inline(never)]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        self.places.get(line).map(|place| place.index as usize)
    }

    /// Brings nearer what [`Pool::find`] looks at.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        self.places.prefetch(line);
    }

    /// Frame `index` is that of `line`, which had none.
    pub fn insert(&mut self, line: LineAddr, index: usize) {
        self.places.at(line).index = index as u32;
    }

    /// Frame `index` is no longer that of `line`.
    pub fn remove(&mut self, line: LineAddr, index: usize) {
        self.places.remove(line);
        self.free.push(index);
    }
}
