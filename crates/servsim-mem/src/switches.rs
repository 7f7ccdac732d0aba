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
//! Kept per task and line: the quantum of first use. Kept per cache and line: who took the last
//! copy, and when. Both change on first uses and losses only, so a hit costs one comparison.

use servsim_core::source::PageHash;
use std::collections::HashMap;

const NONE: u32 = u32::MAX;

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

/// Who ended a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// The fill of a task.
    Fill(u32),
    /// A transaction of another cache.
    Snoop,
    /// The flush at a switch.
    Flush,
}

#[derive(Debug, Clone, Copy)]
struct Task {
    cpu: u32,
    /// Number of its current or last quantum.
    quantum: u32,
    /// Number of the quantum in which it came to `cpu` from elsewhere.
    arrived: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Loss {
    taker: Taker,
    quantum: u32,
}

/// Who runs where, who used what, who took what.
#[derive(Debug)]
pub struct Switches {
    running: Vec<u32>,
    tasks: Vec<Task>,
    quanta: u32,
    first_use: HashMap<u64, u32, PageHash>,
    losses: HashMap<u64, Loss, PageHash>,
}

fn key(high: u32, line_id: u32) -> u64 {
    u64::from(high) << 32 | u64::from(line_id)
}

impl Switches {
    /// Idle processors.
    pub fn new(processors: usize) -> Self {
        Self {
            running: vec![NONE; processors],
            tasks: Vec::new(),
            quanta: 0,
            first_use: HashMap::default(),
            losses: HashMap::default(),
        }
    }

    /// The task in its quantum at `cpu`, if there is one.
    #[inline]
    pub fn running(&self, cpu: usize) -> Option<u32> {
        Some(self.running[cpu]).filter(|&task| task != NONE)
    }

    /// Begins a quantum of `task` at `cpu`.
    pub fn begin(&mut self, cpu: usize, task: u32) {
        self.running[cpu] = task;
        self.quanta += 1;
        let index = task as usize;
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, Task { cpu: NONE, quantum: 0, arrived: None });
        }
        let state = &mut self.tasks[index];
        if state.cpu != cpu as u32 {
            state.arrived = (state.cpu != NONE).then_some(self.quanta);
            state.cpu = cpu as u32;
        }
        state.quantum = self.quanta;
    }

    /// `task` uses a line; called at least when it was not the last to use the copy.
    pub fn used(&mut self, task: u32, line_id: u32) {
        if let Some(quantum) = self.tasks.get(task as usize).map(|t| t.quantum).filter(|&q| q != 0) {
            self.first_use.entry(key(task, line_id)).or_insert(quantum);
        }
    }

    /// A cache lost its copy.
    pub fn lost(&mut self, cache: usize, line_id: u32, taker: Taker) {
        self.losses.insert(key(cache as u32, line_id), Loss { taker, quantum: self.quanta });
    }

    /// Why a miss of `task` that is no invalidation miss is a context-switch miss, if it is one.
    /// `cache` is the cache of `cpu` that misses.
    pub fn cause(&self, (cpu, cache): (usize, usize), task: u32, line_id: u32) -> Option<SwitchCause> {
        let state = self.tasks.get(task as usize).filter(|t| t.cpu == cpu as u32)?;
        let first = *self.first_use.get(&key(task, line_id))?;
        if first >= state.quantum {
            return None;
        }
        let loss = self.losses.get(&key(cache as u32, line_id));
        match loss.map(|loss| loss.taker) {
            Some(Taker::Fill(other)) if other != task && self.has_quanta(other) => {
                return Some(SwitchCause::Evicted)
            }
            Some(Taker::Flush) => return Some(SwitchCause::Flushed),
            _ => {}
        }
        let arrived = state.arrived?;
        loss.is_none_or(|loss| loss.quantum < arrived).then_some(SwitchCause::Migrated)
    }

    /// Whether `task` is a process: handlers have no quanta.
    fn has_quanta(&self, task: u32) -> bool {
        self.tasks.get(task as usize).is_some_and(|t| t.cpu != NONE)
    }
}
