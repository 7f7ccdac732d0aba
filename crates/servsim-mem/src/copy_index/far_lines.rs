//! The lines of machines with more than 128 caches: their sets lie apart from the records, which would grow by their
//! multiple otherwise.

use super::LineRecord;
use crate::cache_set::{CacheSet, Many};
use crate::host;
use crate::switches::Loss;

/// What is known of a line beside its sets, and where these are.
#[derive(Debug, Clone, Copy)]
struct Far {
    loss: Loss,
    place: u32,
}

/// The place of sets that were never set.
const NOWHERE: u32 = u32::MAX;

/// The lines of a machine with more than 128 caches: as many words for a set as its caches need.
#[derive(Debug)]
pub(super) struct FarLines {
    lines: Vec<Far>,
    /// Host words of one set.
    pub width: usize,
    words: Vec<u64>,
}

impl FarLines {
    /// No lines; sets have so many words.
    pub fn new(width: usize) -> Self {
        Self { lines: Vec::new(), width, words: Vec::new() }
    }

    pub fn length(&self) -> usize {
        self.lines.len()
    }

    pub fn resize(&mut self, length: usize) {
        self.lines.resize(length, Far { loss: Loss::NEVER, place: NOWHERE });
    }

    pub fn prefetch(&self, place: usize) {
        host::prefetch(&self.lines, place);
    }

    pub fn get(&self, place: usize) -> LineRecord<Many> {
        let far = self.lines[place];
        if far.place == NOWHERE {
            return LineRecord { loss: far.loss, ..LineRecord::default() };
        }
        let mut sets = self.words[far.place as usize * 3 * self.width..].chunks(self.width);
        let mut next = || Many::of_words(sets.next().into_iter().flatten().copied());
        LineRecord { valid: next(), stale: next(), seen: next(), loss: far.loss }
    }

    pub fn set(&mut self, place: usize, record: &LineRecord<Many>) {
        let far = &mut self.lines[place];
        far.loss = record.loss;
        if far.place == NOWHERE {
            far.place = (self.words.len() / (3 * self.width)) as u32;
            self.words.resize(self.words.len() + 3 * self.width, 0);
        }
        let own = &mut self.words[far.place as usize * 3 * self.width..];
        for (words, set) in own.chunks_mut(self.width).zip([record.valid, record.stale, record.seen]) {
            words.iter_mut().zip(set.words()).for_each(|(own, word)| *own = word);
        }
    }

    /// Host memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice()) + self.words.capacity() * 8
    }
}
