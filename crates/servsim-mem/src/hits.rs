//! Runs of hits of one processor: what 95-99 % of the references of a commercial trace are.
//!
//! A run is taken in one loop over the processor's first level: no look at other caches, no call, and as
//! little as possible that the next reference waits for. Two thirds of the references are fetches, most of the same line as
//! the one before: all of a record but its address is one number, so that one comparison tells such a fetch, and its
//! words and use are kept in registers until another line is fetched.
//!
//! The loop knows nothing of where a first level keeps what it is asked for ([`FirstLevel`]): a coherent
//! one holds it in its own frames, one inside a private second level in those of its processor
//! (`hierarchy/hits.rs`).
//!
//! Whatever is not a plain hit of the same task ends the run before it changes anything, and goes the general way
//! ([`CoherentSystem::try_hit`]): misses and upgrades (1-5 %), hits whose frame has a miss to be
//! judged, whose last user was another task, or whose state changes, events. Accesses that cross into the next line, 3 %
//! of a captured trace, are performed if both lines are plain hits. The two ways do the same; the differential tests take
//! both.

// One branch for several conditions that nearly always hold, and several copies of one loop.
#![allow(clippy::needless_bitwise_bool, clippy::inline_always)]

mod few;
mod first_level;
mod follower;
mod share;
mod tally;

use crate::array::Array;
use crate::copy_index::CopyIndex;
use crate::observer::Observer;
use crate::system::CoherentSystem;
use crate::words::WordMask;
pub use few::Few;
use first_level::Coherent;
pub(crate) use first_level::{FirstLevel, View};
pub(crate) use follower::Nobody;
pub use follower::{Follower, Turn};
use servsim_core::reference::{
    own_area, CONTINUATION, CPU_SHIFT, FLAGS_SHIFT, KERNEL, MISPREDICTED, OP_SHIFT, PER_CPU, SIZE_SHIFT,
    TASK_SHIFT,
};
use servsim_core::{CacheId, CpuId, LineAddr, Op, Record};
use share::{Code, Share, Times};
pub use tally::RunCounts;
use tally::Tally;

/// What the records of a run have in common in [`Record::rest`]: the task, and that no reference is the rest of another.
/// Where the processor field is one, that comes on top; and then nobody knows processors' own areas, so that such
/// references go the general way.
const COMMON: u64 = (u32::MAX as u64) << TASK_SHIFT | (CONTINUATION as u64) << FLAGS_SHIFT | MODE;
const APART: u64 = (PER_CPU as u64) << FLAGS_SHIFT | 0xFF << CPU_SHIFT;
/// The bit of the mode in [`Record::rest`].
const MODE: u64 = (KERNEL as u64) << FLAGS_SHIFT;
/// Flags there that tell nothing of the line that is fetched.
const OF_ONE_FETCH: u64 = ((MISPREDICTED | PER_CPU) as u64) << FLAGS_SHIFT;
/// The rest of no record.
const NO_CODE: u64 = 0xFF << OP_SHIFT;

/// What does not change along a run.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Where the processor's own area lies.
    own_area: u64,
    /// By operation and state, whether a hit leaves the state as it is.
    stays: u64,
}

impl Run {
    /// One of processor `cpu`; `stays` as in [`CoherentSystem`].
    #[inline(always)]
    pub fn new(cpu: CpuId, stays: [u16; 4]) -> Self {
        let [fetch, load, store, event] = stays.map(u64::from);
        Self { own_area: own_area(cpu), stays: fetch | load << 16 | store << 32 | event << 48 }
    }
}

/// What the processor field of records says: a processor, or with `JOINED` how many fetches of one line each stands for;
/// and whether the run is `BOUNDED` by its references.
#[derive(Clone, Copy)]
pub(crate) struct Field<const JOINED: bool, const BOUNDED: bool>;

impl<const JOINED: bool, const BOUNDED: bool> Field<JOINED, BOUNDED> {
    const OF_RUN: u64 = if JOINED { COMMON } else { COMMON | APART };
    const OF_FETCH: u64 = if JOINED { 0xFFFF } else { 0xFF };
}

/// log2 of the bytes of a line: `FULL` where that is the longest line that the words have room for, so that the compiler
/// knows it.
#[derive(Clone, Copy)]
pub(crate) struct Lines<const FULL: bool>(pub u32);

impl<const FULL: bool> Lines<FULL> {
    #[inline(always)]
    fn shift<W: WordMask>(self) -> u32 {
        if FULL {
            W::LINE_SHIFT
        } else {
            self.0
        }
    }
}

/// Why a run does not simply go on.
enum Stop<'a> {
    /// It is over.
    End,
    /// `line` is to be searched for in cache `half`.
    Search { half: usize, line: LineAddr },
    /// The next record differs from those before it `by` these bits of what they have in common, or if by none lies in
    /// two lines.
    Unlike { record: &'a Record, by: u64 },
}

