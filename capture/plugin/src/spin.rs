//! Spinlocks of a program, which are taken by code inside its functions: no function can be hooked.
//!
//! Followed in programs whose lock functions the workload's folder lists: a task takes a spinlock by exchanging a
//! byte with memory (it has the lock if the byte was zero), and gives it up by its next store to that address.

use servsim_trace::TaskId;
use std::collections::HashMap;

/// No lock: nothing is stored at address zero.
const NONE: u64 = 0;

/// The spinlock that each task holds; a program holds no more than one at a time.
#[derive(Debug, Default)]
pub struct Spinlocks {
    /// That of the running task, and whether it has just been given up.
    held: u64,
    given_up: bool,
    /// Those of tasks that lost the processor while they held one.
    of_others: HashMap<TaskId, u64>,
}

impl Spinlocks {
    /// A byte was exchanged at `address`, and what was there is `before`. Returns whether the lock was
    /// taken.
    pub fn exchanged(&mut self, address: u64, before: u8) -> bool {
        let taken = before == 0;
        if taken {
            (self.held, self.given_up) = (address, false);
        }
        taken
    }

    /// Something is stored at `address`.
    #[inline]
    pub fn stored(&mut self, address: u64) {
        self.given_up |= address == self.held;
    }

    /// The lock that was given up since the last call.
    #[inline]
    pub fn given_up(&mut self) -> Option<u64> {
        if !self.given_up {
            return None;
        }
        self.given_up = false;
        Some(std::mem::replace(&mut self.held, NONE))
    }

    /// The processor passes from one task to another.
    pub fn switch(&mut self, from: TaskId, to: TaskId) {
        if self.held != NONE {
            self.of_others.insert(from, self.held);
        }
        self.held = self.of_others.remove(&to).unwrap_or(NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_from_the_exchange_of_a_zero_to_the_next_store_there() {
        let mut locks = Spinlocks::default();
        assert!(!locks.exchanged(0x40, 1), "somebody else has it");
        locks.stored(0x40);
        assert_eq!(locks.given_up(), None);
        assert!(locks.exchanged(0x40, 0));
        locks.stored(0x41);
        assert_eq!(locks.given_up(), None);
        locks.stored(0x40);
        assert_eq!(locks.given_up(), Some(0x40));
        locks.stored(0x40);
        assert_eq!(locks.given_up(), None);
    }

    #[test]
    fn a_task_that_loses_the_processor_keeps_its_lock() {
        let mut locks = Spinlocks::default();
        assert!(locks.exchanged(0x40, 0));
        locks.switch(1, 2);
        locks.stored(0x40);
        assert_eq!(locks.given_up(), None, "another task's store");
        locks.switch(2, 1);
        locks.stored(0x40);
        assert_eq!(locks.given_up(), Some(0x40));
    }
}
