//! Context-switch misses: those that a process would not have made, had it kept its processor to
//! itself.
//!
//! A *quantum* is a maximal run of one task on one processor; interrupt handlers neither begin nor
//! end one. A cold, capacity or conflict miss is a context-switch miss when the task used the line
//! in an earlier quantum, and one of these holds: another task's fill took this cache's copy; the
//! task came to this processor from another one, and this cache has not had a copy since it came;
//! the copy was flushed when the task left the processor. (Foglia et al. 2004 sections 2 and 5 name
//! these misses without a test for them; this is one.)
//!
//! Kept per task and line: whether it was used, in the current quantum and in earlier ones. Kept per
//! cache and line: who took the last copy, and when. Both change on first uses and losses only, so a
//! hit costs one comparison. But every miss (3 % of references) does both, nearly always in places
//! that the host's caches have lost; so both are as dense as they can be: two bits per line and task,
//! in words of 64 lines, and 8 bytes for the last loss of each line, beside the line's copies; 16 bytes only for what other
//! caches have lost before.

#![allow(clippy::inline_always)] // as in system.rs

mod loss;
mod uses;

use crate::running_tasks::{RunningTasks, NONE};
use crate::snapshot::{Damaged, Reader, Writer};
use crate::sparse::{Entry, Table};
use loss::LossOf;
pub use loss::{Loss, LossCause, Taker};
use servsim_core::{CacheId, CpuId, LineAddr};
use uses::{Uses, BLOCK};

/// Why a miss is a context-switch miss, in the order of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SwitchCause {
    /// Another task's fill took the copy.
    Evicted = 0,
    /// The task came from another processor.
    Migrated = 1,
    /// The copy was flushed at the switch.
    Flushed = 2,
}

impl SwitchCause {
    /// Names in results, in order.
    pub const NAMES: [&'static str; 3] = ["evicted", "migrated", "flushed"];
}

#[derive(Debug, Clone, Copy)]
struct Task {
    /// Number of its current or last quantum.
    quantum: u32,
    /// Number of the quantum in which it came to its processor from elsewhere.
    arrived: Option<u32>,
}

/// Who runs where, who used what, who took what.
#[derive(Debug)]
pub struct Switches {
    running: RunningTasks,
    /// By processor: the last task that began a quantum there, wherever it is now.
    last: Vec<u32>,
    tasks: Vec<Task>,
    quanta: u32,
    /// By block of lines and task.
    uses: Table<Uses>,
    /// By line and cache: the losses that the record of the line has no room for ([`Switches::lost`]).
    losses: Table<LossOf>,
    /// The last of those, on its way there: its place is brought nearer first.
    leaving: LossOf,
    /// Where somebody else knows: whether the task of the access under way used its line in an earlier quantum.
    pub told: Option<bool>,
    /// Whether nobody asks by which cause a miss was, so that neither uses nor losses are kept.
    unasked: bool,
}

impl Switches {
    /// Idle processors.
    pub fn new(processors: usize) -> Self {
        Self {
            running: RunningTasks::new(processors),
            last: vec![NONE; processors],
            tasks: Vec::new(),
            quanta: 0,
            uses: Table::default(),
            losses: Table::default(),
            leaving: LossOf::FREE,
            told: None,
            unasked: false,
        }
    }

    /// Nobody will ask for causes: what they follow from is not kept, and what counts them counts nothing that holds.
    pub fn leave_out_causes(&mut self) {
        self.unasked = true;
        (self.uses, self.losses, self.leaving) = (Table::default(), Table::default(), LossOf::FREE);
    }

    /// Whether `task` is in its quantum at `cpu`.
    #[inline]
    pub fn runs(&self, cpu: CpuId, task: u32) -> bool {
        self.running.runs(cpu, task)
    }

    /// The last task that began a quantum at `cpu`, if there was one.
    pub fn last(&self, cpu: CpuId) -> Option<u32> {
        Some(self.last[cpu]).filter(|&task| task != NONE)
    }

