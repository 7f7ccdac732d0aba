//! Levels shared by all processors or by those of a core group, between bus and memory: looked up by fetches that no
//! cache supplies, written by what the private caches inside them hand outward.
//!
//! They answer the bus like memory, so coherence does not know them. They know of the private caches
//! only what [`Inside`] tells them: whether any holds a line, and that all must give one up.

use crate::hierarchy::{HierarchySpec, Inclusion};
use crate::level::{Displaced, Level};
use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::LineAddr;

/// The private caches, as the shared levels see them.
pub trait Inside {
    /// Whether any private cache has a valid copy.
    fn hold(&mut self, line: LineAddr) -> bool;
    /// Takes `line` away from every private cache; whether a copy was dirty.
    fn take(&mut self, line: LineAddr) -> bool;
    /// The level has a copy of `line` from now on, or none any more.
    fn placed(&mut self, _line: LineAddr, _here: bool) {}
    /// `line` is on its way to memory by itself.
    fn to_memory(&mut self, _line: LineAddr) {}
}

/// The shared levels, from the inside out.
#[derive(Debug)]
pub struct Shared {
    /// The levels.
    pub levels: Vec<Level>,
    inclusion: Vec<Inclusion>,
    /// Whether a line written from inside that is not there goes on outward.
    write_around: Vec<bool>,
    /// Fetches of its processors that reached memory.
    pub memory_reads: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
}

impl Shared {
    /// Empty levels of `group`; 0 for those of all processors.
    pub fn new(spec: &HierarchySpec, group: usize) -> Self {
        let number = |index| index + spec.private.len() + 2;
        let level = |(index, level): (usize, &crate::hierarchy::LevelSpec)| {
            Level::new(level.geometry, spec.policy(&level.replacement, level.geometry, number(index), group))
        };
        Self {
            levels: spec.shared.iter().enumerate().map(level).collect(),
            inclusion: spec.shared.iter().map(|level| level.inclusion).collect(),
            write_around: spec.shared.iter().map(|level| level.write_around).collect(),
            memory_reads: 0,
            memory_writes: 0,
        }
    }

    /// Writes the state of the levels.
    pub fn save(&self, out: &mut Writer) {
        let Self { levels, inclusion: _, write_around: _, memory_reads: _, memory_writes: _ } = self;
        levels.iter().for_each(|level| level.save(out));
    }

    /// Takes over a state that was saved.
    ///
    /// # Errors
    /// When the bytes are no state of such levels.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.levels.iter_mut().try_for_each(|level| level.restore(from))
    }

    /// Whether a level takes the lines that it gives up from those inside it.
    pub fn is_inclusive(&self) -> bool {
        self.inclusion.contains(&Inclusion::Inclusive)
    }

    /// A fetch that no cache supplied: the level that has the line. What makes room for the line inside
    /// is handed out before [`Shared::fill`], so that no line is on its way while levels fill.
    #[inline]
    pub fn look_up(&mut self, line: LineAddr, inside: &mut dyn Inside) -> Option<usize> {
        let found = (0..self.levels.len()).find(|&index| self.levels[index].look_up(line));
        match found {
            Some(index) if self.inclusion[index] == Inclusion::Exclusive => {
                let dirty = self.levels[index].erase(line);
                inside.placed(line, false);
                if dirty == Some(true) {
                    // The private copy is clean: the duty to write back goes outward.
                    self.write(index + 1, line, inside);
                }
            }
            None | Some(_) => {}
        }
        found
    }

    /// Fills the levels that the line passes on its way in, which [`Shared::look_up`] has not found it in.
    #[inline]
    pub fn fill(&mut self, line: LineAddr, found: Option<usize>, inside: &mut dyn Inside) {
        for index in (0..found.unwrap_or(self.levels.len())).rev() {
            if self.inclusion[index] != Inclusion::Exclusive {
                let displaced = self.levels[index].insert_missing(line, false);
                self.placed(index, line, displaced, inside);
            }
        }
    }

    /// A private cache gave `line` up.
    #[inline]
    pub fn given_up(&mut self, line: LineAddr, dirty: bool, inside: &mut dyn Inside) {
        let takes_all = self.inclusion.first() == Some(&Inclusion::Exclusive);
        if dirty {
            self.write(0, line, inside);
        } else if takes_all && !inside.hold(line) {
            self.insert(0, line, false, inside);
        }
    }

    /// New data of `line` reach level `index` from inside (memory beyond the last).
    pub fn write(&mut self, index: usize, line: LineAddr, inside: &mut dyn Inside) {
        let Some(inclusion) = self.inclusion.get(index) else {
            self.memory_writes += 1;
            inside.to_memory(line);
            return;
        };
        if self.levels[index].write(line) {
            return;
        }
        let passed_on = *inclusion == Inclusion::Exclusive && self.is_inside(index, line, inside);
        if passed_on || self.write_around[index] {
            self.write(index + 1, line, inside);
        } else {
            self.insert(index, line, true, inside);
        }
    }

    fn is_inside(&self, index: usize, line: LineAddr, inside: &mut dyn Inside) -> bool {
        self.levels[..index].iter().any(|level| level.holds(line)) || inside.hold(line)
    }

    fn insert(&mut self, index: usize, line: LineAddr, dirty: bool, inside: &mut dyn Inside) {
        let displaced = self.levels[index].insert(line, dirty);
        self.placed(index, line, displaced, inside);
    }

    /// Level `index` has taken `line` in place of what it displaced.
    #[inline]
    fn placed(
        &mut self,
        index: usize,
        line: LineAddr,
        displaced: Option<Displaced>,
        inside: &mut dyn Inside,
    ) {
        inside.placed(line, true);
        if let Some(Displaced { line, dirty, .. }) = displaced {
            inside.placed(line, false);
            self.give_up(index, line, dirty, inside);
        }
    }

    /// Level `index` gave `line` up: where it goes.
    fn give_up(&mut self, index: usize, line: LineAddr, mut dirty: bool, inside: &mut dyn Inside) {
        if self.inclusion[index] == Inclusion::Inclusive {
            for level in &mut self.levels[..index] {
                if let Some(written) = level.erase(line) {
                    level.counters.back_invalidations += 1;
                    dirty |= written;
                }
            }
            dirty |= inside.take(line);
        }
        self.levels[index].counters.write_backs += u64::from(dirty);
        let next = index + 1;
        if dirty {
            self.write(next, line, inside);
        } else if self.inclusion.get(next) == Some(&Inclusion::Exclusive)
            && !self.is_inside(next, line, inside)
        {
            self.insert(next, line, false, inside);
        }
    }
}
