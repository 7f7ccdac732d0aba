//! What is known of each line that was ever touched: which caches hold it, and who took it last from one.
//!
//! A bus machine has no directory; this is the simulator's short cut, so that a transaction visits
//! the caches that hold the block instead of all of them, and an upgrade costs the same with 64
//! processors as with 4. It is consulted on misses and upgrades only (1-5 % of references), but
//! then nearly always in a place that the host's caches have lost. So it is dense: the records of 64 neighbouring
//! lines lie side by side, without their numbers, in a block that a small table finds; the frame of a copy remembers where its
//! record is. With up to 16 caches a record takes 16 bytes, four to a host line; with more than 128
//! the masks lie apart (`far_lines.rs`).

mod block;
mod far_lines;
mod told;

use crate::array::EMPTY;
use crate::cache_set::{CacheSet, Many};
use crate::host;
use crate::snapshot::{Damaged, Reader, Writer};
use crate::switches::Loss;
pub use block::Places;
use block::{Block, BLOCK};
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
    /// Which cache lost it last, and to whom.
    pub loss: Loss,
}

/// The records, by place.
#[derive(Debug)]
enum Records {
    /// Up to 16 caches.
    Narrow(Vec<Narrow>),
    /// Up to 64 caches.
    Wide(Vec<Wide>),
    /// Up to 128 caches.
    Wider(Vec<Wider>),
    /// More.
    Widest(FarLines),
}

/// The index of copies.
#[derive(Debug)]
pub struct CopyIndex {
    places: Places,
    /// Whether only somebody else knows the places ([`CopyIndex::leave_out_places`]).
    told: bool,
    records: Records,
}

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
    /// Brings the record at `place` nearer.
    fn prefetch(index: &CopyIndex, place: usize);
    /// The record at `place`.
    fn record(index: &CopyIndex, place: usize) -> LineRecord<Self>;
    /// Replaces the record at `place`.
    fn set_record(index: &mut CopyIndex, place: usize, record: &LineRecord<Self>);
}

const OTHER_WIDTH: &str = "sets are as wide as the index says";

macro_rules! indexed {
    ($($set:ty: $name:ident, $align:literal;)+) => {$(
        /// A record that lies in one line of the host.
        #[derive(Debug, Clone, Copy, Default)]
        #[repr(align($align))]
        struct $name(LineRecord<$set>);

        impl Indexed for $set {
            #[inline]
            fn prefetch(index: &CopyIndex, place: usize) {
                let Records::$name(records) = &index.records else { unreachable!("{OTHER_WIDTH}") };
                host::prefetch(records, place);
            }
            #[inline]
            fn record(index: &CopyIndex, place: usize) -> LineRecord<Self> {
                let Records::$name(records) = &index.records else { unreachable!("{OTHER_WIDTH}") };
                records[place].0
            }
            #[inline]
            fn set_record(index: &mut CopyIndex, place: usize, record: &LineRecord<Self>) {
                let Records::$name(records) = &mut index.records else { unreachable!("{OTHER_WIDTH}") };
                records[place].0 = *record;
            }
        }

        const _: () = assert!(size_of::<$name>() == $align);
    )+};
}
indexed! {
    u16: Narrow, 16;
    u64: Wide, 32;
    u128: Wider, 64;
}

impl Indexed for Many {
    fn prefetch(index: &CopyIndex, place: usize) {
        let Records::Widest(lines) = &index.records else { unreachable!("{OTHER_WIDTH}") };
        lines.prefetch(place);
    }
    fn record(index: &CopyIndex, place: usize) -> LineRecord<Self> {
        let Records::Widest(lines) = &index.records else { unreachable!("{OTHER_WIDTH}") };
        lines.get(place)
    }
    fn set_record(index: &mut CopyIndex, place: usize, record: &LineRecord<Self>) {
        let Records::Widest(lines) = &mut index.records else { unreachable!("{OTHER_WIDTH}") };
        lines.set(place, record);
    }
}

