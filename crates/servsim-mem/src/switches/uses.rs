//! Which lines a task has used, in its present quantum and in earlier ones: two bits a line.

use crate::running_tasks::NONE;
use crate::sparse::Entry;

/// Lines per word of use bits: a page of 64-byte lines, whose users are mostly the same.
pub(super) const BLOCK: u64 = 64;

/// Which of 64 neighbouring lines a task has used.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))] // within one line of the host
pub(super) struct Uses {
    /// The first of the lines, divided by their number.
    pub block: u64,
    pub task: u32,
    /// In quanta before `quantum`.
    pub earlier: u64,
    /// In `quantum`.
    pub now: u64,
    /// The task's quantum at its last use of one of the lines.
    pub quantum: u32,
}

impl Entry for Uses {
    type Key = (u64, u32);
    const FREE: Self = Self { block: 0, task: NONE, earlier: 0, now: 0, quantum: 0 };
    #[inline]
    fn new((block, task): (u64, u32)) -> Self {
        Self { block, task, ..Self::FREE }
    }
    #[inline]
    fn is(&self, (block, task): (u64, u32)) -> bool {
        self.block == block && self.task == task
    }
    #[inline]
    fn is_free(&self) -> bool {
        self.task == NONE
    }
    fn key(&self) -> (u64, u32) {
        (self.block, self.task)
    }
    #[inline]
    fn number((block, task): (u64, u32)) -> u64 {
        block ^ u64::from(task) << 40
    }
}

impl Uses {
    /// Adds a use of the line of `bit` in `quantum`; whether it was used before that.
    #[inline]
    pub fn add(&mut self, bit: u64, quantum: u32) -> bool {
        if self.quantum != quantum {
            (self.earlier, self.now, self.quantum) = (self.earlier | self.now, 0, quantum);
        }
        self.now |= bit;
        self.earlier & bit != 0
    }
}
