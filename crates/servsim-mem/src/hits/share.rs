//! What references do to the frames that they hit.

// The loop of hits is one function.
#![allow(clippy::inline_always)]

use super::View;
use crate::array::{join_writers, Frame};
use crate::words::WordMask;
use servsim_core::{LineAddr, Op, Record, TaskId};

/// The share that a reference has in one line.
#[derive(Clone, Copy)]
pub(super) struct Share<W> {
    pub line: LineAddr,
    pub words: W,
    pub task: TaskId,
    /// The operation.
    pub op: usize,
}

impl<W: WordMask> Share<W> {
    /// Whether it is a plain hit in `frame`; `stays` as in [`super::Run`].
    #[inline(always)]
    pub fn is_plain(&self, stays: u64, frame: &Frame<W>) -> bool {
        // The state alone is left of a frame without flags that the task was the last to use.
        let state = frame.standing() ^ (self.task + 1) << 16;
        state <= 15 && stays >> (self.op << 4 | state as usize) & 1 != 0
    }

    /// What a plain hit leaves in `frame`.
    #[inline(always)]
    pub fn perform(&self, frame: &mut Frame<W>) {
        frame.touched.add(self.words);
        // No branch: which references are stores is hard for the host to guess. Events, the one operation
        // beyond stores, are no hits.
        let write = self.op as u32 >> 1;
        frame.written.add(self.words.only_if(write != 0));
        if (frame.writer ^ self.task) & write.wrapping_neg() != 0 {
            frame.writer = join_writers(frame.writer, self.task);
        }
    }

    pub fn write(&self) -> bool {
        self.op == Op::Store as usize
    }
}

/// What the frame of a line has not been told of yet that the last fetches were from.
#[derive(Clone, Copy)]
pub(super) struct Code<'a, W, P> {
    pub place: P,
    pub words: W,
    pub last: Option<&'a Record>,
}

impl<W: WordMask, P: Copy> Code<'_, W, P> {
    /// Tells the frame, which other uses may have stamped since.
    #[inline(always)]
    pub fn tell<V: View<W, Place = P>>(&self, times: Times, view: &mut V) {
        let Some(last) = self.last else { return };
        view.frame(self.place).touched.add(self.words);
        if !V::EACH_FETCH {
            view.use_code(self.place, times.of(last));
        }
    }
}

/// When records are performed: later by [`Times::STEP`] than the one before them, which the address of a record tells as
/// well as a count would.
#[derive(Clone, Copy)]
pub(super) struct Times {
    origin: u64,
}

impl Times {
    pub const STEP: u64 = size_of::<Record>() as u64;

    /// All of `records` after `clock`.
    #[inline(always)]
    pub fn after(clock: u64, records: &[Record]) -> Self {
        Self { origin: (clock + Self::STEP).wrapping_sub(records.as_ptr() as u64) }
    }

    #[inline(always)]
    pub fn of(self, record: &Record) -> u64 {
        self.origin.wrapping_add(std::ptr::from_ref(record) as u64)
    }
}
