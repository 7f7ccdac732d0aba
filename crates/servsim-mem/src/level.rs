//! One cache of a hierarchy that is not where coherence is kept: tags, and for each whether the copy
//! is valid and whether it was written since it was last handed outward. States and words of a line
//! are known once per processor, not per level.
//!
//! A tag whose copy was invalidated stays until its frame is reused, as in the coherent arrays.

// The loop of hits is one function.
#![allow(clippy::inline_always)]

mod known;

use crate::array::{most_guesses, Geometry, SetIndex, EMPTY};
use crate::filled::FilledSets;
use crate::host;
use crate::replacement::Replacement;
use crate::snapshot::{ranks, Damaged, Reader, Writer};
pub(crate) use known::Parts;
use known::{Known, NO_PLACE};
use servsim_core::LineAddr;

/// No way.
const NOWHERE: usize = usize::MAX;

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
        unfilled: u64 = "unfilled" [], "look-ups", Parts, [],
            "Misses in sets that had not been full yet: with a longer past they might have been hits";
    }
}

/// What is known of a way beside its line, in one number: sixteen ways lie in four lines of the host, their lines
/// included. The lowest bit tells whether the copy is dirty, the highest whether it is valid, those between when it was used last: so
/// the way that makes room is that of the smallest number, as [`Replacement::victim`] has it.
#[derive(Debug, Clone, Copy, Default)]
struct Tag(u64);

impl Tag {
    const DIRTY: u64 = 1;
    const VALID: u64 = 1 << 63;
    const STAMP_SHIFT: u32 = 1;
    /// Where a state that is saved has the stamp; the bits below it are those of [`Tag::saved`].
    const SAVED_SHIFT: u32 = 2;

    #[inline]
    fn valid(self) -> bool {
        self.0 & Self::VALID != 0
    }

    #[inline]
    fn dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    #[inline]
    fn stamp(self) -> u64 {
        (self.0 & !Self::VALID) >> Self::STAMP_SHIFT
    }

    #[inline]
    fn set_stamp(&mut self, stamp: u64) {
        self.0 = self.0 & (Self::VALID | Self::DIRTY) | stamp << Self::STAMP_SHIFT;
    }

    /// As a number of a state that is saved, with `rank` for its stamp.
    fn saved(self, rank: u64) -> u64 {
        rank << Self::SAVED_SHIFT | u64::from(self.valid()) << 1 | u64::from(self.dirty())
    }

