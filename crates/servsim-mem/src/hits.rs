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

use crate::array::{join_writers, Array, Frame, Parts};
use crate::observer::Observer;
use crate::system::CoherentSystem;
use crate::words::WordMask;
use servsim_core::reference::{
    own_area, CONTINUATION, CPU_SHIFT, FLAGS_SHIFT, KERNEL, OP_SHIFT, PER_CPU, SIZE_SHIFT,
};
use servsim_core::{CacheId, CpuId, LineAddr, Op, Record};

/// References by mode and operation; the fourth of each mode stays 0.
pub type RunCounts = [[u64; 4]; 2];

/// What the records of a run have in common in [`Record::rest`]: the task, and that no reference is the rest of another.
/// Where the processor field is one, that comes on top; and then nobody knows processors' own areas, so that such
/// references go the general way.
const COMMON: u64 = u32::MAX as u64 | (CONTINUATION as u64) << FLAGS_SHIFT;
const APART: u64 = (PER_CPU as u64) << FLAGS_SHIFT | 0xFF << CPU_SHIFT;
/// Where the bit of kernel mode is moved to, beside that of the operation, to count by both.
const KERNEL_COUNT: u64 = 4;
const _: () = assert!(KERNEL == 1);

/// The first level of one processor: a cache, or one of code and one of data.
pub(crate) trait FirstLevel<W> {
    /// Lets `perform` use what is known of the copy of `line` in cache `half`, if that has one; if it did,
    /// which it tells, the copy is used and written if `tick_and_write` says so: it is the `tick`th of its run; those of a
    /// run ascend.
    fn use_copy(
        &mut self,
        half: usize,
        line: LineAddr,
        tick_and_write: (u64, bool),
        perform: impl FnOnce(&mut Frame<W>) -> bool,
    ) -> bool;
}

/// Who goes along with a run, record by record: what else a reference needs to be performed, and what follows from it.
pub trait Follower {
    /// Whether `record`, a reference to `line` alone, may be performed now, if it is a plain hit.
    fn may_perform(&self, record: &Record, line: LineAddr) -> bool;
    /// `record`, at `position` in the run, was performed. Without `true` the run ends, and leaves the record out of its
    /// counts and of its length.
    fn performed(&mut self, position: usize, record: &Record, line: LineAddr) -> bool;
}

/// Nobody goes along.
pub(crate) struct Nobody;

impl Follower for Nobody {
    #[inline(always)]
    fn may_perform(&self, _: &Record, _: LineAddr) -> bool {
        true
    }

    #[inline(always)]
    fn performed(&mut self, _: usize, _: &Record, _: LineAddr) -> bool {
        true
    }
}

/// What does not change along a run.
pub(crate) struct Run {
    /// 1 if loads and stores have a cache of their own.
    pub data: usize,
    /// log2 of the bytes of a line.
    pub shift: u32,
    /// Where the processor's own area lies.
    pub own_area: u64,
    /// As in [`CoherentSystem`].
    pub stays: [u16; 4],
}

/// What the processor field of records says: a processor, or with `JOINED` how many fetches of one line each stands for;
/// and whether the run is `BOUNDED` by its references.
#[derive(Clone, Copy)]
pub(crate) struct Field<const JOINED: bool, const BOUNDED: bool>;

