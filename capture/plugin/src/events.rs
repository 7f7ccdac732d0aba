//! What each hook does: turns the guest's registers at a hooked instruction into trace events.

use crate::capture::{Attempt, Capture, Phase};
use crate::guest::Register;
use crate::hooks::{FunctionId, Hook, LockCall, ProgramId};
use servsim_trace::{EventKind, LockClass, MarkKind, SwitchReason};

/// Linux `TASK_DEAD` (`include/linux/sched.h`).
const TASK_DEAD: u32 = 0x80;
/// Linux x86-64 system call number of `futex`, its wait and wake commands and command mask
/// (`include/uapi/linux/futex.h`).
const FUTEX: u32 = 202;
const FUTEX_COMMAND_MASK: u64 = 0x7f;
const FUTEX_WAITS: [u64; 2] = [0, 9];
const FUTEX_WAKES: [u64; 2] = [1, 10];
/// The mode of a program's lock that is asked for alone ([`crate::facts::LockFunction`]).
const EXCLUSIVE: u64 = 0;

impl Capture {
    /// The instruction at a hooked address begins.
    pub fn hook(&mut self, hook: Hook) {
        if hook == Hook::Mark {
            return self.mark();
        }
        if self.phase != Phase::Recording {
            return;
        }
        match hook {
            Hook::Switch => {
                let pair = (self.guest.register(Register::Rdi), self.guest.register(Register::Rsi));
                self.pending_switch = Some(pair);
            }
            Hook::Wake => self.wake(),
            Hook::NewTask => self.create(),
            Hook::Interrupt(source) => self.begin_interrupt(source),
            Hook::FrameEnter => self.interrupt_depth += u32::from(self.interrupt_depth > 0),
            Hook::FrameExit => self.end_frame(),
            Hook::SyscallEnter => self.system_call(),
            Hook::SyscallExit => self.event(EventKind::SyscallExit),
            Hook::IoStart => self.submit(),
            Hook::IoEnd => self.complete(),
            Hook::TimeRead => self.read_time(),
            Hook::Lock(call, program) if self.runs(program) => self.lock_call(call),
            Hook::Outcome(function) => self.end_attempt(function),
            Hook::Lock(..) | Hook::Mark => {}
        }
    }

    /// The processor passes from one task to another; called when the switching block has run.
    pub fn switch(&mut self, previous: u64, next: u64) {
        self.summary.switches += 1;
        self.summary.inconsistent_switches += u64::from(previous != self.current.address);
        let reason = match self.tasks.state(&mut self.guest, previous) {
            0 => SwitchReason::Preempted,
            state if state & TASK_DEAD != 0 => SwitchReason::Exited,
            state => SwitchReason::Blocked { block: self.tasks.block(previous), state },
        };
        self.event(EventKind::SwitchOut(reason));
        self.enter(next);
        self.event(EventKind::SwitchIn);
    }

    fn wake(&mut self) {
        let task = self.guest.register(Register::Rdi);
        let states = self.guest.register(Register::Rsi) as u32;
        self.summary.wakes += 1;
        let matches = self.tasks.state(&mut self.guest, task) & states != 0;
        let Some(writer) = self.writer.as_mut().filter(|_| matches) else { return };
        let id = self.tasks.id(&mut self.guest, writer, task);
        if let Some(block) = self.tasks.wake(task) {
            self.summary.effective_wakes += 1;
            self.event(EventKind::Wake { task: id, block });
        }
    }

    fn create(&mut self) {
        let task = self.guest.register(Register::Rdi);
        if let Some(writer) = &mut self.writer {
            let id = self.tasks.created(&mut self.guest, writer, task);
            self.event(EventKind::Create { task: id });
        }
    }

    /// An episode lasts until the frame that the handler opens is closed; frames inside it (page
    /// faults, nested interrupts) belong to it.
    fn begin_interrupt(&mut self, source: u32) {
        if self.interrupt_depth == 0 {
            let interrupted = self.current.stream;
            // The handler opens its own frame next: the episode is over when the depth is one again.
            self.interrupt_depth = 1;
            self.summary.interrupts += 1;
            self.select_stream();
            self.event(EventKind::InterruptBegin { source, interrupted });
        }
    }

    fn end_frame(&mut self) {
        if self.interrupt_depth == 0 {
            return;
        }
        self.interrupt_depth -= 1;
        if self.interrupt_depth == 1 {
            self.event(EventKind::InterruptEnd);
            self.interrupt_depth = 0;
            self.select_stream();
        }
    }

    fn system_call(&mut self) {
        let number = self.guest.register(Register::Rax) as u32;
        self.event(EventKind::SyscallEnter { number });
        if number == FUTEX {
            let address = self.guest.register(Register::Rdi);
            let command = self.guest.register(Register::Rsi) & FUTEX_COMMAND_MASK;
            if FUTEX_WAITS.contains(&command) {
                self.event(EventKind::FutexWait { address });
            } else if FUTEX_WAKES.contains(&command) {
                self.event(EventKind::FutexWake { address });
            }
        }
    }

    fn submit(&mut self) {
        let request = self.guest.register(Register::Rdi);
        let event = self.requests.submit(&mut self.guest, &self.facts.meta.devices, request);
        self.event(event);
    }

    fn complete(&mut self) {
        let request = self.guest.register(Register::Rdi);
        match self.requests.complete(request) {
            Some(event) => self.event(event),
            None => self.summary.foreign_completions += 1,
        }
    }

