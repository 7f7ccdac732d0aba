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
//! Whatever is not a plain hit of the
//! same task ends the run before it changes anything, and goes the general way
//! ([`CoherentSystem::try_hit`]): misses and upgrades (1-5 %), hits whose frame has a miss to be
//! judged, whose last user was another task, or whose state changes, events. Accesses that cross into the next line, 3 %
//! of a captured trace, are performed if both lines are plain hits. The two ways do the same; the differential tests take
//! both.

// One branch for several conditions that nearly always hold, and several copies of one loop.
#![allow(clippy::needless_bitwise_bool, clippy::inline_always)]

use crate::array::{join_writers, Array, Frame, Parts};
use crate::observer::Observer;
use crate::system::CoherentSystem;
use crate::words::WordMask;
use servsim_core::reference::{
    own_area, CONTINUATION, CPU_SHIFT, FLAGS_SHIFT, KERNEL, OP_SHIFT, PER_CPU, SIZE_SHIFT,
};
use servsim_core::{CacheId, CpuId, LineAddr, Op, Record, TaskId};

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
    /// Where a copy is.
    type Place: Copy;
    /// Where the copy of `line` in cache `half` is, if that has one.
    fn find(&mut self, half: usize, line: LineAddr) -> Option<Self::Place>;
    /// What is known of the copy at `place`.
    fn frame(&mut self, place: Self::Place) -> &mut Frame<W>;
    /// The copy at `place` is used, as the `tick`th of its run, where those of a run ascend; and written if `write`.
    fn use_copy(&mut self, place: Self::Place, tick: u64, write: bool);
    /// Counts a look-up of cache `half` that is not that of a record's first line.
    fn count_second_line(&mut self, half: usize);
}

/// Who goes along with a run, record by record: what else a reference needs to be performed, and what follows from it.
pub trait Follower<W> {
    /// What is to be done with the share of `record` in `line` now.
    fn turn(&self, record: &Record, line: LineAddr) -> Turn;
    /// The share of `record` in `line` was performed.
    fn hit(&mut self, record: &Record, line: LineAddr);
    /// `record` is put aside: its bytes are the words `words` of `line`, from `address` on.
    fn put_aside(&mut self, record: &Record, address: u64, line: LineAddr, words: W);
    /// All of `record`, at `position` in the run, was performed or put aside. Without `true` the run ends, and leaves the
    /// record out of its counts and of its length.
    fn performed(&mut self, position: usize, record: &Record) -> bool;
}

/// What is to be done with a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is to be performed, if it is a plain hit.
    Perform,
    /// The caches are not to be asked for it yet: whoever goes along keeps it, and the run goes on. Not for references that
    /// cross into another line.
    PutAside,
    /// The run ends.
    End,
}

/// Nobody goes along.
pub(crate) struct Nobody;

impl<W> Follower<W> for Nobody {
    #[inline(always)]
    fn turn(&self, _: &Record, _: LineAddr) -> Turn {
        Turn::Perform
    }

    #[inline(always)]
    fn hit(&mut self, _: &Record, _: LineAddr) {}

    fn put_aside(&mut self, _: &Record, _: u64, _: LineAddr, _: W) {}

    #[inline(always)]
    fn performed(&mut self, _: usize, _: &Record) -> bool {
        true
    }
}

/// The share that a reference has in one line.
#[derive(Clone, Copy)]
struct Share<W> {
    line: LineAddr,
    words: W,
    task: TaskId,
    /// The operation.
    op: usize,
    /// The first-level cache.
    half: usize,
}

impl<W: WordMask> Share<W> {
    #[inline(always)]
    fn write(&self) -> bool {
        self.op == Op::Store as usize
    }

    /// Whether it is a plain hit in `frame`; `stays` as in [`CoherentSystem`].
    #[inline(always)]
    fn is_plain(&self, stays: [u16; 4], frame: &Frame<W>) -> bool {
        // The state alone is left of a frame without flags that the task was the last to use.
        let state = frame.standing() ^ (self.task + 1) << 16;
        state <= 15 && u32::from(stays[self.op]) >> (state & 15) & 1 != 0
    }

