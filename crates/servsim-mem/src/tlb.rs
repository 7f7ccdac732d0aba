//! Address translation of one processor: translation look-aside buffers of one or two levels, a cache of
//! the upper levels of the page tables, and the walk of four-level x86-64 tables with pages of 4 KiB
//! (Intel SDM volume 3, sections 4.5 and 4.10). The references of a walk are the caller's to make.
//!
//! * **Look-up**: one for each page that a reference touches. An entry whose frame is not the one that
//!   the trace gives now is a miss: the system must have dropped it when it changed the mapping.
//! * **Fill**: a hit in the second level fills the first; a walk fills both. Neither includes the other.
//!   Victims are the least recently used of the set.
//! * **Spaces**: pages of the upper half are the kernel's, the same in all address spaces (global). With
//!   tags (PCIDs) the others' entries stay at a switch of address space; without them they go, and so does
//!   all that the walk cache holds.
//! * **Walk**: from the lowest table whose address the walk cache knows (Barr, Cox & Rixner, ISCA 2010:
//!   a translation cache, unified, fully associative, LRU); each upper entry read is kept there.
//! * **Tables** lie where [`entry_address`] says, because traces do not hold them.
//!
//! Left out: large pages, setting of accessed and dirty bits, separate kernel tables (KPTI),
//! invalidations by other processors (shootdowns) as references.

mod counters;

pub use counters::TlbCounters;

use servsim_core::source::{MAX_SPACES, PAGE_SHIFT};

/// Shape of the translation hardware of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlbSpec {
    /// Entries of the first level; of each half when it is split.
    pub entries: usize,
    /// Its ways.
    pub ways: usize,
    /// Whether instructions and data have one each.
    pub split: bool,
    /// Entries and ways of a unified second level.
    pub second: Option<(usize, usize)>,
    /// Whether entries keep the number of their address space.
    pub tagged: bool,
    /// Entries of the cache of upper table levels.
    pub walk_entries: usize,
}

/// Levels of the tables.
pub const LEVELS: usize = 4;
/// Bytes of a table entry.
pub const ENTRY_BYTES: u64 = 8;
/// log2 of the entries of a table.
const INDEX_BITS: u32 = 9;
/// Bits of a page number: 48-bit addresses.
const PAGE_BITS: u32 = INDEX_BITS * LEVELS as u32;
/// Bits of the number of a table in its level and space: those of a page above the last index.
const PREFIX_BITS: u32 = PAGE_BITS - INDEX_BITS;
/// Bits of a table's number: space, level, prefix.
const TABLE_BITS: u32 = (MAX_SPACES + 1).trailing_zeros() + 2 + PREFIX_BITS;
/// First address of the tables: no address of a machine with 52 bits, no virtual address of 48 bits with
/// its sign, and no processor's own area reaches `TABLES..2 * TABLES`.
pub const TABLES: u64 = 1 << 61;
/// Odd, so that multiplication permutes the numbers: 2^64 divided by the golden ratio (Knuth volume 3,
/// section 6.4). With the upper half of the bits laid over the lower before and after, which permutes them
/// too, tables lie all over the sets of a cache, as a kernel's allocator would have it.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bits of the lower half of a table's number.
const HALF: u32 = TABLE_BITS.div_ceil(2);
const _: () = assert!(TABLE_BITS + PAGE_SHIFT <= 61);

/// The number of the kernel's tables, which every space shares below the first level.
const KERNEL: u32 = 0;
const EMPTY: u64 = u64::MAX;

/// The upper half of the address space.
#[inline]
fn is_kernels(page: u64) -> bool {
    page >> (PAGE_BITS - 1) & 1 != 0
}

/// Physical address of the entry for `page` at `level` (0 for the table whose entries are pages) of the
/// tables of `space`: 0 for a processor that has not run any process, 1 + the number of the process
/// otherwise.
pub fn entry_address(space: u32, level: usize, page: u64) -> u64 {
    let page = page & ((1 << PAGE_BITS) - 1);
    let of_kernel = is_kernels(page) && level != LEVELS - 1;
    let space = u64::from(if of_kernel { KERNEL } else { space });
    let above = page >> (INDEX_BITS * level as u32);
    let (prefix, index) = (above >> INDEX_BITS, above & ((1 << INDEX_BITS) - 1));
    let number = (space << 2 | level as u64) << PREFIX_BITS | prefix;
    let product = (number ^ number >> HALF).wrapping_mul(SPREAD) & ((1 << TABLE_BITS) - 1);
    let frame = product ^ product >> HALF;
    TABLES + (frame << PAGE_SHIFT) + index * ENTRY_BYTES
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    page: u64,
    space: u32,
    frame: u64,
    stamp: u64,
}

/// One buffer.
#[derive(Debug)]
struct Buffer {
    entries: Vec<Entry>,
    ways: usize,
    sets: usize,
    clock: u64,
}

