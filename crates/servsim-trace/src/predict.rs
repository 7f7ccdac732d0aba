//! Address prediction and address translation, shared by encoder and decoder.
//!
//! An x86-64 access is base register + index + constant. The dictionary keeps the constant and
//! which register (slot) serves as the base; the stream then holds only how the base differs from
//! its last seen value in the same stream, which is zero or small for most accesses. The state is
//! 64 words, so that it costs nothing to start afresh in every epoch and stays in the first-level
//! cache. Translations go through a direct-mapped table: the stream holds a physical page only when
//! the table misses.

use crate::model::PAGE_BYTES;

/// Which predicted base value an access is relative to; below [`slots::COUNT`].
pub type Slot = u8;

/// The slots of the address predictor.
pub mod slots {
    use super::Slot;
    /// The stack pointer; general registers use their encoding 0..16, of which this is number 4.
    pub const STACK: Slot = 4;
    /// Relative to `gs` (kernel per-CPU data).
    pub const GS: Slot = 16;
    /// Relative to `fs` (thread-local data).
    pub const FS: Slot = 17;
    /// An absolute or instruction-relative address: the base is always zero.
    pub const ABSOLUTE: Slot = 18;
    /// Accesses with an index register share the slots from here on, by a hash of both registers.
    pub const INDEXED: Slot = 19;
    /// Number of slots.
    pub const COUNT: usize = 64;
}

/// Last seen base values of one stream.
#[derive(Debug, Clone)]
pub struct Bases([u64; slots::COUNT]);

impl Default for Bases {
    fn default() -> Self {
        Bases([0; slots::COUNT])
    }
}

impl Bases {
    /// Difference between the actual address and the predicted one; remembers the actual.
    #[inline]
    pub fn encode(&mut self, slot: Slot, disp: i64, address: u64) -> i64 {
        let base = address.wrapping_sub(disp as u64);
        if slot == slots::ABSOLUTE {
            return base as i64;
        }
        let last = &mut self.0[slot as usize % slots::COUNT];
        let delta = base.wrapping_sub(*last) as i64;
        *last = base;
        delta
    }

    /// The inverse of [`Bases::encode`].
    #[inline]
    pub fn decode(&mut self, slot: Slot, disp: i64, delta: i64) -> u64 {
        let last = &mut self.0[slot as usize % slots::COUNT];
        let base = last.wrapping_add(delta as u64);
        *last = base;
        // No branch: that base stays zero.
        self.0[slots::ABSOLUTE as usize] = 0;
        base.wrapping_add(disp as u64)
    }

    /// Applies what a whole block adds to the stack pointer.
    #[inline]
    pub fn step_stack(&mut self, bytes: i64) {
        let stack = &mut self.0[slots::STACK as usize];
        *stack = stack.wrapping_add(bytes as u64);
    }
}

const ENTRIES: usize = 1024;
/// Start of the kernel's direct map of physical memory without address randomisation
/// (Linux, `Documentation/arch/x86/x86_64/mm.rst`): its pages are predicted exactly.
const DIRECT_MAP_PAGE: u64 = 0xffff_8880_0000_0000 / PAGE_BYTES;

/// What a direct-mapped table remembers at one place: a virtual page, and what has to be added to a virtual address
/// on it to make the physical one.
#[derive(Debug, Clone, Copy)]
pub struct Translation {
    page: u64,
    /// Wrapping.
    distance: u64,
}

/// Beyond any page: nothing is remembered.
const NOTHING: Translation = Translation { page: u64::MAX, distance: 0 };

/// A direct-mapped table of virtual to physical page numbers.
#[derive(Debug, Clone)]
pub struct Translations {
    entries: Box<[Translation; ENTRIES]>,
}

impl Default for Translations {
    fn default() -> Self {
        Translations { entries: Box::new([NOTHING; ENTRIES]) }
    }
}

impl Translations {
    #[inline]
    fn slot(page: u64) -> usize {
        (page ^ (page >> 10) ^ (page >> 24)) as usize % ENTRIES
    }

    /// The physical page remembered for `page`.
    #[inline]
    pub fn get(&self, page: u64) -> Option<u64> {
        let Translation { page: remembered, distance } = self.entries[Self::slot(page)];
        (remembered == page).then(|| page.wrapping_mul(PAGE_BYTES).wrapping_add(distance) / PAGE_BYTES)
    }

    /// The physical address for `size` bytes at `address`, if they lie on one page and it is remembered.
    #[inline]
    pub fn within_page(&self, address: u64, size: u8) -> Option<u64> {
        let page = address / PAGE_BYTES;
        let Translation { page: remembered, distance } = self.entries[Self::slot(page)];
        let last = address.wrapping_add(u64::from(size)).wrapping_sub(1) / PAGE_BYTES;
        // One branch for both.
        ((remembered ^ page) | (last ^ page) == 0).then(|| address.wrapping_add(distance))
    }

    /// Remembers a translation.
    #[inline]
    pub fn set(&mut self, page: u64, physical: u64) {
        let distance = physical.wrapping_sub(page).wrapping_mul(PAGE_BYTES);
        self.entries[Self::slot(page)] = Translation { page, distance };
    }

    /// Forgets the translation of `page`, if it is the one remembered.
    pub fn forget(&mut self, page: u64) {
        let entry = &mut self.entries[Self::slot(page)];
        if entry.page == page {
            *entry = NOTHING;
        }
    }

    /// The physical page to expect when nothing is remembered.
    #[inline]
    pub fn expected(page: u64) -> u64 {
        page.wrapping_sub(DIRECT_MAP_PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_translated_at_once_only_within_a_page_that_is_remembered() {
        let mut translations = Translations::default();
        let (low, top) = (7, u64::MAX / PAGE_BYTES);
        assert_eq!(translations.within_page(low * PAGE_BYTES, 1), None);
        for (page, physical) in [(low, 0x12_3456), (top, 3)] {
            translations.set(page, physical);
            assert_eq!(translations.get(page), Some(physical));
            let (first, to) = (page * PAGE_BYTES, physical * PAGE_BYTES);
            assert_eq!(translations.within_page(first + 4088, 8), Some(to + 4088));
            assert_eq!(translations.within_page(first + 4089, 8), None, "it reaches a second page");
        }
        // At the same place of the table.
        assert_eq!(translations.within_page((low + (1 << 20) + (1 << 10)) * PAGE_BYTES, 1), None);
        translations.forget(low);
        assert_eq!(translations.within_page(low * PAGE_BYTES, 1), None);
    }
}
