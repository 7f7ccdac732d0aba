//! What becomes of prefetches. A prefetch asks for its grant behind everything that processors
//! wait for and before write-backs, and needs one of the fetches that a cache may have under way. At the
//! grant it is made only if the processor still lacks the line. At most `outstanding_misses` of them wait;
//! what comes then is dropped. A reference to a line on its way waits until the data are there: a late
//! prefetch.

use super::pending::Pending;
use super::port::MemoryPort;
use super::processor::Processor;
use servsim_core::reference::CONTINUATION;
use servsim_core::{CpuId, LineAddr, Privacy, Record};
use servsim_mem::{BusRequest, Class, Origin, WordMask};

impl<W: WordMask> Processor<W> {
    /// Waits for the data of a line that was prefetched and is on its way; whether it did.
    pub(super) fn waits_for_prefetch(&mut self, line: LineAddr, slot: usize) -> bool {
        let Some(prefetching) = &mut self.prefetching else { return false };
        let Some(until) = prefetching.arrival(line, self.time) else { return false };
        prefetching.late += 1;
        let from = std::mem::replace(&mut self.time, until);
        self.stall(from, until, false, Some(slot));
        true
    }

    /// What prefetch `number`, whose request waits, asks for.
    pub(super) fn prefetch_waiting(&self, number: u64) -> Option<Pending<W>> {
        let waiting = &self.prefetching.as_ref()?.waiting;
        waiting.iter().find(|&&(other, _)| other == number).map(|&(_, pending)| pending)
    }

    /// The request of prefetch `number` is granted: what it asks for.
    pub(super) fn prefetch_granted(&mut self, number: u64) -> Option<Pending<W>> {
        let waiting = &mut self.prefetching.as_mut()?.waiting;
        let place = waiting.iter().position(|&(other, _)| other == number)?;
        Some(waiting.remove(place).1)
    }

    /// The data of a prefetched line arrive at `complete`.
    pub(super) fn prefetch_arrives(&mut self, line: LineAddr, complete: u64) {
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.on_their_way.push((line, complete));
        }
    }

    /// Part of `record` was performed, the first if `first`.
    pub(super) fn performed(&mut self, cpu: CpuId, record: &Record, first: bool, privacy: &Privacy) {
        if let (Some(prefetching), true) = (&mut self.prefetching, first) {
            if record.flags & CONTINUATION == 0 {
                prefetching.referenced(cpu, record, privacy);
            }
        }
    }

    /// The caches told of a miss or a first use by the access of `pending`.
    pub(super) fn prefetch_after(&mut self, told: LineAddr, pending: &Pending<W>) {
        if let (Some(prefetching), true) = (&mut self.prefetching, told == pending.access.line) {
            prefetching.triggered(pending);
        }
    }
}

impl<W: WordMask> MemoryPort<W> {
    /// The access of `pending` was performed; what it leads to is posted at `ready`.
    pub(super) fn after_access(
        &mut self,
        cpu: CpuId,
        processor: &mut Processor<W>,
        pending: &Pending<W>,
        ready: u64,
    ) {
        if let Some(line) = self.take_trigger() {
            if !processor.is_walking() {
                processor.prefetch_after(line, pending);
            }
        }
        self.post_prefetches(cpu, processor, ready);
    }

    /// Posts what the prefetcher of `processor` wishes.
    pub(super) fn post_prefetches(&mut self, cpu: CpuId, processor: &mut Processor<W>, ready: u64) {
        let Some(prefetching) = &mut processor.prefetching else { return };
        while let Some(pending) = prefetching.wishes.pop_front() {
            let line = pending.access.line;
            let asked = prefetching.waiting.iter().any(|(_, other)| other.access.line == line);
            let full = prefetching.waiting.len() >= self.most_prefetches;
            if asked || full || self.needed(&pending.access).is_none() {
                continue;
            }
            prefetching.made += 1;
            prefetching.waiting.push((prefetching.made, pending));
            let origin = Origin::Prefetch(prefetching.made);
            self.interconnect.post(BusRequest { cpu, ready, line, class: Class::Prefetch, origin });
        }
    }
}
