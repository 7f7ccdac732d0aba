//! A lock that allocates nothing, and that a fork can hold over all of the heap.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value behind a lock.
pub struct Lock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by who has the lock, one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs something with the value, alone.
    pub fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> R {
        self.take();
        // SAFETY: the lock is held.
        let result = run(unsafe { &mut *self.value.get() });
        self.give();
        result
    }

    /// Takes the lock, waiting for whoever has it.
    pub fn take(&self) {
        while self.taken.swap(true, Ordering::Acquire) {
            // Whoever holds it may need this processor.
            // SAFETY: gives the processor away for a moment.
            unsafe { libc::sched_yield() };
        }
    }

    /// Gives it back.
    pub fn give(&self) {
        self.taken.store(false, Ordering::Release);
    }
}
