//! Which caches hold which line: three bit masks per line.
//!
//! A bus machine has no directory; this is the simulator's short cut, so that a transaction visits
//! the caches that hold the block instead of all of them, and an upgrade costs the same with 64
//! processors as with 4. It is consulted on misses and upgrades only (1-5 % of references), but
//! then nearly always in a place that the host's caches have lost. So a look-up touches one place,
//! which the line number alone tells: open addressing, the masks beside the line, as narrow as the
//! number of caches allows. With up to 16 caches a line takes 16 bytes, four to a host line.

use crate::cache_set::CacheSet;
use crate::snapshot::{Damaged, Reader, Writer};
use crate::sparse::{Entry, Table};

/// What is known of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineRecord {
    /// Caches with a valid copy.
    pub valid: CacheSet,
    /// Caches whose frame still has the tag, without a valid copy.
    pub stale: CacheSet,
    /// Caches that ever held the line.
    pub seen: CacheSet,
}

/// No line has this number, since a line has 4 bytes or more.
const FREE: u64 = u64::MAX;

/// A line with its masks of so many bits: valid, stale, seen.
#[derive(Debug, Clone, Copy)]
struct Line<M> {
    line: u64,
    masks: [M; 3],
}

macro_rules! lines {
    ($($mask:ty),+) => {$(
        impl Entry for Line<$mask> {
            type Key = u64;
            const FREE: Self = Self { line: FREE, masks: [0; 3] };
            #[inline]
            fn new(line: u64) -> Self {
                Self { line, masks: [0; 3] }
            }
            #[inline]
            fn is(&self, line: u64) -> bool {
                self.line == line
            }
            #[inline]
            fn is_free(&self) -> bool {
                self.line == FREE
            }
            fn key(&self) -> u64 {
                self.line
            }
            #[inline]
            fn number(line: u64) -> u64 {
                line
            }
        }

        impl From<$mask> for CacheSet {
            #[inline]
            fn from(mask: $mask) -> Self {
                Self::from_bits(u128::from(mask))
            }
        }

        impl From<Line<$mask>> for LineRecord {
            #[inline]
            fn from(line: Line<$mask>) -> Self {
                let [valid, stale, seen] = line.masks;
                Self { valid: valid.into(), stale: stale.into(), seen: seen.into() }
            }
        }

        impl From<LineRecord> for [$mask; 3] {
            #[inline]
            fn from(LineRecord { valid, stale, seen }: LineRecord) -> Self {
                [valid.bits() as $mask, stale.bits() as $mask, seen.bits() as $mask]
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
    Widest(Table<Line<u128>>),
}

/// The index of copies.
#[derive(Debug)]
pub struct CopyIndex(Lines);

impl CopyIndex {
    /// An empty index of the copies in `caches` caches.
    pub fn new(caches: usize) -> Self {
        Self(match caches {
            0..=16 => Lines::Narrow(Table::default()),
            17..=64 => Lines::Wide(Table::default()),
            _ => Lines::Widest(Table::default()),
        })
    }

    /// The record of `line`.
    #[inline]
    pub fn record(&self, line: u64) -> LineRecord {
        match &self.0 {
            Lines::Narrow(table) => table.get(line).map_or_else(LineRecord::default, |line| (*line).into()),
            Lines::Wide(table) => table.get(line).map_or_else(LineRecord::default, |line| (*line).into()),
            Lines::Widest(table) => table.get(line).map_or_else(LineRecord::default, |line| (*line).into()),
        }
    }

    /// Replaces the record of `line`.
    #[inline]
    pub fn set_record(&mut self, line: u64, record: LineRecord) {
        match &mut self.0 {
            Lines::Narrow(table) => table.at(line).masks = record.into(),
            Lines::Wide(table) => table.at(line).masks = record.into(),
            Lines::Widest(table) => table.at(line).masks = record.into(),
        }
    }

    /// Brings the record of `line` nearer.
    #[inline]
    pub fn prefetch(&self, line: u64) {
        match &self.0 {
            Lines::Narrow(table) => table.prefetch(line),
            Lines::Wide(table) => table.prefetch(line),
            Lines::Widest(table) => table.prefetch(line),
        }
    }

    /// Writes the lines, ascending, and which caches ever held each. Which have it now, the caches know.
    pub fn save(&self, out: &mut Writer) {
        let seen = |line: LineRecord| line.seen;
        let lines: Vec<(u64, CacheSet)> = match &self.0 {
            Lines::Narrow(table) => {
                table.sorted().iter().map(|line| (line.line, seen((*line).into()))).collect()
            }
            Lines::Wide(table) => {
                table.sorted().iter().map(|line| (line.line, seen((*line).into()))).collect()
            }
            Lines::Widest(table) => {
                table.sorted().iter().map(|line| (line.line, seen((*line).into()))).collect()
            }
        };
        out.put(lines.len() as u64);
        let mut before = 0;
        for (line, seen) in lines {
            out.put(line - before);
            out.put(seen.bits() as u64);
            if matches!(self.0, Lines::Widest(_)) {
                out.put((seen.bits() >> 64) as u64);
            }
            before = line;
        }
    }

    /// Takes over the lines of another index, without copies.
    ///
    /// # Errors
    /// When the bytes are no such lines.
    pub fn restore(&mut self, caches: usize, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::new(caches);
        let mut line = 0_u64;
        for index in 0..from.length()? {
            let further = from.take()?;
            line = line
                .checked_add(further)
                .filter(|&line| line != FREE)
                .ok_or(Damaged("a line number in it is out of range"))?;
            if index > 0 && further == 0 {
                return Err(Damaged("a line in it occurs twice"));
            }
            let mut seen = u128::from(from.take()?);
            if matches!(self.0, Lines::Widest(_)) {
                seen |= u128::from(from.take()?) << 64;
            }
            if seen & !(u128::MAX >> (128 - caches)) != 0 {
                return Err(Damaged("a line in it was held by more caches than there are"));
            }
            let seen = CacheSet::from_bits(seen);
            self.set_record(line, LineRecord { seen, ..LineRecord::default() });
        }
        Ok(())
    }

    /// Number of lines with a record.
    pub fn lines(&self) -> usize {
        match &self.0 {
            Lines::Narrow(table) => table.len(),
            Lines::Wide(table) => table.len(),
            Lines::Widest(table) => table.len(),
        }
    }

    /// Bytes of host memory in use, for the bench.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Lines::Narrow(table) => table.bytes(),
            Lines::Wide(table) => table.bytes(),
            Lines::Widest(table) => table.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::RandomStream;
    use std::collections::HashMap;

    #[test]
    fn records_of_every_width_agree_with_a_plain_map() {
        for caches in [1, 8, 16, 17, 64, 65, 128] {
            let mut index = CopyIndex::new(caches);
            let mut plain: HashMap<u64, LineRecord> = HashMap::new();
            let mut random = RandomStream::new(caches as u64, "copy index");
            let all = u128::MAX >> (128 - caches);
            for _ in 0..20_000 {
                let line = random.below(3000) << (random.below(3) * 20);
                let expected = plain.entry(line).or_default();
                assert_eq!(index.record(line), *expected, "{caches} caches, line {line:#x}");
                let mask = |r: &mut RandomStream| {
                    CacheSet::from_bits((u128::from(r.next_u64()) << 64 | u128::from(r.next_u64())) & all)
                };
                let (valid, stale, seen) = (mask(&mut random), mask(&mut random), mask(&mut random));
                *expected = LineRecord { valid, stale, seen };
                index.set_record(line, *expected);
            }
        }
    }
}