    /// Begins a quantum of `task` at `cpu`.
    pub fn begin(&mut self, cpu: CpuId, task: u32) {
        let before = self.running.begin(cpu, task);
        self.last[cpu] = task;
        self.quanta += 1;
        let index = task as usize;
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, Task { quantum: 0, arrived: None });
        }
        let state = &mut self.tasks[index];
        if before.is_some_and(|before| before != cpu) {
            state.arrived = Some(self.quanta);
        }
        state.quantum = self.quanta;
    }

    /// `task` uses a line; called at least when it was not the last to use the copy. Whether it used it before its present
    /// quantum.
    #[inline]
    pub fn used(&mut self, task: u32, line: LineAddr) -> bool {
        if let Some(told) = self.told {
            return told;
        }
        let quantum = self.tasks.get(task as usize).map_or(0, |state| state.quantum);
        quantum != 0
            && !self.unasked
            && self.uses.at((line.0 / BLOCK, task)).add(1 << (line.0 % BLOCK), quantum)
    }

    /// Brings nearer what a miss of `task` in `cache` may ask.
    #[inline]
    pub fn prefetch(&self, cache: CacheId, task: u32, line: LineAddr) {
        if self.unasked {
            return;
        }
        self.losses.prefetch((line, cache.0 as u32));
        if self.told.is_none() {
            self.uses.prefetch((line.0 / BLOCK, task));
        }
    }

    /// A cache lost its copy of `line`, the last loss of which is in the line's record; another cache's that was there
    /// goes among those by line and cache. Most lines are lost by one cache only, until their task goes elsewhere.
    #[inline(always)] // two comparisons
    pub fn lost(&mut self, cache: CacheId, line: LineAddr, taker: Taker, last: &mut Loss) {
        if self.unasked {
            return;
        }
        let before = std::mem::replace(last, Loss::of(cache, taker, self.quanta));
        if before.cache() != cache.0 as u32 && before != Loss::NEVER {
            self.keep(LossOf { line, loss: before });
        }
    }

    /// Keeps a loss that is not the last of its line.
    #[inline(never)]
    fn keep(&mut self, loss: LossOf) {
        self.losses.prefetch(loss.key());
        let before = std::mem::replace(&mut self.leaving, loss);
        if !before.is_free() {
            *self.losses.at(before.key()) = before;
        }
    }

    /// How `cache` lost `line` last, as far as it had it; `last` is in the line's record.
    #[inline]
    pub fn loss(&self, cache: CacheId, line: LineAddr, last: Loss) -> Loss {
        let cache = cache.0 as u32;
        if last.cache() == cache && last != Loss::NEVER {
            return last;
        }
        if self.leaving.is((line, cache)) {
            return self.leaving.loss;
        }
        self.losses.get((line, cache)).map_or(Loss::NEVER, |kept| kept.loss)
    }

    /// Why a miss of `task` on a line that it used in an earlier quantum is a context-switch miss, if it is one. It is no
    /// invalidation miss, and made on `cpu`, whose cache lost the line by `loss`.
    pub fn cause(&self, cpu: CpuId, task: u32, loss: Loss) -> Option<SwitchCause> {
        let state = self.tasks.get(task as usize).filter(|_| self.running.processor_of(task) == Some(cpu))?;
        match loss.taker() {
            Some(Taker::Fill(other)) if other != task && self.has_quanta(other) => {
                return Some(SwitchCause::Evicted)
            }
            Some(Taker::Flush) => return Some(SwitchCause::Flushed),
            _ => {}
        }
        let arrived = state.arrived?;
        (loss.taker().is_none() || loss.quantum < arrived).then_some(SwitchCause::Migrated)
    }

    /// Writes who runs where, who used what, who took what; `last` is what records of lines have of the last.
    pub fn save(&self, last: Vec<(LineAddr, Loss)>, out: &mut Writer) {
        let Self {
            running: RunningTasks { running: _, processors },
            last: last_tasks,
            tasks,
            quanta,
            uses,
            losses,
            leaving,
            told: _,
            unasked: _,
        } = self;
        last_tasks.iter().for_each(|&task| out.put(u64::from(task)));
        out.put(u64::from(*quanta));
        out.put(tasks.len() as u64);
        for (&Task { quantum, arrived }, &cpu) in tasks.iter().zip(processors) {
            out.put(u64::from(cpu));
            out.put(u64::from(quantum));
            out.put(arrived.map_or(0, |quantum| u64::from(quantum) + 1));
        }
        out.put(uses.len() as u64);
        for Uses { block, task, earlier, now, quantum } in uses.sorted() {
            [block, u64::from(task), earlier, now, u64::from(quantum)]
                .iter()
                .for_each(|&value| out.put(value));
        }
        let mut losses: Vec<LossOf> = losses.sorted();
        losses.extend(Some(*leaving).filter(|loss| !loss.is_free()));
        losses.extend(last.into_iter().map(|(line, loss)| LossOf { line, loss }));
        losses.retain(|kept| kept.loss != Loss::NEVER);
        // Newer ones of the same cache and line come behind older ones.
        losses.sort_by_key(Entry::key);
        losses.dedup_by(|newer, older| {
            let same = newer.key() == older.key();
            if same {
                *older = *newer;
            }
            same
        });
        out.put(losses.len() as u64);
        for LossOf { line, loss: Loss { taken, quantum } } in losses {
            [line.0, u64::from(taken), u64::from(quantum)].iter().for_each(|&value| out.put(value));
        }
    }

    /// Takes over what others knew.
    ///
    /// # Errors
    /// When the bytes are no such state.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        for task in &mut self.last {
            *task = from.short()?;
        }
        self.quanta = from.short()?;
        self.tasks.clear();
        self.running = RunningTasks::new(self.last.len());
        for _ in 0..from.length()? {
            let (cpu, quantum) = (from.short()?, from.short()?);
            if cpu != NONE && cpu as usize >= self.last.len() {
                return Err(Damaged("a processor in it is one too many"));
            }
            let arrived = from.take()?.checked_sub(1).map(|quantum| quantum as u32);
            self.tasks.push(Task { quantum, arrived });
            self.running.processors.push(cpu);
        }
        for (cpu, &task) in self.last.iter().enumerate() {
            if self.running.processor_of(task) == Some(CpuId(cpu)) {
                self.running.running[cpu] = task;
            }
        }
        let uses = from.length()?;
        self.uses = Table::with_room_for(uses);
        for _ in 0..uses {
            let (block, task) = (from.take()?, from.below(u64::from(NONE))? as u32);
            let (earlier, now, quantum) = (from.take()?, from.take()?, from.short()?);
            *self.uses.at((block, task)) = Uses { block, task, earlier, now, quantum };
        }
        let losses = from.length()?;
        (self.losses, self.leaving) = (Table::with_room_for(losses), LossOf::FREE);
        for _ in 0..losses {
            let line = LineAddr(from.below(u64::MAX)?);
            let loss = Loss { taken: from.short()?, quantum: from.short()? };
            if loss.cache() as usize >= self.last.len() {
                return Err(Damaged("a cache in it is one too many"));
            }
            self.losses.at((line, loss.cache())).loss = loss;
        }
        Ok(())
    }

    /// Host memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.uses.bytes() + self.losses.bytes()
    }

    /// Whether `task` is a process: handlers have no quanta.
    fn has_quanta(&self, task: u32) -> bool {
        self.running.processor_of(task).is_some()
    }
}