impl Run {
    /// Performs a record that crosses into the next line at `stamp`, if its shares in both lines are
    /// plain hits and `follower` lets it; whether it did.
    #[inline(never)]
    fn perform_across<W: WordMask, F: FirstLevel<W>>(
        self,
        record: &Record,
        (address, shift, stamp): (u64, u32, u64),
        first_level: &mut F,
        follower: &mut impl Follower<W>,
    ) -> bool {
        let (mask, line) = ((1 << shift) - 1, LineAddr::of(address, shift));
        let (start, last) = (address & mask, (address & mask) + u64::from(record.size) - 1);
        if last > 2 * mask + 1 {
            return false;
        }
        let (op, task) = (record.op as usize, record.task);
        let half = if record.op == Op::Fetch { 0 } else { F::DATA };
        let share = |line, words| Share { line, words, task, op };
        let next = share(LineAddr(line.0.wrapping_add(1)), W::of_bytes(0, last & mask));
        let shares = [share(line, W::of_bytes(start, mask)), next];
        let [Some(first), Some(second)] = shares.map(|share| first_level.find(half, share.line)) else {
            return false;
        };
        let mut view = first_level.view();
        let places = [first, second];
        for (share, place) in shares.iter().zip(places) {
            let plain = share.is_plain(self.stays, view.frame(place));
            if !plain || follower.turn(record, share.line) != Turn::Perform {
                return false;
            }
        }
        for ((share, place), stamp) in shares.iter().zip(places).zip(stamp..) {
            share.perform(view.frame(place));
            view.use_copy(place, stamp, share.write());
            follower.hit(record, share.line);
        }
        drop(view);
        first_level.count_second_line(half);
        true
    }

    /// Performs the records from the first on as long as they are plain hits of the same task and
    /// processor, less than `most` references before them, and `follower` lets it. Adds the references that they stand for to `counts`;
    /// returns how many records it performed.
    #[inline(always)]
    #[allow(clippy::too_many_lines)] // one loop, whose values stay in the host's registers
    pub fn take<W, F, const FULL: bool, const JOINED: bool, const BOUNDED: bool>(
        self,
        (lines, _): (Lines<FULL>, Field<JOINED, BOUNDED>),
        first_level: &mut F,
        (records, most): (&[Record], u64),
        follower: &mut impl Follower<W>,
        counts: &mut RunCounts,
    ) -> usize
    where
        W: WordMask,
        F: FirstLevel<W>,
    {
        let Some(first) = records.first() else { return 0 };
        // The last task whose number a frame holds; others are noted each time.
        let apart = if JOINED { CONTINUATION } else { CONTINUATION | PER_CPU };
        if first.flags & apart != 0 || first.task >= u32::from(u16::MAX) {
            return 0;
        }
        let (shift, task) = (lines.shift::<W>(), first.task);
        let mask = (1_u64 << shift) - 1;
        let own_area =
            |record: &Record| if JOINED && record.flags & PER_CPU != 0 { self.own_area } else { 0 };
        let (of_run, of_fetch) = (Field::<JOINED, BOUNDED>::OF_RUN, Field::<JOINED, BOUNDED>::OF_FETCH);
        let times = Times::after(first_level.clock(), records);
        let (mut left, mut tally) =
            (records.iter(), Tally { mode: usize::from(first.is_kernel()), ..Tally::default() });
        // Where the line of the last fetches begins, and the rest of a fetch in it but for its size. What all records of the
        // run have in common is part of that also while there is no such line.
        let (mut code_start, mut alike) = (0, first.rest() & of_run | NO_CODE);
        let mut code = Code::<W, F::Place> { place: F::Place::default(), words: W::default(), last: None };
        loop {
            let mut view = first_level.view();
            let stop = loop {
                let Some(record) = left.as_slice().first() else { break Stop::End };
                if BOUNDED && tally.made >= most {
                    break Stop::End;
                }
                let rest = record.rest();
                let other = rest ^ alike;
                if other <= of_fetch {
                    // A fetch as the last one was. If it is from the same line, too, it is as plain a hit.
                    let (start, line) = (record.address ^ code_start, LineAddr::of(code_start, shift));
                    let end = start.wrapping_add(other & 0xFF);
                    if start <= mask && end <= mask + 1 && follower.turn(record, line) == Turn::Perform {
                        code.words.add(W::of_bytes(start, end - 1));
                        code.last = Some(record);
                        if F::View::EACH_FETCH {
                            view.use_copy(code.place, times.of(record), false);
                        }
                        follower.hit(record, line);
                        if !follower.performed(records.len() - left.len(), record) {
                            break Stop::End;
                        }
                        tally.add::<JOINED, BOUNDED>(Op::Fetch as usize, other >> CPU_SHIFT);
                        left.next();
                        continue;
                    }
                }
                let address = record.address | own_area(record);
                let (start, line) = (address & mask, LineAddr::of(address, shift));
                let end = start + (rest >> SIZE_SHIFT & 0xFF);
                if other & of_run != 0 || end > mask + 1 {
                    break Stop::Unlike { record, by: other & of_run };
                }
                let op = (rest >> OP_SHIFT) as usize & 3;
                let share = Share { line, words: W::of_bytes(start, end - 1), task, op };
                match follower.turn(record, line) {
                    Turn::Perform if op == Op::Fetch as usize => {
                        let Some(place) = view.guess(0, line) else { break Stop::Search { half: 0, line } };
                        if !share.is_plain(self.stays, view.frame(place)) {
                            break Stop::End;
                        }
                        code.tell(times, &mut view);
                        code = Code { place, words: share.words, last: Some(record) };
                        if F::View::EACH_FETCH {
                            view.use_copy(place, times.of(record), false);
                        }
                        (code_start, alike) = (address - start, rest & !(of_fetch | OF_ONE_FETCH));
                        follower.hit(record, line);
                    }
                    Turn::Perform => {
                        let Some(place) = view.guess(F::DATA, line) else {
                            break Stop::Search { half: F::DATA, line };
                        };
                        let frame = view.frame(place);
                        if !share.is_plain(self.stays, frame) {
                            break Stop::End;
                        }
                        share.perform(frame);
                        view.use_copy(place, times.of(record), share.write());
                        follower.hit(record, line);
                    }
                    Turn::PutAside => follower.put_aside(record, address, line, share.words),
                    Turn::End => break Stop::End,
                }
                if !follower.performed(records.len() - left.len(), record) {
                    break Stop::End;
                }
                tally.add::<JOINED, BOUNDED>(op, rest >> CPU_SHIFT & 0xFF);
                left.next();
            };
            drop(view);
            let position = records.len() - left.len();
            match stop {
                Stop::Search { half, line } if first_level.find(half, line).is_some() => {}
                Stop::Unlike { by: MODE, .. } => {
                    tally.add_to::<JOINED>(position, counts);
                    tally.mode ^= 1;
                    alike ^= MODE;
                }
                Stop::Unlike { record, by: 0 } => {
                    // Its share in a line of code comes after the fetches so far.
                    code.tell(times, &mut first_level.view());
                    code.last = None;
                    let at = (record.address | own_area(record), shift, times.of(record));
                    if !self.perform_across(record, at, first_level, follower)
                        || !follower.performed(position, record)
                    {
                        break;
                    }
                    tally.add::<JOINED, BOUNDED>(record.op as usize, u64::from(record.cpu));
                    left.next();
                }
                _ => break,
            }
        }
        let position = records.len() - left.len();
        code.tell(times, &mut first_level.view());
        tally.add_to::<JOINED>(position, counts);
        // The record at the position may have been performed, with its second line one later, and not be over.
        first_level.set_clock(times.of(first).wrapping_add(position as u64 * Times::STEP + 1));
        position
    }

