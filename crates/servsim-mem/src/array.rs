//! One set-associative cache array. Over 400 lines: frames, and what hits and misses do to them.
//!
//! Frequencies on commercial traces: 97-99 % of references hit, three quarters of them fetches,
//! most to the line used last. So a hit asks for two lines of the host: a small table guesses the
//! frame, which holds its tag beside all that hits change. The guess is right for all but one in
//! a hundred of the hits, whichever way holds the line; what is left, misses above all, is searched for by
//! signatures (`array/signatures.rs`), which lie close together. What only transactions ask for lies apart ([`Cold`]). A frame keeps its tag after an invalidation: the
//! classification needs to know that the block is missing *because* it was invalidated, and the
//! per-frame word masks then die with the tag, exactly when they stop mattering.
//!
//! Victim: see `replacement`. A block whose invalidated tag is still there returns to it.
//!
//! With private levels outside the first, the same structure is the *pool* of a processor: what is
//! known of every line that any of its levels has a tag of. A pool finds lines by hash, grows, and
//! never chooses a victim: the levels do (`hierarchy.rs`).

// The loop of hits is one function.
#![allow(clippy::inline_always)]

mod pool;
mod signatures;
mod state;

use crate::filled::FilledSets;
use crate::host;
use crate::protocol::{State, INVALID};
use crate::replacement::Replacement;
use crate::words::WordMask;
use pool::Pool;
use servsim_core::hash::spread;
use servsim_core::LineAddr;
use signatures::Signatures;

/// Size, associativity and line size of a cache; the line size is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes.
    pub size: u64,
    /// Ways per set.
    pub ways: u32,
    /// Bytes per line.
    pub line: u64,
}

impl Geometry {
    /// Number of frames.
    pub fn frames(&self) -> usize {
        (self.size / self.line) as usize
    }

    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.frames() / self.ways as usize
    }
}

/// Which set of a cache a line belongs to: its number modulo the number of sets.
#[derive(Debug, Clone, Copy)]
pub struct SetIndex {
    /// What to keep of the line's number, if the number of sets is a power of two.
    mask: u64,
    /// The number of sets, if it is none; otherwise 0.
    modulus: u64,
}

impl SetIndex {
    /// The index of so many sets.
    pub fn new(sets: usize) -> Self {
        let (sets, power) = (sets as u64, sets.is_power_of_two());
        Self { mask: sets - 1, modulus: if power { 0 } else { sets } }
    }

    /// The set of `line`.
    #[inline]
    pub fn of(self, line: LineAddr) -> usize {
        // Nearly all caches have a power of two of sets, and a division takes the host long.
        (if self.modulus == 0 { line.0 & self.mask } else { line.0 % self.modulus }) as usize
    }
}

/// Tag of a frame that was never filled; no line has this number, since a line has 4 bytes or
/// more.
pub const EMPTY: LineAddr = LineAddr(u64::MAX);

/// Most guesses of an array: 16 KiB, so that they stay in the host's caches.
const MOST_GUESSES: usize = 4096;
/// Guesses per frame, where there are fewer: lines that share one take it from one another.
const GUESSES_PER_FRAME: usize = 2;

/// An invalidation miss waits to be told true from false.
pub const PENDING: u8 = 1;
/// The pending miss was made in kernel mode.
pub const MISS_KERNEL: u8 = 2;
/// The copy was removed by a remote fetch, not invalidated.
pub const REMOVED: u8 = 4;
/// The pending miss was made on a page of the kernel.
pub const OWNER_KERNEL: u8 = 8;
/// The page was private when the copy was fetched; marked only where copies are flushed.
pub const PRIVATE_COPY: u8 = 16;

/// The copy was prefetched and has not been used.
pub const PREFETCHED: u8 = 32;

/// The shadow has given up the line of the copy, which has to tell it of its next use.
pub const UNSHADOWED: u8 = 64;

/// Of the page of the pending miss only the end of the run tells whether it is private.
pub const UNDECIDED: u8 = 128;

/// All that is known of a pending miss.
pub const PENDING_MISS: u8 = PENDING | MISS_KERNEL | OWNER_KERNEL | UNDECIDED;