impl Run {
    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor, less than `most` references before them, and `follower` lets it. Adds the references that they stand for to `counts`;
    /// returns how many records it performed.
    #[inline(always)]
    pub fn take<W: WordMask, F: FirstLevel<W>, const JOINED: bool, const BOUNDED: bool>(
        self,
        _: Field<JOINED, BOUNDED>,
        first_level: &mut F,
        (records, most): (&[Record], u64),
        follower: &mut impl Follower,
        counts: &mut RunCounts,
    ) -> usize {
        let Self { data, shift, own_area, stays } = self;
        let Some(first) = records.first() else { return 0 };
        let of_run = if JOINED { COMMON } else { COMMON | APART };
        let (common, task) = (first.rest() & of_run, first.task);
        // The last task whose number a frame holds; others are noted each time.
        let apart = if JOINED { CONTINUATION } else { CONTINUATION | PER_CPU };
        if first.flags & apart != 0 || task >= u32::from(u16::MAX) {
            return 0;
        }
        let user = (task + 1) << 16;
        let mask = (1_u64 << shift) - 1;
        let (mut by_operation, mut made, mut position) = ([0; 8], 0, 0_usize);
        while let Some(record) = records.get(position) {
            let rest = record.rest();
            let own = JOINED && rest >> FLAGS_SHIFT & u64::from(PER_CPU) != 0;
            let address = record.address | if own { own_area } else { 0 };
            let start = address & mask;
            let last = start + (rest >> SIZE_SHIFT & 0xFF) - 1;
            if (rest & of_run != common) | (last > mask) | (BOUNDED && made >= most) {
                break;
            }
            let line = LineAddr::of(address, shift);
            if !follower.may_perform(record, line) {
                break;
            }
            let op = (rest >> OP_SHIFT) as usize & 3;
            let half = usize::from(op != Op::Fetch as usize) & data;
            let write = op == Op::Store as usize;
            let mut words = W::of_bytes(start, last);
            let mut further = 0;
            if !JOINED && op == Op::Fetch as usize {
                // Of fetches of one line only the first can miss, and they leave what one of all their words leaves.
                for next in &records[position + 1..] {
                    let start = next.address & mask;
                    let last = start + (next.rest() >> SIZE_SHIFT & 0xFF) - 1;
                    let same = (next.rest() ^ rest) & !(0xFF << SIZE_SHIFT) == 0;
                    if !same | (LineAddr::of(next.address, shift) != line) | (last > mask) {
                        break;
                    }
                    words.add(W::of_bytes(start, last));
                    further += 1;
                }
            }
            let performed = first_level.use_copy(half, line, (position as u64 + 1, write), |frame| {
                // The state alone is left of a frame without flags that the task was the last to use.
                let state = frame.standing() ^ user;
                if (state > 15) | (u32::from(stays[op]) >> (state & 15) & 1 == 0) {
                    return false;
                }
                frame.touched.add(words);
                // No branch: which references are stores is hard for the host to guess.
                frame.written.add(words.only_if(write));
                frame.writer = if write { join_writers(frame.writer, task) } else { frame.writer };
                true
            });
            if !performed || !follower.performed(position, record, line) {
                break;
            }
            let references = if JOINED { rest >> CPU_SHIFT } else { 1 + further };
            by_operation[op | (rest >> (FLAGS_SHIFT - 2) & KERNEL_COUNT) as usize] += references;
            if BOUNDED {
                made += references;
            }
            position += 1 + further as usize;
        }
        counts.as_flattened_mut().iter_mut().zip(by_operation).for_each(|(sum, more)| *sum += more);
        position
    }

    /// The same over coherent caches: one, or one of code and one of data.
    #[inline(always)]
    fn over<W: WordMask, F: Follower, const PLAIN: bool, const JOINED: bool, const BOUNDED: bool>(
        self,
        field: Field<JOINED, BOUNDED>,
        arrays: &mut [Array<W>],
        records: (&[Record], u64),
        follower: &mut F,
        counts: &mut RunCounts,
    ) -> usize {
        match arrays {
            [both] => {
                let mut first_level = Coherent::<W, 1, PLAIN>([both.parts()]);
                self.take(field, &mut first_level, records, follower, counts)
            }
            [code, data, ..] => {
                let mut first_level = Coherent::<W, 2, PLAIN>([code.parts(), data.parts()]);
                self.take(field, &mut first_level, records, follower, counts)
            }
            [] => 0,
        }
    }
}

/// Coherent caches of one processor.
struct Coherent<'a, W, const CACHES: usize, const PLAIN: bool>([Parts<'a, W>; CACHES]);

impl<W: WordMask, const CACHES: usize, const PLAIN: bool> FirstLevel<W> for Coherent<'_, W, CACHES, PLAIN> {
    #[inline(always)]
    fn use_copy(
        &mut self,
        half: usize,
        line: LineAddr,
        (tick, _write): (u64, bool),
        perform: impl FnOnce(&mut Frame<W>) -> bool,
    ) -> bool {
        self.0[half % CACHES].use_copy::<PLAIN>(line, tick, perform)
    }
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor, and less than `most` references before them, on cache `cache` (fetches) and `cache + data` (loads and
    /// stores), with lines of `1 << shift` bytes. Adds to `counts`; returns how many records it performed.
    ///
    /// # Panics
    /// When there is no such cache.
    #[inline(never)]
    pub(crate) fn run_hits<const JOINED: bool, const BOUNDED: bool>(
        &mut self,
        field: Field<JOINED, BOUNDED>,
        (cpu, cache, data): (CpuId, CacheId, usize),
        shift: u32,
        records: (&[Record], u64),
        follower: &mut impl Follower,
        counts: &mut RunCounts,
    ) -> usize {
        let caches = cache.0..=cache.0 + data;
        let run = Run { data, shift, own_area: own_area(cpu), stays: self.stays };
        let arrays = &mut self.arrays[caches];
        if arrays.iter().all(Array::goes_by_stamps) {
            run.over::<W, _, true, JOINED, BOUNDED>(field, arrays, records, follower, counts)
        } else {
            run.over::<W, _, false, JOINED, BOUNDED>(field, arrays, records, follower, counts)
        }
    }
}
