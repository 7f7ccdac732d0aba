//! Runs of hits ([`crate::hits`]) of whichever first level a hierarchy has: coherent itself, or inside the private
//! levels of its processor.
//!
//! A plain hit inside private levels changes three things: what the processor knows of the line (in its pool), the
//! age of the copy in the first level, and with a store whether that copy is dirty. Levels further out are
//! not looked up, as in [`Hierarchy::try_hit`], which does the same with all questions asked.

#![allow(clippy::inline_always)] // the loop of hits is one function

use super::Hierarchy;
use crate::array::{Array, Frame};
use crate::hits::{Few, Field, FirstLevel, Follower, Lines, Nobody, Run, RunCounts, View};
use crate::level::{Level, Parts};
use crate::observer::Observer;
use crate::words::WordMask;
use servsim_core::{CacheId, CpuId, LineAddr, Op, Record};

/// The first level of a processor with private levels outside it.
struct Inner<'a, W, const CACHES: usize> {
    levels: &'a mut [Level; CACHES],
    /// The private levels outside it.
    outer: &'a [Level],
    pool: &'a mut Array<W>,
    /// The states that are dirty, one bit each.
    dirty: u16,
}

impl<W: WordMask, const CACHES: usize> FirstLevel<W> for Inner<'_, W, CACHES> {
    type Place = (usize, usize, usize);
    type View<'a>
        = InParts<'a, W, CACHES>
    where
        Self: 'a;
    const DATA: usize = CACHES - 1;

    #[inline(always)]
    fn view(&mut self) -> Self::View<'_> {
        let Self { levels, outer: _, pool, dirty } = self;
        InParts { levels: levels.each_mut().map(Level::parts), frames: &mut pool.frames, dirty: *dirty }
    }

    fn find(&mut self, half: usize, line: LineAddr) -> Option<Self::Place> {
        let found = self.levels[half].find_quickly(self.pool, line);
        if found.is_none() {
            // The access will look further soon.
            self.pool.prefetch_place(line);
            self.outer.iter().for_each(|level| level.prefetch(line));
        }
        found.map(|(index, place)| (half, index, place))
    }

    fn count_second_line(&mut self, half: usize) {
        self.levels[half].counters.hits += 1;
    }

    #[inline(always)]
    fn clock(&self) -> u64 {
        // One for all, so that a use has one stamp whichever it is of.
        self.levels.iter().map(Level::clock).fold(self.pool.clock, u64::max)
    }

    #[inline(always)]
    fn set_clock(&mut self, clock: u64) {
        self.levels.iter_mut().for_each(|level| level.set_clock(clock));
        self.pool.clock = clock;
    }
}

/// The same in parts.
struct InParts<'a, W, const CACHES: usize> {
    levels: [Parts<'a>; CACHES],
    frames: &'a mut [Frame<W>],
    dirty: u16,
}