/// No writer yet.
pub const NO_WRITER: u32 = u32::MAX;
/// Writers of more than one task.
pub const MIXED_WRITERS: u32 = u32::MAX - 1;

/// A frame: what hits and the choice of a victim ask for, together.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub struct Frame<W> {
    /// The tag: the number of the line.
    pub line: LineAddr,
    /// Time of last use; 0 for a frame never used.
    pub stamp: u64,
    /// Words touched in this lifetime; apart from `written`, so that the compiler does not join work on the two.
    pub touched: W,
    /// Task that wrote `written`.
    pub writer: u32,
    /// Coherence state.
    pub state: State,
    /// Union of [`PENDING`], [`MISS_KERNEL`], [`REMOVED`], [`OWNER_KERNEL`], [`PRIVATE_COPY`], [`PREFETCHED`], [`UNSHADOWED`],
    /// [`UNDECIDED`].
    pub flags: u8,
    /// The last task to use the copy, plus one; 0 for nobody known. Two bytes, because they fit
    /// where a frame for the common line of 64 bytes has room to spare.
    pub user: u16,
    /// Words written here that copies elsewhere have not been told of yet.
    pub written: W,
}

/// The rest of a frame, which only transactions ask for.
#[derive(Debug, Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Cold<W> {
    /// Where what is known of the line is ([`crate::copy_index`]), in arrays of a coherent system.
    pub record: u32,
    /// Words written elsewhere since the last essential or non-invalidation miss.
    pub new_words: W,
    /// Task that wrote `new_words`.
    pub new_writer: u32,
    /// Node of the line in the fully associative shadow, if it is its own there: then `stamp` tells the shadow as well when
    /// the line was used last.
    pub shadow: u32,
}

impl<W: WordMask> Cold<W> {
    /// That of a frame that was never filled.
    fn new() -> Self {
        Self { record: 0, new_words: W::default(), new_writer: NO_WRITER, shadow: 0 }
    }

    /// Nothing was written elsewhere.
    #[inline]
    pub fn forget_new_words(&mut self) {
        (self.new_words, self.new_writer) = (W::default(), NO_WRITER);
    }
}

impl<W: WordMask> Frame<W> {
    /// Its state, flags and user as one number, from the lowest byte up.
    #[inline(always)]
    pub(crate) fn standing(&self) -> u32 {
        u32::from(self.state) | u32::from(self.flags) << 8 | u32::from(self.user) << 16
    }

    fn new() -> Self {
        Self {
            line: EMPTY,
            stamp: 0,
            writer: NO_WRITER,
            state: INVALID,
            flags: 0,
            user: 0,
            touched: W::default(),
            written: W::default(),
        }
    }
}

/// Joins the writer of one set of words with that of another.
#[inline]
pub fn join_writers(a: u32, b: u32) -> u32 {
    if a == b || b == NO_WRITER {
        a
    } else if a == NO_WRITER {
        b
    } else {
        MIXED_WRITERS
    }
}

/// A cache array. What a search by other processors asks for comes first, in one line of the host.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Array<W> {
    /// The frames, set by set.
    pub frames: Vec<Frame<W>>,
    /// Of no pool.
    signatures: Signatures,
    set_index: SetIndex,
    ways: usize,
    filled: FilledSets,
    pool: Option<Box<Pool>>,
    /// The rest of each frame.
    pub(crate) cold: Vec<Cold<W>>,
    /// The frame that held a line with this place of its guess last.
    guesses: Vec<u32>,
    pub(crate) clock: u64,
    /// What a use adds to the clock: 1, or 0 where it stands still ([`Array::stop_clock`]).
    pub(crate) tick: u64,
    replacement: Replacement,
}

/// How many guesses there are where the lines of so many frames are: a power of two.
pub(crate) fn most_guesses(frames: usize) -> usize {
    (frames * GUESSES_PER_FRAME).next_power_of_two().min(MOST_GUESSES)
}

/// Guesses where the lines of so many frames are.
fn guesses(frames: usize) -> Vec<u32> {
    vec![0; most_guesses(frames)]
}