    /// What a plain hit leaves in `frame`.
    #[inline(always)]
    fn perform(&self, frame: &mut Frame<W>) {
        let write = self.write();
        frame.touched.add(self.words);
        // No branch: which references are stores is hard for the host to guess.
        frame.written.add(self.words.only_if(write));
        frame.writer = if write { join_writers(frame.writer, self.task) } else { frame.writer };
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
    /// Performs both shares of a record that crosses into the next line, as the uses of the run from `tick` on, if both are
    /// plain hits and `follower` lets it; whether it did.
    #[inline(never)]
    fn perform_across<W: WordMask>(
        &self,
        record: &Record,
        shares: &[Share<W>; 2],
        tick: u64,
        first_level: &mut impl FirstLevel<W>,
        follower: &mut impl Follower<W>,
    ) -> bool {
        let [Some(first), Some(second)] = shares.map(|share| first_level.find(share.half, share.line)) else {
            return false;
        };
        let places = [first, second];
        for (share, place) in shares.iter().zip(places) {
            let plain = share.is_plain(self.stays, first_level.frame(place));
            if !plain || follower.turn(record, share.line) != Turn::Perform {
                return false;
            }
        }
        for ((share, place), tick) in shares.iter().zip(places).zip(tick..) {
            share.perform(first_level.frame(place));
            first_level.use_copy(place, tick, share.write());
            follower.hit(record, share.line);
        }
        first_level.count_second_line(shares[1].half);
        true
    }

    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor, less than `most` references before them, and `follower` lets it. Adds the references that they stand for to `counts`;
    /// returns how many records it performed.
    #[inline(always)]
    pub fn take<W: WordMask, F: FirstLevel<W>, const JOINED: bool, const BOUNDED: bool>(
        self,
        _: Field<JOINED, BOUNDED>,
        first_level: &mut F,
        (records, most): (&[Record], u64),
        follower: &mut impl Follower<W>,
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
        let mask = (1_u64 << shift) - 1;
        let counts = counts.as_flattened_mut();
        let (mut made, mut position, mut second_lines) = (0, 0_usize, 0);
        while let Some(record) = records.get(position) {
            let rest = record.rest();
            let own = JOINED && rest >> FLAGS_SHIFT & u64::from(PER_CPU) != 0;
            let address = record.address | if own { own_area } else { 0 };
            let start = address & mask;
            let last = start + (rest >> SIZE_SHIFT & 0xFF) - 1;
            if (rest & of_run != common) | (BOUNDED && made >= most) {
                break;
            }
            let line = LineAddr::of(address, shift);
            let op = (rest >> OP_SHIFT) as usize & 3;
            let half = usize::from(op != Op::Fetch as usize) & data;
            let tick = position as u64 + second_lines + 1;
            let mut further = 0;
            if last > mask {
                let share = |line, words| Share { line, words, task, op, half };
                let next = share(LineAddr(line.0.wrapping_add(1)), W::of_bytes(0, last & mask));
                let shares = [share(line, W::of_bytes(start, mask)), next];
                let two = last - mask <= mask + 1;
                if !two || !self.perform_across(record, &shares, tick, first_level, follower) {
                    break;
                }
                second_lines += 1;
            } else {
                let mut words = W::of_bytes(start, last);
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
                let share = Share { line, words, task, op, half };
                match follower.turn(record, line) {
                    Turn::Perform => {
                        let Some(place) = first_level.find(half, line) else { break };
                        let frame = first_level.frame(place);
                        if !share.is_plain(stays, frame) {
                            break;
                        }
                        share.perform(frame);
                        first_level.use_copy(place, tick, share.write());
                        follower.hit(record, line);
                    }
                    Turn::PutAside => follower.put_aside(record, address, line, words),
                    Turn::End => break,
                }
            }
            if !follower.performed(position, record) {
                break;
            }
            let references = if JOINED { rest >> CPU_SHIFT } else { 1 + further };
            counts[op | (rest >> (FLAGS_SHIFT - 2) & KERNEL_COUNT) as usize] += references;
            if BOUNDED {
                made += references;
            }
            position += 1 + further as usize;
        }
        position
    }

    /// The same over coherent caches: one, or one of code and one of data.
    #[inline(always)]
    fn over<W: WordMask, F: Follower<W>, const PLAIN: bool, const JOINED: bool, const BOUNDED: bool>(
        self,
        field: Field<JOINED, BOUNDED>,
        (arrays, look_ups): (&mut [Array<W>], &mut [u64]),
        records: (&[Record], u64),
        follower: &mut F,
        counts: &mut RunCounts,
    ) -> usize {
        match arrays {
            [both] => {
                let mut first_level = Coherent::<W, 1, PLAIN> { caches: [both.parts()], look_ups };
                self.take(field, &mut first_level, records, follower, counts)
            }
            [code, data, ..] => {
                let caches = [code.parts(), data.parts()];
                let mut first_level = Coherent::<W, 2, PLAIN> { caches, look_ups };
                self.take(field, &mut first_level, records, follower, counts)
            }
            [] => 0,
        }
    }
}

/// Coherent caches of one processor.
struct Coherent<'a, W, const CACHES: usize, const PLAIN: bool> {
    caches: [Parts<'a, W>; CACHES],
    look_ups: &'a mut [u64],
}

impl<W: WordMask, const CACHES: usize, const PLAIN: bool> FirstLevel<W> for Coherent<'_, W, CACHES, PLAIN> {
    type Place = (usize, usize);

    #[inline(always)]
    fn find(&mut self, half: usize, line: LineAddr) -> Option<Self::Place> {
        Some((half, self.caches[half % CACHES].find(line)?))
    }

    #[inline(always)]
    fn frame(&mut self, (half, index): Self::Place) -> &mut Frame<W> {
        self.caches[half % CACHES].frame(index)
    }

    #[inline(always)]
    fn use_copy(&mut self, (half, index): Self::Place, tick: u64, _write: bool) {
        self.caches[half % CACHES].use_frame::<PLAIN>(index, tick);
    }

    fn count_second_line(&mut self, half: usize) {
        self.look_ups[half] += 1;
    }
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor, and less than `most` references before them, on cache `cache` (fetches) and `cache + data` (loads and
    /// stores), with lines of `1 << shift` bytes. Adds to `counts`, and look-ups of second lines to those of the caches;
    /// returns how many records it performed.
    ///
    /// # Panics
    /// When there is no such cache.
    #[inline(never)]
    pub(crate) fn run_hits<const JOINED: bool, const BOUNDED: bool>(
        &mut self,
        field: Field<JOINED, BOUNDED>,
        (cpu, cache, data, look_ups): (CpuId, CacheId, usize, &mut [u64]),
        shift: u32,
        records: (&[Record], u64),
        follower: &mut impl Follower<W>,
        counts: &mut RunCounts,
    ) -> usize {
        let caches = cache.0..=cache.0 + data;
        let run = Run { data, shift, own_area: own_area(cpu), stays: self.stays };
        let arrays = (&mut self.arrays[caches.clone()], &mut look_ups[caches]);
        if arrays.0.iter().all(Array::goes_by_stamps) {
            run.over::<W, _, true, JOINED, BOUNDED>(field, arrays, records, follower, counts)
        } else {
            run.over::<W, _, false, JOINED, BOUNDED>(field, arrays, records, follower, counts)
        }
    }
}
