//! What the events in a stream of records do: wake-ups, disk requests, locks, waits, ends of transactions;
//! and the end of a disk request.

use super::engine::{Engine, TimedEvent};
use super::processor::Context;
use crate::warm::PendingIo;
use servsim_config::Arbitration;
use servsim_core::{Event, TaskId, WakeId};
use servsim_mem::WordMask;

impl<W: WordMask> Engine<'_, W> {
    pub(super) fn event(&mut self, cpu: usize, context: Context) {
        let now = self.processors[cpu].time;
        let event = match context {
            Context::Task(task) => {
                let stream = &mut self.streams[task as usize];
                let record = stream.batch.records[stream.position];
                stream.position += 1;
                stream.batch.events[record.address as usize]
            }
            Context::Interrupt(index) => {
                let batch = &self.interrupts[index].batch;
                let record = batch.records[self.processors[cpu].handler_position];
                self.processors[cpu].handler_position += 1;
                batch.events[record.address as usize]
            }
        };
        match (event, context) {
            (Event::Wake { wake }, _) => {
                if let Some(task) = self.wakeups.deliver(wake) {
                    self.locks.wakes(task);
                    self.make_ready(task, now);
                }
            }
            (Event::IoSubmit { request, device, sector, bytes, write }, _) => {
                if let (Context::Task(task), Some(_)) = (context, &self.io) {
                    self.task_requests[task as usize][usize::from(write)] += u64::from(bytes > 0);
                }
                self.submit(&PendingIo { request, device, sector, bytes, write }, now);
            }
            (Event::LockAcquire { class, word }, _) if self.arbitrates(class) => {
                self.acquire(cpu, context, class, word);
            }
            (Event::LockRelease { word }, _) if self.model.locks != Arbitration::Off => {
                self.release(cpu, context, word);
            }
            // The simulated lock was waited for where it was taken.
            (Event::LockWait { class, .. }, _) if self.arbitrates(class) => {}
            (Event::LockWait { wake, .. }, Context::Task(task)) => self.block(cpu, task, Some(wake)),
            (Event::Block { wake }, Context::Task(task)) => self.block(cpu, task, wake),
            (Event::Sleep { nanos }, Context::Task(task)) => {
                let over = now + self.model.nanos_to_cycles(nanos);
                self.schedule(over, TimedEvent::SleepOver { task });
                self.leave(cpu);
            }
            (Event::TransactionEnd { kind, user }, Context::Task(task)) => {
                let previous = self.streams[task as usize].last_mark.insert(user, now);
                self.profile(task, kind, user);
                self.look_at_users(now);
                self.measure.transaction(kind, now, previous);
                self.maybe_start(now);
            }
            _ => {}
        }
    }

    /// `task` gives up its processor until `wake`, unless that came first.
    fn block(&mut self, cpu: usize, task: TaskId, wake: Option<WakeId>) {
        if wake.is_none_or(|wake| self.wakeups.wait(task, wake)) {
            self.leave(cpu);
            if let Some(waker) = wake.and_then(|wake| self.waker(wake)) {
                self.waits_for(task, waker);
            }
        }
    }

    /// The task that has to do something before `wake` comes; `None` when only a device has.
    pub(super) fn waker(&self, wake: WakeId) -> Option<TaskId> {
        let submitter = || self.requests.missing(wake).find_map(|request| self.source.submitter(request));
        self.source.waker(wake).or_else(submitter)
    }
}
