//! Which thread of a run in shards does what next.

use super::divided::STRETCHES;

/// How far a run is; stretches are numbered in their order.
pub(super) struct Progress {
    /// Stretches whose reading has begun.
    begun: usize,
    /// Stretches that were read.
    pub read: usize,
    /// Stretches that somebody divides or has divided.
    divided: usize,
    /// By place: the number of the stretch there that was divided, plus one.
    pub ready: [usize; STRETCHES],
    /// By thread: stretches of which its shard was performed.
    pub performed: Vec<usize>,
    /// The stretch with the end of the trace, or a fault.
    pub end: Option<usize>,
    /// The run is not to go on.
    pub stopped: bool,
}

/// What a thread does next.
pub(super) enum Task {
    Read(usize),
    Divide(usize),
    Perform(usize),
    /// The trace has ended.
    Ended,
    Stopped,
}

impl Progress {
    pub fn new(threads: usize) -> Self {
        let performed = vec![0; threads];
        Self { begun: 0, read: 0, divided: 0, ready: [0; STRETCHES], performed, end: None, stopped: false }
    }

    /// Takes the next task for thread `index`, if there is one now; whether the thread `reads`.
    pub fn next(&mut self, index: usize, reads: bool) -> Option<Task> {
        let own = self.performed[index];
        if self.stopped {
            return Some(Task::Stopped);
        }
        if self.end.is_some_and(|end| own > end) {
            return Some(Task::Ended);
        }
        let slowest = self.performed.iter().min().copied().unwrap_or(0);
        let room = self.begun < slowest + STRETCHES && self.end.is_none();
        if reads && room {
            self.begun += 1;
            return Some(Task::Read(self.begun - 1));
        }
        if self.ready[own % STRETCHES] == own + 1 {
            return Some(Task::Perform(own));
        }
        if self.divided < self.read {
            self.divided += 1;
            return Some(Task::Divide(self.divided - 1));
        }
        None
    }
}
