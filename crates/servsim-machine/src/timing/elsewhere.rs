//! Tasks of the load generator on a machine of their own. There each has a processor to itself, and a reference takes
//! a fixed time; a wake-up between that machine and this one takes the time of the network. Nothing of theirs is in the
//! caches, on the bus or in the counts here (docs/adr/0222).
//!
//! Kernel locks of another machine are not those of this one, so theirs are left out. Disks are shared.

use super::engine::{Engine, TimedEvent};
use crate::error::SimulateError;
use crate::software::{Effect, Executor};
use servsim_core::reference::CONTINUATION;
use servsim_core::{Cycles, Event, Op, TaskId, TaskInfo, WakeId};
use servsim_mem::WordMask;
use std::collections::HashMap;

/// Who runs elsewhere, and what is under way to there.
pub struct Elsewhere {
    tasks: Vec<bool>,
    cycles_per_reference: u64,
    latency: u64,
    /// When wake-ups from here that nobody waited for yet arrive there.
    arrivals: HashMap<WakeId, u64>,
}

impl Elsewhere {
    /// The clients among `tasks`; times of a reference and of a wake-up's way.
    pub fn new(tasks: &[TaskInfo], (reference, latency): (Cycles, Cycles)) -> Self {
        Self {
            tasks: tasks.iter().map(|task| task.client).collect(),
            cycles_per_reference: reference.0,
            latency: latency.0,
            arrivals: HashMap::new(),
        }
    }
}

impl<W: WordMask> Engine<'_, W> {
    pub(super) fn is_elsewhere(&self, task: TaskId) -> bool {
        self.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.tasks[task as usize])
    }

    /// Somebody here wakes `task` at `now`.
    pub(super) fn wake_from_here(&mut self, task: TaskId, now: u64) {
        match &self.elsewhere {
            Some(elsewhere) if elsewhere.tasks[task as usize] => {
                let arrives = now + elsewhere.latency;
                self.schedule(arrives, TimedEvent::SleepOver { task });
            }
            _ => self.make_ready(task, now),
        }
    }

    /// Somebody here caused `wake` at `now` before anybody waited for it.
    pub(super) fn came_early(&mut self, wake: WakeId, now: u64) {
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.arrivals.insert(wake, now + elsewhere.latency);
        }
    }

    /// A wake-up from elsewhere is here.
    pub(super) fn wake_arrives(&mut self, wake: WakeId, now: u64) {
        if let Effect::Ready(task) = self.software.react(Event::Wake { wake }, None) {
            self.make_ready(task, now);
        }
    }

    /// `task` goes on elsewhere at `now`: it makes its references up to its next event.
    pub(super) fn go_on_elsewhere(&mut self, task: TaskId, now: u64) {
        let stream = &mut self.software.streams[task as usize];
        let left = &stream.batch.records[stream.position..];
        let references = left.iter().take_while(|record| record.op != Op::Event);
        let (mut records, mut made) = (0, 0);
        for record in references {
            records += 1;
            made += u64::from(if record.flags & CONTINUATION == 0 { record.cpu } else { 0 });
        }
        stream.position += records;
        let cycles = self.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.cycles_per_reference);
        self.schedule(now + made * cycles, TimedEvent::Elsewhere { task });
    }

    /// `task` has come to an event elsewhere, or to the end of the records at hand.
    pub(super) fn event_elsewhere(&mut self, task: TaskId, now: u64) -> Result<(), SimulateError> {
        let stream = &mut self.software.streams[task as usize];
        let Some(record) = stream.batch.records.get(stream.position) else {
            if stream.refill()? {
                self.go_on_elsewhere(task, now);
            }
            return Ok(());
        };
        let event = stream.batch.events[record.address as usize];
        stream.position += 1;
        if let Event::Wake { wake } = event {
            self.wake_from_elsewhere(wake, now);
            self.go_on_elsewhere(task, now);
            return Ok(());
        }
        match self.software.react(event, Some(task)) {
            Effect::Leave { task, wake } => {
                if let Some(waker) = wake.and_then(|wake| self.software.waker(wake)) {
                    self.waits_for(task, waker, now);
                }
            }
            Effect::Sleep { task, nanos } => {
                let over = now + self.model.nanos_to_cycles(nanos);
                self.schedule(over, TimedEvent::SleepOver { task });
            }
            effect => {
                if let Effect::Submit(asked) = effect {
                    self.submit(&asked, now);
                }
                if let Effect::TransactionEnd { task, kind, user } = effect {
                    self.end_transaction(task, (kind, user), now);
                }
                let arrival = self.arrival(event);
                self.go_on_elsewhere(task, arrival.max(now));
            }
        }
        Ok(())
    }

    /// When the wake-up that an event waits for, which was caused before, arrives elsewhere.
    fn arrival(&mut self, event: Event) -> u64 {
        let wake = match event {
            Event::Block { wake: Some(wake) } => wake,
            Event::LockWait { wake, class } if !self.software.arbitrates(class) => wake,
            _ => return 0,
        };
        self.elsewhere.as_mut().and_then(|elsewhere| elsewhere.arrivals.remove(&wake)).unwrap_or(0)
    }

    /// Somebody elsewhere causes `wake` at `now`: who waits there is woken at once, who is here when it has come.
    fn wake_from_elsewhere(&mut self, wake: WakeId, now: u64) {
        let latency = self.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.latency);
        match self.software.wakeups.sleeper(wake) {
            Some(sleeper) if self.is_elsewhere(sleeper) => self.wake_arrives(wake, now),
            _ => self.schedule(now + latency, TimedEvent::Arrives { wake }),
        }
    }
}