    /// The same over coherent caches: one, or one of code and one of data. Also returns for what it searched in vain at last, as
    /// [`Coherent::missing`].
    #[inline(always)]
    fn over<W, F, const PLAIN: bool, const FULL: bool, const JOINED: bool, const BOUNDED: bool>(
        self,
        kind: (Lines<FULL>, Field<JOINED, BOUNDED>),
        (arrays, copies, look_ups): (&mut [Array<W>], &CopyIndex, &mut [u64]),
        records: (&[Record], u64),
        follower: &mut F,
        counts: &mut RunCounts,
    ) -> (usize, Option<(usize, LineAddr)>)
    where
        W: WordMask,
        F: Follower<W>,
    {
        if let Some(caches) = arrays.first_chunk_mut::<2>() {
            let mut first_level = Coherent::<W, 2, PLAIN> { caches, copies, missing: None, look_ups };
            return (self.take(kind, &mut first_level, records, follower, counts), first_level.missing);
        }
        let Some(caches) = arrays.first_chunk_mut::<1>() else { return (0, None) };
        let mut first_level = Coherent::<W, 1, PLAIN> { caches, copies, missing: None, look_ups };
        (self.take(kind, &mut first_level, records, follower, counts), first_level.missing)
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
        let run = Run::new(cpu, self.stays);
        let arrays = (&mut self.arrays[caches.clone()], &self.copies, &mut look_ups[caches]);
        let (any, full) = ((Lines::<false>(shift), field), (Lines::<true>(shift), field));
        let (performed, missing) = if !arrays.0.iter().all(Array::heeds_no_hits) {
            run.over::<W, _, false, false, JOINED, BOUNDED>(any, arrays, records, follower, counts)
        } else if shift == W::LINE_SHIFT {
            run.over::<W, _, true, true, JOINED, BOUNDED>(full, arrays, records, follower, counts)
        } else {
            run.over::<W, _, true, false, JOINED, BOUNDED>(any, arrays, records, follower, counts)
        };
        self.missing = missing.map(|(half, line)| (CacheId(cache.0 + half), line));
        performed
    }
}
