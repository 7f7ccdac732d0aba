//! Write buffers: the write-backs of a processor that wait for the bus, as those see them who snoop there.

use super::arbiter::Arbiter;
use super::{BusRequest, Class};

/// What write buffers counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteBufferCounters {
    /// Write-backs that entered.
    pub entered: u64,
    /// Fetches that a buffer supplied.
    pub supplied: u64,
    /// Write-backs that took no bus, because the line was written again.
    pub cancelled: u64,
    /// Most entries in use in one buffer since the beginning.
    pub most_used: u64,
}

impl WriteBufferCounters {
    /// What was counted since `earlier`; the most entries in use are those since the beginning.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            entered: self.entered - earlier.entered,
            supplied: self.supplied - earlier.supplied,
            cancelled: self.cancelled - earlier.cancelled,
            most_used: self.most_used,
        }
    }
}

impl Arbiter {
    /// The same with write buffers of so many entries; 0 leaves them out.
    #[must_use]
    pub fn with_write_buffers(mut self, entries: usize) -> Self {
        self.write_buffer = entries;
        self
    }

    /// A write-back enters its processor's buffer, if there are buffers: an older one of the same line
    /// is not needed any more.
    pub(super) fn enter_buffer(&mut self, request: &BusRequest) {
        if self.write_buffer == 0 {
            return;
        }
        self.take_back(|waiting| waiting.cpu == request.cpu && waiting.line == request.line);
        self.buffers.entered += 1;
        let used = self.write_backs(request.cpu) as u64 + 1;
        self.buffers.most_used = self.buffers.most_used.max(used);
    }

    /// The processor whose write buffer holds `line`.
    pub fn buffered(&self, line: u64) -> Option<usize> {
        let holds = |waiting: &&BusRequest| waiting.class == Class::WriteBack && waiting.line == line;
        let found = self.requests.iter().rev().find(holds).filter(|_| self.write_buffer > 0);
        found.map(|waiting| waiting.cpu)
    }

    /// The write-backs of `line` that wait in write buffers are not needed any more. To be called between
    /// a grant and [`Arbiter::choose`].
    pub fn cancel_buffered(&mut self, line: u64) {
        if self.write_buffer > 0 {
            self.take_back(|waiting| waiting.line == line);
        }
    }

    fn take_back(&mut self, which: impl Fn(&BusRequest) -> bool) {
        let before = self.requests.len();
        self.requests.retain(|waiting| waiting.class != Class::WriteBack || !which(waiting));
        self.buffers.cancelled += (before - self.requests.len()) as u64;
    }
}
