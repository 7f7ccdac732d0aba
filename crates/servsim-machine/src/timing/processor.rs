//! The state of one simulated processor.

use super::history::History;
use super::pending::Pending;
use super::prefetch_unit::Prefetching;
use super::translator::Translator;
use crate::result::ProcessorTimes;
use servsim_core::{Cycles, LineAddr, LockClass, Op, TaskId};
use servsim_cpu::{Core, Parameters};
use servsim_mem::{HierarchySpec, WordMask};
use std::collections::VecDeque;

/// What a processor executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// A task.
    Task(TaskId),
    /// An interrupt handler, by number.
    Interrupt(usize),
}

/// What a processor waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it runs.
    Nothing,
    /// The data of a demand access.
    Demand,
    /// The next store of its buffer to complete.
    Store,
    /// A load under way to complete.
    Load,
    /// A ready task.
    Task,
    /// A kernel spinlock, in a run that skips its turns.
    Lock,
}

/// The lock that a processor spins for.
#[derive(Debug, Clone, Copy)]
pub struct Spinning {
    /// Its word.
    pub word: u64,
    /// Its class.
    pub class: LockClass,
    /// Loads so far.
    pub loads: u32,
    /// When it tries next, and when it does so at the latest, where turns are skipped.
    pub tries: (u64, u64),
}

/// One processor.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // where it is within a record
pub struct Processor<W> {
    /// Its local time: when it can act next, unless it waits.
    pub time: u64,
    /// What it waits for.
    pub wait: Wait,
    /// What it executes.
    pub context: Option<Context>,
    /// The task that an interrupt handler interrupted.
    pub interrupted: Option<TaskId>,
    /// Position in the handler.
    pub handler_position: usize,
    /// Bytes of the current record that are already done (line-crossing accesses).
    pub offset: u64,
    /// References left of the time slice.
    pub slice: u64,
    /// The same for the interrupted task.
    pub saved_slice: u64,
    /// The demand access that waits for the bus or its data.
    pub demand: Option<Pending<W>>,
    /// Stores that wait, oldest first.
    pub stores: VecDeque<Pending<W>>,
    /// The line that a store fetched which was not performed then, and when it came.
    pub fetched_first: Option<(LineAddr, u64)>,
    /// It comes back to a store whose line it waited for: that is counted already as one that missed.
    pub repeats_store: bool,
    /// The lock it spins for.
    pub spinning: Option<Spinning>,
    /// Since when it waits.
    pub since: u64,
    /// Its core, unless every reference takes a fixed time.
    pub core: Option<Core<Pending<W>>>,
    /// Whether it has one of the next three.
    pub has_more: bool,
    /// Its prefetcher, if it has one.
    pub prefetching: Option<Box<Prefetching<W>>>,
    /// Its address translation, if that is simulated.
    pub translator: Option<Box<Translator>>,
    /// Its last charges, while the measured window may begin or end.
    pub history: Option<Box<History>>,
    /// The mispredicted branch before the record at hand is paid for.
    pub branch_paid: bool,
    /// The fetches of the record at hand are done, and so many of its instructions have entered.
    pub fetched: bool,
    /// See `fetched`.
    pub entered: u8,
    /// The load at hand found its data in this level, and waits until fewer loads are under way.
    pub found: Option<usize>,
    /// The load at hand waited until fewer loads were under way.
    pub held: bool,
    /// What interrupts took from it that it has not spent yet: it is to forget translations of pages that moved.
    pub shootdowns: Cycles,
    /// Where its cycles went.
    pub times: ProcessorTimes,
    /// References by mode and operation.
    pub references: [[u64; 3]; 2],
}

