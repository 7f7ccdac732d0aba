//! Recorded wake-ups, as semaphores: a wake-up delivered before its sleeper blocks is remembered,
//! so that no interleaving of the simulated tasks loses one.

use servsim_core::source::PageHash;
use servsim_core::{TaskId, WakeId};
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Delivered before anybody waited.
    Delivered,
    /// This task waits.
    By(TaskId),
}

/// Wake-ups under way.
#[derive(Debug, Default)]
pub struct Wakeups {
    pending: HashMap<WakeId, Wait, PageHash>,
}

impl Wakeups {
    /// `task` wants to sleep until `wake`; `false` when the wake-up came first.
    pub fn wait(&mut self, task: TaskId, wake: WakeId) -> bool {
        if self.pending.remove(&wake) == Some(Wait::Delivered) {
            return false;
        }
        self.pending.insert(wake, Wait::By(task));
        true
    }

    /// Delivers `wake`; returns the task that it makes ready.
    pub fn deliver(&mut self, wake: WakeId) -> Option<TaskId> {
        if let Some(Wait::By(task)) = self.pending.remove(&wake) {
            return Some(task);
        }
        self.pending.insert(wake, Wait::Delivered);
        None
    }

    /// The task that waits for `wake`, if one does yet.
    pub fn sleeper(&self, wake: WakeId) -> Option<TaskId> {
        match self.pending.get(&wake) {
            Some(&Wait::By(task)) => Some(task),
            _ => None,
        }
    }

    /// Wake-ups that came before their sleepers, in order of their numbers.
    pub fn delivered(&self) -> Vec<WakeId> {
        let early = self.pending.iter().filter(|(_, wait)| **wait == Wait::Delivered);
        let mut early: Vec<_> = early.map(|(&wake, _)| wake).collect();
        early.sort_unstable();
        early
    }

    /// Tasks that wait, with what they wait for, in order of the wake-ups' numbers.
    pub fn waiting(&self) -> Vec<(TaskId, WakeId)> {
        let by = |(&wake, wait): (&WakeId, &Wait)| match wait {
            Wait::By(task) => Some((*task, wake)),
            Wait::Delivered => None,
        };
        let mut waiting: Vec<_> = self.pending.iter().filter_map(by).collect();
        waiting.sort_by_key(|&(_, wake)| wake);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_wakeup_is_remembered_and_used_once() {
        let mut wakeups = Wakeups::default();
        assert_eq!(wakeups.deliver(9), None);
        assert!(!wakeups.wait(1, 9), "the wake-up came first");
        assert!(wakeups.wait(1, 9), "it was used up");
        assert_eq!(wakeups.waiting(), [(1, 9)]);
        assert_eq!(wakeups.deliver(9), Some(1));
    }
}
