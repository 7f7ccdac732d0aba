//! Which caches hold which line: three bit masks per line.
//!
//! A bus machine has no directory; this is the simulator's short cut, so that a transaction visits
//! the caches that hold the block instead of all of them, and an upgrade costs the same with 64
//! processors as with 4. It is consulted on misses and upgrades only (1-5 % of references), but
//! then nearly always in a place that the host's caches have lost. So a look-up touches one place,
//! which the line number alone tells: open addressing, the masks beside the line, as narrow as the
//! number of caches allows. With up to 16 caches a line takes 16 bytes, four to a host line; with more than 128
//! the masks lie apart (`far_lines.rs`).

mod far_lines;

use crate::cache_set::{CacheSet, Many};
use crate::snapshot::{Damaged, Reader, Writer};
use crate::sparse::{Entry, Table};
use far_lines::FarLines;
use servsim_core::LineAddr;

/// What is known of one line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LineRecord<S> {
    /// Caches with a valid copy.
    pub valid: S,
    /// Caches whose frame still has the tag, without a valid copy.
    pub stale: S,
    /// Caches that ever held the line.
    pub seen: S,
}

/// No line has this number, since a line has 4 bytes or more.
const FREE: LineAddr = LineAddr(u64::MAX);

/// A line with its masks of so many bits: valid, stale, seen.
#[derive(Debug, Clone, Copy)]
struct Line<M> {
    line: LineAddr,
    masks: [M; 3],
}

macro_rules! lines {
    ($($mask:ty),+) => {$(
        impl Entry for Line<$mask> {
            type Key = LineAddr;
            const FREE: Self = Self { line: FREE, masks: [0; 3] };
            #[inline]
            fn new(line: LineAddr) -> Self {
                Self { line, masks: [0; 3] }
            }
            #[inline]
            fn is(&self, line: LineAddr) -> bool {
                self.line == line
            }
            #[inline]
            fn is_free(&self) -> bool {
                self.line == FREE
            }
            fn key(&self) -> LineAddr {
                self.line
            }
            #[inline]
            fn number(line: LineAddr) -> u64 {
                line.0
            }
        }
    )+};
}
lines!(u16, u64, u128);

/// Line number to record.
#[derive(Debug)]
enum Lines {
    /// Up to 16 caches.
    Narrow(Table<Line<u16>>),
    /// Up to 64 caches.
    Wide(Table<Line<u64>>),
    /// Up to 128 caches.
    Wider(Table<Line<u128>>),
    /// More.
    Widest(FarLines),
}

/// Evaluates `$body` with `$table` as the table of whichever lines these are.
macro_rules! with_table {
    ($lines:expr, $table:ident => $body:expr) => {
        match $lines {
            Lines::Narrow($table) => $body,
            Lines::Wide($table) => $body,
            Lines::Wider($table) => $body,
            Lines::Widest(FarLines { table: $table, .. }) => $body,
        }
    };
}

/// The index of copies.
#[derive(Debug)]
pub struct CopyIndex(Lines);

/// How wide the sets of a machine are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// `u16` holds them.
    Quarter,
    /// `u64` does.
    One,
    /// `u128` does.
    Two,
    /// [`Many`] does.
    Many,
}

/// Calls `$of.$run::<S>($($argument),*)` with the narrowest set `S` for the index `$index`.
macro_rules! with_cache_set {
    ($index:expr, $of:ident.$run:ident($($argument:expr),*)) => {
        match $index.width() {
            $crate::copy_index::Width::Quarter => $of.$run::<u16>($($argument),*),
            $crate::copy_index::Width::One => $of.$run::<u64>($($argument),*),
            $crate::copy_index::Width::Two => $of.$run::<u128>($($argument),*),
            $crate::copy_index::Width::Many => $of.$run::<$crate::cache_set::Many>($($argument),*),
        }
    };
}
pub(crate) use with_cache_set;

/// A set that the records of an index of its width are made of. Whoever knows the set asks without asking for the width
/// again.
pub trait Indexed: CacheSet {
    /// Where the record of `line` is, made if it is new. It stays there until another is made.
    fn place_of(index: &mut CopyIndex, line: LineAddr) -> usize;
    /// Brings the record of `line` nearer.
    fn prefetch(index: &CopyIndex, line: LineAddr);
    /// The record at `place`.
    fn record(index: &CopyIndex, place: usize) -> LineRecord<Self>;
    /// Replaces the record at `place`.
    fn set_record(index: &mut CopyIndex, place: usize, record: &LineRecord<Self>);
}