    /// What [`Tag::saved`] made the number of.
    fn restored(saved: u64) -> Self {
        let mut tag = Self(if saved & 2 != 0 { Self::VALID } else { 0 } | saved & Self::DIRTY);
        tag.set_stamp(saved >> Self::SAVED_SHIFT);
        tag
    }
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
    filled: FilledSets,
    /// Of a first level inside a private one: by the low bits of lines, where valid copies lie,
    known: Vec<Known>,
    /// and by way, where the pool has the line of a valid copy, as far as somebody told.
    places: Vec<u32>,
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
            filled: FilledSets::none(geometry.sets()),
            known: Vec::new(),
            places: Vec::new(),
            counters: LevelCounters::default(),
        }
    }

    /// The same as a first level, whose hits are to be found quickly.
    #[must_use]
    pub fn first(geometry: Geometry, replacement: Replacement) -> Self {
        let known = vec![Known::NOTHING; most_guesses(geometry.frames())];
        let places = vec![NO_PLACE; geometry.frames()];
        Self { known, places, ..Self::new(geometry, replacement) }
    }

    /// When the last use was.
    #[inline]
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// All uses so far were made until `clock`.
    #[inline]
    pub(crate) fn set_clock(&mut self, clock: u64) {
        self.clock = clock;
    }

    #[inline]
    fn find(&self, line: LineAddr) -> Option<usize> {
        let first = self.set_index.of(line) * self.ways;
        // All ways, without a branch that the host would have to guess.
        let set = self.lines[first..first + self.ways].iter().enumerate();
        let found = set.fold(NOWHERE, |found, (way, &tag)| if tag == line { first + way } else { found });
        (found != NOWHERE).then_some(found)
    }

    #[inline]
    fn find_valid(&self, line: LineAddr) -> Option<usize> {
        self.find(line).filter(|&index| self.tags[index].valid())
    }

    /// Brings the set of `line` nearer: it is four lines of the host or more, which a miss finds in none of its caches.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        let first = self.set_index.of(line) * self.ways;
        host::prefetch_all(&self.lines, first..first + self.ways);
        host::prefetch_all(&self.tags, first..first + self.ways);
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
        self.lines.iter().zip(&self.tags).filter(|(_, tag)| tag.valid()).map(|(line, _)| *line)
    }

    #[inline]
    fn stamp(&mut self, index: usize) {
        self.clock += 1;
        self.tags[index].set_stamp(self.clock);
    }

    /// Marks the copy at `index` as used.
    #[inline(always)]
    pub(crate) fn use_way(&mut self, index: usize) {
        self.stamp(index);
        self.replacement.hit_at(index, self.ways);
    }

    /// Looks `line` up, counts, and marks it as used when it is there.
    #[inline]
    pub fn look_up(&mut self, line: LineAddr) -> bool {
        let Some(index) = self.find_valid(line) else {
            self.counters.misses += 1;
            self.counters.unfilled += u64::from(self.may_have_had(line));
            return false;
        };
        self.counters.hits += 1;
        self.use_way(index);
        true
    }

    /// Whether a line that it misses might have been there, had it not begun empty.
    #[inline]
    fn may_have_had(&self, line: LineAddr) -> bool {
        !self.filled.has(self.set_index.of(line)) && !self.has_tag(line)
    }

    /// Places `line`; what had to make room.
    pub fn insert(&mut self, line: LineAddr, dirty: bool) -> Option<Displaced> {
        match self.find(line) {
            Some(index) => {
                self.fill((self.set_index.of(line), index), line, dirty);
                None
            }
            None => self.insert_missing(line, dirty),
        }
    }

    /// The same of a line that it has no tag of.
    #[inline]
    pub fn insert_missing(&mut self, line: LineAddr, dirty: bool) -> Option<Displaced> {
        let set = self.set_index.of(line);
        let first = set * self.ways;
        let ages = self.tags[first..first + self.ways].iter().map(|tag| tag.0);
        let index = first + self.replacement.victim(set, ages);
        let (left, tag) = (self.lines[index], self.tags[index]);
        self.counters.evictions += u64::from(tag.valid());
        self.forget(left);
        self.fill((set, index), line, dirty);
        (left != EMPTY).then_some(Displaced { line: left, valid: tag.valid(), dirty: tag.dirty() })
    }

    /// Gives way `index`, which is of `set`, to `line`.
    #[inline]
    fn fill(&mut self, (set, index): (usize, usize), line: LineAddr, dirty: bool) {
        self.lines[index] = line;
        self.tags[index] = Tag(Tag::VALID | u64::from(dirty));
        if let Some(place) = self.places.get_mut(index) {
            *place = NO_PLACE;
            self.forget(line);
        }
        self.stamp(index);
        self.replacement.fill_at(index, self.ways);
        let mut tags = self.tags[set * self.ways..(set + 1) * self.ways].iter();
        self.filled.note(set, || tags.all(|tag| tag.valid()));
    }

    /// Marks the copy of `line` as written, if there is one; whether there is.
    #[inline]
    pub fn write(&mut self, line: LineAddr) -> bool {
        let found = self.find_valid(line);
        if let Some(index) = found {
            self.tags[index].0 |= Tag::DIRTY;
        }
        found.is_some()
    }

    /// Whether it has a valid copy that was written.
    pub fn is_dirty(&self, line: LineAddr) -> bool {
        self.find_valid(line).is_some_and(|index| self.tags[index].dirty())
    }

    /// Marks the copy of `line` as not written.
    pub fn clean(&mut self, line: LineAddr) {
        if let Some(index) = self.find(line) {
            self.tags[index].0 &= !Tag::DIRTY;
        }
    }

    /// Invalidates the copy of `line`; its tag stays.
    pub fn invalidate(&mut self, line: LineAddr) {
        if let Some(index) = self.find(line) {
            self.tags[index].0 &= !(Tag::VALID | Tag::DIRTY);
            self.forget(line);
        }
    }

    /// Takes `line` away, tag and all; whether a copy was valid, and if so whether it was dirty.
    pub fn erase(&mut self, line: LineAddr) -> Option<bool> {
        let index = self.find(line)?;
        let tag = std::mem::take(&mut self.tags[index]);
        self.lines[index] = EMPTY;
        self.forget(line);
        tag.valid().then_some(tag.dirty())
    }

    /// Writes which lines it holds, and in which order they were used.
    pub fn save(&self, out: &mut Writer) {
        let Self {
            lines,
            tags,
            clock: _,
            ways,
            set_index: _,
            replacement,
            filled,
            known: _,
            places: _,
            counters: _,
        } = self;
        out.put(lines.len() as u64);
        for (lines, tags) in lines.chunks(*ways).zip(tags.chunks(*ways)) {
            let ranks = ranks(tags.iter().map(|tag| tag.stamp()));
            for ((line, tag), rank) in lines.iter().zip(tags).zip(ranks) {
                // One more: an empty frame's line is the largest number, and becomes 0.
                out.put(line.0.wrapping_add(1));
                if *line != EMPTY {
                    out.put(tag.saved(rank));
                }
            }
        }
        replacement.save(out);
        filled.save(out);
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
                *tag = Tag::restored(from.below((self.ways as u64 + 1) << Tag::SAVED_SHIFT)?);
            }
        }
        self.clock = self.ways as u64;
        self.known.fill(Known::NOTHING);
        self.places.fill(NO_PLACE);
        self.replacement.restore(from)?;
        self.filled.restore(from)
    }

    /// Marks the copy at `index` as written.
    #[inline]
    pub(crate) fn write_at(&mut self, index: usize) {
        self.tags[index].0 |= Tag::DIRTY;
    }

    /// The line that makes room for `line` next, if its copy is dirty and the policy goes by the last use.
    #[inline]
    pub(crate) fn dirty_victim(&self, line: LineAddr) -> Option<LineAddr> {
        let first = self.set_index.of(line) * self.ways;
        let oldest =
            self.tags[first..first + self.ways].iter().zip(&self.lines[first..]).min_by_key(|(tag, _)| tag.0);
        oldest.filter(|(tag, _)| tag.dirty()).map(|(_, line)| *line)
    }

    /// Host memory in use, in bytes.
    pub fn host_bytes(&self) -> usize {
        self.lines.len() * 8
            + self.tags.len() * size_of::<Tag>()
            + self.known.len() * size_of::<Known>()
            + self.places.len() * 4
    }
}