impl Buffer {
    fn new(entries: usize, ways: usize) -> Self {
        let empty = Entry { page: EMPTY, space: KERNEL, frame: 0, stamp: 0 };
        Self { entries: vec![empty; entries], ways, sets: entries / ways, clock: 0 }
    }

    fn set(&mut self, page: u64) -> &mut [Entry] {
        let first = (page as usize & (self.sets - 1)) * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    fn look_up(&mut self, page: u64, space: u32, frame: u64) -> bool {
        self.clock += 1;
        let clock = self.clock;
        let found = self.set(page).iter_mut().find(|e| e.page == page && e.space == space);
        match found {
            Some(entry) if entry.frame == frame => {
                entry.stamp = clock;
                true
            }
            _ => false,
        }
    }

    fn insert(&mut self, page: u64, space: u32, frame: u64) {
        self.clock += 1;
        let stamp = self.clock;
        let set = self.set(page);
        let same = set.iter().position(|e| e.page == page && e.space == space);
        let oldest = || (0..set.len()).min_by_key(|&way| set[way].stamp);
        let way = same.or_else(oldest).unwrap_or(0);
        set[way] = Entry { page, space, frame, stamp };
    }

    /// Takes away what is not the kernel's.
    fn flush(&mut self) {
        for entry in self.entries.iter_mut().filter(|e| !is_kernels(e.page)) {
            (entry.page, entry.stamp) = (EMPTY, 0);
        }
    }
}

/// The rest of a walk: table entries still to be read, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    addresses: [u64; LEVELS],
    next: usize,
}

impl Walk {
    /// The entry to be read next.
    pub fn next_address(&self) -> Option<u64> {
        self.addresses.get(self.next).copied()
    }

    /// It has been read.
    pub fn advance(&mut self) {
        self.next += 1;
    }
}

/// How a page was translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Translated {
    /// By the first level.
    First,
    /// By the second level.
    Second,
    /// By a walk.
    Walk(Walk),
}

/// One look-up.
#[derive(Debug, Clone, Copy)]
pub struct LookUp {
    /// For an instruction.
    pub fetch: bool,
    /// Mode of the reference.
    pub kernel: bool,
    /// Virtual page.
    pub page: u64,
    /// Physical page that the trace gives for it.
    pub frame: u64,
    /// References that the look-up stands for.
    pub count: u64,
}

/// The translation hardware of one processor.
#[derive(Debug)]
pub struct Mmu {
    spec: TlbSpec,
    first: Vec<Buffer>,
    second: Option<Buffer>,
    /// Table entries above the last level, the most recent last: level, page bits above, space.
    upper: Vec<(usize, u64, u32)>,
    /// The space whose tables are walked.
    space: u32,
    /// What it counted.
    pub counters: TlbCounters,
}

impl Mmu {
    /// Empty buffers; no process has run.
    pub fn new(spec: TlbSpec) -> Self {
        let halves = 1 + usize::from(spec.split);
        Self {
            spec,
            first: (0..halves).map(|_| Buffer::new(spec.entries, spec.ways)).collect(),
            second: spec.second.map(|(entries, ways)| Buffer::new(entries, ways)),
            upper: Vec::with_capacity(spec.walk_entries),
            space: KERNEL,
            counters: TlbCounters::default(),
        }
    }

    /// A task of process `process` runs from now on.
    #[inline]
    pub fn enter(&mut self, process: u32) {
        if self.space != process + 1 {
            self.switch(process + 1);
        }
    }

    fn switch(&mut self, space: u32) {
        self.space = space;
        if !self.spec.tagged {
            self.first.iter_mut().chain(&mut self.second).for_each(Buffer::flush);
            self.upper.clear();
            self.counters.flushes[1] += 1;
        }
    }

    /// Translates a page; the buffers hold it afterwards.
    #[inline]
    pub fn translate(&mut self, look_up: &LookUp) -> Translated {
        let LookUp { fetch, kernel, page, frame, count } = *look_up;
        let mode = usize::from(kernel);
        let space = if is_kernels(page) { KERNEL } else { self.space };
        let which = usize::from(self.spec.split && !fetch);
        let hit = self.first[which].look_up(page, space, frame);
        let c = &mut self.counters;
        let (hits, misses) = if fetch {
            (&mut c.fetch_hits, &mut c.fetch_misses)
        } else {
            (&mut c.data_hits, &mut c.data_misses)
        };
        hits[mode] += count - u64::from(!hit);
        misses[mode] += u64::from(!hit);
        if hit {
            return Translated::First;
        }
        let second = self.second.as_mut().is_some_and(|second| second.look_up(page, space, frame));
        self.first[which].insert(page, space, frame);
        if second {
            self.counters.second_hits[mode] += 1;
            return Translated::Second;
        }
        if let Some(second) = &mut self.second {
            second.insert(page, space, frame);
        }
        let walk = self.walk(page);
        self.counters.walks[mode] += 1;
        self.counters.walk_references[mode] += (LEVELS - walk.next) as u64;
        Translated::Walk(walk)
    }

