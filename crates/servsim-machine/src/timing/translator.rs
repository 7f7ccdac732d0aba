//! Address translation of one processor: its TLBs and the walk under way. What it does to the
//! processor's time is in `walking.rs`.

use servsim_core::Cycles;
use servsim_mem::{Mmu, TlbSpec, Walk};

/// Times of address translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslationTimes {
    /// Of a hit in the second level.
    pub second: Cycles,
    /// Of a walk's reference, beside that of its miss.
    pub step: Cycles,
}

/// Address translation of one processor.
#[derive(Debug)]
pub struct Translator {
    /// The hardware.
    pub mmu: Mmu,
    /// The walk under way, and whether it is for a reference of the kernel.
    pub walk: Option<(Walk, bool)>,
    /// The page of the record at hand, where its next part lies, is translated.
    pub done: bool,
}

impl Translator {
    /// At the beginning of a run.
    pub fn new(spec: TlbSpec) -> Self {
        Self { mmu: Mmu::new(spec), walk: None, done: false }
    }

    /// The table entry that was waited for has been read.
    pub fn read(&mut self) {
        if let Some((walk, _)) = &mut self.walk {
            walk.advance();
            if walk.next_address().is_none() {
                self.walk = None;
                self.done = true;
            }
        }
    }
}
