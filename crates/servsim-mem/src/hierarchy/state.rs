//! The state of a hierarchy as bytes: see [`crate::snapshot`].

use super::Hierarchy;
use crate::array::{Array, EMPTY};
use crate::copy_index::{with_cache_set, Indexed};
use crate::observer::Observer;
use crate::protocol::{OnSnoop, Snoop, INVALID};
use crate::snapshot::{Damaged, Reader, Writer};
use crate::system::CoherentSystem;
use crate::words::WordMask;
use servsim_core::{CacheId, CpuId, LineAddr};

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// Writes the state of all caches. Counters are not part of it.
    ///
    /// # Panics
    /// When lines that a flush wrote back were not taken.
    pub fn save(&self, out: &mut Writer) {
        let Self {
            system,
            domains,
            inclusion: _,
            first: _,
            shared,
            // What levels hold says it again.
            groups: _,
            lookups: _,
            counted_ahead: _,
            back_invalidations: _,
            write_around: _,
            prefetch_level: _,
            flat: _,
        } = self;
        system.save(out);
        domains.iter().flat_map(|domain| &domain.levels).for_each(|level| level.save(out));
        shared.iter().for_each(|shared| shared.save(out));
    }

    /// Takes over the state of another hierarchy of the same shape and protocol. Counters stay.
    ///
    /// # Errors
    /// When the bytes are no such state; the hierarchy is of no use then.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.system.restore(from)?;
        let mut levels = self.domains.iter_mut().flat_map(|domain| &mut domain.levels);
        levels.try_for_each(|level| level.restore(from))?;
        self.shared.iter_mut().try_for_each(|shared| shared.restore(from))?;
        self.note_levels();
        Ok(())
    }

    /// Exclusive clean copies become shared ones.
    pub fn share_clean_copies(&mut self) {
        let system = &mut self.system;
        for frame in system.arrays.iter_mut().flat_map(|array| &mut array.frames) {
            let row = &system.table.rows[usize::from(frame.state)];
            if let (true, false, OnSnoop::Act { next, .. }) =
                (row.info.exclusive, row.info.dirty, row.snoop[Snoop::Read as usize])
            {
                frame.state = next;
            }
        }
    }

    /// Calls `with` for every copy: its processor, its line, and whether it is dirty.
    pub fn for_each_copy(&self, mut with: impl FnMut(CpuId, LineAddr, bool)) {
        let system = &self.system;
        for (cache, Array { frames, .. }) in system.arrays.iter().enumerate() {
            for frame in frames.iter().filter(|frame| frame.state != INVALID) {
                let dirty = system.table.rows[usize::from(frame.state)].info.dirty;
                with(CpuId(cache / system.per_processor), frame.line, dirty);
            }
        }
    }
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    fn save(&self, out: &mut Writer) {
        let Self {
            table: _,
            cells: _,
            hit: _,
            stays: _,
            arrays,
            shadows: _,
            copies,
            snooped: _,
            distinct_lines,
            evictions: _,
            unfilled: _,
            switches,
            history: _,
            per_processor: _,
            around: _,
            times_write_backs: _,
            written_back,
            counters: _,
            // Machines with prefetchers are not warmed functionally.
            prefetches: _,
            // Who is warmed knows the pages.
            undecided: _,
            raised: _,
            trigger: _,
            observer: _,
            ages: _,
            shadow_frames: _,
            missing: _,
        } = self;
        assert!(written_back.is_empty(), "lines that were written back and not taken");
        copies.save(out);
        out.put(*distinct_lines as u64);
        arrays.iter().for_each(|array| array.save(out));
        self.save_shadows(out);
        switches.save(copies.losses(), out);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        let lines = self.copies.restore(self.arrays.len(), from)?;
        self.distinct_lines = from.below(lines as u64 + 1)? as usize;
        for cache in CacheId::all(self.arrays.len()) {
            self.arrays[cache].restore(self.table.rows.len(), from)?;
            with_cache_set!(self.copies, self.find_lines(cache))?;
        }
        self.restore_shadows(from)?;
        self.switches.restore(from)
    }

    /// Enters the lines of a cache in the index of copies.
    fn find_lines<S: Indexed>(&mut self, cache: CacheId) -> Result<(), Damaged> {
        let Array { frames, cold, .. } = &mut self.arrays[cache];
        for (frame, cold) in frames.iter().zip(cold).filter(|(frame, _)| frame.line != EMPTY) {
            let place = self
                .copies
                .find(frame.line)
                .ok_or(Damaged("a cache in it holds a line that nobody touched"))?;
            let mut record = self.copies.record::<S>(place);
            if record.seen.is_empty() {
                return Err(Damaged("a cache in it holds a line that nobody touched"));
            }
            let held = if frame.state == INVALID { &mut record.stale } else { &mut record.valid };
            held.insert(cache);
            self.copies.set_record(place, &record);
            cold.record = place as u32;
        }
        Ok(())
    }
}
