//! Runs of hits of one processor: what 95-99 % of the references of a commercial trace are.
//!
//! A run is taken in one loop over one or two arrays whose parts stay in host registers: no look
//! at other caches, no call, and as little as possible that the next reference waits for. So the
//! operation, mode, task and processor of a record are one number; a reference is counted by one
//! addition to a number that holds all six counters; stamps are places in the run; and a set of words
//! is written only when it grows: two thirds of the references are fetches, most of the same line as
//! the one before, and most of words fetched before.
//!
//! Whatever is not a plain hit within one line of the
//! same task ends the run before it changes anything, and goes the general way
//! ([`CoherentSystem::try_hit`]): misses and upgrades (1-5 %), hits whose frame has a miss to be
//! judged, whose last user was another task, or whose state changes, accesses that cross a line,
//! events. The two ways do the same; the differential tests take both.

// One branch for several conditions that nearly always hold, and several copies of one loop.
#![allow(clippy::needless_bitwise_bool, clippy::inline_always)]

use crate::array::{join_writers, Array};
use crate::observer::Observer;
use crate::system::CoherentSystem;
use crate::words::WordMask;
use servsim_core::reference::{CONTINUATION, CPU_SHIFT, FLAGS_SHIFT, KERNEL, OP_SHIFT, PER_CPU, SIZE_SHIFT};
use servsim_core::{CacheId, LineAddr, Op, Record};

/// References by mode and operation; the fourth of each mode stays 0.
pub type RunCounts = [[u64; 4]; 2];

/// Bits of each of six counters of a stretch.
const COUNT_BITS: u32 = 10;
/// Most records of a stretch, so that no counter overflows.
const STRETCH: usize = (1 << COUNT_BITS) - 1;
/// What the records of a run have in common in [`Record::rest`]; references that need more than a
/// look-up differ in it from those that do not.
const COMMON: u64 = u32::MAX as u64 | ((PER_CPU | CONTINUATION) as u64) << FLAGS_SHIFT | 0xFF << CPU_SHIFT;

/// What does not change along a run.
#[derive(Clone, Copy)]
struct Run {
    cache: CacheId,
    shift: u32,
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor field, on cache `cache` (fetches) and `cache + data` (loads and stores), with lines
    /// of `1 << shift` bytes. Adds to `counts`; returns how many it performed.
    ///
    /// # Panics
    /// When there is no such cache.
    #[inline(never)]
    pub fn run_hits(
        &mut self,
        cache: CacheId,
        data: usize,
        shift: u32,
        records: &[Record],
        counts: &mut RunCounts,
    ) -> usize {
        let run = Run { cache, shift };
        let simple = self.shadows.is_empty() && self.arrays[cache].is_lru();
        let mut done = 0;
        loop {
            let stretch = &records[done..records.len().min(done + STRETCH)];
            let performed = match (data != 0, simple) {
                (false, true) => self.stretch::<false, true>(run, stretch, counts),
                (false, false) => self.stretch::<false, false>(run, stretch, counts),
                (true, true) => self.stretch::<true, true>(run, stretch, counts),
                (true, false) => self.stretch::<true, false>(run, stretch, counts),
            };
            done += performed;
            if performed < STRETCH {
                return done;
            }
        }
    }

    /// At most [`STRETCH`] records. `SIMPLE`: a hit changes nothing but its frame.
    #[inline(always)]
    fn stretch<const SPLIT: bool, const SIMPLE: bool>(
        &mut self,
        Run { cache, shift }: Run,
        records: &[Record],
        counts: &mut RunCounts,
    ) -> usize {
        let Some(first) = records.first() else { return 0 };
        if first.flags & (PER_CPU | CONTINUATION) != 0 {
            return 0;
        }
        let (common, task) = (first.rest() & COMMON, first.task);
        let stays = self.stays;
        let (code, data) = self.arrays[cache.0..=cache.0 + usize::from(SPLIT)].split_at_mut(1);
        let (mut code, mut data) = (code[0].hot(), data.first_mut().map(Array::hot));
        let clock = data.as_ref().map_or(0, |data| *data.clock).max(*code.clock);
        let mut packed = 0_u64;
        let mask = (1_u64 << shift) - 1;
        let mut performed = records.len();
        for (position, record) in records.iter().enumerate() {
            let rest = record.rest();
            let start = record.address & mask;
            let last = start + (rest >> SIZE_SHIFT & 0xFF) - 1;
            if (rest & COMMON != common) | (last > mask) {
                performed = position;
                break;
            }
            let line = LineAddr::of(record.address, shift);
            let op = (rest >> OP_SHIFT) as usize & 3;
            let is_data = SPLIT && op != Op::Fetch as usize;
            let hot = match &mut data {
                Some(data) if is_data => data,
                _ => &mut code,
            };
            let Some(index) = hot.find(line) else {
                performed = position;
                break;
            };
            let frame = &mut hot.frames[index];
            let plain = stays[op] >> (frame.state & 15) & 1 != 0;
            if !(plain & (frame.flags == 0) & (u32::from(frame.user) == task + 1)) {
                performed = position;
                break;
            }
            let words = W::of_bytes(start, last);
            if !frame.touched.covers(words) {
                frame.touched.add(words);
            }
            if op == Op::Store as usize {
                frame.written.add(words);
                frame.writer = join_writers(frame.writer, task);
            }
            frame.stamp = clock + 1 + position as u64;
            if !SIMPLE {
                if let Some(shadow) = self.shadows.get_mut(cache.0 + usize::from(is_data)) {
                    frame.shadow = shadow.touch(line, frame.shadow);
                }
                hot.tell_hit(index);
            }
            let mode = (rest >> FLAGS_SHIFT) as u32 & u32::from(KERNEL);
            packed += 1 << (COUNT_BITS * (op as u32 + 3 * mode));
        }
        *code.clock = clock + performed as u64;
        if let Some(data) = data {
            *data.clock = clock + performed as u64;
        }
        for (mode, op) in (0..2).flat_map(|mode| (0..3).map(move |op| (mode, op))) {
            counts[mode][op] += packed >> (COUNT_BITS * (op as u32 + 3 * mode as u32)) & STRETCH as u64;
        }
        performed
    }
}
