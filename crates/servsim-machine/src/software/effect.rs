//! What an event in a stream of records leads to: here its part that needs no time, as an [`Effect`] the part
//! that whoever executes the software adds.

use super::{PendingIo, Software};
use servsim_core::{Event, LockClass, TaskId, WakeId};

/// What is left to do for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// This task becomes ready.
    Ready(TaskId),
    /// A disk is asked.
    Submit(PendingIo),
    /// A lock is taken.
    Acquire {
        /// Its class.
        class: LockClass,
        /// Its word.
        word: u64,
    },
    /// A lock is given up.
    Release {
        /// Its word.
        word: u64,
    },
    /// The task leaves its processor, until it is woken if that is known.
    Leave {
        /// The task.
        task: TaskId,
        /// Its wake-up.
        wake: Option<WakeId>,
    },
    /// The task leaves its processor for a time.
    Sleep {
        /// The task.
        task: TaskId,
        /// How long.
        nanos: u64,
    },
    /// The task ends a transaction.
    TransactionEnd {
        /// The task.
        task: TaskId,
        /// Kind of the transaction.
        kind: u32,
        /// Whose it was.
        user: u32,
    },
}

impl Software<'_> {
    /// An event in the stream of `task`, or in a handler.
    pub fn react(&mut self, event: Event, task: Option<TaskId>) -> Effect {
        match (event, task) {
            (Event::Wake { wake }, _) => self.wakeups.deliver(wake).map_or(Effect::None, |task| {
                self.locks.wakes(task);
                Effect::Ready(task)
            }),
            (Event::IoSubmit { request, device, sector, bytes, write }, _) => {
                self.requests.submitted.insert(request);
                Effect::Submit(PendingIo { request, device, sector, bytes, write })
            }
            (Event::LockAcquire { class, word }, _) => Effect::Acquire { class, word },
            (Event::LockRelease { word }, _) => Effect::Release { word },
            // A simulated lock was waited for where it was taken.
            (Event::LockWait { class, .. }, _) if self.arbitrates(class) => Effect::None,
            (Event::LockWait { wake, .. }, Some(task)) => self.block(task, Some(wake)),
            (Event::Block { wake }, Some(task)) => self.block(task, wake),
            (Event::Sleep { nanos }, Some(task)) => Effect::Sleep { task, nanos },
            (Event::TransactionEnd { kind, user }, Some(task)) => Effect::TransactionEnd { task, kind, user },
            _ => Effect::None,
        }
    }

    /// `task` gives up its processor until `wake`, unless that came first.
    fn block(&mut self, task: TaskId, wake: Option<WakeId>) -> Effect {
        if wake.is_none_or(|wake| self.wakeups.wait(task, wake)) {
            Effect::Leave { task, wake }
        } else {
            Effect::None
        }
    }
}