impl<W: WordMask, const CACHES: usize> View<W> for InParts<'_, W, CACHES> {
    type Place = (usize, usize, usize);
    const EACH_FETCH: bool = CACHES == 1;

    #[inline(always)]
    fn guess(&self, half: usize, line: LineAddr) -> Option<Self::Place> {
        let (index, place) = self.levels[half % CACHES].guess(line, self.frames)?;
        Some((half, index, place))
    }

    #[inline(always)]
    fn frame(&mut self, (_, _, place): Self::Place) -> &mut Frame<W> {
        &mut self.frames[place]
    }

    #[inline(always)]
    fn use_copy(&mut self, (half, index, place): Self::Place, stamp: u64, write: bool) {
        let frame = &mut self.frames[place];
        frame.stamp = stamp;
        // A word that was written through leaves nothing to write back.
        let written = write && self.dirty >> (frame.state & 15) & 1 != 0;
        self.levels[half % CACHES].use_way(index, stamp, written);
    }

    #[inline(always)]
    fn use_code(&mut self, (half, index, place): Self::Place, stamp: u64) {
        let frame = &mut self.frames[place];
        frame.stamp = frame.stamp.max(stamp);
        self.levels[half % CACHES].use_way(index, stamp, false);
    }
}

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// Performs the records from the first on as long as they are plain hits of `cpu` and of the same task and
    /// processor field, with lines of `1 << shift` bytes. Adds to `counts`, which the caller reports to
    /// [`Hierarchy::count_hits`] at the end; returns how many it performed.
    pub fn run_hits(&mut self, cpu: CpuId, shift: u32, records: &[Record], counts: &mut RunCounts) -> usize {
        self.run_hits_of(Field::<false, false>, cpu, shift, (records, u64::MAX), &mut Nobody, counts)
    }

    /// The same of records whose processor field says how many fetches within one line they stand for, as long as less
    /// than `most` references come before.
    pub fn run_joined_hits(
        &mut self,
        cpu: CpuId,
        shift: u32,
        records: &[Record],
        most: u64,
        counts: &mut RunCounts,
    ) -> usize {
        if most == u64::MAX {
            return self.run_hits_of(Field::<true, false>, cpu, shift, (records, most), &mut Nobody, counts);
        }
        self.run_hits_of(Field::<true, true>, cpu, shift, (records, most), &mut Nobody, counts)
    }

    /// The same for a few records: they may end before the hits do. Without `PERFORM` it only tells how far they go.
    #[inline]
    pub fn run_few_hits<const PERFORM: bool>(
        &mut self,
        cpu: CpuId,
        shift: u32,
        records: (&[Record], u64),
        counts: &mut RunCounts,
    ) -> Few {
        if self.domains.is_empty() {
            let first = (cpu, CacheId(cpu.0 * self.first), self.first - 1, self.lookups.as_mut_slice());
            return self.system.run_few_hits::<PERFORM>(first, shift, records, counts);
        }
        let (system, cache) = (&mut self.system, CacheId(cpu.0));
        let run = Run::new(cpu, system.stays);
        let (levels, pool) = (self.domains[cache].levels.as_mut_slice(), &mut system.arrays[cache]);
        let dirty = system.cells.dirty;
        if self.first == 1 {
            let Some((levels, outer)) = levels.split_first_chunk_mut::<1>() else { return Few::default() };
            return run.take_few::<_, _, PERFORM>(
                shift,
                &mut Inner { levels, outer, pool, dirty },
                records,
                counts,
            );
        }
        let Some((levels, outer)) = levels.split_first_chunk_mut::<2>() else { return Few::default() };
        run.take_few::<_, _, PERFORM>(shift, &mut Inner { levels, outer, pool, dirty }, records, counts)
    }

    /// As [`Hierarchy::run_joined_hits`], with somebody who goes along; what that puts aside is among the records and counts, too.
    #[inline]
    pub fn run_followed_hits(
        &mut self,
        cpu: CpuId,
        shift: u32,
        records: (&[Record], u64),
        follower: &mut impl Follower<W>,
        counts: &mut RunCounts,
    ) -> usize {
        self.run_hits_of(Field::<true, true>, cpu, shift, records, follower, counts)
    }

    #[inline]
    fn run_hits_of<const JOINED: bool, const BOUNDED: bool>(
        &mut self,
        field: Field<JOINED, BOUNDED>,
        cpu: CpuId,
        shift: u32,
        records: (&[Record], u64),
        follower: &mut impl Follower<W>,
        counts: &mut RunCounts,
    ) -> usize {
        if self.domains.is_empty() {
            let cache = CacheId(cpu.0 * self.first);
            return self.system.run_hits(
                field,
                (cpu, cache, self.first - 1, &mut self.lookups),
                shift,
                records,
                follower,
                counts,
            );
        }
        self.run_inner_hits(field, cpu, shift, records, follower, counts)
    }

    #[inline(never)]
    fn run_inner_hits<const JOINED: bool, const BOUNDED: bool>(
        &mut self,
        field: Field<JOINED, BOUNDED>,
        cpu: CpuId,
        shift: u32,
        records: (&[Record], u64),
        follower: &mut impl Follower<W>,
        counts: &mut RunCounts,
    ) -> usize {
        let (system, cache) = (&mut self.system, CacheId(cpu.0));
        let run = Run::new(cpu, system.stays);
        let (levels, pool) = (self.domains[cache].levels.as_mut_slice(), &mut system.arrays[cache]);
        let (dirty, kind) = (system.cells.dirty, (Lines::<false>(shift), field));
        if self.first == 1 {
            let Some((levels, outer)) = levels.split_first_chunk_mut::<1>() else { return 0 };
            return run.take(kind, &mut Inner { levels, outer, pool, dirty }, records, follower, counts);
        }
        let Some((levels, outer)) = levels.split_first_chunk_mut::<2>() else { return 0 };
        run.take(kind, &mut Inner { levels, outer, pool, dirty }, records, follower, counts)
    }

    /// Counts the hits that were performed by [`Hierarchy::run_hits`] as look-ups of the first level of `cpu`.
    pub fn count_hits(&mut self, cpu: CpuId, hits: &RunCounts) {
        for (mode, op) in (0..2).flat_map(|mode| (0..3).map(move |op| (mode, op))) {
            self.count_lookups(cpu, op, hits[mode][op]);
        }
    }

    /// Counts so many hits of operation `op` as look-ups of the first level of `cpu`.
    #[inline]
    pub fn count_lookups(&mut self, cpu: CpuId, op: usize, hits: u64) {
        let half = self.half(op);
        if self.domains.is_empty() {
            self.lookups[cpu.0 * self.first + half] += hits;
        } else {
            self.domains[CacheId(cpu.0)].levels[half].counters.hits += hits;
        }
    }
}

const _: () = assert!(Op::Fetch as usize == 0, "the half of a split first level is chosen by the operation");
