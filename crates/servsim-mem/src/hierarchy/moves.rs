//! A page that moves in memory has another address there: what caches hold of its lines is lost.

use super::Hierarchy;
use crate::observer::Observer;
use crate::words::WordMask;
use servsim_core::{CpuId, LineAddr};

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// Takes `line` from the caches of the processors that `concerned` says, those of their core groups included: how many
    /// copies there were, and the processor (of a group's level the group's first) whose copy memory lacked, if one did.
    pub fn take_away(&mut self, line: LineAddr, concerned: impl Fn(CpuId) -> bool) -> (u64, Option<CpuId>) {
        let (mut copies, mut dirty) = (0, None);
        while let Some(cache) =
            self.system.first_holder(line, |cache| concerned(self.system.processor_of(cache)))
        {
            if let Some(domain) = self.domains.get_mut(cache.0) {
                domain.levels.iter_mut().for_each(|level| {
                    level.erase(line);
                });
            }
            if self.system.take_away(cache, line) {
                dirty = Some(self.system.processor_of(cache));
            }
            copies += 1;
        }
        for (group, shared) in self.shared.iter_mut().enumerate() {
            if !concerned(self.groups.first_of(group)) {
                continue;
            }
            for written in shared.levels.iter_mut().filter_map(|level| level.erase(line)) {
                copies += 1;
                self.groups.placed(group, line, false);
                if written {
                    shared.memory_writes += 1;
                    dirty = dirty.or(Some(self.groups.first_of(group)));
                }
            }
        }
        (copies, dirty)
    }
}