/// The place of the frame of `line`, if it is where `guesses` say.
#[inline(always)]
fn guess<W>(guesses: &[u32], frames: &[Frame<W>], line: LineAddr) -> Option<usize> {
    let guess = guesses[place_of_guess(guesses.len(), line)] as usize;
    (frames[guess].line == line).then_some(guess)
}

/// Where the guess for `line` is among so many, a power of two. Neighbouring lines, which are used together, have theirs side by
/// side; so have lines that differ in their highest bits only, as the beginnings of data of several tasks do, but elsewhere.
#[inline(always)]
fn place_of_guess(guesses: usize, line: LineAddr) -> usize {
    let bits = MOST_GUESSES.ilog2();
    (line.0 ^ spread(line.0 >> bits, bits)) as usize & (guesses - 1)
}

/// The next guess for `line` will be `place`.
#[inline(always)]
pub(crate) fn remember(guesses: &mut [u32], line: LineAddr, place: usize) {
    guesses[place_of_guess(guesses.len(), line)] = place as u32;
}

/// What hits of an array work on, each part by itself: the compiler knows then that no write to one changes where
/// another lies.
pub(crate) struct Parts<'a, W> {
    frames: &'a mut [Frame<W>],
    guesses: &'a [u32],
    ways: usize,
    replacement: &'a mut Replacement,
}

impl<W: WordMask> Parts<'_, W> {
    /// The frame with the tag of `line`, valid or not, if the guess for it is right. Not for pools.
    #[inline(always)]
    pub fn guess(&self, line: LineAddr) -> Option<usize> {
        guess(self.guesses, self.frames, line)
    }

    /// What frame `index` holds.
    #[inline(always)]
    pub fn frame(&mut self, index: usize) -> &mut Frame<W> {
        &mut self.frames[index]
    }

    /// Marks frame `index` as used at `stamp`; `PLAIN` where the replacement heeds no hits.
    #[inline(always)]
    pub fn use_frame<const PLAIN: bool>(&mut self, index: usize, stamp: u64) {
        self.frames[index].stamp = stamp;
        if !PLAIN {
            self.replacement.hit_at(index, self.ways);
        }
    }
}

