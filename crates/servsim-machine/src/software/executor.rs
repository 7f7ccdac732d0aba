//! Whoever executes the software of a run: what it must offer, and what follows from that in every case.

use super::Software;
use crate::error::SimulateError;
use servsim_core::{CpuId, TaskId};

/// Processors that execute the software.
pub trait Executor<'a> {
    /// The software.
    fn software(&mut self) -> &mut Software<'a>;

    /// Loads further records of `task`; `false` at the end of its stream.
    ///
    /// # Errors
    /// When the trace is damaged or cannot be read.
    fn refill(&mut self, task: TaskId) -> Result<bool, SimulateError>;

    /// Whether a task that becomes ready can start on `cpu`.
    fn is_idle(&self, cpu: CpuId) -> bool;

    /// Whether `task` runs on another machine, where it goes on at `now`: no processor here is for it.
    fn goes_on_elsewhere(&mut self, _task: TaskId, _now: u64) -> bool {
        false
    }

    /// A task becomes ready at `now`.
    fn count_ready(&mut self, now: u64);

    /// `task` starts at `now` on `cpu`, which was idle.
    fn start(&mut self, cpu: CpuId, task: TaskId, now: u64);

    /// `cpu` got a handler to run at `now`.
    fn interrupted(&mut self, cpu: CpuId, now: u64);

    /// Whether the task of `cpu` must go on although its time slice is over; it has more of it then.
    fn extends_slice(&mut self, cpu: CpuId) -> bool;

    /// `cpu` takes a ready task, or becomes idle.
    fn dispatch(&mut self, cpu: CpuId);

    /// The task of `cpu` goes on for another time slice.
    fn renew_slice(&mut self, cpu: CpuId);

    /// Processors of the machine.
    fn processors(&self) -> usize;

    /// Lets time pass until the last processor is at rest; when that is.
    fn come_to_rest(&mut self) -> u64;

    /// Makes every task ready, and runs the handlers that wait for nothing.
    ///
    /// # Errors
    /// When the trace is damaged or cannot be read.
    fn begin_all(&mut self) -> Result<(), SimulateError> {
        for task in 0..self.software().streams.len() {
            if self.refill(task as TaskId)? {
                self.make_ready(task as TaskId, 0);
            }
        }
        for index in self.software().handlers.at_once() {
            self.trigger(index, 0);
        }
        Ok(())
    }

    /// `task` becomes ready at `now`: it starts on an idle processor or queues.
    fn make_ready(&mut self, task: TaskId, now: u64) {
        if self.goes_on_elsewhere(task, now) {
            return;
        }
        self.count_ready(now);
        let mut idle = std::mem::take(&mut self.software().idle);
        idle.clear();
        idle.extend(CpuId::all(self.processors()).filter(|&cpu| self.is_idle(cpu)));
        let Software { scheduler, .. } = self.software();
        let chosen = scheduler.choose_idle(task, &idle);
        match chosen {
            Some(cpu) => scheduler.place(task, cpu),
            None => scheduler.make_ready(task),
        }
        self.software().idle = idle;
        let Some(cpu) = chosen else { return };
        self.start(cpu, task, now);
    }

    /// The time slice of `task` on `cpu` is over.
    fn end_slice(&mut self, cpu: CpuId, task: TaskId) {
        if self.extends_slice(cpu) {
            return;
        }
        let scheduler = &mut self.software().scheduler;
        if scheduler.has_for(cpu) {
            scheduler.make_ready(task);
            self.dispatch(cpu);
        } else {
            self.renew_slice(cpu);
        }
    }

    /// Handler `index` runs from `now` on, somewhere.
    fn trigger(&mut self, index: usize, now: u64) {
        let idle: Vec<bool> = CpuId::all(self.processors()).map(|cpu| self.is_idle(cpu)).collect();
        let cpu = self.software().handlers.give(index, now, |cpu| !idle[cpu]);
        self.interrupted(cpu, now);
    }

    /// A disk request is complete at `now`.
    fn complete(&mut self, request: u64, now: u64) {
        for index in self.software().handlers.completed(request) {
            self.trigger(index, now);
        }
    }

    /// Nothing is next in time: a handler whose requests never came runs when the last processor has come to rest, however long
    /// its turn was, or a task gets the lock it waits for then; `false` when the run is over.
    ///
    /// # Errors
    /// When tasks wait that nobody will wake.
    fn unstick(&mut self) -> Result<bool, SimulateError> {
        let now = self.come_to_rest();
        if let Some(index) = self.software().handlers.overdue() {
            self.trigger(index, now);
            return Ok(true);
        }
        if let Some(task) = self.software().locks.force_one(now) {
            self.make_ready(task, now);
            return Ok(true);
        }
        self.software().check_over(now)?;
        Ok(false)
    }
}
