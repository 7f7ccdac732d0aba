//! Which caches hold which line: three bit masks per line, in blocks of one page each.
//!
//! A bus machine has no directory; this is the simulator's short cut, so that a transaction visits
//! the caches that hold the block instead of all of them, and an upgrade costs the same with 64
//! processors as with 4. It is consulted on misses and upgrades only (1-5 % of references), but
//! then nearly always in a place that the host's caches have lost. So what a look-up touches must be
//! small: pages are found by hash (one entry per 4 KiB of the simulated memory), the masks of a
//! page lie together, and they are as narrow as the number of caches allows. With up to 8 caches
//! and lines of 64 bytes a gibibyte of touched memory takes 4 MiB of table and 64 MiB of masks.

use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::PAGE_SHIFT;

/// What is known of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineRecord {
    /// Caches with a valid copy.
    pub valid: u64,
    /// Caches whose frame still has the tag, without a valid copy.
    pub stale: u64,
    /// Caches that ever held the line.
    pub seen: u64,
}

/// Records of lines, as narrow as the number of caches allows.
#[derive(Debug)]
enum Records {
    /// Up to 8 caches.
    Bytes(Vec<[u8; 4]>),
    /// Up to 16 caches.
    Shorts(Vec<[u16; 4]>),
    /// Up to 64 caches.
    Longs(Vec<[u64; 3]>),
}

/// Line number to record.
#[derive(Debug)]
pub struct Directory {
    slots: Vec<(u64, u32)>,
    mask: usize,
    pages: usize,
    records: Records,
    /// log2 of the lines of a page.
    shift: u32,
}

/// No page has this number: an address has 64 bits.
const FREE: u64 = u64::MAX;

impl Directory {
    /// An empty directory of `caches` caches with lines of `line` bytes, at most a page.
    pub fn new(caches: usize, line: u64) -> Self {
        let slots = 1 << 10;
        Self {
            slots: vec![(FREE, 0); slots],
            mask: slots - 1,
            pages: 0,
            records: match caches {
                0..=8 => Records::Bytes(Vec::new()),
                9..=16 => Records::Shorts(Vec::new()),
                _ => Records::Longs(Vec::new()),
            },
            shift: PAGE_SHIFT - line.trailing_zeros(),
        }
    }

    fn slot_of(page: u64, mask: usize) -> usize {
        // Fibonacci hashing; the middle bits of the product are the best mixed that are cheap.
        (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 28) as usize & mask
    }

    /// Index of the record of `line`, made if it is new; it never changes. Constant time on average.
    ///
    /// # Panics
    /// When more than 2^32 lines lie in touched pages.
    #[inline]
    pub fn id(&mut self, line: u64) -> u32 {
        let page = line >> self.shift;
        let mut slot = Self::slot_of(page, self.mask);
        let index = loop {
            let (key, index) = self.slots[slot];
            if key == page {
                break index;
            }
            if key == FREE {
                break self.insert(slot, page);
            }
            slot = (slot + 1) & self.mask;
        };
        index << self.shift | (line & ((1 << self.shift) - 1)) as u32
    }

    #[cold]
    fn insert(&mut self, slot: usize, page: u64) -> u32 {
        let index = self.pages as u32;
        self.pages += 1;
        let records = self.pages << self.shift;
        assert!(records <= 1 << 32, "fewer than 2^32 lines in touched pages");
        self.slots[slot] = (page, index);
        match &mut self.records {
            Records::Bytes(list) => list.resize(records, [0; 4]),
            Records::Shorts(list) => list.resize(records, [0; 4]),
            Records::Longs(list) => list.resize(records, [0; 3]),
        }
        if self.pages * 2 > self.slots.len() {
            self.grow();
        }
        index
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![(FREE, 0); mask + 1];
        for &(page, index) in self.slots.iter().filter(|(page, _)| *page != FREE) {
            let mut slot = Self::slot_of(page, mask);
            while slots[slot].0 != FREE {
                slot = (slot + 1) & mask;
            }
            slots[slot] = (page, index);
        }
        self.slots = slots;
        self.mask = mask;
    }

