//! Runs of hits ([`crate::hits`]) of whichever first level a hierarchy has: coherent itself, or inside the private
//! levels of its processor.
//!
//! A plain hit inside private levels changes three things: what the processor knows of the line (in its pool), the
//! age of the copy in the first level, and with a store whether that copy is dirty. Levels further out are
//! not looked up, as in [`Hierarchy::try_hit`], which does the same with all questions asked.

#![allow(clippy::inline_always)] // the loop of hits is one function

use super::{Domain, Hierarchy};
use crate::array::{Array, Frame};
use crate::hits::{Field, FirstLevel, Follower, Lines, Nobody, Run, RunCounts, View};
use crate::level::{Level, Quick};
use crate::observer::Observer;
use crate::words::WordMask;
use servsim_core::{CacheId, CpuId, LineAddr, Op, Record};

/// The first level of a processor with private levels outside it.
struct Inner<'a, W, const CACHES: usize> {
    levels: &'a mut [Level; CACHES],
    quick: &'a mut [Quick; CACHES],
    pool: &'a mut Array<W>,
    /// The states that are dirty, one bit each.
    dirty: u16,
}

impl<W: WordMask, const CACHES: usize> FirstLevel<W> for Inner<'_, W, CACHES> {
    type Place = (usize, usize, usize);
    type View<'a>
        = Inner<'a, W, CACHES>
    where
        Self: 'a;
    const DATA: usize = CACHES - 1;

    fn frame(&mut self, (_, _, place): Self::Place) -> &mut Frame<W> {
        &mut self.pool.frames[place]
    }

    #[inline(always)]
    fn view(&mut self) -> Self::View<'_> {
        let Self { levels, quick, pool, dirty } = self;
        Inner { levels, quick, pool, dirty: *dirty }
    }

    fn find(&mut self, half: usize, line: LineAddr) -> Option<Self::Place> {
        let (level, quick) = (&self.levels[half], &mut self.quick[half]);
        let (index, place) = level.find_quickly(quick, self.pool, line)?;
        Some((half, index, place))
    }

    fn count_second_line(&mut self, half: usize) {
        self.levels[half].counters.hits += 1;
    }

    fn clock(&self) -> u64 {
        0 // each level has its own, which goes on use by use
    }

    fn set_clock(&mut self, _clock: u64) {}
}

impl<W: WordMask, const CACHES: usize> View<W> for Inner<'_, W, CACHES> {
    type Place = (usize, usize, usize);
    const EACH_USE: bool = true;

    #[inline(always)]
    fn guess(&self, half: usize, line: LineAddr) -> Option<Self::Place> {
        let (level, quick) = (&self.levels[half % CACHES], &self.quick[half % CACHES]);
        let (index, place) = level.guess_quickly(quick, self.pool, line)?;
        Some((half, index, place))
    }

    #[inline(always)]
    fn frame(&mut self, (_, _, place): Self::Place) -> &mut Frame<W> {
        &mut self.pool.frames[place]
    }

    #[inline(always)]
    fn use_copy(&mut self, (half, index, place): Self::Place, _stamp: u64, write: bool) {
        let level = &mut self.levels[half % CACHES];
        self.pool.stamp(place);
        level.use_way(index);
        // A word that was written through leaves nothing to write back.
        if write && self.dirty >> (self.pool.frames[place].state & 15) & 1 != 0 {
            level.write_at(index);
        }
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

    /// The same with somebody who goes along; what that puts aside is among the records and counts, too.
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
        let (domain, pool) = (&mut self.domains[cache], &mut system.arrays[cache]);
        let Domain { levels, quick } = domain;
        let (dirty, kind) = (system.cells.dirty, (Lines::<false>(shift), field));
        if let ([both, ..], [of_both]) = (levels.as_mut_slice(), quick.as_mut_slice()) {
            let (levels, quick) = (std::array::from_mut(both), std::array::from_mut(of_both));
            return run.take(kind, &mut Inner { levels, quick, pool, dirty }, records, follower, counts);
        }
        let (Some(levels), Ok(quick)) = (levels.first_chunk_mut::<2>(), quick.as_mut_slice().try_into())
        else {
            return 0;
        };
        run.take(kind, &mut Inner::<W, 2> { levels, quick, pool, dirty }, records, follower, counts)
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
