//! Turns of processors, one after another. Where several run at once, each goes but a few cycles before it is another's
//! turn, mostly through plain hits: nobody sees these, nor what they count, so nothing is looked at between such turns that
//! only other things change, and they are counted when something else comes.

use super::engine::{Engine, ROUNDS_PER_COUNT};
use super::processor::{Context, Processor};
use super::stepping::runs::{run_at_fixed_pace, takes_runs};
use super::stop::Pace;
use crate::error::SimulateError;
use servsim_core::{CpuId, ProcessorSet};
use servsim_mem::WordMask;

impl<W: WordMask> Engine<'_, W> {
    /// Gives processors their turns up to the one that does something else than to hit, the next of the
    /// timed events at `event` or grant at `grant`, and `most` in all; how many there were.
    pub(super) fn turns(&mut self, event: u64, grant: u64, most: u64) -> Result<u64, SimulateError> {
        // Of things of one moment, events come first and grants last.
        let last = grant.min(event - 1).min(self.accounts.measure.last_of_window()).min(self.last_to_count());
        let mut had_turns = ProcessorSet::default();
        let (mut pace, mut count) = (self.pace(0), 1);
        let other = loop {
            let Some((cpu, first)) = self.next_times.nth(0) else { break None };
            let cpu = CpuId(cpu);
            self.now = self.now.max(first);
            let foreseen = std::mem::take(&mut self.foreseen[cpu.0]);
            let may_hit = foreseen.known || self.only_hits(cpu);
            let limit = self.alone_until(cpu, first, last, may_hit && !foreseen.ends);
            if may_hit {
                had_turns.insert(cpu);
                pace.limit = limit;
                self.hit(cpu, &pace);
            }
            if !may_hit || self.processors[cpu].time <= limit {
                break Some((cpu, limit, may_hit));
            }
            let time = self.processors[cpu].time;
            self.next_times.set(cpu.0, time);
            if count == most || self.next_times.time() > last {
                break None;
            }
            count += 1;
        };
        while let Some(cpu) = had_turns.take_first() {
            self.account(cpu);
        }
        if let Some((cpu, limit, ran)) = other {
            let (limit, sync) = self.limits_of(limit, event.min(grant));
            self.run_processor(cpu, limit, sync, ran)?;
        }
        Ok(count)
    }

    /// Up to when less references are made than are left of a window that these bound.
    fn last_to_count(&self) -> u64 {
        let left = self.accounts.measure.references_left();
        let share = left / (2 * ROUNDS_PER_COUNT * self.processors.len() as u64);
        self.next_times.time().saturating_add(share.saturating_mul(self.model.cycles_per_reference.0))
    }

    /// How far the first of all runs that goes on alone until `alone`, and how far it may do what others must see in
    /// order, before what happens at `bound`. One with a core runs ahead of the others as far as no grant can change what it sees.
    fn limits_of(&self, alone: u64, bound: u64) -> (u64, u64) {
        if self.model.core.is_none() {
            return (alone, alone);
        }
        let second = self.next_times.nth(1).map_or(u64::MAX, |(_, time)| time);
        (bound.min(self.port.earliest_grant().max(second)), bound.min(second))
    }

    /// Whether `cpu` runs a task through references of a fixed time that hit, if they do.
    #[inline]
    pub(super) fn only_hits(&self, cpu: CpuId) -> bool {
        let processor: &Processor<W> = &self.processors[cpu];
        let is_plain = processor.core.is_none()
            && processor.offset == 0
            && processor.spinning.is_none()
            && processor.shootdowns.0 == 0;
        is_plain
            && matches!(processor.context, Some(Context::Task(_)))
            && takes_runs(processor)
            && !self.software.handlers.wait_for(cpu)
    }

    /// Runs `cpu` through hits at `pace`; of how many records, and how many references these stand for.
    #[inline]
    pub(super) fn hit(&mut self, cpu: CpuId, pace: &Pace) -> (usize, u64) {
        let Some(Context::Task(task)) = self.processors[cpu].context else { return (0, 0) };
        let stream = &self.software.streams[task as usize];
        let Some(first) = stream.batch.records.get(stream.position) else { return (0, 0) };
        // Handlers run within streams.
        if self.unaccounted[cpu.0].is_of_another(first) {
            self.account(cpu);
        }
        let stream = &mut self.software.streams[task as usize];
        let records = (&stream.batch.records[stream.position..], self.software.privacy);
        let (processor, unaccounted) = (&mut self.processors[cpu], &mut self.unaccounted[cpu.0]);
        if let Some(history) = &mut processor.history {
            history.forget_before(self.now);
        }
        let (performed, made) = run_at_fixed_pace(cpu, processor, &mut self.port, records, pace, unaccounted);
        stream.position += performed;
        (performed, made)
    }

    /// Counts what `cpu` did in its turns.
    pub(super) fn account(&mut self, cpu: CpuId) {
        let unaccounted = std::mem::take(&mut self.unaccounted[cpu.0]);
        let (processor, cycles) = (&mut self.processors[cpu], self.model.cycles_per_reference);
        unaccounted.charge(cpu, processor, &mut self.port, &mut self.accounts.task_references, cycles);
    }
}
