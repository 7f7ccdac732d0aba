//! A machine of several in one pass, which is asked only for what is not known of all of them
//! ([`crate::multi_config`]).
//!
//! What is left are uses of lines that no cache has used for long: what each looks up lies in places that the host's
//! caches have lost. But all are known in advance, so it is brought nearer while those before it are performed. And
//! what is the same on every machine is worked out once for all: the line, its words, its page, the cache, the place of the
//! line's record.

// The loop over steps is one function.
#![allow(clippy::inline_always)]

use super::{count_transaction, Facts, Run};
use crate::setup::Setup;
use servsim_core::{CacheId, CpuId, Event, LineAddr};
use servsim_mem::late_uses::LateUses;
use servsim_mem::{Access, HierarchySpec, Page, WordMask};

/// A use of a line that is left to the machines, whose reference somebody else counts.
#[derive(Clone, Copy)]
pub(crate) struct LeftUse<W> {
    pub line: LineAddr,
    pub task: u32,
    /// Of the record of the line.
    pub place: u32,
    pub words: W,
    pub cache: u16,
    /// The operation's number.
    pub slot: u8,
    /// Union of the flags below.
    pub flags: u8,
}

/// Flag of a use: it was made in kernel mode.
pub(crate) const IN_KERNEL: u8 = 1;
/// It is a store.
pub(crate) const WRITE: u8 = 2;
/// Its task used the line in an earlier quantum.
pub(crate) const USED_EARLIER: u8 = 4;
/// Its page is private.
pub(crate) const ON_PRIVATE: u8 = 8;
/// It is known whether its page is the kernel's.
pub(crate) const OWNER_KNOWN: u8 = 16;
/// It is.
pub(crate) const ON_KERNELS: u8 = 32;

impl<W: Copy> LeftUse<W> {
    #[inline(always)]
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline(always)]
    fn access(&self) -> Access<W, CacheId> {
        let Self { line, task, place: _, words, cache, slot, flags: _ } = *self;
        let (write, kernel) = (self.has(WRITE), self.has(IN_KERNEL));
        Access { at: CacheId(usize::from(cache)), line, words, write, kernel, task, slot: usize::from(slot) }
    }

    #[inline(always)]
    fn page(&self) -> Page {
        let kernel = self.has(OWNER_KNOWN).then(|| self.has(ON_KERNELS));
        Page { private: self.has(ON_PRIVATE), undecided: false, kernel }
    }
}

/// What a machine of several is told.
#[derive(Clone, Copy)]
pub(crate) enum Step<W> {
    /// A use to perform.
    Use(LeftUse<W>),
    /// Uses that were left out.
    LateUses(LateUses<W>),
    /// How many lines the cache that is asked next has used since it used a line.
    Age(LineAddr, usize),
    /// A task runs on a processor from here on.
    Switch(CpuId, u32),
    /// The end of a transaction.
    End(Event),
}

/// Steps from one that is performed to the one whose set is brought nearer, and to the one whose copy is.
const FAR: usize = 16;
const NEAR: usize = 8;

impl<W: WordMask> Run<W> {
    /// Nothing performed yet, by a machine that is asked only for what is left ([`Run::perform_left`]).
    pub fn of_what_is_left(setup: &Setup, spec: &HierarchySpec, facts: &Facts) -> Self {
        let mut run = Self::of_all(&Setup { shadow: false, ..setup.clone() }, spec, facts);
        run.caches.system.defer_stamps(setup.shadow.then(|| setup.geometry.frames()));
        if spec.shared.is_empty() {
            run.caches.system.leave_out_places();
        }
        run
    }

    /// Performs what is left of a sequence of records.
    #[inline(never)]
    pub fn perform_left(&mut self, steps: &[Step<W>]) {
        for (place, step) in steps.iter().enumerate() {
            self.approach_set(steps.get(place + FAR));
            self.approach_copy(steps.get(place + NEAR));
            self.perform_step(step);
        }
    }

    /// Brings nearer what tells where the line of a step is, and what is known of it.
    #[inline(always)]
    fn approach_set(&self, step: Option<&Step<W>>) {
        let system = &self.caches.system;
        match step {
            Some(Step::Use(left)) => {
                system.approach_set(CacheId(usize::from(left.cache)), left.line);
                system.approach_record(left.place as usize);
            }
            Some(Step::LateUses(uses)) => system.approach_set(uses.cache, uses.line),
            _ => {}
        }
    }

    /// Brings nearer where it is, or what its miss will look up.
    #[inline(always)]
    fn approach_copy(&self, step: Option<&Step<W>>) {
        match step {
            Some(Step::Use(left)) => self.caches.approach_left(&left.access()),
            Some(Step::LateUses(uses)) => {
                self.caches.system.approach_copy(uses.cache, uses.line);
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn perform_step(&mut self, step: &Step<W>) {
        let Self { caches, counted, .. } = self;
        match step {
            Step::Use(left) => {
                caches.system.switches.told = Some(left.has(USED_EARLIER));
                caches.access_left(&left.access(), left.place as usize, left.page());
                caches.system.ages.clear();
            }
            Step::LateUses(uses) => caches.system.note_late_uses(uses),
            Step::Age(line, age) => caches.system.ages.push((*line, *age)),
            Step::Switch(cpu, task) => caches.system.run_task(*cpu, *task),
            Step::End(event) => count_transaction(&mut counted.transactions, *event),
        }
    }
}
