//! Turns of processors, one after another. Where several run at once, each goes but a few cycles before it is another's
//! turn, mostly through plain hits: nobody sees these, nor what they count, so nothing is looked at between such turns that
//! only other things change, and they are counted when something else comes.

use super::engine::{Engine, Turn};
use super::processor::{Context, Processor};
use super::stepping::runs::{run_at_fixed_pace, takes_runs};
use super::stop::Pace;
use crate::error::SimulateError;
use servsim_core::{CpuId, ProcessorSet};
use servsim_mem::WordMask;

impl<W: WordMask> Engine<'_, W> {
    /// Gives processors their turns, from `turn` on, up to the one that does something else than to hit, the next of the
    /// timed events at `event` or grant at `grant`, and `most` in all; how many there were.
    pub(super) fn turns(
        &mut self,
        mut turn: Turn,
        event: u64,
        grant: u64,
        most: u64,
    ) -> Result<u64, SimulateError> {
        let (bound, free) = (event.min(grant), self.port.earliest_grant());
        let mut had_turns = ProcessorSet::default();
        let (mut pace, mut count) = (self.pace(0), 1);
        let other = loop {
            let Turn { cpu, first, second } = turn;
            self.now = self.now.max(first);
            let limit = bound.min(free.max(second));
            let may_hit = self.only_hits(cpu);
            if may_hit {
                had_turns.insert(cpu);
                pace.limit = limit;
                self.hit(cpu, &pace);
            }
            if !may_hit || self.processors[cpu].time <= limit {
                break Some((limit, may_hit));
            }
            self.next_times.postpone_first(self.processors[cpu].time);
            turn = self.next_turn();
            let is_next = turn.first <= grant && (event > grant || event > turn.first);
            if count == most || !is_next || self.accounts.measure.window_over(turn.first) {
                break None;
            }
            count += 1;
        };
        while let Some(cpu) = had_turns.take_first() {
            self.account(cpu);
        }
        if let Some((limit, ran)) = other {
            self.run_processor(turn.cpu, limit, bound.min(turn.second), ran)?;
        }
        Ok(count)
    }

    /// Whether `cpu` runs a task through references of a fixed time that hit, if they do.
    #[inline]
    fn only_hits(&self, cpu: CpuId) -> bool {
        let processor: &Processor<W> = &self.processors[cpu];
        let is_plain = processor.core.is_none()
            && !processor.has_more
            && processor.offset == 0
            && processor.spinning.is_none()
            && processor.shootdowns.0 == 0;
        is_plain
            && matches!(processor.context, Some(Context::Task(_)))
            && takes_runs(processor)
            && !self.software.handlers.wait_for(cpu)
    }

    /// Runs `cpu` through hits at `pace`.
    #[inline]
    fn hit(&mut self, cpu: CpuId, pace: &Pace) {
        let Some(Context::Task(task)) = self.processors[cpu].context else { return };
        let stream = &self.software.streams[task as usize];
        let Some(first) = stream.batch.records.get(stream.position) else { return };
        // Handlers run within streams.
        if self.unaccounted[cpu.0].is_of_another(first) {
            self.account(cpu);
        }
        let stream = &mut self.software.streams[task as usize];
        let records = (&stream.batch.records[stream.position..], self.software.privacy);
        let (processor, unaccounted) = (&mut self.processors[cpu], &mut self.unaccounted[cpu.0]);
        stream.position += run_at_fixed_pace(cpu, processor, &mut self.port, records, pace, unaccounted);
    }

    /// Counts what `cpu` did in its turns.
    fn account(&mut self, cpu: CpuId) {
        let unaccounted = std::mem::take(&mut self.unaccounted[cpu.0]);
        let (processor, cycles) = (&mut self.processors[cpu], self.model.cycles_per_reference.0);
        let tasks = &mut self.accounts.task_references;
        let [user, kernel] = unaccounted.count(cpu, processor, &mut self.port, tasks);
        processor.times.execute(false, cycles * user);
        processor.times.execute(true, cycles * kernel);
    }
}