    /// The record with index `id`.
    #[inline]
    pub fn record(&self, id: u32) -> LineRecord {
        let id = id as usize;
        match &self.records {
            Records::Bytes(list) => {
                let [valid, stale, seen, _] = list[id].map(u64::from);
                LineRecord { valid, stale, seen }
            }
            Records::Shorts(list) => {
                let [valid, stale, seen, _] = list[id].map(u64::from);
                LineRecord { valid, stale, seen }
            }
            Records::Longs(list) => {
                let [valid, stale, seen] = list[id];
                LineRecord { valid, stale, seen }
            }
        }
    }

    /// Replaces the record with index `id`.
    #[inline]
    pub fn set_record(&mut self, id: u32, record: LineRecord) {
        let (id, masks) = (id as usize, [record.valid, record.stale, record.seen]);
        let [valid, stale, seen] = masks;
        match &mut self.records {
            Records::Bytes(list) => list[id] = [valid as u8, stale as u8, seen as u8, 0],
            Records::Shorts(list) => list[id] = [valid as u16, stale as u16, seen as u16, 0],
            Records::Longs(list) => list[id] = masks,
        }
    }

    /// Writes the lines in the order of their indices, and which caches ever held each. Which have
    /// it now, the caches know.
    pub fn save(&self, out: &mut Writer) {
        let Self { slots, mask: _, pages, records: _, shift } = self;
        let mut numbers = vec![0; *pages];
        for &(page, index) in slots.iter().filter(|(page, _)| *page != FREE) {
            numbers[index as usize] = page;
        }
        out.list(numbers.into_iter());
        (0..(*pages << shift) as u64).for_each(|id| out.put(self.record(id as u32).seen));
    }

    /// Takes over the lines of another directory, without copies.
    ///
    /// # Errors
    /// When the bytes are no such lines.
    pub fn restore(&mut self, caches: usize, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::new(caches, 1 << (PAGE_SHIFT - self.shift));
        let pages = from.length()?;
        for index in 0..pages {
            let page = from.below(u64::MAX >> self.shift)?;
            if self.id(page << self.shift) != (index << self.shift) as u32 {
                return Err(Damaged("a page in it occurs twice"));
            }
        }
        for id in 0..(pages << self.shift) as u64 {
            let seen = from.take()?;
            if seen & !(u64::MAX >> (64 - caches)) != 0 {
                return Err(Damaged("a line in it was held by more caches than there are"));
            }
            self.set_record(id as u32, LineRecord { seen, ..LineRecord::default() });
        }
        Ok(())
    }

    /// Number of lines with an index.
    pub fn lines(&self) -> usize {
        self.pages << self.shift
    }

    /// Bytes of host memory in use, for the bench.
    pub fn bytes(&self) -> usize {
        let records = match &self.records {
            Records::Bytes(list) => list.capacity() * 4,
            Records::Shorts(list) => list.capacity() * 8,
            Records::Longs(list) => list.capacity() * 24,
        };
        records + self.slots.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::RandomStream;
    use std::collections::HashMap;

    #[test]
    fn records_of_every_width_agree_with_a_plain_map() {
        for (caches, line) in [(1, 64), (8, 16), (9, 128), (16, 4096), (17, 32), (64, 1024)] {
            let mut directory = Directory::new(caches, line);
            let mut plain: HashMap<u64, (u32, LineRecord)> = HashMap::new();
            let mut random = RandomStream::new(caches as u64, "directory");
            let all = u64::MAX >> (64 - caches);
            for _ in 0..20_000 {
                let line = random.below(3000) << (random.below(3) * 20);
                let id = directory.id(line);
                let (known, expected) = plain.entry(line).or_insert((id, LineRecord::default()));
                assert_eq!(*known, id, "an index never changes");
                assert_eq!(directory.record(id), *expected, "{caches} caches, line {line:#x}");
                let mask = |r: &mut RandomStream| r.next_u64() & all;
                let (valid, stale, seen) = (mask(&mut random), mask(&mut random), mask(&mut random));
                *expected = LineRecord { valid, stale, seen };
                directory.set_record(id, *expected);
            }
        }
    }
}
