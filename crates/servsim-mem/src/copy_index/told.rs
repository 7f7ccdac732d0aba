//! Places that somebody else knows, once for the indexes of several machines.

use super::CopyIndex;
use servsim_core::LineAddr;

/// Records for which room is made at once where places are told.
const MORE: usize = 1 << 12;

impl CopyIndex {
    /// From here on all places are told, and none is asked for ([`CopyIndex::find`]): their numbers are kept once for the
    /// indexes of several machines. So they may be those of single lines, which need less room than blocks.
    pub fn leave_out_places(&mut self) {
        self.told = true;
    }

    /// The place of the record of `line`, which is told. Where places are left out it may be any, otherwise the one that
    /// [`super::Places`] tells of lines in the order in which they come here first.
    #[inline]
    pub fn place_told(&mut self, line: LineAddr, told: usize) -> usize {
        if told >= self.length() {
            self.follow(line, told);
        }
        debug_assert!(self.told || self.find(line) == Some(told), "lines come in the order of their places");
        told
    }

    /// Makes room for the record at a place that is told the first time.
    #[cold]
    fn follow(&mut self, line: LineAddr, told: usize) {
        if self.told {
            self.make_room((told + 1).next_multiple_of(MORE));
        } else {
            self.place_of(line);
        }
    }
}
