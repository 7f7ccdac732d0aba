//! Where the hits of a first level inside private ones lie, kept true.

// The loop of hits is one function.
#![allow(clippy::inline_always)]

use super::{Level, Tag};
use crate::array::{Array, Frame, EMPTY};
use crate::replacement::Replacement;
use crate::words::WordMask;
use servsim_core::LineAddr;

/// Where the copy of a line lies that hits of a first level inside a private one found: its way, and the place in the pool of
/// its processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    line: LineAddr,
    way: u32,
    place: u32,
}

impl Known {
    pub const NOTHING: Self = Self { line: EMPTY, way: 0, place: 0 };
}

/// No place in a pool.
pub(super) const NO_PLACE: u32 = u32::MAX;

/// What hits of a first level work on, each part by itself, as those of [`Array::parts`].
pub(crate) struct Parts<'a> {
    known: &'a [Known],
    tags: &'a mut [Tag],
    ways: usize,
    replacement: &'a mut Replacement,
}

impl Parts<'_> {
    /// The places of the copy of `line` here and in the pool, if nothing has to be searched for.
    #[inline(always)]
    pub fn guess<W>(&self, line: LineAddr, pool: &[Frame<W>]) -> Option<(usize, usize)> {
        let known = &self.known[line.0 as usize & (self.known.len() - 1)];
        // The place in the pool is looked at before it is believed.
        (known.line == line && pool.get(known.place as usize).is_some_and(|frame| frame.line == line))
            .then_some((known.way as usize, known.place as usize))
    }

    /// Marks the copy at `index` as used at `stamp`, and as written if `write`.
    #[inline(always)]
    pub fn use_way(&mut self, index: usize, stamp: u64, write: bool) {
        let tag = &mut self.tags[index];
        tag.set_stamp(stamp);
        tag.0 |= u64::from(write);
        self.replacement.hit_at(index, self.ways);
    }
}

impl Level {
    /// The parts that hits work on.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        assert!(!self.known.is_empty(), "a first level");
        Parts {
            known: &self.known,
            tags: &mut self.tags,
            ways: self.ways,
            replacement: &mut self.replacement,
        }
    }

    /// Where `line` lies is not known any more.
    #[inline]
    pub(super) fn forget(&mut self, line: LineAddr) {
        let last = self.known.len().wrapping_sub(1);
        if let Some(known) = self.known.get_mut(line.0 as usize & last) {
            if known.line == line {
                *known = Known::NOTHING;
            }
        }
    }

    /// The places of the copy of `line` here and in `pool`, if this level has a valid one and knows; it will be guessed then.
    #[inline(never)]
    pub(crate) fn find_quickly<W: WordMask>(
        &mut self,
        pool: &Array<W>,
        line: LineAddr,
    ) -> Option<(usize, usize)> {
        if let Some(found) = self.parts().guess(line, &pool.frames) {
            return Some(found);
        }
        let way = self.find_valid(line)?;
        let place = self.places[way];
        if pool.frames.get(place as usize).is_none_or(|frame| frame.line != line) {
            return None;
        }
        let last = self.known.len() - 1;
        self.known[line.0 as usize & last] = Known { line, way: way as u32, place };
        Some((way, place as usize))
    }

    /// An access to `line` was performed here, if there is a copy, which lies at `place` of its processor's pool; and left it
    /// dirty if `written`.
    #[inline]
    pub(crate) fn note_access(&mut self, line: LineAddr, place: usize, written: bool) {
        let Some(index) = self.find_valid(line) else { return };
        if let Some(known) = self.places.get_mut(index) {
            *known = place as u32;
        }
        if written {
            self.write_at(index);
        }
    }
}
