//! The two steps of an access: it is first tried, and what needs the bus is performed when the bus is
//! granted, by the state found then. The functional engine takes them at once ([`Hierarchy::access`]).
//!
//! The levels inside the point of coherence are looked up when an access completes: what it changes
//! at the bus first does not touch the processor's own levels, except that an inclusive shared level
//! may take other lines from them.

use super::Hierarchy;
use crate::interconnect::Supplier;
use crate::observer::Observer;
use crate::protocol::BusOp;
use crate::system::{Access, Approached, Outcome, Page};
use crate::words::WordMask;
use servsim_core::{CacheId, CpuId, LineAddr, Op};

/// The hint slot of instruction fetches, as [`Access::slot`] numbers operations.
const FETCH: usize = 0;

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// First-level cache of the processor that serves an access with this hint slot: 0, or 1 for data of a split one.
    #[inline]
    pub(super) fn half(&self, slot: usize) -> usize {
        usize::from(self.first == 2 && slot != FETCH)
    }

    /// The access as the coherent system knows it, at the coherent cache that serves it.
    #[inline]
    pub(super) fn at_coherence(&self, access: &Access<W>) -> Access<W, CacheId> {
        let CpuId(cpu) = access.at;
        let first_level = self.domains.is_empty();
        access.served_by(CacheId(if first_level { cpu * self.first + self.half(access.slot) } else { cpu }))
    }

    /// Performs the access if it needs no bus transaction; returns how far out its line was found,
    /// 0 for the first level. A line in the other half of a split first level counts as one further.
    #[inline]
    pub fn try_hit(&mut self, access: &Access<W>) -> Option<usize> {
        let inner = self.at_coherence(access);
        if !self.domains.is_empty() {
            if let Some(done) = self.try_first_level(&inner) {
                return done.then_some(0);
            }
            self.approach_levels(&inner);
        }
        if !self.system.try_hit(&inner) {
            return None;
        }
        Some(self.completed(&inner))
    }

    /// The same of an access whose line the first level inside private ones has, with the same effects; `None` where that has
    /// it not, or where it lies is not known.
    #[inline]
    fn try_first_level(&mut self, access: &Access<W, CacheId>) -> Option<bool> {
        let which = self.half(access.slot);
        let level = &mut self.domains[access.at].levels[which];
        let (index, place) = level.find_quickly(&self.system.arrays[access.at], access.line)?;
        if !self.system.hit_at(access, place) {
            return Some(false);
        }
        level.counters.hits += 1;
        level.use_way(index);
        // A word that was written through leaves nothing to write back.
        if access.write && self.system.is_dirty_at(access.at, place) {
            level.write_at(index);
        }
        Some(true)
    }

    /// Brings nearer what an access that the first level inside private ones cannot serve looks up: a few places far apart,
    /// each of which the host's caches have lost.
    #[inline]
    fn approach_levels(&mut self, access: &Access<W, CacheId>) {
        let levels = &self.domains[access.at].levels;
        self.system.arrays[access.at].prefetch_place(access.line);
        for level in &levels[self.first..] {
            level.prefetch(access.line);
        }
        if let (Some(next), Some(left)) =
            (levels.get(self.first), levels[self.half(access.slot)].dirty_victim(access.line))
        {
            next.prefetch(left);
        }
    }

    /// The levels' share of a completed access.
    #[inline]
    pub(super) fn completed(&mut self, access: &Access<W, CacheId>) -> usize {
        if self.domains.is_empty() {
            self.count_lookup(access);
            return 0;
        }
        let which = self.half(access.slot);
        let (cache, line) = (access.at, access.line);
        let found = self.look_up(cache, which, line);
        let into = self.performed_at(access, which, found);
        if found != Some(into) {
            self.bring_in(access, into, found);
        }
        if let Some(place) = self.system.arrays[cache].find(line) {
            // A word that was written through leaves nothing to write back.
            let written = access.write && self.system.is_dirty_at(cache, place);
            self.domains[cache].levels[into].note_access(line, place, written);
        }
        match found {
            Some(index) if index == which => 0,
            Some(index) if index >= self.first => index + 1 - self.first,
            Some(_) => 1,
            // It has just come by the bus, whose time is counted there.
            None => 0,
        }
    }

    /// Counts the look-up of a completed access, unless it was when the access missed.
    #[inline]
    fn count_lookup(&mut self, access: &Access<W, CacheId>) {
        if !(access.write && std::mem::take(&mut self.counted_ahead[access.at])) {
            self.lookups[access.at] += 1;
        }
    }

    /// Counts the look-up of a store that has missed, and completes later: nobody is to see a miss without its look-up.
    #[cold]
    fn count_ahead(&mut self, access: &Access<W, CacheId>) {
        if self.domains.is_empty() && !std::mem::replace(&mut self.counted_ahead[access.at], true) {
            self.lookups[access.at] += 1;
        }
    }

    /// The transaction of an access is done: the access is complete, or has to be repeated.
    #[inline]
    fn conclude(&mut self, access: &Access<W, CacheId>, outcome: &Outcome) {
        if access.write && outcome.op.is_some_and(BusOp::is_fetch) {
            // If it lost the line that it had fetched, it has missed once more.
            self.counted_ahead[access.at] = false;
        }
        if outcome.done {
            self.completed(access);
        } else {
            self.count_ahead(access);
        }
    }

    /// `cpu` turns to something else than the store that it was to repeat, whose next look-up is one by itself.
    pub fn forget_counted_ahead(&mut self, cpu: CpuId) {
        if self.domains.is_empty() {
            let half = self.half(Op::Store as usize);
            self.counted_ahead[CacheId(cpu.0 * self.first + half)] = false;
        }
    }

    /// The level whose copy an access works on whose line was found at `found`: the first, unless stores
    /// that miss it go around; these take any copy of the first level, and else the level next to it.
    #[inline]
    fn performed_at(&self, access: &Access<W, CacheId>, which: usize, found: Option<usize>) -> usize {
        if !(self.write_around && access.write) {
            return which;
        }
        found.filter(|&index| index < self.first).unwrap_or(self.first)
    }

    /// The transaction that the access would need now; `None` when it would hit.
    pub fn needed(&self, access: &Access<W>) -> Option<BusOp> {
        self.system.needed(&self.at_coherence(access))
    }

    /// Brings nearer what the transaction of an access looks up that asks for one now and gets it later.
    pub fn foresee(&self, access: &Access<W>) {
        self.system.foresee(&self.at_coherence(access));
    }

    /// Performs one bus transaction for the access as [`crate::CoherentSystem::transact`] does; also
    /// returns who supplied the block.
    pub fn transact(&mut self, access: &Access<W>, page: Page) -> (Outcome, Supplier) {
        let inner = self.at_coherence(access);
        let within_group = self.look_around(&inner);
        let mut outcome = Outcome { within_group, ..self.system.transact(&inner, page) };
        let supplier = self.supplier(&inner, &mut outcome);
        self.conclude(&inner, &outcome);
        (outcome, supplier)
    }

    /// As [`crate::CoherentSystem`]`::approach`, and for shared levels. These are five places or more, each of which takes the host longer
    /// than the rest.
    #[inline]
    pub(super) fn approach(&mut self, inner: &Access<W, CacheId>, found: Option<usize>) -> Approached {
        let approached = self.system.approach(inner, found);
        if !self.flat {
            self.approach_shared(inner.at, inner.line);
            if found.is_none() && self.system.is_dirty_at(inner.at, approached.index) {
                // It will be written back.
                let left = self.system.arrays[inner.at].frames[approached.index].line;
                self.approach_shared(inner.at, left);
            }
        }
        approached
    }

    /// Brings nearer the sets of `line` in the levels that `cache` shares with others.
    #[inline]
    pub(super) fn approach_shared(&self, cache: CacheId, line: LineAddr) {
        self.shared[self.groups.of(cache)].levels.iter().for_each(|level| level.prefetch(line));
    }

    /// The same for an access that is known not to hit, at the cache that serves it, with what [`Hierarchy::approach`] has
    /// found. Whether the access is complete.
    pub(super) fn transact_missed(
        &mut self,
        inner: &Access<W, CacheId>,
        approached: Approached,
        page: Page,
    ) -> bool {
        let within_group = !self.flat && self.look_around(inner);
        let mut outcome = self.system.transact_missed(inner, approached, page);
        if !self.flat {
            outcome.within_group = within_group;
            self.after(inner, &mut outcome);
        }
        self.conclude(inner, &outcome);
        outcome.done
    }

    /// Brings what the transaction means to the other levels; who supplied the block.
    fn supplier(&mut self, inner: &Access<W, CacheId>, outcome: &mut Outcome) -> Supplier {
        match (outcome.supplied_by, self.after(inner, outcome)) {
            (Some(cache), _) => Supplier::Processor(self.system.processor_of(cache)),
            (None, Some(level)) => level,
            (None, None) => Supplier::Memory,
        }
    }

    /// Fetches the line of `access`, a load that touches nothing, if the processor has no copy; the level
    /// that takes prefetches and those outside it that keep what passes them take the line.
    pub fn prefetch(&mut self, access: &Access<W>, page: Page) -> Option<(Outcome, Supplier)> {
        let inner = self.at_coherence(access);
        let within_group = self.look_around(&inner);
        let mut outcome = Outcome { within_group, ..self.system.prefetch(&inner, page)? };
        let supplier = self.supplier(&inner, &mut outcome);
        if self.domains.is_empty() {
            return Some((outcome, supplier));
        }
        let into = if self.prefetch_level == 1 { self.half(access.slot) } else { self.first };
        self.bring_in(&inner, into, None);
        Some((outcome, supplier))
    }
}