impl<W: WordMask> Array<W> {
    /// An empty array.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            frames: vec![Frame::new(); geometry.frames()],
            cold: vec![Cold::new(); geometry.frames()],
            signatures: Signatures::new(geometry.sets(), geometry.ways as usize),
            guesses: guesses(geometry.frames()),
            clock: 0,
            tick: 1,
            set_index: SetIndex::new(geometry.sets()),
            ways: geometry.ways as usize,
            replacement: Replacement::Stamps,
            filled: FilledSets::none(geometry.sets()),
            pool: None,
        }
    }

    /// The same with another replacement policy.
    #[must_use]
    pub fn with_replacement(self, replacement: Replacement) -> Self {
        Self { replacement, ..self }
    }

    /// An empty pool.
    pub fn pool() -> Self {
        let array = Self::new(Geometry { size: 64, ways: 1, line: 64 });
        Self { guesses: vec![0; MOST_GUESSES], pool: Some(Box::new(Pool::new(vec![0]))), ..array }
    }

    /// Whether its replacement leaves nothing to be told of a hit but the stamp of the frame.
    pub(crate) fn heeds_no_hits(&self) -> bool {
        self.replacement.heeds_no_hits()
    }

    /// The parts that hits work on.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Parts<'_, W> {
        let Self {
            frames,
            cold: _,
            signatures: _,
            guesses,
            clock: _,
            tick,
            set_index: _,
            ways,
            replacement,
            filled: _,
            pool: _,
        } = self;
        debug_assert_eq!(*tick, 1, "runs of hits do not defer stamps");
        assert!(!guesses.is_empty(), "there is a guess");
        Parts { frames, guesses, ways: *ways, replacement }
    }

    /// As [`Array::find_and_guess`], out of the way of hits. Not for pools.
    #[inline(never)]
    pub(crate) fn find_for_hits(&mut self, line: LineAddr) -> Option<usize> {
        self.find_and_guess(line)
    }

    #[inline]
    fn first_way(&self, line: LineAddr) -> usize {
        self.set_index.of(line) * self.ways
    }

    /// The frame with the tag of `line`, valid or not.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        guess(&self.guesses, &self.frames, line).or_else(|| self.search(line))
    }

    /// As [`Array::find`], and the next guess for this line will be right.
    #[inline]
    pub fn find_and_guess(&mut self, line: LineAddr) -> Option<usize> {
        if let Some(found) = guess(&self.guesses, &self.frames, line) {
            return Some(found);
        }
        let found = self.search(line)?;
        remember(&mut self.guesses, line, found);
        Some(found)
    }

    /// As [`Array::find`], of a cache that is not the one that runs: where its guess lies, the host's caches have lost, and
    /// signatures are fewer.
    #[inline]
    pub(crate) fn search(&self, line: LineAddr) -> Option<usize> {
        if let Some(pool) = &self.pool {
            return pool.find(line);
        }
        let set = self.set_index.of(line);
        let first = set * self.ways;
        let is_in = |way: usize| self.frames.get(first + way).is_some_and(|frame| frame.line == line);
        self.signatures.find(set, line, is_in).map(|way| first + way)
    }

    /// Whether a line that it has no tag of might have been there, had it not begun empty. A pool's levels know that.
    #[inline]
    pub(crate) fn may_have_had(&self, line: LineAddr) -> bool {
        self.pool.is_none() && !self.filled.has(self.set_index.of(line))
    }

    /// Brings nearer what tells a pool where `line` is.
    #[inline]
    pub(crate) fn prefetch_place(&self, line: LineAddr) {
        if let Some(pool) = &self.pool {
            pool.prefetch(line);
        }
    }

    /// The same for the frame of `line` in a pool, which the host waits for what tells the place of.
    #[inline]
    pub(crate) fn prefetch_copy(&self, line: LineAddr) {
        if let Some(index) = self.pool.as_ref().and_then(|pool| pool.find(line)) {
            host::prefetch(&self.frames, index);
        }
    }

    /// Gives frame `index` to `line`.
    #[inline]
    pub fn place(&mut self, index: usize, line: LineAddr) {
        self.frames[index].line = line;
        remember(&mut self.guesses, line, index);
        if let Some(pool) = &mut self.pool {
            pool.insert(line, index);
        } else {
            let set = self.set_index.of(line);
            self.signatures.set(set, index - set * self.ways, line);
        }
    }

    /// Forgets the line of frame `index`, as if the frame had never been used.
    pub fn erase(&mut self, index: usize) {
        if let Some(pool) = &mut self.pool {
            pool.remove(self.frames[index].line, index);
        }
        let frame = &mut self.frames[index];
        (frame.line, frame.stamp, frame.state) = (EMPTY, 0, INVALID);
    }

    /// Bytes of host memory in use, for the bench.
    pub fn bytes(&self) -> usize {
        size_of_val(self.frames.as_slice())
            + size_of_val(self.cold.as_slice())
            + self.signatures.bytes()
            + self.guesses.len() * 4
    }

    /// The frame that `line` will take: see `replacement`. A pool has one that is free.
    #[inline(always)]
    pub fn victim(&mut self, line: LineAddr) -> usize {
        if self.pool.is_some() {
            return self.free_frame();
        }
        let set = self.set_index.of(line);
        let first = set * self.ways;
        // Without a branch: the highest bit of a valid copy is 1.
        let age = |frame: &Frame<W>| u64::from(frame.state).wrapping_neg() & 1 << 63 | frame.stamp;
        let ages = self.frames[first..first + self.ways].iter().map(age);
        first + self.replacement.victim(set, ages)
    }

    /// A frame of a pool that is free.
    fn free_frame(&mut self) -> usize {
        let free = self.pool.as_mut().and_then(|pool| pool.free.pop());
        free.unwrap_or_else(|| {
            self.frames.push(Frame::new());
            self.cold.push(Cold::new());
            self.frames.len() - 1
        })
    }

    /// Brings nearer all that a fill asks of the frames that `line` may take.
    #[inline]
    pub(crate) fn prefetch(&self, line: LineAddr) {
        if self.pool.is_none() {
            let first = self.first_way(line);
            host::prefetch_all(&self.frames, first..first + self.ways);
            host::prefetch_all(&self.cold, first..first + self.ways);
        }
    }

    /// Brings nearer what a search for `line` asks first. Not for pools.
    #[inline]
    pub(crate) fn prefetch_signatures(&self, line: LineAddr) {
        self.signatures.prefetch(self.set_index.of(line));
    }

    /// Brings nearer the frames that may have `line`; whether there are any. Not for pools.
    #[inline]
    pub(crate) fn prefetch_found(&self, line: LineAddr) -> bool {
        let set = self.set_index.of(line);
        let mut any = false;
        let is_in = |way| {
            host::prefetch(&self.frames, set * self.ways + way);
            any = true;
            false
        };
        self.signatures.find(set, line, is_in);
        any
    }

    /// Stamps a frame as used now.
    #[inline]
    pub(crate) fn stamp(&mut self, index: usize) {
        self.clock += self.tick;
        self.frames[index].stamp = self.clock;
    }

    /// Marks a frame as used now.
    #[inline]
    pub fn use_frame(&mut self, index: usize) {
        self.stamp(index);
        self.replacement.hit_at(index, self.ways);
    }

    /// Marks a frame as filled now.
    #[inline]
    pub fn fill_frame(&mut self, index: usize) {
        self.stamp(index);
        self.replacement.fill_at(index, self.ways);
        if self.pool.is_none() {
            let set = self.set_index.of(self.frames[index].line);
            let (frames, mut others) = (&self.frames, set * self.ways..(set + 1) * self.ways);
            // That of `index` is about to be valid.
            let is_valid = |other: usize| other == index || frames[other].state != INVALID;
            self.filled.note(set, || others.all(is_valid));
        }
    }

    /// Valid frames, for checks at the end of a run.
    pub fn valid_frames(&self) -> usize {
        self.frames.iter().filter(|frame| frame.state != INVALID).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn lines_are_found_where_they_were_placed_last() {
        for ways in [1, 3, 8, 12, 16] {
            let geometry = Geometry { size: 4 * 64 * u64::from(ways), ways, line: 64 };
            let (mut array, mut plain) = (Array::<u16>::new(geometry), HashMap::new());
            let mut random = servsim_core::RandomStream::new(u64::from(ways), "array");
            for _ in 0..20_000 {
                let line = LineAddr(random.below(100) << (random.below(2) * 40));
                let place = plain.get(&line).copied();
                assert_eq!(array.search(line), place, "{ways} ways, {line:?}");
                assert_eq!(array.find_and_guess(line), place, "{ways} ways, {line:?}");
                assert_eq!(array.find(line), place, "{ways} ways, {line:?}");
                match place {
                    Some(index) if random.below(8) == 0 => {
                        array.erase(index);
                        plain.remove(&line);
                    }
                    Some(index) => array.use_frame(index),
                    None => {
                        let index = array.victim(line);
                        plain.remove(&array.frames[index].line);
                        array.place(index, line);
                        array.use_frame(index);
                        plain.insert(line, index);
                    }
                }
            }
        }
    }

    #[test]
    fn what_hits_ask_for_fits_half_a_line_of_the_host() {
        assert_eq!(size_of::<Frame<u16>>() * 2, host::LINE);
        assert_eq!(size_of::<Frame<u32>>() * 2, host::LINE);
    }

    #[test]
    fn a_line_lies_in_the_set_of_its_remainder() {
        for sets in [1, 2, 3, 64, 96, 11_264] {
            let index = SetIndex::new(sets);
            for line in [0, 1, 95, 96, 97, 1 << 40, (1 << 62) - 1] {
                assert_eq!(
                    index.of(LineAddr(line)),
                    (line % sets as u64) as usize,
                    "line {line} of {sets} sets"
                );
            }
        }
    }
}
