//! The places in the guest's code where something other than a reference happens, and the map
//! from code addresses to them.

use crate::facts::{Does, Facts, LockFunction};
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
    /// A function of the kernel, or of the program with this number, that has to do with a lock.
    Lock(LockCall, Option<ProgramId>),
    /// The return of a function that only tries: RAX tells whether the lock was taken.
    Outcome(FunctionId),
}

/// Number of a program, in the order of [`HookTable::programs`].
pub type ProgramId = usize;
/// Number of a function whose returns tell an outcome.
pub type FunctionId = usize;

/// What a function does with the lock whose address is in RDI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockCall {
    /// Takes it, waiting if need be.
    Acquire(LockClass),
    /// Gives it up.
    Release(LockClass),
    /// Takes it if it is free.
    Try(LockClass, FunctionId),
    /// Takes a lock of a program, whose mode is the second argument.
    LightweightAcquire,
    /// Takes one if it is free.
    LightweightTry(FunctionId),
    /// Takes one if it is free, otherwise waits and does not take it.
    LightweightOrWait(FunctionId),
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

const SPIN: LockClass = LockClass::KernelSpin;
const SLEEP: LockClass = LockClass::KernelMutex;

/// Kernel functions that take or give up a lock (Linux 6.1); absent ones are inlined in this kernel. Those
/// that give up waiting when the task is killed or signalled count as taking the lock, which they do but
/// for the end of a task. The lock of a run queue is its first member. Locks of readers and writers that
/// spin are not hooked.
const LOCKS: [(&str, Does, LockClass); 28] = [
    ("_raw_spin_lock", Does::Acquire, SPIN),
    ("_raw_spin_lock_bh", Does::Acquire, SPIN),
    ("_raw_spin_lock_irq", Does::Acquire, SPIN),
    ("_raw_spin_lock_irqsave", Does::Acquire, SPIN),
    ("raw_spin_rq_lock_nested", Does::Acquire, SPIN),
    ("_raw_spin_trylock", Does::Try, SPIN),
    ("_raw_spin_trylock_bh", Does::Try, SPIN),
    ("raw_spin_rq_trylock", Does::Try, SPIN),
    ("_raw_spin_unlock", Does::Release, SPIN),
    ("_raw_spin_unlock_bh", Does::Release, SPIN),
    ("_raw_spin_unlock_irq", Does::Release, SPIN),
    ("_raw_spin_unlock_irqrestore", Does::Release, SPIN),
    ("mutex_lock", Does::Acquire, SLEEP),
    ("mutex_lock_interruptible", Does::Acquire, SLEEP),
    ("mutex_lock_killable", Does::Acquire, SLEEP),
    ("mutex_trylock", Does::Try, SLEEP),
    ("mutex_unlock", Does::Release, SLEEP),
    ("down_read", Does::Acquire, SLEEP),
    ("down_read_interruptible", Does::Acquire, SLEEP),
    ("down_read_killable", Does::Acquire, SLEEP),
    ("down_read_trylock", Does::Try, SLEEP),
    ("up_read", Does::Release, SLEEP),
    ("down_write", Does::Acquire, SLEEP),
    ("down_write_killable", Does::Acquire, SLEEP),
    ("down_write_trylock", Does::Try, SLEEP),
    ("up_write", Does::Release, SLEEP),
    ("rt_mutex_lock", Does::Acquire, SLEEP),
    ("rt_mutex_unlock", Does::Release, SLEEP),
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
    by_address: HashMap<u64, Vec<Hook>>,
    /// Functions whose returns tell an outcome.
    outcomes: Vec<Range<u64>>,
    after_time_reading: HashSet<u64>,
    /// Programs whose functions are hooked.
    pub programs: Vec<String>,
}

impl HookTable {
    /// Fails when the guest's kernel lacks a function that every capture needs.
    pub fn new(facts: &Facts) -> Result<Self, String> {
        let mut table = HookTable {
            by_address: HashMap::new(),
            outcomes: Vec::new(),
            after_time_reading: HashSet::new(),
            programs: Vec::new(),
        };
        for (name, hook) in REQUIRED {
            table.add(facts.symbol(name)?, hook);
        }
        for (name, does, class) in LOCKS {
            let Some(&address) = facts.symbols.get(name) else { continue };
            let call = match (does, facts.sizes.get(name)) {
                (Does::Acquire, _) => LockCall::Acquire(class),
                (Does::Release, _) => LockCall::Release(class),
                (Does::Try | Does::TryOrWait, Some(bytes)) => {
                    LockCall::Try(class, table.outcome(address, *bytes))
                }
                (Does::Try | Does::TryOrWait, None) => {
                    return Err(format!("the size of the kernel's {name} is not known"))
                }
            };
            table.add(address, Hook::Lock(call, None));
        }
        for (name, address) in &facts.symbols {
            let listed = INTERRUPTS.iter().find(|(handler, _)| handler == name);
            if listed.is_some() || name.starts_with("sysvec_") {
                table.add(*address, Hook::Interrupt(listed.map_or(OTHER_INTERRUPT, |(_, source)| *source)));
            }
        }
        for (program, functions) in &facts.programs {
            table.add_program(program, functions);
        }
        Ok(table)
    }