const OTHER_WIDTH: &str = "sets are as wide as the index says";

macro_rules! indexed {
    ($($set:ty: $lines:ident),+) => {$(
        impl Indexed for $set {
            #[inline]
            fn place_of(index: &mut CopyIndex, line: LineAddr) -> usize {
                let Lines::$lines(table) = &mut index.0 else { unreachable!("{OTHER_WIDTH}") };
                table.place_of(line)
            }
            #[inline]
            fn prefetch(index: &CopyIndex, line: LineAddr) {
                let Lines::$lines(table) = &index.0 else { unreachable!("{OTHER_WIDTH}") };
                table.prefetch(line);
            }
            #[inline]
            fn record(index: &CopyIndex, place: usize) -> LineRecord<Self> {
                let Lines::$lines(table) = &index.0 else { unreachable!("{OTHER_WIDTH}") };
                let [valid, stale, seen] = table.entry(place).masks;
                LineRecord { valid, stale, seen }
            }
            #[inline]
            fn set_record(index: &mut CopyIndex, place: usize, record: &LineRecord<Self>) {
                let Lines::$lines(table) = &mut index.0 else { unreachable!("{OTHER_WIDTH}") };
                table.entry_mut(place).masks = [record.valid, record.stale, record.seen];
            }
        }
    )+};
}
indexed!(u16: Narrow, u64: Wide, u128: Wider);

impl Indexed for Many {
    fn place_of(index: &mut CopyIndex, line: LineAddr) -> usize {
        let Lines::Widest(lines) = &mut index.0 else { unreachable!("{OTHER_WIDTH}") };
        lines.table.place_of(line)
    }
    fn prefetch(index: &CopyIndex, line: LineAddr) {
        let Lines::Widest(lines) = &index.0 else { unreachable!("{OTHER_WIDTH}") };
        lines.table.prefetch(line);
    }
    fn record(index: &CopyIndex, place: usize) -> LineRecord<Self> {
        let Lines::Widest(lines) = &index.0 else { unreachable!("{OTHER_WIDTH}") };
        lines.get(place)
    }
    fn set_record(index: &mut CopyIndex, place: usize, record: &LineRecord<Self>) {
        let Lines::Widest(lines) = &mut index.0 else { unreachable!("{OTHER_WIDTH}") };
        lines.set(place, record);
    }
}

impl CopyIndex {
    /// An empty index of the copies in `caches` caches.
    pub fn new(caches: usize) -> Self {
        Self(match caches {
            0..=16 => Lines::Narrow(Table::default()),
            17..=64 => Lines::Wide(Table::default()),
            65..=128 => Lines::Wider(Table::default()),
            _ => Lines::Widest(FarLines::new(caches.div_ceil(64))),
        })
    }

    /// How wide its sets are.
    #[inline]
    pub fn width(&self) -> Width {
        match &self.0 {
            Lines::Narrow(_) => Width::Quarter,
            Lines::Wide(_) => Width::One,
            Lines::Wider(_) => Width::Two,
            Lines::Widest(_) => Width::Many,
        }
    }

    /// Where the record of `line` is, made if it is new. It stays there until another is made. `S` is as wide as
    /// [`CopyIndex::width`] says, here and below.
    #[inline]
    pub fn place_of<S: Indexed>(&mut self, line: LineAddr) -> usize {
        S::place_of(self, line)
    }

