//! Runs of hits of one processor: what 95-99 % of the references of a commercial trace are.
//!
//! A run is taken in one loop over the processor's first level: no look at other caches, no call, and as
//! little as possible that the next reference waits for. So the operation, mode, task and processor of a
//! record are one number, the caches of a split first level are a list that the operation indexes, and a set of words
//! is written only when it grows: two thirds of the references are fetches, most of the same line as
//! the one before, and most of words fetched before.
//!
//! The loop knows nothing of where a first level keeps what it is asked for ([`FirstLevel`]): a coherent
//! one holds it in its own frames, one inside a private second level in those of its processor
//! (`hierarchy/hits.rs`).
//!
//! Whatever is not a plain hit within one line of the
//! same task ends the run before it changes anything, and goes the general way
//! ([`CoherentSystem::try_hit`]): misses and upgrades (1-5 %), hits whose frame has a miss to be
//! judged, whose last user was another task, or whose state changes, accesses that cross a line,
//! events. The two ways do the same; the differential tests take both.

// One branch for several conditions that nearly always hold, and several copies of one loop.
#![allow(clippy::needless_bitwise_bool, clippy::inline_always)]

use crate::array::{join_writers, Array, Frame};
use crate::observer::Observer;
use crate::shadow::Shadow;
use crate::system::CoherentSystem;
use crate::words::WordMask;
use servsim_core::reference::{CONTINUATION, CPU_SHIFT, FLAGS_SHIFT, KERNEL, OP_SHIFT, PER_CPU, SIZE_SHIFT};
use servsim_core::{CacheId, LineAddr, Op, Record};

/// References by mode and operation; the fourth of each mode stays 0.
pub type RunCounts = [[u64; 4]; 2];

/// What the records of a run have in common in [`Record::rest`]; references that need more than a
/// look-up differ in it from those that do not.
const COMMON: u64 = u32::MAX as u64 | ((PER_CPU | CONTINUATION) as u64) << FLAGS_SHIFT | 0xFF << CPU_SHIFT;

/// The first level of one processor: a cache, or one of code and one of data.
pub(crate) trait FirstLevel<W> {
    /// Lets `perform` use what is known of the copy of `line` in cache `half`, if that has one; if it did,
    /// which it tells, the copy is used and, with `write`, written.
    fn use_copy(
        &mut self,
        half: usize,
        line: LineAddr,
        write: bool,
        perform: impl FnOnce(&mut Frame<W>) -> bool,
    ) -> bool;
}

/// What does not change along a run.
pub(crate) struct Run<'a> {
    /// 1 if loads and stores have a cache of their own.
    pub data: usize,
    /// log2 of the bytes of a line.
    pub shift: u32,
    /// As in [`CoherentSystem`].
    pub stays: [u16; 4],
    /// That of each cache or the one of both, if there are any.
    pub shadows: &'a mut [Shadow],
}

impl Run<'_> {
    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor field. Adds to `counts`; returns how many it performed.
    #[inline(always)]
    pub fn take<W: WordMask>(
        self,
        first_level: &mut impl FirstLevel<W>,
        records: &[Record],
        counts: &mut RunCounts,
    ) -> usize {
        let Self { data, shift, stays, shadows } = self;
        let Some(first) = records.first() else { return 0 };
        if first.flags & (PER_CPU | CONTINUATION) != 0 {
            return 0;
        }
        let (common, task) = (first.rest() & COMMON, first.task);
        let mask = (1_u64 << shift) - 1;
        let counts = counts.as_flattened_mut();
        let last_shadow = shadows.len().wrapping_sub(1);
        for (position, record) in records.iter().enumerate() {
            let rest = record.rest();
            let start = record.address & mask;
            let last = start + (rest >> SIZE_SHIFT & 0xFF) - 1;
            if (rest & COMMON != common) | (last > mask) {
                return position;
            }
            let line = LineAddr::of(record.address, shift);
            let op = (rest >> OP_SHIFT) as usize & 3;
            let half = usize::from(op != Op::Fetch as usize) & data;
            let write = op == Op::Store as usize;
            let words = W::of_bytes(start, last);
            let performed = first_level.use_copy(half, line, write, |frame| {
                let plain = stays[op] >> (frame.state & 15) & 1 != 0;
                if !(plain & (frame.flags == 0) & (u32::from(frame.user) == task + 1)) {
                    return false;
                }
                if !frame.touched.covers(words) {
                    frame.touched.add(words);
                }
                if write {
                    frame.written.add(words);
                    frame.writer = join_writers(frame.writer, task);
                }
                if let Some(shadow) = shadows.get_mut(half & last_shadow) {
                    frame.shadow = shadow.touch(line, frame.shadow);
                }
                true
            });
            if !performed {
                return position;
            }
            let mode = (rest >> FLAGS_SHIFT & u64::from(KERNEL)) as usize;
            counts[op | mode << 2] += 1;
        }
        records.len()
    }
}

/// Coherent caches.
struct Coherent<'a, W>(&'a mut [Array<W>]);

impl<W: WordMask> FirstLevel<W> for Coherent<'_, W> {
    #[inline(always)]
    fn use_copy(
        &mut self,
        half: usize,
        line: LineAddr,
        _write: bool,
        perform: impl FnOnce(&mut Frame<W>) -> bool,
    ) -> bool {
        self.0[half].use_copy(line, perform)
    }
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor field, on cache `cache` (fetches) and `cache + data` (loads and stores), with lines
    /// of `1 << shift` bytes. Adds to `counts`; returns how many it performed.
    ///
    /// # Panics
    /// When there is no such cache.
    #[inline(never)]
    pub(crate) fn run_hits(
        &mut self,
        cache: CacheId,
        data: usize,
        shift: u32,
        records: &[Record],
        counts: &mut RunCounts,
    ) -> usize {
        let caches = cache.0..=cache.0 + data;
        let shadows = self.shadows.get_mut(caches.clone()).unwrap_or_default();
        let run = Run { data, shift, stays: self.stays, shadows };
        run.take(&mut Coherent(&mut self.arrays[caches]), records, counts)
    }
}
