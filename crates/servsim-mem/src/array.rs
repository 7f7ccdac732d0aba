//! One set-associative cache array. Over 400 lines: frames, and what hits and misses do to them.
//!
//! Frequencies on commercial traces: 97-99 % of references hit, three quarters of them fetches,
//! most to the line used last. So tags lie apart (8 ways fill one host line), and a small table
//! indexed by the low bits of the line number guesses the frame: it is right for all but a few
//! per cent of the hits, whichever way holds the line, and what is left is a search whose length
//! does not depend on the way found. A frame keeps its tag after an invalidation: the
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
mod state;

use crate::host;
use crate::protocol::{State, INVALID};
use crate::replacement::Replacement;
use crate::words::WordMask;
use pool::Pool;
use servsim_core::LineAddr;

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
const GUESSES_PER_FRAME: usize = 4;
/// No frame.
const NOWHERE: usize = usize::MAX;

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

/// No writer yet.
pub const NO_WRITER: u32 = u32::MAX;
/// Writers of more than one task.
pub const MIXED_WRITERS: u32 = u32::MAX - 1;

/// What a frame holds beside its tag.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Frame<W> {
    /// Time of last use; 0 for a frame never used.
    pub stamp: u64,
    /// Words touched in this lifetime.
    pub touched: W,
    /// Words written elsewhere since the last essential or non-invalidation miss.
    pub new_words: W,
    /// Words written here that copies elsewhere have not been told of yet.
    pub written: W,
    /// Task that wrote `written`.
    pub writer: u32,
    /// Task that wrote `new_words`.
    pub new_writer: u32,
    /// Node of the line in the fully associative shadow, if it is its own there: then `stamp` tells the shadow as well when
    /// the line was used last.
    pub shadow: u32,
    /// Coherence state.
    pub state: State,
    /// Union of [`PENDING`], [`MISS_KERNEL`], [`REMOVED`], [`OWNER_KERNEL`], [`PRIVATE_COPY`], [`PREFETCHED`], [`UNSHADOWED`],
    /// [`UNDECIDED`].
    pub flags: u8,
    /// The last task to use the copy, plus one; 0 for nobody known. Two bytes, because they fit
    /// where a frame for the common line of 128 bytes has room to spare.
    pub user: u16,
}

impl<W: WordMask> Frame<W> {
    /// Its state, flags and user as one number, from the lowest byte up.
    #[inline(always)]
    pub(crate) fn standing(&self) -> u32 {
        u32::from(self.state) | u32::from(self.flags) << 8 | u32::from(self.user) << 16
    }

    fn new() -> Self {
        Self {
            stamp: 0,
            touched: W::default(),
            new_words: W::default(),
            written: W::default(),
            writer: NO_WRITER,
            new_writer: NO_WRITER,
            shadow: 0,
            state: INVALID,
            flags: 0,
            user: 0,
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

/// A cache array.
#[derive(Debug)]
pub struct Array<W> {
    /// Line number per frame.
    pub tags: Vec<LineAddr>,
    /// The rest of each frame.
    pub frames: Vec<Frame<W>>,
    /// Where what is known of each frame's line is ([`crate::copy_index`]), in arrays of a coherent system.
    pub(crate) records: Vec<u32>,
    /// Frame that held a line with these low bits last.
    guesses: Vec<u32>,
    pub(crate) clock: u64,
    /// What a use adds to the clock: 1, or 0 where it stands still ([`Array::stop_clock`]).
    pub(crate) tick: u64,
    set_index: SetIndex,
    ways: usize,
    replacement: Replacement,
    pool: Option<Pool>,
}

/// How many guesses there are where the lines of so many frames are: a power of two.
pub(crate) fn most_guesses(frames: usize) -> usize {
    (frames * GUESSES_PER_FRAME).next_power_of_two().min(MOST_GUESSES)
}

/// Guesses where the lines of so many frames are.
fn guesses(frames: usize) -> Vec<u32> {
    vec![0; most_guesses(frames)]
}

/// The place of the tag of `line`, if it is where `guesses` say.
#[inline(always)]
fn guess(guesses: &[u32], tags: &[LineAddr], line: LineAddr) -> Option<usize> {
    let guess = guesses[line.0 as usize & (guesses.len() - 1)] as usize;
    (tags[guess] == line).then_some(guess)
}

/// The place of the tag of `line`, which the guess for it will name next time.
#[inline]
fn find_guessed(
    guesses: &mut [u32],
    tags: &[LineAddr],
    set_index: SetIndex,
    ways: usize,
    line: LineAddr,
) -> Option<usize> {
    guess(guesses, tags, line).or_else(|| {
        let found = search(tags, set_index.of(line) * ways, ways, line)?;
        remember(guesses, line, found);
        Some(found)
    })
}

/// The next guess for `line` will be `place`.
#[inline(always)]
fn remember(guesses: &mut [u32], line: LineAddr, place: usize) {
    guesses[line.0 as usize & (guesses.len() - 1)] = place as u32;
}

/// The place of the tag of `line` among so many ways from `first` on.
#[inline(always)]
pub(crate) fn search(tags: &[LineAddr], first: usize, ways: usize, line: LineAddr) -> Option<usize> {
    // All ways, without a branch that the host would have to guess.
    let set = tags[first..first + ways].iter().enumerate();
    let found = set.fold(NOWHERE, |found, (way, &tag)| if tag == line { first + way } else { found });
    (found != NOWHERE).then_some(found)
}

/// What hits of an array work on, each part by itself: the compiler knows then that no write to one changes where
/// another lies.
pub(crate) struct Parts<'a, W> {
    tags: &'a [LineAddr],
    frames: &'a mut [Frame<W>],
    guesses: &'a [u32],
    ways: usize,
    replacement: &'a mut Replacement,
}

impl<W: WordMask> Parts<'_, W> {
    /// The frame with the tag of `line`, valid or not, if the guess for it is right. Not for pools.
    #[inline(always)]
    pub fn guess(&self, line: LineAddr) -> Option<usize> {
        guess(self.guesses, self.tags, line)
    }

    /// What frame `index` holds.
    #[inline(always)]
    pub fn frame(&mut self, index: usize) -> &mut Frame<W> {
        &mut self.frames[index]
    }

    /// Marks frame `index` as used at `stamp`; `PLAIN` where the replacement goes by stamps.
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
            tags: vec![EMPTY; geometry.frames()],
            frames: vec![Frame::new(); geometry.frames()],
            records: vec![0; geometry.frames()],
            guesses: guesses(geometry.frames()),
            clock: 0,
            tick: 1,
            set_index: SetIndex::new(geometry.sets()),
            ways: geometry.ways as usize,
            replacement: Replacement::Stamps,
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
        Self { guesses: vec![0; MOST_GUESSES], pool: Some(Pool::new(vec![0])), ..array }
    }

