//! The last state-changing references, kept so that an internal fault can be replayed.
//!
//! A missing cell of a protocol table is a bug that thousands of references may have led to. The
//! ring keeps the last misses, upgrades, silent changes of state and evictions of all caches; those
//! of one line are everything that its copies' states depend on. Written on misses only.

use crate::protocol::checker::Step;
use servsim_core::{CacheId, LineAddr};

/// Steps kept: 1 MiB, some milliseconds of a commercial workload.
const KEPT: usize = 1 << 16;

/// A step of a line, packed in two words, so that it is written at once: at every miss, and hardly ever read.
#[derive(Debug, Clone, Copy)]
struct Entry {
    line: LineAddr,
    /// The processor, and above it the kind and the P bit.
    step: u64,
}

/// Where the kind of a step lies, and its P bit.
const KIND_SHIFT: u32 = 32;
const PRIVATE: u64 = 1 << 40;

impl Entry {
    #[inline]
    fn new(line: LineAddr, step: Step) -> Self {
        let (kind, cpu, private) = match step {
            Step::Read(cpu, private) => (0, cpu, private),
            Step::Write(cpu, private) => (1, cpu, private),
            Step::Evict(cpu) => (2, cpu, false),
        };
        Self { line, step: cpu as u64 | kind << KIND_SHIFT | if private { PRIVATE } else { 0 } }
    }

    fn step(self) -> Step {
        let (cpu, private) = (self.step as u32 as usize, self.step & PRIVATE != 0);
        match self.step >> KIND_SHIFT & 3 {
            0 => Step::Read(cpu, private),
            1 => Step::Write(cpu, private),
            _ => Step::Evict(cpu),
        }
    }
}

/// The ring.
#[derive(Debug, Default)]
pub struct History {
    ring: Vec<Entry>,
    next: usize,
}

impl History {
    /// Keeps one step of `line`.
    #[inline]
    pub fn keep(&mut self, line: LineAddr, step: Step) {
        let entry = Entry::new(line, step);
        match self.ring.get_mut(self.next) {
            Some(oldest) => {
                *oldest = entry;
                self.next = (self.next + 1) % KEPT;
            }
            None => self.begin(entry),
        }
    }

    /// The first steps of a run: the ring is as large as it is full.
    #[cold]
    fn begin(&mut self, entry: Entry) {
        self.ring.push(entry);
        self.next = self.ring.len() % KEPT;
    }

    /// What is kept of `line`, oldest first.
    pub fn of_line(&self, line: LineAddr) -> Vec<Step> {
        let (newer, older) = self.ring.split_at(self.next);
        let entries = older.iter().chain(newer);
        entries.filter(|entry| entry.line == line).map(|entry| entry.step()).collect()
    }
}

/// A pair of state and event for which the table has no cell: a bug of the table or of the engine.
/// The memory system unwinds with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCell {
    /// The protocol.
    pub protocol: &'static str,
    /// The state.
    pub state: &'static str,
    /// The event: a column of the table.
    pub event: &'static str,
    /// Whose copy.
    pub cache: CacheId,
    /// Of which line.
    pub line: LineAddr,
    /// The line's steps that are still known, the last being the one that met the pair.
    pub steps: Vec<Step>,
}

impl std::fmt::Display for MissingCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "protocol {} has no cell for state {} and event {} (line {:#x}, cache {})",
            self.protocol, self.state, self.event, self.line.0, self.cache
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_last_steps_in_order() {
        let mut history = History::default();
        for n in 0..KEPT + 10 {
            history.keep(LineAddr(n as u64 % 2), Step::Read(n, false));
        }
        let steps = history.of_line(LineAddr(1));
        assert_eq!(steps.len(), KEPT / 2);
        assert_eq!(steps[0], Step::Read(11, false));
        assert_eq!(steps.last(), Some(&Step::Read(KEPT + 9, false)));
    }
}