impl<W: WordMask> Processor<W> {
    /// An idle processor at time 0.
    pub fn new(core: Option<Parameters>, spec: &HierarchySpec, shift: u32) -> Self {
        let prefetching = spec.prefetch.as_ref().map(|prefetch| Box::new(Prefetching::new(prefetch, shift)));
        let translator = spec.tlb.map(|tlb| Box::new(Translator::new(tlb)));
        Self {
            has_more: prefetching.is_some() || translator.is_some(),
            prefetching,
            translator,
            history: None,
            core: core.map(Core::new),
            branch_paid: false,
            fetched: false,
            entered: 0,
            found: None,
            held: false,
            time: 0,
            wait: Wait::Task,
            context: None,
            interrupted: None,
            handler_position: 0,
            offset: 0,
            slice: 0,
            saved_slice: 0,
            demand: None,
            stores: VecDeque::new(),
            fetched_first: None,
            repeats_store: false,
            spinning: None,
            since: 0,
            shootdowns: Cycles(0),
            times: ProcessorTimes::default(),
            references: [[0; 3]; 2],
        }
    }

    /// Another stream's loads do not depend on those of the one before.
    pub fn change_context(&mut self) {
        if let Some(core) = &mut self.core {
            core.change_context();
        }
        if let Some(translator) = &mut self.translator {
            translator.done = false;
        }
    }

    /// Whether it executes an interrupt handler.
    pub fn is_in_handler(&self) -> bool {
        matches!(self.context, Some(Context::Interrupt(_)))
    }

    /// Whether it is in the middle of a record.
    pub fn is_within_record(&self) -> bool {
        self.offset != 0 || self.fetched || self.held || self.found.is_some()
    }

    /// Keeps its charges from now on, or no longer.
    pub fn keep_history(&mut self, keep: bool) {
        if keep == self.history.is_some() {
            return;
        }
        let charged_to = if self.wait == Wait::Nothing { self.time } else { self.since };
        self.history = keep.then(|| Box::new(History::new(charged_to, self.times)));
        self.has_more = self.prefetching.is_some() || self.translator.is_some() || keep;
    }

    /// All charges so far reach to `time`.
    #[inline]
    pub fn note(&mut self, time: u64) {
        if let Some(history) = &mut self.history {
            history.note(time, self.times);
        }
    }

    /// It waited from `from` to `until`, for the bus or for memory: with an access of this operation, or with a
    /// translation.
    pub fn stall(&mut self, from: u64, until: u64, bus: bool, slot: Option<usize>) {
        let waited = until - from;
        let times = &mut self.times;
        *(if bus { &mut times.bus_wait } else { &mut times.memory_stall }) += waited;
        *slot.map_or(&mut times.translation, |slot| &mut times.stalls[slot]) += waited;
        self.note(until);
    }

    /// Spends what interrupts took from it; whether there was anything.
    #[inline]
    pub fn forgets_translations(&mut self) -> bool {
        let cycles = std::mem::take(&mut self.shootdowns);
        if cycles == Cycles(0) {
            return false;
        }
        self.time += cycles;
        self.times.execute(true, cycles.0);
        self.note(self.time);
        true
    }

    /// Charges what it waits for up to `now`.
    pub fn settle(&mut self, now: u64) {
        if now <= self.since {
            return;
        }
        let since = std::mem::replace(&mut self.since, now);
        let walks = self.translator.as_ref().is_some_and(|translator| translator.walk.is_some());
        match self.wait {
            Wait::Nothing => self.since = since,
            Wait::Task => {
                self.times.idle += now - since;
                self.note(now);
            }
            Wait::Lock => {
                self.times.lock_spin += now - since;
                self.note(now);
            }
            Wait::Store => self.stall(since, now, false, Some(Op::Store as usize)),
            Wait::Load => self.stall(since, now, false, Some(Op::Load as usize)),
            Wait::Demand => {
                let slot = self.demand.as_ref().map_or(Op::Load as usize, |demand| demand.access.slot);
                self.stall(since, now, true, (!walks).then_some(slot));
            }
        }
    }

    /// What was charged up to `at`, when it is settled.
    pub fn times_at(&self, at: u64) -> ProcessorTimes {
        self.history.as_ref().and_then(|history| history.at(at)).unwrap_or(self.times)
    }

    /// When it acts next; `u64::MAX` while it waits.
    #[inline]
    pub fn next_time(&self) -> u64 {
        match self.wait {
            Wait::Nothing => self.time,
            Wait::Lock => self.spinning.map_or(u64::MAX, |spin| spin.tries.1),
            _ => u64::MAX,
        }
    }
}
