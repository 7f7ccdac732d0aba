//! Runs of hits of one processor: what 95-99 % of the references of a commercial trace are.
//!
//! A run is taken in one loop over one or two arrays whose parts stay in host registers: no look
//! at other caches, no counter but one, no call. Whatever is not a plain hit within one line of the
//! same task ends the run before it changes anything, and goes the general way
//! ([`CoherentSystem::try_hit`]): misses and upgrades (1-5 %), hits whose frame has a miss to be
//! judged, whose last user was another task, or whose state changes, accesses that cross a line,
//! events. The two ways do the same; the differential tests take both.

// One branch for several conditions that nearly always hold, and two copies of one loop.
#![allow(clippy::needless_bitwise_bool, clippy::inline_always)]

use crate::array::join_writers;
use crate::observer::Observer;
use crate::shard::Shard;
use crate::system::{CoherentSystem, NEEDS_BUS};
use crate::words::WordMask;
use servsim_core::reference::{CONTINUATION, KERNEL, PER_CPU};
use servsim_core::{Op, Record};

/// References by mode and operation; the fourth of each mode stays 0.
pub type RunCounts = [[u64; 4]; 2];

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor field, on cache `cache` (fetches) and `cache + data` (loads and stores), with lines
    /// of `1 << shift` bytes. Lines of other shards than `shard` are passed over. Adds to `counts`;
    /// returns how many it performed or passed over.
    ///
    /// # Panics
    /// When there is no such cache.
    #[inline(never)]
    pub fn run_hits(
        &mut self,
        cache: usize,
        data: usize,
        shift: u32,
        shard: Shard,
        records: &[Record],
        counts: &mut RunCounts,
    ) -> usize {
        if data == 0 {
            self.run::<false>(cache, shift, shard, records, counts)
        } else {
            self.run::<true>(cache, shift, shard, records, counts)
        }
    }

    #[inline(always)]
    fn run<const SPLIT: bool>(
        &mut self,
        cache: usize,
        shift: u32,
        shard: Shard,
        records: &[Record],
        counts: &mut RunCounts,
    ) -> usize {
        let Some(&Record { task, cpu, .. }) = records.first() else { return 0 };
        let arrays = &mut self.arrays[cache..=cache + usize::from(SPLIT)];
        let exact = !self.shadows.is_empty();
        let mask = (1_u64 << shift) - 1;
        for (position, record) in records.iter().enumerate() {
            let start = record.address & mask;
            let last = start + (u64::from(record.size) - 1);
            let same = (record.task == task) & (record.cpu == cpu);
            let plain = (record.flags & (PER_CPU | CONTINUATION) == 0) & (record.op != Op::Event);
            if !(same & plain & (last <= mask)) {
                return position;
            }
            let line = record.address >> shift;
            if !shard.has(line) {
                continue;
            }
            let which = usize::from(SPLIT && record.op != Op::Fetch);
            let array = &mut arrays[which];
            let Some(index) = array.find_and_guess(line) else { return position };
            let write = record.op == Op::Store;
            let frame = &mut array.frames[index];
            let next = self.hit[usize::from(write)][usize::from(frame.state & 15)];
            let familiar = u32::from(frame.user) == task + 1;
            if (next == NEEDS_BUS) | (frame.flags != 0) | !familiar | (next != frame.state) {
                return position;
            }
            let words = W::of_bytes(start, last);
            frame.touched.add(words);
            if write {
                frame.written.add(words);
                frame.writer = join_writers(frame.writer, task);
            }
            if exact {
                frame.shadow = self.shadows[cache + which].touch(line, frame.shadow);
            }
            array.use_frame(index);
            counts[usize::from(record.flags & KERNEL)][record.op as usize] += 1;
        }
        records.len()
    }
}
