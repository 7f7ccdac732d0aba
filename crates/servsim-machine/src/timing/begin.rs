//! Where a run begins: with every task at the start of its stream and cold caches, or where a warm-up
//! ended.

use super::engine::{Engine, TimedEvent};
use super::processor::Wait;
use crate::error::SimulateError;
use crate::software::Executor;
use crate::warm::WarmStart;
use servsim_core::{CpuId, Cycles};
use servsim_mem::snapshot::Damaged;
use servsim_mem::WordMask;

impl<W: WordMask> Engine<'_, W> {
    /// Takes up every task, wait, sleep and disk request where the warm-up left it, at time 0. If `exact`,
    /// predictors of branches know all that went before, which takes a walk from the beginning.
    pub(super) fn resume(&mut self, start: &WarmStart, exact: bool) -> Result<(), SimulateError> {
        let wrong = |why: Damaged| SimulateError::Usage(format!("the checkpoint cannot be used: {why}"));
        self.port.restore(&start.caches).map_err(wrong)?;
        if start.again {
            return self.begin_all();
        }
        let source = self.software.source;
        let told = start.positions.iter().zip(&start.ended).zip(&start.bookmarks);
        for (task, (stream, ((&done, &ended), bookmark))) in
            (0..).zip(self.software.streams.iter_mut().zip(told))
        {
            if ended {
                stream.close();
            } else {
                let bookmark = bookmark.filter(|_| !exact || self.model.core.is_none());
                stream.pass_from(bookmark, done, (source, task))?;
            }
        }
        self.software.handlers.resume(&start.handlers);
        self.software.scheduler.resume(&start.scheduler);
        self.count_active(0, start.scheduler.ready.len() as i64);
        for (cpu, &running) in CpuId::all(start.running.len()).zip(&start.running) {
            let Some((task, slice)) = running else { continue };
            self.count_active(0, 1);
            self.processors[cpu].wait = Wait::Nothing;
            self.stale.insert(cpu);
            self.begin_task(cpu, task);
            self.processors[cpu].slice = slice;
        }
        for &wake in &start.delivered {
            self.software.wakeups.deliver(wake);
        }
        for &(task, wake) in &start.waiting {
            self.software.wakeups.wait(task, wake);
            if let Some(waker) = self.software.source.waker(wake) {
                self.waits_for(task, waker, self.now);
            }
        }
        for &(task, nanos) in &start.sleeping {
            let Cycles(over) = self.model.nanos_to_cycles(nanos);
            self.schedule(over, TimedEvent::SleepOver { task });
        }
        self.software.requests.submitted.extend(&start.submitted);
        for asked in &start.requests {
            self.submit(asked, 0);
        }
        Ok(())
    }
}
