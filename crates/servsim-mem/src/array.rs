//! One set-associative cache array with exact LRU.
//!
//! Frequencies on commercial traces: 97-99 % of references hit, three quarters of them fetches,
//! most to the line used last. So tags lie apart (8 ways fill one host line) and a hint per
//! operation names the frame of the last hit. A frame keeps its tag after an invalidation: the
//! classification needs to know that the block is missing *because* it was invalidated, and the
//! per-frame word masks then die with the tag, exactly when they stop mattering.
//!
//! Victim: the least recently used frame without a valid copy (never used frames first), otherwise
//! the least recently used frame. A block whose invalidated tag is still there returns to it.

use crate::protocol::{State, INVALID};
use crate::words::WordMask;

/// Size, associativity and line size of a cache; sizes are powers of two.
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

/// Tag of a frame that was never filled; no line has this number, since a line has 16 bytes or
/// more.
pub const EMPTY: u64 = u64::MAX;

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

/// No writer yet.
pub const NO_WRITER: u32 = u32::MAX;
/// Writers of more than one task.
pub const MIXED_WRITERS: u32 = u32::MAX - 1;

/// What a frame holds beside its tag.
#[derive(Debug, Clone, Copy)]
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
    /// Index of the line in the directory.
    pub line_id: u32,
    /// Node of the line in the fully associative shadow.
    pub shadow: u32,
    /// Coherence state.
    pub state: State,
    /// Union of [`PENDING`], [`MISS_KERNEL`], [`REMOVED`], [`OWNER_KERNEL`], [`PRIVATE_COPY`].
    pub flags: u8,
    /// The last task to use the copy, plus one; 0 for nobody known. Two bytes, because they fit
    /// where a frame for the common line of 128 bytes has room to spare.
    pub user: u16,
}

impl<W: WordMask> Frame<W> {
    fn new() -> Self {
        Self {
            stamp: 0,
            touched: W::default(),
            new_words: W::default(),
            written: W::default(),
            writer: NO_WRITER,
            new_writer: NO_WRITER,
            line_id: 0,
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
    pub tags: Vec<u64>,
    /// The rest of each frame.
    pub frames: Vec<Frame<W>>,
    /// Frame of the last hit, per operation.
    pub hints: [u32; 4],
    clock: u64,
    set_mask: u64,
    ways: usize,
}

impl<W: WordMask> Array<W> {
    /// An empty array.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            tags: vec![EMPTY; geometry.frames()],
            frames: vec![Frame::new(); geometry.frames()],
            hints: [0; 4],
            clock: 0,
            set_mask: geometry.sets() as u64 - 1,
            ways: geometry.ways as usize,
        }
    }

    fn first_way(&self, line: u64) -> usize {
        (line & self.set_mask) as usize * self.ways
    }

    /// The frame with the tag of `line`, valid or not.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        let first = self.first_way(line);
        let tags = &self.tags[first..first + self.ways];
        tags.iter().position(|&tag| tag == line).map(|way| first + way)
    }

    /// The frame that `line` will take: see the head of this file.
    pub fn victim(&self, line: u64) -> usize {
        let first = self.first_way(line);
        let ways = first..first + self.ways;
        let age = |&index: &usize| {
            let frame = &self.frames[index];
            (frame.state != INVALID, frame.stamp)
        };
        ways.min_by_key(age).unwrap_or(first)
    }

    /// Marks a frame as used now.
    #[inline]
    pub fn use_frame(&mut self, index: usize) {
        self.clock += 1;
        self.frames[index].stamp = self.clock;
    }

    /// Valid frames, for checks at the end of a run.
    pub fn valid_frames(&self) -> usize {
        self.frames.iter().filter(|frame| frame.state != INVALID).count()
    }
}
