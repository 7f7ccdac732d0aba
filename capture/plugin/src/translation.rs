//! Remembered address translations, so that the emulator is asked once per page rather than once
//! per access. Invalidated as a processor's own translation buffer is: by writes to CR3 (user half)
//! and by `invlpg` and changes of control registers (everything). One access in 1,024 is checked
//! against the emulator, and disagreements are counted.

use crate::ffi;
use crate::operands::Flush;

const ENTRIES: usize = 8192;
const PAGE_BYTES: u64 = 4096;
/// Accesses to devices get physical pages above all memory (this bit of the page number).
const DEVICE_PAGE: u64 = 1 << 38;
const CHECK_EVERY: u64 = 1024;

/// A direct-mapped table of virtual to physical pages.
pub struct Translations {
    entries: Box<[(u64, u64)]>,
    user_generation: u64,
    accesses: u64,
    /// Accesses whose remembered translation was checked.
    pub checked: u64,
    /// Of these, found stale.
    pub stale: u64,
}

impl Translations {
    /// An empty table.
    pub fn new() -> Self {
        let entries = vec![(u64::MAX, 0); ENTRIES].into_boxed_slice();
        Translations { entries, user_generation: 0, accesses: 0, checked: 0, stale: 0 }
    }

    /// Kernel pages carry their number; user pages also the address-space generation.
    #[inline]
    fn tag(&self, page: u64) -> u64 {
        if page >> 51 == 0 {
            page | self.user_generation << 40
        } else {
            page
        }
    }

    #[inline]
    fn slot(page: u64) -> usize {
        (page ^ page >> 13) as usize % ENTRIES
    }

    /// The physical page of `page`, if remembered.
    #[inline]
    pub fn known(&self, page: u64) -> Option<u64> {
        let (tag, physical) = self.entries[Self::slot(page)];
        (tag == self.tag(page)).then_some(physical)
    }

    /// The physical page of an access that is just being made.
    #[inline]
    pub fn translate(&mut self, info: ffi::MemInfo, vaddr: u64) -> u64 {
        self.accesses += 1;
        match self.known(vaddr / PAGE_BYTES) {
            Some(physical) if self.accesses % CHECK_EVERY != 0 => physical,
            Some(physical) => self.check(info, vaddr, physical),
            None => self.ask_and_remember(info, vaddr),
        }
    }

    #[cold]
    fn check(&mut self, info: ffi::MemInfo, vaddr: u64, remembered: u64) -> u64 {
        self.checked += 1;
        let physical = self.ask_and_remember(info, vaddr);
        self.stale += u64::from(physical != remembered);
        physical
    }

    #[cold]
    fn ask_and_remember(&mut self, info: ffi::MemInfo, vaddr: u64) -> u64 {
        // SAFETY: called from the memory callback of this very access, as the interface demands.
        let physical = unsafe {
            let address = ffi::qemu_plugin_get_hwaddr(info, vaddr);
            if address.is_null() {
                return DEVICE_PAGE;
            }
            let page = ffi::qemu_plugin_hwaddr_phys_addr(address) / PAGE_BYTES;
            if ffi::qemu_plugin_hwaddr_is_io(address) {
                DEVICE_PAGE | page & (DEVICE_PAGE - 1)
            } else {
                page
            }
        };
        let page = vaddr / PAGE_BYTES;
        self.entries[Self::slot(page)] = (self.tag(page), physical);
        physical
    }

    /// Forgets what an instruction made stale.
    pub fn flush(&mut self, what: Flush) {
        self.user_generation = (self.user_generation + 1) % (1 << 23);
        // The generation has wrapped: nothing old may look current.
        if what == Flush::All || self.user_generation == 0 {
            self.entries.fill((u64::MAX, 0));
        }
    }
}
