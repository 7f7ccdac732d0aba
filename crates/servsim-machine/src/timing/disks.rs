//! The engine's side of disks: requests go to the described disks or to the pool, and their
//! completions come back as timed events.

use super::engine::{Engine, TimedEvent};
use crate::software::{Executor, PendingIo};
use servsim_mem::WordMask;
use servsim_os::Completion;

impl<W: WordMask> Engine<'_, W> {
    /// Hands a request to the described disks, or to the pool.
    pub(super) fn submit(&mut self, asked: &PendingIo, now: u64) {
        let &PendingIo { request, device, sector, bytes, write } = asked;
        if self.io.is_some() {
            self.disk.accepted[usize::from(write)] += 1;
            self.submit_io(request, (device, sector), bytes, write, now);
            return;
        }
        let flush = write && bytes == 0;
        let done = if flush { self.disk.flush(now) } else { self.disk.submit(now, write) };
        self.accounts.recorder.disk(now, done, write);
        self.schedule(done, TimedEvent::Disk { request });
    }

    /// Hands a request of the trace to the disks, if they are described.
    pub(super) fn submit_io(&mut self, request: u64, at: (u32, u64), bytes: u32, write: bool, now: u64) {
        let Some(io) = &mut self.io else { return };
        let (device, sector) = at;
        let parts = io.plan.locate(device, sector, u64::from(bytes), write);
        if bytes > 0 {
            let last = io.accesses.len() - 1;
            let what = io.plan.file_at(device, sector).unwrap_or(last);
            io.accesses[what][usize::from(write)] += 1;
        }
        io.storage.submit(request, &parts, write, now);
        self.look_at_io();
    }

    /// Makes sure that the engine looks when something happens next in the disks.
    fn look_at_io(&mut self) {
        let Some(io) = &mut self.io else { return };
        let next = io.storage.next_time().unwrap_or(u64::MAX);
        if next < io.look_at {
            io.look_at = next;
            self.schedule(next, TimedEvent::Io);
        }
    }

    /// The disks' own time has come.
    pub(super) fn io_happens(&mut self, now: u64) {
        let Some(io) = &mut self.io else { return };
        io.look_at = u64::MAX;
        let done = io.storage.advance(now);
        for Completion { request, submitted, completed, write } in done {
            self.accounts.recorder.disk(submitted, completed, write);
            self.complete(request, completed);
        }
        self.look_at_io();
    }
}