    /// Functions of a server that take or give up a lock of its own, as the workload's folder lists them.
    fn add_program(&mut self, name: &str, functions: &[LockFunction]) {
        let program = self.programs.len();
        self.programs.push(name.to_owned());
        for &LockFunction { address, bytes, does } in functions {
            let call = match does {
                Does::Acquire => LockCall::LightweightAcquire,
                Does::Release => LockCall::Release(LockClass::LightweightExclusive),
                Does::TryOrWait => LockCall::LightweightOrWait(self.outcome(address, bytes)),
                Does::Try => LockCall::LightweightTry(self.outcome(address, bytes)),
            };
            self.add(address, Hook::Lock(call, Some(program)));
        }
    }

    fn add(&mut self, address: u64, hook: Hook) {
        self.by_address.entry(address).or_default().push(hook);
    }

    fn outcome(&mut self, address: u64, bytes: u64) -> FunctionId {
        self.outcomes.push(address..address + bytes);
        self.outcomes.len() - 1
    }

    /// The hooks of the instruction `code` at `vaddr`.
    pub fn find(&self, vaddr: u64, code: &[u8], first_of_block: bool) -> Vec<Hook> {
        // `xchg %bx,%bx` does nothing on any x86 processor; the load generator executes it as mark.
        if code == [0x66, 0x87, 0xdb] {
            return vec![Hook::Mark];
        }
        if first_of_block && self.after_time_reading.contains(&vaddr) {
            return vec![Hook::TimeRead];
        }
        if code == RETURN {
            let here = |(_, function): &(usize, &Range<u64>)| function.contains(&vaddr);
            let found = self.outcomes.iter().enumerate().filter(here);
            return found.map(|(function, _)| Hook::Outcome(function)).collect();
        }
        self.by_address.get(&vaddr).cloned().unwrap_or_default()
    }

    /// The instruction before `vaddr` reads the time-stamp counter.
    pub fn note_time_reading(&mut self, vaddr: u64) {
        self.after_time_reading.insert(vaddr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> HookTable {
        let symbols = REQUIRED.iter().map(|(name, _)| *name).chain(["mutex_lock", "mutex_trylock"]);
        let symbols: HashMap<_, _> = symbols.zip((1..).map(|place| place * 0x100)).collect();
        let facts = serde_json::json!({
            "output": "t.svt", "summary": "s.json", "meta": servsim_trace::Meta::default(), "symbols": symbols,
            "offsets": {}, "sizes": {"mutex_trylock": 0x20},
            "programs": {
                "one": [{"address": 0x5000, "bytes": 0x40, "does": "acquire"}],
                "two": [{"address": 0x5000, "bytes": 0x40, "does": "try"}],
            },
        });
        HookTable::new(&serde_json::from_value(facts).unwrap()).unwrap()
    }

    #[test]
    fn programs_at_the_same_addresses_have_hooks_of_their_own() {
        let table = table();
        let program = |name: &str| table.programs.iter().position(|known| known == name);
        let found = table.find(0x5000, &[0x55], true);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.contains(&Hook::Lock(LockCall::LightweightAcquire, program("one"))));
        let tries = |hook: &Hook| matches!(hook, Hook::Lock(LockCall::LightweightTry(_), of) if *of == program("two"));
        assert!(found.iter().any(tries));
        assert_eq!(table.find(0x7000, &[0x55], true), []);
    }

    #[test]
    fn only_the_returns_of_a_function_that_tries_tell_an_outcome() {
        let table = table();
        let of =
            |name: &str| REQUIRED.len() as u64 * 0x100 + if name == "mutex_lock" { 0x100 } else { 0x200 };
        let [Hook::Lock(LockCall::Try(LockClass::KernelMutex, function), None)] =
            table.find(of("mutex_trylock"), &[0x55], true)[..]
        else {
            panic!("mutex_trylock is hooked")
        };
        assert_eq!(table.find(of("mutex_trylock") + 0x1f, &RETURN, false), [Hook::Outcome(function)]);
        assert_eq!(table.find(of("mutex_trylock") + 0x20, &RETURN, false), []);
        assert_eq!(table.find(of("mutex_lock") + 0x1f, &RETURN, false), []);
    }
}
