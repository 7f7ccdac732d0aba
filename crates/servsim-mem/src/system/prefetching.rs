//! Copies that were fetched before they were asked for: how they come and what becomes of them.
//!
//! A prefetch is no miss and touches no word: the class of a miss that it saves is never known. It counts
//! as a copy that this cache held (a later miss is not cold), it is not in the shadow until it is used,
//! and what was known of an earlier, invalidated copy is forgotten.

use super::{Access, CoherentSystem, Outcome, Page};
use crate::array::PREFETCHED;
use crate::copy_index::{with_cache_set, Indexed};
use crate::observer::Observer;
use crate::prefetch::Trigger;
use crate::protocol::INVALID;
use crate::shadow::NOWHERE;
use crate::words::WordMask;
use servsim_core::CacheId;

servsim_core::counters! {
    /// What became of prefetches. Those neither used nor useless lie in the caches.
    pub struct PrefetchCounters {
        issued: u64 = "prefetch.issued" [], "lines", Parts, [summary], "Bus reads that prefetchers made";
        useful: u64 = "prefetch.useful" [], "lines", Parts, [summary], "Prefetched copies that a reference used";
        useless: u64 = "prefetch.useless" [], "lines", Parts, [summary],
            "Prefetched copies evicted or invalidated without a use";
    }
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// Fetches the line of `access`, a load that touches nothing, if this cache has no copy.
    pub fn prefetch(&mut self, access: &Access<W, CacheId>, page: Page) -> Option<Outcome> {
        with_cache_set!(self.copies, self.prefetch_on(access, page))
    }

    fn prefetch_on<S: Indexed>(&mut self, access: &Access<W, CacheId>, page: Page) -> Option<Outcome> {
        let found = self.arrays[access.at].find(access.line);
        if found.is_some_and(|index| self.arrays[access.at].frames[index].state != INVALID) {
            return None;
        }
        let op = self.cells.request(INVALID, false)?.op;
        let private = page.private && self.table.uses_private;
        self.history.keep(access.line, access.step(page.private));
        let place = found.unwrap_or_else(|| self.make_room(access));
        let listed = self.copies.place_of(access.line);
        let mut record = self.copies.record::<S>(listed);
        let mode = usize::from(access.kernel);
        let counters = &mut self.counters[access.at];
        counters.bus[mode][op as usize] += 1;
        self.prefetches.issued += 1;
        let mut outcome = Outcome { op: Some(op), done: true, ..Outcome::default() };
        let lines = self.snoop(access, &mut record, op, private, &mut outcome);
        let next = self.next_state(INVALID, false, lines, private);
        self.counters[access.at].cache_to_cache[mode][0] += u64::from(outcome.from_cache);
        if let Some(index) = found {
            self.note_last_use(access.at, index);
            let array = &mut self.arrays[access.at];
            array.frames[index].flags = 0;
            array.cold[index].forget_new_words();
        }
        self.take_frame(access, (&mut record, listed), (found, place), page, &mut outcome);
        self.copies.set_record(listed, &record);
        let array = &mut self.arrays[access.at];
        array.cold[place].shadow = NOWHERE;
        let frame = &mut array.frames[place];
        frame.flags |= PREFETCHED;
        frame.state = next;
        frame.user = 0;
        self.tell(access, access.at, access.line, INVALID, access.event(Some(op)), next);
        Some(outcome)
    }

    /// Something is to be done about the copy that the access uses, because of its flags.
    #[cold]
    pub(super) fn first_use(&mut self, access: &Access<W, CacheId>, index: usize) {
        let frame = &mut self.arrays[access.at].frames[index];
        if frame.flags & PREFETCHED != 0 {
            frame.flags &= !PREFETCHED;
            self.prefetches.useful += 1;
            self.trigger = Some((Trigger::FirstUse, access.line));
        }
    }
}
