//! One cache of a hierarchy that is not where coherence is kept: tags, and for each whether the copy
//! is valid and whether it was written since it was last handed outward. States and words of a line
//! are known once per processor, not per level.
//!
//! A tag whose copy was invalidated stays until its frame is reused, as in the coherent arrays.

use crate::array::{Geometry, SetIndex, EMPTY};
use crate::replacement::Replacement;
use crate::snapshot::{ranks, Damaged, Reader, Writer};
use servsim_core::LineAddr;

servsim_core::counters! {
    /// What one level counted.
    pub struct LevelCounters {
        hits: u64 = "hits" [], "look-ups", Parts, [], "Look-ups of the level that found the line";
        misses: u64 = "misses" [], "look-ups", Parts, [], "Look-ups of the level that did not find the line";
        evictions: u64 = "evictions" [], "lines", Parts, [], "Valid copies of the level that made room";
        write_backs: u64 = "write_backs" [], "lines", Parts, [],
            "Dirty copies that the level handed outward when they made room";
        back_invalidations: u64 = "back_invalidations" [], "lines", Parts, [],
            "Copies taken from the level because an inclusive one further out gave the line up";
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Tag {
    stamp: u64,
    valid: bool,
    dirty: bool,
}

/// What had to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Displaced {
    /// The line.
    pub line: LineAddr,
    /// Whether its copy was valid; otherwise only the tag was left.
    pub valid: bool,
    /// Whether it was written since it was last handed outward.
    pub dirty: bool,
}

/// A level.
#[derive(Debug)]
pub struct Level {
    lines: Vec<LineAddr>,
    tags: Vec<Tag>,
    clock: u64,
    ways: usize,
    set_index: SetIndex,
    replacement: Replacement,
    /// What it counted.
    pub counters: LevelCounters,
}

impl Level {
    /// An empty level.
    pub fn new(geometry: Geometry, replacement: Replacement) -> Self {
        Self {
            lines: vec![EMPTY; geometry.frames()],
            tags: vec![Tag::default(); geometry.frames()],
            clock: 0,
            ways: geometry.ways as usize,
            set_index: SetIndex::new(geometry.sets()),
            replacement,
            counters: LevelCounters::default(),
        }
    }

    fn find(&self, line: LineAddr) -> Option<usize> {
        let first = self.set_index.of(line) * self.ways;
        let place = self.lines[first..first + self.ways].iter().position(|&tag| tag == line);
        place.map(|way| first + way)
    }

    fn find_valid(&self, line: LineAddr) -> Option<usize> {
        self.find(line).filter(|&index| self.tags[index].valid)
    }

    /// Whether it has a valid copy.
    pub fn holds(&self, line: LineAddr) -> bool {
        self.find_valid(line).is_some()
    }

    /// Whether it has the tag, with or without a valid copy.
    pub fn has_tag(&self, line: LineAddr) -> bool {
        self.find(line).is_some()
    }

    /// The lines that it has valid copies of.
    pub fn lines(&self) -> impl Iterator<Item = LineAddr> + '_ {
        self.lines.iter().zip(&self.tags).filter(|(_, tag)| tag.valid).map(|(line, _)| *line)
    }

    fn stamp(&mut self, index: usize) {
        self.clock += 1;
        self.tags[index].stamp = self.clock;
    }

    /// Looks `line` up, counts, and marks it as used when it is there.
    pub fn look_up(&mut self, line: LineAddr) -> bool {
        let Some(index) = self.find_valid(line) else {
            self.counters.misses += 1;
            return false;
        };
        self.counters.hits += 1;
        self.stamp(index);
        self.replacement.hit(index / self.ways, index % self.ways);
        true
    }

    /// Places `line`; what had to make room.
    pub fn insert(&mut self, line: LineAddr, dirty: bool) -> Option<Displaced> {
        let mut displaced = None;
        let index = self.find(line).unwrap_or_else(|| {
            let first = self.set_index.of(line) * self.ways;
            let ages = self.tags[first..first + self.ways].iter().map(|tag| (tag.valid, tag.stamp));
            let index = first + self.replacement.victim(first / self.ways, ages);
            let (line, Tag { valid, dirty, .. }) = (self.lines[index], self.tags[index]);
            self.counters.evictions += u64::from(valid);
            displaced = (line != EMPTY).then_some(Displaced { line, valid, dirty });
            index
        });
        self.lines[index] = line;
        self.tags[index] = Tag { stamp: 0, valid: true, dirty };
        self.stamp(index);
        self.replacement.fill(index / self.ways, index % self.ways);
        displaced
    }

    /// Marks the copy of `line` as written, if there is one; whether there is.
    pub fn write(&mut self, line: LineAddr) -> bool {
        let found = self.find_valid(line);
        if let Some(index) = found {
            self.tags[index].dirty = true;
        }
        found.is_some()
    }

    /// Whether it has a valid copy that was written.
    pub fn is_dirty(&self, line: LineAddr) -> bool {
        self.find_valid(line).is_some_and(|index| self.tags[index].dirty)
    }

    /// Marks the copy of `line` as not written.
    pub fn clean(&mut self, line: LineAddr) {
        if let Some(index) = self.find(line) {
            self.tags[index].dirty = false;
        }
    }

    /// Invalidates the copy of `line`; its tag stays.
    pub fn invalidate(&mut self, line: LineAddr) {
        if let Some(index) = self.find(line) {
            self.tags[index].valid = false;
            self.tags[index].dirty = false;
        }
    }

    /// Takes `line` away, tag and all; whether a copy was valid, and if so whether it was dirty.
    pub fn erase(&mut self, line: LineAddr) -> Option<bool> {
        let index = self.find(line)?;
        let tag = std::mem::take(&mut self.tags[index]);
        self.lines[index] = EMPTY;
        tag.valid.then_some(tag.dirty)
    }

    /// Writes which lines it holds, and in which order they were used.
    pub fn save(&self, out: &mut Writer) {
        let Self { lines, tags, clock: _, ways, set_index: _, replacement, counters: _ } = self;
        out.put(lines.len() as u64);
        for (lines, tags) in lines.chunks(*ways).zip(tags.chunks(*ways)) {
            let ranks = ranks(tags.iter().map(|tag| tag.stamp));
            for ((line, tag), rank) in lines.iter().zip(tags).zip(ranks) {
                // One more: an empty frame's line is the largest number, and becomes 0.
                out.put(line.0.wrapping_add(1));
                if *line != EMPTY {
                    let Tag { stamp: _, valid, dirty } = *tag;
                    out.put(rank << 2 | u64::from(valid) << 1 | u64::from(dirty));
                }
            }
        }
        replacement.save(out);
    }

    /// Takes over what another level of the same shape held.
    ///
    /// # Errors
    /// When the bytes are no such state.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        from.exactly(self.lines.len())?;
        for (line, tag) in self.lines.iter_mut().zip(&mut self.tags) {
            *line = LineAddr(from.take()?.wrapping_sub(1));
            *tag = Tag::default();
            if *line != EMPTY {
                let packed = from.below((self.ways as u64 + 1) << 2)?;
                *tag = Tag { stamp: packed >> 2, valid: packed & 2 != 0, dirty: packed & 1 != 0 };
            }
        }
        self.clock = self.ways as u64;
        self.replacement.restore(from)
    }

    /// Host memory in use, in bytes.
    pub fn host_bytes(&self) -> usize {
        self.lines.len() * 8 + self.tags.len() * size_of::<Tag>()
    }
}
