//! Which task or interrupt handler a processor runs, and what becomes of it when it cannot go on.

use super::engine::Engine;
use super::processor::{Context, Wait};
use crate::error::SimulateError;
use crate::software::{Executor, Software};
use servsim_core::{CpuId, TaskId};
use servsim_mem::WordMask;

/// References that a task goes on for when its slice ends while it holds a kernel spinlock.
const SLICE_GRAIN: u64 = 64;

impl<'a, W: WordMask> Executor<'a> for Engine<'a, W> {
    fn software(&mut self) -> &mut Software<'a> {
        &mut self.software
    }

    fn refill(&mut self, task: TaskId) -> Result<bool, SimulateError> {
        Ok(self.software.streams[task as usize].refill()?)
    }

    fn goes_on_elsewhere(&mut self, task: TaskId, now: u64) -> bool {
        let goes = self.is_elsewhere(task);
        if goes {
            self.go_on_elsewhere(task, now);
        }
        goes
    }

    fn is_idle(&self, cpu: CpuId) -> bool {
        self.processors[cpu].wait == Wait::Task
    }

    fn count_ready(&mut self, now: u64) {
        self.count_active(now, 1);
    }

    fn start(&mut self, cpu: CpuId, task: TaskId, now: u64) {
        self.leave_idle(cpu, now);
        self.begin_task(cpu, task);
    }

    fn interrupted(&mut self, cpu: CpuId, now: u64) {
        if self.is_idle(cpu) {
            self.leave_idle(cpu, now);
        }
    }

    fn extends_slice(&mut self, cpu: CpuId) -> bool {
        let masked = self.is_masked(cpu);
        if masked {
            self.processors[cpu].slice = SLICE_GRAIN;
        }
        masked
    }

    fn dispatch(&mut self, cpu: CpuId) {
        self.charge_work(cpu);
        self.processors[cpu].context = None;
        self.accounts.recorder.end(cpu, self.processors[cpu].time);
        if let Some(task) = self.software.scheduler.dispatch(cpu) {
            self.begin_task(cpu, task);
            return;
        }
        if !self.software.handlers.wait_for(cpu) {
            let processor = &mut self.processors[cpu];
            processor.wait = Wait::Task;
            processor.since = processor.time;
        }
    }

    fn renew_slice(&mut self, cpu: CpuId) {
        self.processors[cpu].slice = self.model.time_slice;
    }

    fn processors(&self) -> usize {
        self.processors.len()
    }

    fn come_to_rest(&mut self) -> u64 {
        self.now = self.processors.iter().map(|processor| processor.time).fold(self.now, u64::max);
        self.now
    }
}

impl<W: WordMask> Engine<'_, W> {
    /// Interrupts what `cpu` does for a handler that waits for it, if that can be.
    pub(super) fn enter_handler(&mut self, cpu: CpuId) {
        let processor = &mut self.processors[cpu];
        let busy = processor.is_within_record() || processor.is_walking() || processor.is_in_handler();
        if busy || self.is_masked(cpu) {
            return;
        }
        if let Some(index) = self.software.handlers.next(cpu) {
            self.charge_work(cpu);
            let processor = &mut self.processors[cpu];
            processor.interrupted = match processor.context {
                Some(Context::Task(task)) => Some(task),
                _ => None,
            };
            processor.context = Some(Context::Interrupt(index));
            processor.handler_position = 0;
            processor.saved_slice = processor.slice;
            processor.slice = u64::MAX;
            self.change_context(cpu);
        }
    }

    pub(super) fn begin_task(&mut self, cpu: CpuId, task: TaskId) {
        let processor = &mut self.processors[cpu];
        processor.context = Some(Context::Task(task));
        processor.slice = self.model.time_slice;
        self.change_context(cpu);
        self.accounts.recorder.begin(cpu, task, self.processors[cpu].time);
        let Self { port, processors, .. } = self;
        port.run_task(cpu, task, |cpu| processors[cpu].time);
    }

    /// `cpu` executes something else from now on.
    fn change_context(&mut self, cpu: CpuId) {
        let processor = &mut self.processors[cpu];
        processor.change_context();
        if std::mem::take(&mut processor.repeats_store) {
            self.port.caches.forget_counted_ahead(cpu);
        }
    }

    /// What `cpu` worked since this was asked last was for the context that it executes now.
    pub(super) fn charge_work(&mut self, cpu: CpuId) {
        let work = self.processors[cpu].times.work();
        let since = work - std::mem::replace(&mut self.accounts.charged[cpu.0], work);
        let task = match self.processors[cpu].context {
            Some(Context::Task(task)) => Some(task),
            Some(Context::Interrupt(index)) => {
                self.software.interrupts[index].batch.records.first().map(|record| record.task)
            }
            None => None,
        };
        if let Some(task) = task {
            self.accounts.task_work[task as usize] += since;
        }
    }

    pub(super) fn leave_idle(&mut self, cpu: CpuId, now: u64) {
        self.stale.insert(cpu);
        let processor = &mut self.processors[cpu];
        processor.settle(now);
        processor.time = now;
        processor.wait = Wait::Nothing;
    }

    /// Loads further records, or ends the task or handler; `false` when it ended.
    pub(super) fn next_records(&mut self, cpu: CpuId, context: Context) -> Result<bool, SimulateError> {
        match context {
            Context::Task(task) => {
                if self.software.streams[task as usize].refill()? {
                    return Ok(true);
                }
                if !self.drain(cpu) {
                    return Ok(false);
                }
                self.leave_locks(cpu, context, true);
                self.leave(cpu);
            }
            Context::Interrupt(_) => {
                self.charge_work(cpu);
                self.leave_locks(cpu, context, true);
                let processor = &mut self.processors[cpu];
                processor.slice = processor.saved_slice;
                processor.context = processor.interrupted.take().map(Context::Task);
                self.change_context(cpu);
                if self.processors[cpu].context.is_none() && !self.software.handlers.wait_for(cpu) {
                    self.dispatch(cpu);
                }
            }
        }
        Ok(false)
    }

    /// The running task cannot go on.
    pub(super) fn leave(&mut self, cpu: CpuId) {
        let now = self.processors[cpu].time;
        if let Some(context) = self.processors[cpu].context {
            self.leave_locks(cpu, context, false);
        }
        self.count_active(now, -1);
        self.dispatch(cpu);
    }

    pub(super) fn count_active(&mut self, now: u64, change: i64) {
        if self.io.is_some() {
            let (at, instructions) = (now.max(self.accounts.active_since), self.instructions());
            self.accounts.task_levels.note(self.accounts.active, at, instructions, change < 0);
            self.accounts.user_states.note(at);
        }
        self.accounts.count_active(now, change);
    }
}