impl CopyIndex {
    /// An empty index of the copies in `caches` caches.
    pub fn new(caches: usize) -> Self {
        let records = match caches {
            0..=16 => Records::Narrow(Vec::new()),
            17..=64 => Records::Wide(Vec::new()),
            65..=128 => Records::Wider(Vec::new()),
            _ => Records::Widest(FarLines::new(caches.div_ceil(64))),
        };
        Self { places: Places::default(), told: false, records }
    }

    /// How wide its sets are.
    #[inline]
    pub fn width(&self) -> Width {
        match &self.records {
            Records::Narrow(_) => Width::Quarter,
            Records::Wide(_) => Width::One,
            Records::Wider(_) => Width::Two,
            Records::Widest(_) => Width::Many,
        }
    }

    /// Where the record of `line` is and stays.
    #[inline]
    pub fn place_of(&mut self, line: LineAddr) -> usize {
        debug_assert!(!self.told, "places are told");
        let place = self.places.place_of(line);
        if place >= self.length() {
            self.make_room(self.places.len());
        }
        place
    }

    /// Records that there are.
    #[inline]
    fn length(&self) -> usize {
        match &self.records {
            Records::Narrow(records) => records.len(),
            Records::Wide(records) => records.len(),
            Records::Wider(records) => records.len(),
            Records::Widest(lines) => lines.length(),
        }
    }

    /// Makes room for so many records.
    #[cold]
    fn make_room(&mut self, length: usize) {
        match &mut self.records {
            Records::Narrow(records) => records.resize(length, Narrow::default()),
            Records::Wide(records) => records.resize(length, Wide::default()),
            Records::Wider(records) => records.resize(length, Wider::default()),
            Records::Widest(lines) => lines.resize(length),
        }
    }