    fn walk(&mut self, page: u64) -> Walk {
        let above = |level: usize| page >> (INDEX_BITS * level as u32);
        let known = (1..LEVELS).find(|&level| self.recall(level, above(level)));
        let levels = known.unwrap_or(LEVELS);
        for level in (1..levels).rev() {
            self.keep(level, above(level));
        }
        let address = |at: usize| entry_address(self.space, LEVELS - 1 - at, page);
        Walk { addresses: std::array::from_fn(address), next: LEVELS - levels }
    }

    /// Whether the walk cache knows the entry; marks it as used.
    fn recall(&mut self, level: usize, above: u64) -> bool {
        let place = self.upper.iter().position(|&entry| entry == (level, above, self.space));
        if let Some(place) = place {
            self.upper[place..].rotate_left(1);
        }
        place.is_some()
    }

    fn keep(&mut self, level: usize, above: u64) {
        if self.spec.walk_entries == 0 {
            return;
        }
        if self.upper.len() == self.spec.walk_entries {
            self.upper.remove(0);
        }
        self.upper.push((level, above, self.space));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn spec(entries: usize, walk_entries: usize) -> TlbSpec {
        TlbSpec { entries, ways: entries, split: false, second: None, tagged: false, walk_entries }
    }

    fn look_up(page: u64) -> LookUp {
        LookUp { fetch: false, kernel: false, page, frame: page, count: 1 }
    }

    fn references(mmu: &mut Mmu, page: u64) -> usize {
        match mmu.translate(&look_up(page)) {
            Translated::Walk(walk) => LEVELS - walk.next,
            _ => 0,
        }
    }

    #[test]
    fn a_walk_reads_only_what_the_walk_cache_does_not_know() {
        // The same last table, directory, directory pointers, first table; then the first page again.
        let pages = [0, 1, 1 << 9, 1 << 18, 1 << 27, 0];
        let read = |walk_entries| {
            let mut mmu = Mmu::new(spec(1, walk_entries));
            pages.map(|page| references(&mut mmu, page))
        };
        assert_eq!(read(9), [4, 1, 2, 3, 4, 1]);
        // Three entries: the fourth walk has lost the first table's, and the last one everything.
        assert_eq!(read(3), [4, 1, 2, 4, 4, 4]);
        assert_eq!(read(0), [4; 6]);
        let mut mmu = Mmu::new(spec(1, 0));
        assert_eq!(references(&mut mmu, 0), 4);
        assert_eq!(references(&mut mmu, 0), 0);
    }

    #[test]
    fn a_switch_without_tags_keeps_the_kernels_pages_only() {
        let kernel = 0xF_FFFF_8000_0000;
        let mut mmu = Mmu::new(spec(4, 0));
        mmu.enter(0);
        assert_eq!([references(&mut mmu, 5), references(&mut mmu, kernel)], [4, 4]);
        mmu.enter(1);
        assert_eq!([references(&mut mmu, 5), references(&mut mmu, kernel)], [4, 0]);
        let mut tagged = Mmu::new(TlbSpec { tagged: true, ..spec(4, 0) });
        for process in [0, 1, 0, 1] {
            tagged.enter(process);
            tagged.translate(&look_up(5));
        }
        assert_eq!((tagged.counters.walks[0], tagged.counters.flushes[1]), (2, 0));
        assert_eq!((mmu.counters.walks[0], mmu.counters.flushes[1]), (3, 2));
    }

    #[test]
    fn a_changed_mapping_is_a_miss() {
        let mut mmu = Mmu::new(spec(4, 0));
        assert_ne!(mmu.translate(&look_up(5)), Translated::First);
        let moved = LookUp { frame: 6, ..look_up(5) };
        assert_ne!(mmu.translate(&moved), Translated::First);
        assert_eq!(mmu.translate(&moved), Translated::First);
    }

    #[test]
    fn no_two_entries_share_an_address_and_all_lie_in_the_reserved_area() {
        let mut seen = HashSet::new();
        let kernel = 0xF_FFFF_FFFF_F000;
        for space in [0, 1, 2, MAX_SPACES] {
            for page in [0, 1, 511, 512, 1 << 18, 1 << 27, (1 << 35) - 1] {
                seen.extend((0..LEVELS).map(|level| entry_address(space, level, page)));
            }
            seen.insert(entry_address(space, LEVELS - 1, kernel));
            seen.extend((0..LEVELS - 1).map(|level| entry_address(space, level, kernel)));
        }
        // Per space: 7 entries of pages, 5 of last tables (0, 1, 511 share one), 4 and 3 further up,
        // and the first table's entry of the kernel; the kernel's three others once.
        assert_eq!(seen.len(), 4 * (7 + 5 + 4 + 3 + 1) + 3);
        // Tables with the same prefix do not meet in the sets of a cache.
        let sets: HashSet<u64> = seen.iter().map(|address| address >> PAGE_SHIFT & 0xFF).collect();
        assert!(sets.len() > 40, "{}", sets.len());
        assert!(seen.iter().all(|address| (TABLES..2 * TABLES).contains(address) && address % 8 == 0));
    }
}
