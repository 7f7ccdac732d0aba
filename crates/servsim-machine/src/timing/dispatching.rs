//! Which task or interrupt handler a processor runs, and what becomes of it when it cannot go on.

use super::engine::Engine;
use super::processor::{Context, Wait};
use crate::error::SimulateError;
use servsim_core::TaskId;
use servsim_mem::{BusRequest, Class, Origin, WordMask};

impl<W: WordMask> Engine<'_, W> {
    /// Gives a handler to an idle processor, or to the one interrupted longest ago.
    pub(super) fn trigger(&mut self, index: usize, now: u64) {
        self.waiting_for[index] = None;
        let rank = |&cpu: &usize| {
            let processor = &self.processors[cpu];
            (processor.wait != Wait::Task, processor.last_interrupt)
        };
        let cpu = (0..self.processors.len()).min_by_key(rank).unwrap_or(0);
        let processor = &mut self.processors[cpu];
        processor.last_interrupt = now;
        processor.handlers.push_back(index);
        if processor.wait == Wait::Task {
            self.leave_idle(cpu, now);
        }
    }

    pub(super) fn enter_handler(&mut self, cpu: usize) {
        let processor = &mut self.processors[cpu];
        let busy = processor.is_within_record()
            || processor.is_walking()
            || matches!(processor.context, Some(Context::Interrupt(_)));
        if processor.handlers.is_empty() || busy || self.is_masked(cpu) {
            return;
        }
        let processor = &mut self.processors[cpu];
        if let Some(index) = processor.handlers.pop_front() {
            processor.interrupted = match processor.context {
                Some(Context::Task(task)) => Some(task),
                _ => None,
            };
            processor.context = Some(Context::Interrupt(index));
            processor.handler_position = 0;
            processor.change_context();
            processor.saved_slice = processor.slice;
            processor.slice = u64::MAX;
        }
    }

    pub(super) fn make_ready(&mut self, task: TaskId, now: u64) {
        self.count_active(now, 1);
        let idle: Vec<usize> =
            (0..self.processors.len()).filter(|&cpu| self.processors[cpu].wait == Wait::Task).collect();
        if idle.is_empty() {
            self.scheduler.make_ready(task);
            return;
        }
        let cpu = self.scheduler.choose_idle(task, &idle);
        self.scheduler.place(task, cpu);
        self.leave_idle(cpu, now);
        self.begin_task(cpu, task);
    }

    pub(super) fn begin_task(&mut self, cpu: usize, task: TaskId) {
        let processor = &mut self.processors[cpu];
        processor.context = Some(Context::Task(task));
        processor.slice = self.model.time_slice;
        processor.change_context();
        self.recorder.begin(cpu, task, processor.time);
        self.caches.system.run_task(cpu, task);
        for (cpu, line) in std::mem::take(&mut self.caches.system.flushed) {
            let (ready, class) = (self.processors[cpu].time, Class::WriteBack);
            self.bus.post(BusRequest { cpu, ready, line, class, origin: Origin::Processor });
        }
    }

    /// The processor has nothing to run: it takes a ready task or becomes idle.
    pub(super) fn dispatch(&mut self, cpu: usize) {
        self.processors[cpu].context = None;
        self.recorder.end(cpu, self.processors[cpu].time);
        if let Some(task) = self.scheduler.dispatch(cpu) {
            self.begin_task(cpu, task);
            return;
        }
        let processor = &mut self.processors[cpu];
        if processor.handlers.is_empty() {
            processor.wait = Wait::Task;
            processor.since = processor.time;
        }
    }

    pub(super) fn leave_idle(&mut self, cpu: usize, now: u64) {
        self.moved |= 1 << cpu;
        let processor = &mut self.processors[cpu];
        processor.times.idle += now - processor.since;
        processor.time = now;
        processor.wait = Wait::Nothing;
    }

    pub(super) fn end_slice(&mut self, cpu: usize, context: Context) {
        let Context::Task(task) = context else { return };
        if self.extends_slice(cpu) {
            return;
        }
        if self.scheduler.ready() > 0 {
            self.scheduler.make_ready(task);
            self.dispatch(cpu);
        } else {
            self.processors[cpu].slice = self.model.time_slice;
        }
    }

    /// Loads further records, or ends the task or handler; `false` when it ended.
    pub(super) fn refill(&mut self, cpu: usize, context: Context) -> Result<bool, SimulateError> {
        match context {
            Context::Task(task) => {
                if self.streams[task as usize].refill()? {
                    return Ok(true);
                }
                if !self.drain(cpu) {
                    return Ok(false);
                }
                self.leave_locks(cpu, context, true);
                self.leave(cpu);
            }
            Context::Interrupt(_) => {
                self.leave_locks(cpu, context, true);
                let processor = &mut self.processors[cpu];
                processor.slice = processor.saved_slice;
                processor.change_context();
                processor.context = processor.interrupted.take().map(Context::Task);
                if processor.context.is_none() && processor.handlers.is_empty() {
                    self.dispatch(cpu);
                }
            }
        }
        Ok(false)
    }

    /// The running task cannot go on.
    pub(super) fn leave(&mut self, cpu: usize) {
        let now = self.processors[cpu].time;
        if let Some(context) = self.processors[cpu].context {
            self.leave_locks(cpu, context, false);
        }
        self.count_active(now, -1);
        self.dispatch(cpu);
    }

    pub(super) fn count_active(&mut self, now: u64, change: i64) {
        let now = now.max(self.active_since);
        if self.io.is_some() {
            let instructions = self.instructions();
            self.task_levels.note(self.active, now, instructions, change < 0);
            self.user_states.note(now);
        }
        self.active_integral += u128::from(self.active) * u128::from(now - self.active_since);
        self.active_since = now;
        self.active = self.active.wrapping_add_signed(change);
        self.most_active = self.most_active.max(self.active);
    }
}