    /// Where the record of `line` is, if there is one; there is one of each line that was touched.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        debug_assert!(!self.told, "places are told");
        self.places.find(line)
    }

    /// Brings nearer what tells where the record of `line` is.
    #[inline]
    pub fn prefetch_place(&self, line: LineAddr) {
        self.places.prefetch(line);
    }

    /// The record at `place`. `S` is as wide as [`CopyIndex::width`] says, here and below.
    #[inline]
    pub fn record<S: Indexed>(&self, place: usize) -> LineRecord<S> {
        S::record(self, place)
    }

    /// Replaces the record at `place`.
    #[inline]
    pub fn set_record<S: Indexed>(&mut self, place: usize, record: &LineRecord<S>) {
        S::set_record(self, place, record);
    }

    /// Brings the record at `place` nearer.
    #[inline]
    pub fn prefetch(&self, place: usize) {
        with_cache_set!(self, self.prefetch_as(place));
    }

    #[inline]
    fn prefetch_as<S: Indexed>(&self, place: usize) {
        S::prefetch(self, place);
    }

    /// The records of lines that some cache ever held, by ascending line.
    fn touched<S: Indexed>(&self) -> Vec<(LineAddr, LineRecord<S>)> {
        let lines = |block: Block| {
            let first = block.rank as usize * BLOCK as usize;
            (0..BLOCK).map(move |at| (LineAddr(block.number * BLOCK + at), self.record(first + at as usize)))
        };
        let all = self.places.sorted().into_iter().flat_map(lines);
        all.filter(|(_, record): &(_, LineRecord<S>)| !record.seen.is_empty()).collect()
    }

    /// Who took each line last from which cache, as far as that is kept here.
    pub fn losses(&self) -> Vec<(LineAddr, Loss)> {
        with_cache_set!(self, self.losses_as())
    }

    fn losses_as<S: Indexed>(&self) -> Vec<(LineAddr, Loss)> {
        self.touched::<S>().into_iter().map(|(line, record)| (line, record.loss)).collect()
    }

    /// Writes the lines, ascending, and which caches ever held each. Which have it now, the caches know.
    pub fn save(&self, out: &mut Writer) {
        with_cache_set!(self, self.save_sets(out));
    }

    fn save_sets<S: Indexed>(&self, out: &mut Writer) {
        let touched = self.touched::<S>();
        out.put(touched.len() as u64);
        let mut before = 0;
        for (line, record) in touched {
            out.put(line.0 - before);
            record.seen.words().take(self.words()).for_each(|word| out.put(word));
            before = line.0;
        }
    }

    /// Host words of a set in a state that is saved.
    fn words(&self) -> usize {
        match &self.records {
            Records::Narrow(_) | Records::Wide(_) => 1,
            Records::Wider(_) => 2,
            Records::Widest(lines) => lines.width,
        }
    }

    /// Takes over the lines of another index, without copies; how many there are.
    ///
    /// # Errors
    /// When the bytes are no such lines.
    pub fn restore(&mut self, caches: usize, from: &mut Reader<'_>) -> Result<usize, Damaged> {
        *self = Self::new(caches);
        with_cache_set!(self, self.restore_sets(caches, from))
    }

    fn restore_sets<S: Indexed>(&mut self, caches: usize, from: &mut Reader<'_>) -> Result<usize, Damaged> {
        let mut line = LineAddr(0);
        let mut words = Vec::new();
        let lines = from.length()?;
        for index in 0..lines {
            let further = from.take()?;
            line = line
                .0
                .checked_add(further)
                .map(LineAddr)
                .filter(|&line| line != EMPTY)
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
            let place = self.place_of(line);
            self.set_record(place, &LineRecord { seen, ..LineRecord::default() });
        }
        Ok(lines)
    }

    /// Bytes of host memory in use, for the bench.
    pub fn bytes(&self) -> usize {
        self.places.bytes()
            + match &self.records {
                Records::Narrow(records) => size_of_val(records.as_slice()),
                Records::Wide(records) => size_of_val(records.as_slice()),
                Records::Wider(records) => size_of_val(records.as_slice()),
                Records::Widest(lines) => lines.bytes(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switches::Taker;
    use servsim_core::{CacheId, RandomStream};
    use std::collections::HashMap;

    fn agrees_with_a_plain_map<S: Indexed>(caches: usize) {
        let (mut index, mut places) = (CopyIndex::new(caches), Places::default());
        // Two that are told places, of blocks and of lines.
        let (mut told, mut told_lines) = (CopyIndex::new(caches), CopyIndex::new(caches));
        let mut lines = Places::by_line();
        told_lines.leave_out_places();
        let mut plain: HashMap<LineAddr, LineRecord<S>> = HashMap::new();
        let mut random = RandomStream::new(caches as u64, "copy index");
        for _ in 0..20_000 {
            let line = LineAddr(random.below(3000) << (random.below(3) * 20));
            let expected = plain.entry(line).or_default();
            let place = index.place_of(line);
            assert_eq!(index.find(line), Some(place));
            assert_eq!(index.record(place), *expected, "{caches} caches, line {line:?}");
            assert_eq!(places.place_of(line), place, "{caches} caches, line {line:?}");
            let line_place = lines.place_of(line);
            for (told, place) in [(&mut told, place), (&mut told_lines, line_place)] {
                assert_eq!(told.place_told(line, place), place);
                assert_eq!(told.record(place), *expected, "{caches} caches, line {line:?}");
            }
            let mut set = || {
                let mut set = S::default();
                (0..random.below(5)).for_each(|_| set.insert(CacheId(random.below(caches as u64) as usize)));
                set
            };
            *expected = LineRecord {
                valid: set(),
                stale: set(),
                seen: set(),
                loss: Loss::of(CacheId(0), Taker::Snoop, line.0 as u32),
            };
            index.set_record(place, expected);
            told.set_record(place, expected);
            told_lines.set_record(line_place, expected);
        }
        let (mut out, mut again) = (Writer::default(), CopyIndex::new(caches));
        index.save(&mut out);
        let bytes = out.into_bytes();
        let lines = again.restore(caches, &mut Reader::new(&bytes)).expect("its own bytes");
        assert_eq!(lines, plain.values().filter(|record| !record.seen.is_empty()).count());
        for (&line, record) in plain.iter().filter(|(_, record)| !record.seen.is_empty()) {
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