    fn read_time(&mut self) {
        let low = self.guest.register(Register::Rax) & 0xffff_ffff;
        let high = self.guest.register(Register::Rdx) & 0xffff_ffff;
        self.clock.reading(high << 32 | low);
    }

    /// A function that has to do with a lock begins. Of one that only tries, or rather waits than takes,
    /// it is known at its return what came of it, and only a lock that was taken is an event. A wait without
    /// taking is one like any other: it ends with the wake-up of its waker.
    fn lock_call(&mut self, call: LockCall) {
        let address = self.guest.register(Register::Rdi);
        match call {
            LockCall::Acquire(class) => self.event(EventKind::LockAcquire { class, address }),
            LockCall::Release(class) => self.event(EventKind::LockRelease { class, address }),
            LockCall::LightweightAcquire => {
                let class = self.lightweight_class();
                self.event(EventKind::LockAcquire { class, address });
            }
            LockCall::Try(class, function) => self.attempt(function, class, address),
            LockCall::LightweightTry(function) => {
                let class = self.lightweight_class();
                self.attempt(function, class, address);
            }
            LockCall::LightweightOrWait(function) => {
                let class = match self.lightweight_class() {
                    LockClass::LightweightExclusive => LockClass::LightweightOrWait,
                    class => class,
                };
                self.attempt(function, class, address);
            }
        }
    }

    /// How a lightweight lock is asked for: the mode is the second argument.
    fn lightweight_class(&mut self) -> LockClass {
        if self.guest.register(Register::Rsi) & 0xff == EXCLUSIVE {
            LockClass::LightweightExclusive
        } else {
            LockClass::LightweightShared
        }
    }

    fn attempt(&mut self, function: FunctionId, class: LockClass, address: u64) {
        let stream = self.stream();
        self.attempts.insert(stream, Attempt { function, class, address });
    }

    fn end_attempt(&mut self, function: FunctionId) {
        let taken = self.guest.register(Register::Rax) & 0xff != 0;
        let stream = self.stream();
        // Another program may have other code where one has a function that tries.
        if self.attempts.get(&stream).is_none_or(|attempt| attempt.function != function) {
            return;
        }
        let Some(Attempt { class, address, .. }) = self.attempts.remove(&stream) else { return };
        if taken {
            self.event(EventKind::LockAcquire { class, address });
        } else {
            self.summary.attempts_without_lock += 1;
        }
    }

    /// Whether the running task is this program; the kernel's functions are everybody's.
    fn runs(&self, program: Option<ProgramId>) -> bool {
        let Some(program) = program else { return true };
        self.program() == Some(&self.hooks.programs[program])
    }

    /// Whether the running task is a program whose functions are hooked.
    pub fn runs_hooked_program(&self) -> bool {
        self.program().is_some_and(|name| self.hooks.programs.contains(name))
    }

    /// The program that the running task runs.
    fn program(&self) -> Option<&String> {
        self.writer.as_ref().map(|writer| &writer.tasks()[self.current.stream as usize].name)
    }

    /// The mark: kind in AL, transaction kind in AH, bit 16 of EAX for a roll-back as specified,
    /// sequence number in RCX, server process in RDX.
    fn mark(&mut self) {
        let value = self.guest.register(Register::Rax);
        let rolled_back = (value >> 16 & 1) as u8;
        let (kind, transaction) = (MarkKind::from_code(value as u8), (value >> 8) as u8 | rolled_back << 7);
        let sequence = self.guest.register(Register::Rcx);
        let server = self.guest.register(Register::Rdx) as u32;
        let kinds = self.facts.meta.transaction_kinds.len();
        if kind == MarkKind::TransactionEnd && !declared((value >> 8) as u8, kinds) {
            self.undeclared((value >> 8) as u8);
            return;
        }
        match (kind, self.phase) {
            (MarkKind::Start, Phase::Waiting) => self.phase = Phase::Starting,
            (MarkKind::Stop, Phase::Recording) => self.stop(),
            (MarkKind::TransactionEnd, Phase::Recording) => self.count_transaction(),
            _ => {}
        }
        if let (Phase::Recording, Some(writer)) = (self.phase, &mut self.writer) {
            self.tasks.marked(writer, self.current.stream, server);
        }
        self.event(EventKind::Mark { kind, transaction, sequence, server });
    }

    /// A transaction of a kind without a name: no simulation would take the trace, so it is given up here.
    #[cold]
    fn undeclared(&mut self, kind: u8) {
        if self.phase != Phase::Done {
            self.summary.undeclared_kind = Some(kind);
            self.fail(format!("a transaction of kind {kind} ended, which the workload does not declare"));
        }
    }

    /// Counts a transaction, for people who wait: the number lies beside the summary, and a capture
    /// that cannot write it goes on.
    fn count_transaction(&mut self) {
        self.transactions_ended += 1;
        let _ =
            std::fs::write(self.facts.summary.with_extension("count"), self.transactions_ended.to_string());
    }
}

/// Whether a mark's kind of transaction is one of those that the trace names: `kinds` of them, the first for none.
fn declared(kind: u8, kinds: usize) -> bool {
    (1..kinds).contains(&usize::from(kind))
}

#[cfg(test)]
mod tests {
    #[test]
    fn kinds_of_transactions_begin_with_one_and_end_with_the_last_that_is_named() {
        let declared: Vec<bool> = [0, 1, 2, 3, 128].map(|kind| super::declared(kind, 3)).into();
        assert_eq!(declared, [false, true, true, false, false]);
    }
}
