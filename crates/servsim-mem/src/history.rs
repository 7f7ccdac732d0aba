//! The last state-changing references, kept so that an internal fault can be replayed.
//!
//! A missing cell of a protocol table is a bug that thousands of references may have led to. The
//! ring keeps the last misses, upgrades, silent changes of state and evictions of all caches; those
//! of one line are everything that its copies' states depend on. Written on misses only.

use crate::protocol::checker::Step;

/// Steps kept: 1.5 MiB, some milliseconds of a commercial workload.
const KEPT: usize = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct Entry {
    line: u64,
    step: Step,
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
    pub fn keep(&mut self, line: u64, step: Step) {
        let entry = Entry { line, step };
        if self.ring.len() < KEPT {
            self.ring.push(entry);
        } else {
            self.ring[self.next] = entry;
            self.next = (self.next + 1) % KEPT;
        }
    }

    /// What is kept of `line`, oldest first.
    pub fn of_line(&self, line: u64) -> Vec<Step> {
        let (newer, older) = self.ring.split_at(self.next);
        let entries = older.iter().chain(newer);
        entries.filter(|entry| entry.line == line).map(|entry| entry.step).collect()
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
    pub cpu: usize,
    /// Of which line.
    pub line: u64,
    /// The line's steps that are still known, the last being the one that met the pair.
    pub steps: Vec<Step>,
}

impl std::fmt::Display for MissingCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "protocol {} has no cell for state {} and event {} (line {:#x}, processor {})",
            self.protocol, self.state, self.event, self.line, self.cpu
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
            history.keep(n as u64 % 2, Step::Read(n, false));
        }
        let steps = history.of_line(1);
        assert_eq!(steps.len(), KEPT / 2);
        assert_eq!(steps[0], Step::Read(11, false));
        assert_eq!(steps.last(), Some(&Step::Read(KEPT + 9, false)));
    }
}
