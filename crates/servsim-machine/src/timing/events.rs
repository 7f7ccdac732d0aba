//! What the events in a stream of records lead to in time: processors that tasks leave, disks that are
//! asked, locks, and ends of transactions.

use super::engine::{Engine, TimedEvent};
use super::processor::Context;
use crate::software::Effect;
use servsim_config::Arbitration;
use servsim_core::{CpuId, Event, TaskId};
use servsim_mem::WordMask;

impl<W: WordMask> Engine<'_, W> {
    pub(super) fn event(&mut self, cpu: CpuId, context: Context) {
        let now = self.processors[cpu].time;
        let event = match context {
            Context::Task(task) => {
                let stream = &mut self.software.streams[task as usize];
                let record = stream.batch.records[stream.position];
                stream.position += 1;
                stream.batch.events[record.address as usize]
            }
            Context::Interrupt(index) => {
                let batch = &self.software.interrupts[index].batch;
                let record = batch.records[self.processors[cpu].handler_position];
                self.processors[cpu].handler_position += 1;
                batch.events[record.address as usize]
            }
        };
        let task = match context {
            Context::Task(task) => Some(task),
            Context::Interrupt(_) => None,
        };
        match self.software.react(event, task) {
            Effect::Ready(task) => self.wake_from_here(task, now),
            Effect::Submit(asked) => {
                if let (Some(task), Some(_)) = (task, &self.io) {
                    let handed_in = &mut self.accounts.task_requests[task as usize];
                    handed_in[usize::from(asked.write)] += u64::from(asked.bytes > 0);
                }
                self.submit(&asked, now);
            }
            Effect::Acquire { class, word } if self.software.arbitrates(class) => {
                self.acquire(cpu, context, class, word);
            }
            Effect::Release { word } if self.software.arbitration != Arbitration::Off => {
                self.release(cpu, context, word);
            }
            Effect::Leave { task, wake } => {
                if wake.is_none() {
                    // The trace ends before anything wakes it: its locks end here, as with a stream.
                    self.leave_locks(cpu, context, true);
                }
                self.leave(cpu);
                if let Some(waker) = wake.and_then(|wake| self.software.waker(wake)) {
                    self.waits_for(task, waker, now);
                }
            }
            Effect::Sleep { task, nanos } => {
                let over = now + self.model.nanos_to_cycles(nanos);
                self.schedule(over, TimedEvent::SleepOver { task });
                self.leave(cpu);
            }
            Effect::TransactionEnd { task, kind, user } => self.end_transaction(task, (kind, user), now),
            Effect::None | Effect::Acquire { .. } | Effect::Release { .. } => {
                if let Event::Wake { wake } = event {
                    self.came_early(wake, now);
                }
            }
        }
    }

    /// The client `task` has the answer to a transaction of a kind and a user.
    pub(super) fn end_transaction(&mut self, task: TaskId, (kind, user): (u32, u32), now: u64) {
        let previous = self.software.streams[task as usize].last_mark.insert(user, now);
        self.profile(task, kind, user);
        self.look_at_users(now);
        self.accounts.measure.transaction(kind, now, previous);
        if let Some(wanted) = self.model.transactions {
            self.port.interconnect.tell_monitor_of(self.accounts.measure.measured(), wanted);
        }
        self.maybe_start(now);
        self.watch_the_window();
    }
}
