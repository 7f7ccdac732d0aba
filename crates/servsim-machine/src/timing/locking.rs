//! The engine's side of locks: what taking, waiting for and giving up a lock does to processors.
//!
//! A processor that spins loads the lock's word again and again, `locks.spin_interval` apart: hits
//! in its own cache until the holder's store takes the copy away, then a miss. It takes no
//! interrupt while it spins in the kernel or its task holds a kernel spinlock, as `spin_lock_irqsave`
//! sees to it, and the time slice waits too. A task that sleeps for a lock leaves its processor; the
//! kernel's work for that (the switch itself) is not made up.

use super::engine::Engine;
use super::pending::Pending;
use super::processor::{Context, Spinning, Wait};
use crate::place::page_of;
use crate::software::Executor;
use servsim_config::Arbitration;
use servsim_core::{CpuId, LineAddr, LockClass, Op, Record, TaskId};
use servsim_mem::{Access, WordMask};
use servsim_os::locks::{LONGEST_SPIN_HOLD, USER_SPINS};
use servsim_os::Verdict;

impl<W: WordMask> Engine<'_, W> {
    /// Who takes locks when `cpu` executes `context`.
    fn owner(&self, cpu: CpuId, context: Context) -> u32 {
        match context {
            Context::Task(task) => task,
            Context::Interrupt(_) => (self.software.streams.len() + cpu.0) as u32,
        }
    }

    /// The event under way takes a lock; the position is already behind it.
    pub(super) fn acquire(&mut self, cpu: CpuId, context: Context, class: LockClass, word: u64) {
        let handler = matches!(context, Context::Interrupt(_));
        if handler && !class.spins() {
            return; // A handler cannot sleep: the lock is not what the class says.
        }
        let (owner, now) = (self.owner(cpu, context), self.processors[cpu].time);
        match self.software.locks.acquire(owner, word, class, now) {
            Verdict::Granted => {}
            Verdict::Spin => {
                self.step_back(cpu, context);
                self.processors[cpu].spinning = Some(Spinning { word, class, loads: 0, tries: (0, 0) });
            }
            Verdict::Sleep => {
                self.step_back(cpu, context);
                self.leave(cpu);
            }
        }
    }

    /// `task` sleeps from `now` until `waker` wakes it: if that one waits for a lock which `task` keeps from it,
    /// neither would go on.
    pub(super) fn waits_for(&mut self, task: TaskId, waker: TaskId, now: u64) {
        if self.software.arbitration == Arbitration::Off {
            return;
        }
        if let Some(freed) = self.software.locks.sleeps_until_woken(task, waker, now) {
            self.make_ready(freed, now);
        }
        self.go_on_with_locks(now);
    }

    fn step_back(&mut self, cpu: CpuId, context: Context) {
        match context {
            Context::Task(task) => self.software.streams[task as usize].position -= 1,
            Context::Interrupt(_) => self.processors[cpu].handler_position -= 1,
        }
    }

    pub(super) fn release(&mut self, cpu: CpuId, context: Context, word: u64) {
        // A release does not tell its class: what was never taken is of a class left as recorded.
        if self.software.arbitration != Arbitration::All && !self.software.locks.knows(word) {
            return;
        }
        let (owner, now) = (self.owner(cpu, context), self.processors[cpu].time);
        let mut woken = Vec::new();
        self.software.locks.release(owner, word, now, &mut woken);
        self.wake_all(&woken, now);
    }

    /// The context leaves its processor, or ends: what that does to its locks.
    pub(super) fn leave_locks(&mut self, cpu: CpuId, context: Context, ends: bool) {
        let (owner, now) = (self.owner(cpu, context), self.processors[cpu].time);
        let mut woken = Vec::new();
        self.software.locks.leave(owner, ends, now, &mut woken);
        self.wake_all(&woken, now);
    }

    fn wake_all(&mut self, woken: &[TaskId], now: u64) {
        woken.iter().for_each(|&task| self.make_ready(task, now));
        self.go_on_with_locks(now);
    }

    /// Skips the turns of `cpu`, which spins, until it is handed the lock or has spun for too long.
    fn skip_turns(&mut self, cpu: CpuId) {
        let processor = &mut self.processors[cpu];
        if let Some(spin) = &mut processor.spinning {
            spin.tries = (processor.time, processor.time + LONGEST_SPIN_HOLD + 1);
        }
        (processor.wait, processor.since) = (Wait::Lock, processor.time);
        self.skipping.push(cpu);
    }

    /// Those whose turns are skipped and that were handed their lock by `now` go on at their next turn.
    fn go_on_with_locks(&mut self, now: u64) {
        let mut at = 0;
        while let Some(&cpu) = self.skipping.get(at) {
            let owner = self.processors[cpu].context.map(|context| self.owner(cpu, context));
            if owner.is_some_and(|owner| self.software.locks.was_handed(owner)) {
                self.end_skipping(cpu, now);
            } else {
                at += 1;
            }
        }
    }

    /// The turns of `cpu` are skipped no longer than to the first from `now` on.
    fn end_skipping(&mut self, cpu: CpuId, now: u64) {
        self.skipping.retain(|&other| other != cpu);
        self.stale.insert(cpu);
        let interval = self.model.spin_interval.0.max(1);
        let processor = &mut self.processors[cpu];
        let (first, _) = processor.spinning.map_or((now, now), |spin| spin.tries);
        let turns = now.saturating_sub(first).div_ceil(interval);
        processor.time = first + turns * interval;
        processor.settle(processor.time);
        processor.slice = processor.slice.saturating_sub(turns);
        processor.wait = Wait::Nothing;
    }

    /// Whether interrupts and the end of the time slice must wait on `cpu`.
    pub(super) fn is_masked(&mut self, cpu: CpuId) -> bool {
        let processor = &self.processors[cpu];
        if processor.spinning.is_some_and(|spin| spin.class.is_kernel()) {
            return true;
        }
        let Some(context) = processor.context else { return false };
        let (owner, now) = (self.owner(cpu, context), processor.time);
        if self.software.locks.spins_held(owner) == 0 {
            return false;
        }
        let mut woken = Vec::new();
        self.software.locks.expire(owner, now, &mut woken);
        self.wake_all(&woken, now);
        self.software.locks.spins_held(owner) > 0
    }

    /// One iteration of a processor that spins: tries the lock, then loads its word.
    pub(super) fn spin(&mut self, cpu: CpuId, context: Context, spin: Spinning) {
        if let (Wait::Lock, (_, last)) = (self.processors[cpu].wait, spin.tries) {
            self.end_skipping(cpu, last);
        }
        let (owner, now) = (self.owner(cpu, context), self.processors[cpu].time);
        self.expire_holders(owner, spin.word, now);
        if self.software.locks.acquire(owner, spin.word, spin.class, now) == Verdict::Granted {
            self.processors[cpu].spinning = None;
            match context {
                Context::Task(task) => self.software.streams[task as usize].position += 1,
                Context::Interrupt(_) => self.processors[cpu].handler_position += 1,
            }
            return;
        }
        let in_user_mode = matches!(context, Context::Task(_)) && !spin.class.is_kernel();
        if let (Context::Task(task), true) = (context, in_user_mode && self.processors[cpu].slice == 0) {
            self.processors[cpu].spinning = None;
            return self.end_slice(cpu, task);
        }
        if in_user_mode && spin.loads == USER_SPINS {
            self.processors[cpu].spinning = None;
            self.software.locks.sleep_instead(owner);
            return self.leave(cpu);
        }
        if self.model.skips_spins && spin.loads > 0 && spin.class.is_kernel() {
            return self.skip_turns(cpu);
        }
        self.processors[cpu].spinning = Some(Spinning { loads: spin.loads + 1, ..spin });
        let pending = self.spin_load(cpu, context, spin);
        self.software.locks.count_spin(spin.class);
        let mode = usize::from(spin.class.is_kernel());
        let interval = self.model.spin_interval;
        self.accounts.task_references[pending.access.task as usize][mode][Op::Load as usize] += 1;
        let processor = &mut self.processors[cpu];
        processor.references[mode][Op::Load as usize] += 1;
        processor.slice = processor.slice.saturating_sub(1);
        processor.time += interval;
        processor.times.lock_spin += interval;
        processor.note(processor.time);
        let in_buffer = processor.stores.iter().any(|store| store.access.line == pending.access.line);
        let now = processor.time;
        if !in_buffer && self.port.try_hit(&pending.access, now).is_none() {
            self.demand(cpu, pending);
        }
    }

    fn expire_holders(&mut self, owner: u32, word: u64, now: u64) {
        let mut woken = Vec::new();
        self.software.locks.expire_holders(owner, word, now, &mut woken);
        self.wake_all(&woken, now);
    }

    fn spin_load(&self, cpu: CpuId, context: Context, spin: Spinning) -> Pending<W> {
        let record = Record::new(0, Op::Load, spin.word, 4);
        let (line, first) =
            (LineAddr::of(spin.word, self.port.shift()), spin.word & ((1 << self.port.shift()) - 1));
        let task = match context {
            Context::Task(task) => task,
            Context::Interrupt(index) => {
                self.software.interrupts[index].batch.records.first().map_or(0, |record| record.task)
            }
        };
        let access = Access {
            at: cpu,
            line,
            words: W::of_bytes(first, first),
            write: false,
            kernel: spin.class.is_kernel(),
            task,
            slot: Op::Load as usize,
        };
        Pending { access, page: page_of(self.software.privacy, &record), fetching: false }
    }
}