    /// Where the record of `line` is, if it has one.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        with_table!(&self.0, table => table.find(line))
    }

    /// The record at `place`.
    #[inline]
    pub fn record<S: Indexed>(&self, place: usize) -> LineRecord<S> {
        S::record(self, place)
    }

    /// Replaces the record at `place`.
    #[inline]
    pub fn set_record<S: Indexed>(&mut self, place: usize, record: &LineRecord<S>) {
        S::set_record(self, place, record);
    }

    /// Brings the record of `line` nearer.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        with_table!(&self.0, table => table.prefetch(line));
    }

    /// Writes the lines, ascending, and which caches ever held each. Which have it now, the caches know.
    pub fn save(&self, out: &mut Writer) {
        with_cache_set!(self, self.save_sets(out));
    }

    fn save_sets<S: Indexed>(&self, out: &mut Writer) {
        let lines: Vec<LineAddr> =
            with_table!(&self.0, table => table.sorted().iter().map(|l| l.line).collect());
        out.put(lines.len() as u64);
        let mut before = 0;
        for line in lines {
            out.put(line.0 - before);
            let record = self.find(line).map_or_else(LineRecord::<S>::default, |place| self.record(place));
            record.seen.words().take(self.words()).for_each(|word| out.put(word));
            before = line.0;
        }
    }

    /// Host words of a set in a state that is saved.
    fn words(&self) -> usize {
        match &self.0 {
            Lines::Narrow(_) | Lines::Wide(_) => 1,
            Lines::Wider(_) => 2,
            Lines::Widest(lines) => lines.width,
        }
    }

    /// Takes over the lines of another index, without copies.
    ///
    /// # Errors
    /// When the bytes are no such lines.
    pub fn restore(&mut self, caches: usize, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::new(caches);
        with_cache_set!(self, self.restore_sets(caches, from))
    }

    fn restore_sets<S: Indexed>(&mut self, caches: usize, from: &mut Reader<'_>) -> Result<(), Damaged> {
        let mut line = LineAddr(0);
        let mut words = Vec::new();
        let lines = from.length()?;
        with_table!(&mut self.0, table => *table = Table::with_room_for(lines));
        for index in 0..lines {
            let further = from.take()?;
            line = line
                .0
                .checked_add(further)
                .map(LineAddr)
                .filter(|&line| line != FREE)
                .ok_or(Damaged("a line number in it is out of range"))?;
            if index > 0 && further == 0 {
                return Err(Damaged("a line in it occurs twice"));
            }
            words.clear();
            for _ in 0..self.words() {
                words.push(from.take()?);
            }
            let seen = S::of_words(words.iter().copied());
            let fits = seen.words().zip(&words).all(|(own, word)| own == *word);
            if !fits || seen.iter().any(|cache| cache.0 >= caches) {
                return Err(Damaged("a line in it was held by more caches than there are"));
            }
            let place = self.place_of::<S>(line);
            self.set_record(place, &LineRecord { seen, ..LineRecord::default() });
        }
        Ok(())
    }

    /// Number of lines with a record.
    pub fn lines(&self) -> usize {
        with_table!(&self.0, table => table.len())
    }

    /// Bytes of host memory in use, for the bench.
    pub fn bytes(&self) -> usize {
        let apart = if let Lines::Widest(lines) = &self.0 { lines.words.capacity() * 8 } else { 0 };
        apart + with_table!(&self.0, table => table.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::{CacheId, RandomStream};
    use std::collections::HashMap;

    fn agrees_with_a_plain_map<S: Indexed>(caches: usize) {
        let mut index = CopyIndex::new(caches);
        let mut plain: HashMap<LineAddr, LineRecord<S>> = HashMap::new();
        let mut random = RandomStream::new(caches as u64, "copy index");
        for _ in 0..20_000 {
            let line = LineAddr(random.below(3000) << (random.below(3) * 20));
            let expected = plain.entry(line).or_default();
            let place = index.place_of::<S>(line);
            assert_eq!(index.record(place), *expected, "{caches} caches, line {line:?}");
            let mut set = || {
                let mut set = S::default();
                (0..random.below(5)).for_each(|_| set.insert(CacheId(random.below(caches as u64) as usize)));
                set
            };
            *expected = LineRecord { valid: set(), stale: set(), seen: set() };
            index.set_record(place, expected);
        }
        let (mut out, mut again) = (Writer::default(), CopyIndex::new(caches));
        index.save(&mut out);
        let bytes = out.into_bytes();
        again.restore(caches, &mut Reader::new(&bytes)).expect("its own bytes");
        for (&line, record) in &plain {
            let kept = LineRecord { seen: record.seen, ..LineRecord::default() };
            let place = again.find(line).expect("it was saved");
            assert_eq!(again.record::<S>(place), kept, "{caches} caches, line {line:?}");
        }
    }

    #[test]
    fn records_of_every_width_agree_with_a_plain_map() {
        [1, 8, 16].into_iter().for_each(agrees_with_a_plain_map::<u16>);
        [17, 64].into_iter().for_each(agrees_with_a_plain_map::<u64>);
        [65, 128].into_iter().for_each(agrees_with_a_plain_map::<u128>);
        [129, 1024, crate::MAX_CACHES].into_iter().for_each(agrees_with_a_plain_map::<Many>);
    }
}
