//! Which recorded waits were waits for a lock.
//!
//! The trace tells where a task takes or gives up a lock (at the entry of the function) and where it
//! blocks and is woken, but not why it blocked. A block is a wait for a lock when the last lock that
//! the task set out to take is one that its waker gave up since then, as the last of its own. Only
//! locks whose waiters sleep count: kernel spinlocks are taken on the way to sleep and to wake.

use super::locks::class_of;
use servsim_core::{LockClass, WakeId};
use servsim_trace::{LockClass as Recorded, TaskId};
use std::collections::HashMap;

/// A recorded wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWait {
    /// Family of the lock.
    pub class: LockClass,
    /// Its virtual address, in the task that waits.
    pub address: u64,
}

/// The last event of a task about a lock whose waiters sleep.
#[derive(Debug, Clone, Copy)]
enum LastLockEvent {
    Acquire(LockWait),
    Release(u64, u64),
}

/// What is known while the trace is read in captured order.
#[derive(Debug)]
pub struct Contention {
    last: Vec<Option<LastLockEvent>>,
    /// Blocks not yet woken, with the moment they began.
    blocked: HashMap<WakeId, (LockWait, u64)>,
    now: u64,
}

impl Contention {
    /// For a trace of `tasks` tasks.
    pub fn new(tasks: usize) -> Self {
        Self { last: vec![None; tasks], blocked: HashMap::new(), now: 0 }
    }

    /// `task` sets out to take a lock.
    pub fn acquire(&mut self, task: TaskId, class: Recorded, address: u64) {
        let class = class_of(class);
        if !class.spins() {
            self.last[task as usize] = Some(LastLockEvent::Acquire(LockWait { class, address }));
        }
    }

    /// `task` gives up a lock.
    pub fn release(&mut self, task: TaskId, class: Recorded, address: u64) {
        if !class_of(class).spins() {
            self.now += 1;
            self.last[task as usize] = Some(LastLockEvent::Release(address, self.now));
        }
    }

    /// `task` blocks until wake-up `wake`.
    pub fn block(&mut self, task: TaskId, wake: WakeId) {
        if let Some(LastLockEvent::Acquire(lock)) = self.last[task as usize] {
            self.blocked.insert(wake, (lock, self.now));
        }
    }

    /// `waker` causes `wake`; the lock that was waited for, if it was one.
    pub fn wake(&mut self, waker: TaskId, wake: WakeId) -> Option<LockWait> {
        let (lock, since) = self.blocked.remove(&wake)?;
        match self.last[waker as usize]? {
            LastLockEvent::Release(address, at) if address == lock.address && at > since => Some(lock),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUTEX: Recorded = Recorded::KernelMutex;
    const SPIN: Recorded = Recorded::KernelSpin;

    #[test]
    fn a_wait_for_a_lock_is_told_by_both_sides() {
        let mut seen = Contention::new(2);
        seen.acquire(0, MUTEX, 0x10);
        seen.acquire(1, MUTEX, 0x10);
        seen.acquire(1, SPIN, 0x90);
        seen.block(1, 7);
        seen.release(0, MUTEX, 0x10);
        seen.acquire(0, SPIN, 0x90);
        assert_eq!(seen.wake(0, 7), Some(LockWait { class: LockClass::KernelSleep, address: 0x10 }));
        assert_eq!(seen.wake(0, 7), None, "it is told once");
    }

    #[test]
    fn other_waits_are_not() {
        let mut seen = Contention::new(2);
        // Given up before the wait began: the waker wakes for another reason.
        seen.acquire(0, MUTEX, 0x10);
        seen.release(0, MUTEX, 0x10);
        seen.acquire(1, MUTEX, 0x10);
        seen.block(1, 7);
        assert_eq!(seen.wake(0, 7), None);
        // Another lock.
        seen.acquire(0, MUTEX, 0x20);
        seen.block(1, 8);
        seen.release(0, MUTEX, 0x20);
        assert_eq!(seen.wake(0, 8), None);
        // The task gave its lock up before it blocked.
        seen.release(1, MUTEX, 0x10);
        seen.block(1, 9);
        seen.release(0, MUTEX, 0x10);
        assert_eq!(seen.wake(0, 9), None);
    }
}
