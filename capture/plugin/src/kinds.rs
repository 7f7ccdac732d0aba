//! Size and direction of an access: the emulator tells them of a word of its own, the same word always the same. There are
//! a few dozen such words, so that it is asked once for each, not at every access.

use crate::block::AccessKind;
use crate::ffi::{self, MemInfo};

const ENTRIES: usize = 256;

/// A direct-mapped table of words that the emulator was asked about.
pub struct Kinds {
    entries: Box<[(MemInfo, AccessKind); ENTRIES]>,
}

impl Kinds {
    /// Knows one word, so that no entry is empty.
    pub fn new() -> Self {
        Kinds { entries: Box::new([(0, ask(0)); ENTRIES]) }
    }

    /// Size and direction of an access.
    #[inline]
    pub fn of(&mut self, info: MemInfo) -> AccessKind {
        let entry = &mut self.entries[(info ^ info >> 8 ^ info >> 16) as usize % ENTRIES];
        if entry.0 != info {
            *entry = (info, ask(info));
        }
        entry.1
    }
}

#[cold]
fn ask(info: MemInfo) -> AccessKind {
    // SAFETY: pure functions of the emulator.
    unsafe { AccessKind::new(ffi::qemu_plugin_mem_size_shift(info), ffi::qemu_plugin_mem_is_store(info)) }
}
