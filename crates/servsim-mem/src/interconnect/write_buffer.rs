//! Write buffers: the write-backs of a processor that wait for the bus, as those see them who snoop there.

use super::arbiter::Arbiter;
use super::{BusRequest, Class};
use servsim_core::{CpuId, LineAddr};

servsim_core::counters! {
    /// What write buffers counted.
    pub struct WriteBufferCounters {
        entered: u64 = "write_buffer.entered" [], "lines", Parts, [summary], "Write-backs that entered a write buffer";
        supplied: u64 = "write_buffer.supplied" [], "lines", Parts, [summary], "Fetches that a write buffer supplied";
        cancelled: u64 = "write_buffer.cancelled" [], "lines", Parts, [summary],
            "Write-backs that took no bus, because the line was written again";
        most_used: u64 = "write_buffer.most_used" [], "entries", Parts, [most],
            "Most entries in use in one write buffer since the beginning of the run";
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
    pub fn buffered(&self, line: LineAddr) -> Option<CpuId> {
        let holds = |waiting: &&BusRequest| waiting.class == Class::WriteBack && waiting.line == line;
        let found = self.requests.iter().rev().find(holds).filter(|_| self.write_buffer > 0);
        found.map(|waiting| waiting.cpu)
    }

    /// The write-backs of `line` that wait in write buffers are not needed any more. To be called between
    /// a grant and [`Arbiter::choose`].
    pub fn cancel_buffered(&mut self, line: LineAddr) {
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
