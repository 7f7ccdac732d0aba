//! Who goes along with a run of hits.

// The loop of hits is one function.
#![allow(clippy::inline_always)]

use servsim_core::{LineAddr, Record};

/// Who goes along with a run, record by record: what else a reference needs to be performed, and what follows from it.
pub trait Follower<W> {
    /// What is to be done with the share of `record` in `line` now.
    fn turn(&self, record: &Record, line: LineAddr) -> Turn;
    /// The share of `record` in `line` was performed.
    fn hit(&mut self, record: &Record, line: LineAddr);
    /// `record` is put aside: its bytes are the words `words` of `line`, from `address` on.
    fn put_aside(&mut self, record: &Record, address: u64, line: LineAddr, words: W);
    /// All of `record`, at `position` in the run, was performed or put aside. Without `true` the run ends, and leaves the
    /// record out of its counts and of its length.
    fn performed(&mut self, position: usize, record: &Record) -> bool;
}

/// What is to be done with a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is to be performed, if it is a plain hit.
    Perform,
    /// The caches are not to be asked for it yet: whoever goes along keeps it, and the run goes on. Not for references that
    /// cross into another line.
    PutAside,
    /// The run ends.
    End,
}

/// Nobody goes along.
pub(crate) struct Nobody;

impl<W> Follower<W> for Nobody {
    #[inline(always)]
    fn turn(&self, _: &Record, _: LineAddr) -> Turn {
        Turn::Perform
    }

    #[inline(always)]
    fn hit(&mut self, _: &Record, _: LineAddr) {}

    fn put_aside(&mut self, _: &Record, _: u64, _: LineAddr, _: W) {}

    #[inline(always)]
    fn performed(&mut self, _: usize, _: &Record) -> bool {
        true
    }
}
