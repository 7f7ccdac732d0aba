//! The places in the guest's code where something other than a reference happens, and the map
//! from code addresses to them.

use crate::facts::Facts;
use servsim_trace::LockClass;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What happens when the instruction at a hooked address begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// `__switch_to_asm(previous, next)`.
    Switch,
    /// `try_to_wake_up(task, states)`.
    Wake,
    /// `wake_up_new_task(task)`.
    NewTask,
    /// A handler of interrupts from this source.
    Interrupt(u32),
    /// `irqentry_enter`: an exception or interrupt frame is opened.
    FrameEnter,
    /// `irqentry_exit`: it is closed.
    FrameExit,
    /// `entry_SYSCALL_64`, the number in RAX.
    SyscallEnter,
    /// `syscall_exit_to_user_mode`.
    SyscallExit,
    /// `blk_mq_start_request(request)`.
    IoStart,
    /// `blk_mq_end_request(request)`.
    IoEnd,
    /// The load generator's mark.
    Mark,
    /// The instruction after a reading of the time-stamp counter.
    TimeRead,
    /// A lock is taken, its address in RDI.
    Acquire(LockClass),
    /// A lock is given up, its address in RDI.
    Release(LockClass),
    /// `LWLockAcquire(lock, mode)`.
    LightweightAcquire,
    /// `LWLockRelease(lock)`.
    LightweightRelease,
    /// `LWLockAcquireOrWait(lock, mode)`: taken if free, otherwise waited for and not taken.
    LightweightOrWait,
    /// `LWLockConditionalAcquire(lock, mode)`: taken if free.
    LightweightTry,
    /// The return from either of the last two: AL tells whether the lock was taken.
    LightweightOutcome,
}

/// Hooked kernel functions that every capture needs.
const REQUIRED: [(&str, Hook); 9] = [
    ("__switch_to_asm", Hook::Switch),
    ("try_to_wake_up", Hook::Wake),
    ("wake_up_new_task", Hook::NewTask),
    ("irqentry_enter", Hook::FrameEnter),
    ("irqentry_exit", Hook::FrameExit),
    ("entry_SYSCALL_64", Hook::SyscallEnter),
    ("syscall_exit_to_user_mode", Hook::SyscallExit),
    ("blk_mq_start_request", Hook::IoStart),
    ("blk_mq_end_request", Hook::IoEnd),
];

/// Kernel functions that take or give up a lock; absent ones are inlined in this kernel.
const LOCKS: [(&str, Hook); 14] = [
    ("_raw_spin_lock", Hook::Acquire(LockClass::KernelSpin)),
    ("_raw_spin_lock_bh", Hook::Acquire(LockClass::KernelSpin)),
    ("_raw_spin_lock_irq", Hook::Acquire(LockClass::KernelSpin)),
    ("_raw_spin_lock_irqsave", Hook::Acquire(LockClass::KernelSpin)),
    ("_raw_spin_unlock", Hook::Release(LockClass::KernelSpin)),
    ("_raw_spin_unlock_bh", Hook::Release(LockClass::KernelSpin)),
    ("_raw_spin_unlock_irq", Hook::Release(LockClass::KernelSpin)),
    ("_raw_spin_unlock_irqrestore", Hook::Release(LockClass::KernelSpin)),
    ("mutex_lock", Hook::Acquire(LockClass::KernelMutex)),
    ("mutex_unlock", Hook::Release(LockClass::KernelMutex)),
    ("down_read", Hook::Acquire(LockClass::KernelMutex)),
    ("up_read", Hook::Release(LockClass::KernelMutex)),
    ("down_write", Hook::Acquire(LockClass::KernelMutex)),
    ("up_write", Hook::Release(LockClass::KernelMutex)),
];

/// Functions of the database server that take or give up a lightweight lock (`PostgreSQL` 15, `lwlock.c`).
const SERVER: [(&str, Hook); 4] = [
    ("LWLockAcquire", Hook::LightweightAcquire),
    ("LWLockRelease", Hook::LightweightRelease),
    ("LWLockAcquireOrWait", Hook::LightweightOrWait),
    ("LWLockConditionalAcquire", Hook::LightweightTry),
];
/// The near return of x86 without operand.
const RETURN: [u8; 1] = [0xc3];

/// Handlers of interrupts and their source numbers in the trace.
const INTERRUPTS: [(&str, u32); 3] =
    [("common_interrupt", 0), ("sysvec_apic_timer_interrupt", 1), ("sysvec_reschedule_ipi", 2)];
/// Source number of handlers not listed above.
const OTHER_INTERRUPT: u32 = 4;

/// From code addresses to hooks.
pub struct HookTable {
    by_address: HashMap<u64, Hook>,
    /// Functions whose returns tell an outcome.
    outcomes: Vec<Range<u64>>,
    after_time_reading: HashSet<u64>,
}

impl HookTable {
    /// Fails when the guest's kernel lacks a function that every capture needs.
    pub fn new(facts: &Facts) -> Result<Self, String> {
        let mut by_address = HashMap::new();
        for (name, hook) in REQUIRED {
            by_address.insert(facts.symbol(name)?, hook);
        }
        for (name, hook) in LOCKS {
            facts.symbols.get(name).map(|address| by_address.insert(*address, hook));
        }
        for (name, address) in &facts.symbols {
            let listed = INTERRUPTS.iter().find(|(handler, _)| handler == name);
            if listed.is_some() || name.starts_with("sysvec_") {
                by_address
                    .insert(*address, Hook::Interrupt(listed.map_or(OTHER_INTERRUPT, |(_, source)| *source)));
            }
        }
        let mut outcomes = Vec::new();
        for (name, hook) in SERVER {
            let Some(&(address, bytes)) = facts.user_symbols.get(name) else { continue };
            by_address.insert(address, hook);
            if matches!(hook, Hook::LightweightOrWait | Hook::LightweightTry) {
                outcomes.push(address..address + bytes);
            }
        }
        Ok(HookTable { by_address, outcomes, after_time_reading: HashSet::new() })
    }

    /// The hook of the instruction `code` at `vaddr`, if any.
    pub fn find(&self, vaddr: u64, code: &[u8], first_of_block: bool) -> Option<Hook> {
        // `xchg %bx,%bx` does nothing on any x86 processor; the load generator executes it as mark.
        if code == [0x66, 0x87, 0xdb] {
            return Some(Hook::Mark);
        }
        if first_of_block && self.after_time_reading.contains(&vaddr) {
            return Some(Hook::TimeRead);
        }
        if code == RETURN && self.outcomes.iter().any(|function| function.contains(&vaddr)) {
            return Some(Hook::LightweightOutcome);
        }
        self.by_address.get(&vaddr).copied()
    }

    /// The instruction before `vaddr` reads the time-stamp counter.
    pub fn note_time_reading(&mut self, vaddr: u64) {
        self.after_time_reading.insert(vaddr);
    }
}