    /// Whether its replacement goes by the stamps of frames alone.
    pub(crate) fn goes_by_stamps(&self) -> bool {
        matches!(self.replacement, Replacement::Stamps)
    }

    /// The parts that hits work on.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Parts<'_, W> {
        let Self {
            tags,
            frames,
            records: _,
            guesses,
            clock: _,
            tick,
            set_index: _,
            ways,
            replacement,
            pool: _,
        } = self;
        debug_assert_eq!(*tick, 1, "runs of hits do not defer stamps");
        // As many frames as tags, and a guess: one comparison does for all.
        let frames = &mut frames[..tags.len()];
        assert!(!guesses.is_empty(), "there is a guess");
        Parts { tags, frames, guesses, ways: *ways, replacement }
    }

    /// As [`Array::find_and_guess`], out of the way of hits. Not for pools.
    #[inline(never)]
    pub(crate) fn find_for_hits(&mut self, line: LineAddr) -> Option<usize> {
        find_guessed(&mut self.guesses, &self.tags, self.set_index, self.ways, line)
    }

    #[inline]
    fn first_way(&self, line: LineAddr) -> usize {
        self.set_index.of(line) * self.ways
    }

    /// The frame with the tag of `line`, valid or not.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        guess(&self.guesses, &self.tags, line).or_else(|| self.search(line))
    }

    /// As [`Array::find`], of a cache that is not the one that runs: where its guess lies, the host's caches have lost, and the
    /// tags of few ways are one place as well.
    #[inline]
    pub(crate) fn find_cold(&self, line: LineAddr) -> Option<usize> {
        if self.ways * size_of::<LineAddr>() <= host::LINE {
            self.search(line)
        } else {
            self.find(line)
        }
    }

    /// As [`Array::find`], and the next guess for this line will be right.
    #[inline]
    pub fn find_and_guess(&mut self, line: LineAddr) -> Option<usize> {
        guess(&self.guesses, &self.tags, line).or_else(|| {
            let found = self.search(line)?;
            remember(&mut self.guesses, line, found);
            Some(found)
        })
    }

    #[inline]
    fn search(&self, line: LineAddr) -> Option<usize> {
        if let Some(pool) = &self.pool {
            return pool.find(line);
        }
        search(&self.tags, self.first_way(line), self.ways, line)
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
        self.tags[index] = line;
        remember(&mut self.guesses, line, index);
        if let Some(pool) = &mut self.pool {
            pool.insert(line, index);
        }
    }

    /// Forgets the line of frame `index`, as if the frame had never been used.
    pub fn erase(&mut self, index: usize) {
        if let Some(pool) = &mut self.pool {
            pool.remove(self.tags[index], index);
        }
        self.tags[index] = EMPTY;
        self.frames[index].stamp = 0;
        self.frames[index].state = INVALID;
    }

    /// Bytes of host memory in use, for the bench.
    pub fn bytes(&self) -> usize {
        self.tags.len() * 8
            + self.frames.len() * size_of::<Frame<W>>()
            + (self.records.len() + self.guesses.len()) * 4
    }

    /// The frame that `line` will take: see `replacement`. A pool has one that is free.
    #[inline(always)]
    pub fn victim(&mut self, line: LineAddr) -> usize {
        if self.pool.is_some() {
            return self.free_frame();
        }
        let set = self.set_index.of(line);
        let first = set * self.ways;
        let age = |frame: &Frame<W>| u64::from(frame.state != INVALID) << 63 | frame.stamp;
        let ages = self.frames[first..first + self.ways].iter().map(age);
        first + self.replacement.victim(set, ages)
    }

    /// A frame of a pool that is free.
    fn free_frame(&mut self) -> usize {
        let free = self.pool.as_mut().and_then(|pool| pool.free.pop());
        free.unwrap_or_else(|| {
            self.tags.push(EMPTY);
            self.frames.push(Frame::new());
            self.records.push(0);
            self.tags.len() - 1
        })
    }

    /// Brings the frames nearer among which [`Array::victim`] chooses for `line`.
    #[inline]
    pub(crate) fn prefetch(&self, line: LineAddr) {
        if self.pool.is_none() {
            let first = self.first_way(line);
            let mut index = first;
            while index < first + self.ways {
                host::prefetch(&self.frames, index);
                index += (host::LINE / size_of::<Frame<W>>()).max(1);
            }
        }
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
    }

    /// Valid frames, for checks at the end of a run.
    pub fn valid_frames(&self) -> usize {
        self.frames.iter().filter(|frame| frame.state != INVALID).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
