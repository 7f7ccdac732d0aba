//! What processors are known to do before anybody acts. Where several run at once, one of them goes on alone only as far
//! as it is known that the others hit: so the next records of these are looked up ahead, and performed when their turn comes or when
//! something happens that they have to lie before. A hit that was foreseen stays one until somebody else asks for
//! its line ([`Engine::settle_holders`]) or may interrupt its processor ([`Engine::settle`]).

use super::engine::Engine;
use super::port::MemoryPort;
use super::processor::Context;
use servsim_core::{CpuId, LineAddr, ProcessorSet, Record};
use servsim_mem::{Few, RunCounts, WordMask};

/// References that are looked up at a time.
const LOOK: u64 = 64;
/// Cycles for which it pays to let one processor go on alone.
const ENOUGH: u64 = 64;

/// Plain hits that a processor makes from its position on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Foreseen {
    /// Whether anything is known: if not, the rest says nothing.
    pub known: bool,
    /// What comes behind is no plain hit, or is for the processor itself to see.
    pub ends: bool,
    records: usize,
    references: u64,
    /// When the first record behind them begins.
    time: u64,
}

impl<W: WordMask> MemoryPort<W> {
    /// How far [`MemoryPort::run_hits`] would come, at least. Nothing of it is performed.
    #[inline]
    pub(super) fn foresee_hits(&mut self, cpu: CpuId, records: (&[Record], u64)) -> Few {
        self.caches.run_few_hits::<false>(cpu, self.shift(), records, &mut RunCounts::default())
    }

    /// Whether what a processor would hit now it still hits after a transaction of another, but for the line of that
    /// transaction.
    pub(super) fn keeps_other_lines(&self) -> bool {
        !self.caches.takes_other_lines() && !self.interconnect.moves_pages()
    }
}

impl<W: WordMask> Engine<'_, W> {
    /// When `cpu` is known to do something else than to hit, or may; `u64::MAX` while it waits.
    #[inline]
    pub(super) fn next_time(&self, cpu: CpuId) -> u64 {
        let foreseen = &self.foreseen[cpu.0];
        if foreseen.known {
            foreseen.time
        } else {
            self.processors[cpu].next_time()
        }
    }

    /// The last moment, `last` at most, at which `cpu` may begin a record before it is another's turn; it is first, at `first`.
    /// If it `looks`, it looks ahead of others that are near.
    #[inline]
    pub(super) fn alone_until(&mut self, cpu: CpuId, first: u64, last: u64, looks: bool) -> u64 {
        #[cfg(test)]
        if super::stepping::is_one_by_one() {
            return first;
        }
        let enough = last.min(first.saturating_add(ENOUGH));
        loop {
            let Some((other, time)) = self.next_times.nth(1) else { return last };
            // At one time that of the lower number comes first.
            let until = last.min(if cpu.0 < other { time } else { time - 1 });
            if !looks || until >= enough || !self.look_ahead(CpuId(other)) {
                return until;
            }
        }
    }

    /// Looks further ahead of `cpu`; whether it is known to hit for longer than before.
    fn look_ahead(&mut self, cpu: CpuId) -> bool {
        let Foreseen { known, ends, records: foreseen, references, .. } = self.foreseen[cpu.0];
        if ends || !self.foresees || !known && !self.is_foreseeable(cpu) {
            return false;
        }
        let processor = &self.processors[cpu];
        let Some(Context::Task(task)) = processor.context else { return false };
        let stream = &self.software.streams[task as usize];
        let records = &stream.batch.records[stream.position..];
        let most = LOOK.min(processor.slice.saturating_sub(references));
        let few = match records.get(foreseen) {
            // A run is of one task.
            Some(next) if next.task == records[0].task => {
                self.port.foresee_hits(cpu, (&records[foreseen..], most))
            }
            _ => Few::default(),
        };
        let references = references + few.made;
        let time = self.processors[cpu].time + self.model.cycles_per_reference.0 * references;
        let (ends, records) = (few.made < LOOK, foreseen + few.performed);
        self.foreseen[cpu.0] = Foreseen { known: true, ends, records, references, time };
        self.next_times.set(cpu.0, time);
        few.made > 0
    }

    /// Whether what `cpu` does next is known as far as it hits. What it does while stores wait depends on when these return.
    fn is_foreseeable(&self, cpu: CpuId) -> bool {
        self.only_hits(cpu) && self.processors[cpu].stores.is_empty()
    }

    /// Performs what is foreseen of `cpu` and begins up to `until`.
    fn perform_foreseen(&mut self, cpu: CpuId, until: u64) {
        let from = self.processors[cpu].time;
        if self.foreseen[cpu.0].known && from <= until {
            let pace = self.pace(until);
            let (records, references) = self.hit(cpu, &pace);
            let foreseen = &mut self.foreseen[cpu.0];
            foreseen.records -= records;
            foreseen.references -= references;
            self.account(cpu);
        }
    }

    /// The same of all processors: something is read that they change.
    pub(super) fn perform_all_foreseen(&mut self, until: u64) {
        CpuId::all(self.foreseen.len()).for_each(|cpu| self.perform_foreseen(cpu, until));
    }

    /// Performs what is foreseen of `cpu` and begins up to `until`; nothing of it is known any more.
    fn settle_one(&mut self, cpu: CpuId, until: u64) {
        self.perform_foreseen(cpu, until);
        if std::mem::take(&mut self.foreseen[cpu.0]).known {
            self.stale.insert(cpu);
        }
    }

    /// The same of all up to `until`: something happens that may concern any of them.
    pub(super) fn settle(&mut self, until: u64) {
        CpuId::all(self.foreseen.len()).for_each(|cpu| self.settle_one(cpu, until));
    }

    /// The same, of what comes before `cpu` does something of that kind at `now`.
    pub(super) fn settle_before(&mut self, cpu: CpuId, now: u64) {
        for other in CpuId::all(self.foreseen.len()) {
            self.settle_one(other, if other < cpu { now } else { now.saturating_sub(1) });
        }
    }

    /// The same of those that have `line`, before a transaction of `cpu` that is granted at `granted`.
    pub(super) fn settle_holders(&mut self, cpu: CpuId, line: LineAddr, granted: u64) {
        if !self.foresees {
            return;
        }
        let mut holders = ProcessorSet::default();
        self.port.caches.system.for_each_holder(line, |holder| holders.insert(holder));
        while let Some(holder) = holders.take_first() {
            if holder != cpu {
                self.settle_one(holder, granted);
            }
        }
    }
}
