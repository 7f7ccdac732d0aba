//! The lines of machines with more than 128 caches: their sets lie apart from the table, which would grow by their
//! multiple otherwise.

use super::{LineRecord, FREE};
use crate::cache_set::{CacheSet, Many};
use crate::sparse::{Entry, Table};
use servsim_core::LineAddr;

/// A line, and where its words are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    pub line: LineAddr,
    place: u32,
}

impl Entry for Far {
    type Key = LineAddr;
    const FREE: Self = Self { line: FREE, place: u32::MAX };
    fn new(line: LineAddr) -> Self {
        Self { line, ..Self::FREE }
    }
    fn is(&self, line: LineAddr) -> bool {
        self.line == line
    }
    fn is_free(&self) -> bool {
        self.line == FREE
    }
    fn key(&self) -> LineAddr {
        self.line
    }
    fn number(line: LineAddr) -> u64 {
        line.0
    }
}

/// The sets of lines of a machine with more than 128 caches: as many words as its caches need, apart from the table,
/// which would grow by their multiple.
#[derive(Debug)]
pub(super) struct FarLines {
    pub table: Table<Far>,
    /// Host words of one set.
    pub width: usize,
    pub words: Vec<u64>,
}

impl FarLines {
    /// No lines; sets have so many words.
    pub fn new(width: usize) -> Self {
        Self { table: Table::default(), width, words: Vec::new() }
    }

    pub fn get(&self, place: usize) -> LineRecord<Many> {
        let far = self.table.entry(place);
        if far.place == Far::FREE.place {
            return LineRecord::default();
        }
        let mut sets = self.words[far.place as usize * 3 * self.width..].chunks(self.width);
        let mut next = || Many::of_words(sets.next().into_iter().flatten().copied());
        LineRecord { valid: next(), stale: next(), seen: next() }
    }

    pub fn set(&mut self, place: usize, record: &LineRecord<Many>) {
        let far = self.table.entry_mut(place);
        if far.place == Far::FREE.place {
            far.place = (self.words.len() / (3 * self.width)) as u32;
            self.words.resize(self.words.len() + 3 * self.width, 0);
        }
        let own = &mut self.words[far.place as usize * 3 * self.width..];
        for (words, set) in own.chunks_mut(self.width).zip([record.valid, record.stale, record.seen]) {
            words.iter_mut().zip(set.words()).for_each(|(own, word)| *own = word);
        }
    }
}
