//! What a run of hits knows of the first level of its processor.

// The loop of hits is one function.
#![allow(clippy::inline_always)]

use crate::array::{Array, Frame, Parts};
use crate::copy_index::CopyIndex;
use crate::words::WordMask;
use servsim_core::LineAddr;

/// The first level of one processor: a cache, or one of code and one of data.
pub(crate) trait FirstLevel<W> {
    /// Where a copy is.
    type Place: Copy + Default;
    /// What hits work on.
    type View<'a>: View<W, Place = Self::Place>
    where
        Self: 'a;
    /// The cache of loads and stores.
    const DATA: usize;

    /// What hits work on, as it is now.
    fn view(&mut self) -> Self::View<'_>;
    /// Where the copy of `line` in cache `half` is, if that has one; the next guess will be right.
    fn find(&mut self, half: usize, line: LineAddr) -> Option<Self::Place>;
    /// Counts a look-up of cache `half` that is not that of a record's first line.
    fn count_second_line(&mut self, half: usize);
    /// When the last use before the run was.
    fn clock(&self) -> u64;
    /// All uses of the run were made until `clock`.
    fn set_clock(&mut self, clock: u64);
}

/// What hits work on in a first level. It is made anew where a run has asked somebody else for something, and lent to
/// nobody: so the compiler keeps it in registers.
pub(crate) trait View<W> {
    /// Where a copy is.
    type Place: Copy + Default;
    /// Whether every fetch of a line is to be told as it is made; otherwise those one after the other are told at once when
    /// they are over ([`View::use_code`]).
    const EACH_FETCH: bool;

    /// Where the copy of `line` in cache `half` is, if nobody has to search for it.
    fn guess(&self, half: usize, line: LineAddr) -> Option<Self::Place>;
    /// What is known of the copy at `place`.
    fn frame(&mut self, place: Self::Place) -> &mut Frame<W>;
    /// The copy at `place` is used at `stamp`, where those of a run ascend; and written if `write`.
    fn use_copy(&mut self, place: Self::Place, stamp: u64, write: bool);
    /// The copy at `place` was fetched from, at `stamp` for the last time, and other places may have been used since; said
    /// only where not each fetch is told.
    fn use_code(&mut self, place: Self::Place, stamp: u64);
}

/// Coherent caches of one processor.
pub(super) struct Coherent<'a, W, const CACHES: usize, const PLAIN: bool> {
    pub caches: &'a mut [Array<W>; CACHES],
    /// What the transaction of a miss asks.
    pub copies: &'a CopyIndex,
    /// The line that was searched for in vain, and in which cache.
    pub missing: Option<(usize, LineAddr)>,
    pub look_ups: &'a mut [u64],
}

impl<W: WordMask, const CACHES: usize, const PLAIN: bool> FirstLevel<W> for Coherent<'_, W, CACHES, PLAIN> {
    type Place = (usize, usize);
    type View<'a>
        = InParts<'a, W, CACHES, PLAIN>
    where
        Self: 'a;
    const DATA: usize = CACHES - 1;

    #[inline(always)]
    fn view(&mut self) -> Self::View<'_> {
        InParts { caches: self.caches.each_mut().map(Array::parts) }
    }

    #[inline(always)]
    fn find(&mut self, half: usize, line: LineAddr) -> Option<Self::Place> {
        let found = self.caches[half].find_for_hits(line);
        if found.is_none() {
            // The access misses soon.
            self.missing = Some((half, line));
            self.caches[half].prefetch(line);
            self.copies.prefetch_place(line);
        }
        Some((half, found?))
    }

    fn count_second_line(&mut self, half: usize) {
        self.look_ups[half] += 1;
    }

    #[inline(always)]
    fn clock(&self) -> u64 {
        // One for both, so that a use has one stamp whichever it is of.
        self.caches.iter().map(|cache| cache.clock).fold(0, u64::max)
    }

    #[inline(always)]
    fn set_clock(&mut self, clock: u64) {
        self.caches.iter_mut().for_each(|cache| cache.clock = clock);
    }
}

/// The same in parts.
pub(super) struct InParts<'a, W, const CACHES: usize, const PLAIN: bool> {
    caches: [Parts<'a, W>; CACHES],
}

impl<W: WordMask, const CACHES: usize, const PLAIN: bool> View<W> for InParts<'_, W, CACHES, PLAIN> {
    type Place = (usize, usize);
    // In a cache of code alone nothing is used between fetches of one line, and stamps tell what was last.
    const EACH_FETCH: bool = !PLAIN && CACHES == 1;

    #[inline(always)]
    fn guess(&self, half: usize, line: LineAddr) -> Option<Self::Place> {
        Some((half, self.caches[half % CACHES].guess(line)?))
    }

    #[inline(always)]
    fn frame(&mut self, (half, index): Self::Place) -> &mut Frame<W> {
        self.caches[half % CACHES].frame(index)
    }

    #[inline(always)]
    fn use_copy(&mut self, (half, index): Self::Place, stamp: u64, _write: bool) {
        self.caches[half % CACHES].use_frame::<PLAIN>(index, stamp);
    }

    #[inline(always)]
    fn use_code(&mut self, (half, index): Self::Place, stamp: u64) {
        let last = self.frame((half, index)).stamp.max(stamp);
        self.use_copy((half, index), last, false);
    }
}
