//! Uses of lines that caches are not asked for, because they change nothing there at once: whoever leaves them out
//! tells them later ([`LateUses`]).
//!
//! A use of a copy that needs no transaction and no change of state says three things: that the task has touched
//! and perhaps written words, and that the copy is the youngest of its set. The first are asked for when another cache
//! makes a transaction for the line or the copy is lost, the last when a line of the set makes room. Until these are
//! told, a copy that was used counts as younger than all whose last use is known.

use crate::array::{join_writers, Array, PENDING};
use crate::observer::Observer;
use crate::system::{Access, CoherentSystem};
use crate::words::WordMask;
use servsim_core::{CacheId, LineAddr};

/// The stamp of a copy that will still be used, or whose last use will be told later; the bit above tells valid copies
/// from others when a victim is chosen.
pub const LATER: u64 = u64::MAX >> 1;

/// What a cache was not asked for of a copy that it holds, all by one task.
#[derive(Debug, Clone, Copy)]
pub struct LateUses<W> {
    /// The cache.
    pub cache: CacheId,
    /// The task, which was the last to use the copy as far as the cache knows.
    pub task: u32,
    /// The line of the copy.
    pub line: LineAddr,
    /// When it was used last, on a clock of the cache's own, or [`LATER`].
    pub stamp: u64,
    /// Words touched, those written among them.
    pub touched: W,
    /// Words written.
    pub written: W,
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// From here on a use makes its copy the youngest of its set until its stamp is told. Nor can a shadow follow:
    /// one of `shadow_frames` lines, if there are to be any, is asked through [`CoherentSystem::ages`].
    pub fn defer_stamps(&mut self, shadow_frames: Option<usize>) {
        self.arrays.iter_mut().for_each(|array| array.stop_clock(LATER));
        self.shadow_frames = shadow_frames.unwrap_or(0);
    }

    /// From here on the places of records are told, by line. Not where levels outside ask who has a line.
    pub fn leave_out_places(&mut self) {
        self.copies.leave_out_places();
    }

    /// Takes note of uses.
    pub fn note_late_uses(&mut self, uses: &LateUses<W>) {
        let LateUses { cache, task, line, stamp, touched, written } = *uses;
        let Some(index) = self.arrays[cache].search(line) else { return };
        let frame = &mut self.arrays[cache].frames[index];
        frame.stamp = stamp;
        frame.touched.add(touched);
        if !written.is_empty() {
            frame.written.add(written);
            frame.writer = join_writers(frame.writer, task);
        }
        if frame.flags & PENDING != 0 {
            let write = !written.is_empty();
            let access = Access { at: cache, line, words: touched, write, kernel: false, task, slot: 0 };
            self.judge_pending(&access, index);
        }
    }

    /// Brings nearer what tells where `cache` has `line`.
    #[inline]
    pub fn approach_set(&self, cache: CacheId, line: LineAddr) {
        self.arrays[cache].prefetch_signatures(line);
    }

    /// Brings nearer the copy of `line` at `cache`; whether there may be one.
    #[inline]
    pub fn approach_copy(&self, cache: CacheId, line: LineAddr) -> bool {
        self.arrays[cache].prefetch_found(line)
    }

    /// Brings nearer what the miss of an access asks for.
    #[inline]
    pub(crate) fn approach_room(&self, access: &Access<W, CacheId>) {
        self.arrays[access.at].prefetch(access.line);
        self.switches.prefetch(access.at, access.task, access.line);
    }

    /// Brings nearer the record of a line at this place.
    #[inline]
    pub fn approach_record(&self, place: usize) {
        self.copies.prefetch(place);
    }
}

impl<W: WordMask> Array<W> {
    /// From here on every use has this stamp.
    pub fn stop_clock(&mut self, stamp: u64) {
        (self.clock, self.tick) = (stamp, 0);
    }
}
