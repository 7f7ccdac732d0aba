//! Instructions and addresses that wait for values whose time is not known, because a load that
//! misses is among their ancestors. A few at a time: most code waits for known times only, which needs
//! no list.

use servsim_core::Cycles;

/// What something waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The completion of an instruction, by its number.
    Instruction(u64),
    /// The data of a load, by its number.
    Load(u64),
}

/// What is known once all needs are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// When an instruction completes.
    Completion(u64),
    /// When a load has its address.
    Address(u64),
}

/// One that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub target: Target,
    /// When what is known of its operands is there.
    pub known: u64,
    /// From its operands to its completion.
    pub latency: Cycles,
    pub needs: Vec<Need>,
    /// Registers it writes.
    pub writes: u64,
}

/// All that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct WaitingList {
    waiting: Vec<Waiting>,
    /// Empty lists of needs, to be used again.
    spare: Vec<Vec<Need>>,
}

impl WaitingList {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// An empty list of needs.
    pub fn list(&mut self) -> Vec<Need> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a list of needs back.
    pub fn recycle(&mut self, mut needs: Vec<Need>) {
        needs.clear();
        self.spare.push(needs);
    }

    pub fn push(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
    }

    /// `need` is met at `at`; removes and returns those that need nothing else.
    pub fn provide(&mut self, need: Need, at: u64) -> Vec<Waiting> {
        for waiting in &mut self.waiting {
            if let Some(place) = waiting.needs.iter().position(|&other| other == need) {
                waiting.needs.swap_remove(place);
                waiting.known = waiting.known.max(at);
            }
        }
        let mut done = Vec::new();
        let mut index = 0;
        while index < self.waiting.len() {
            if self.waiting[index].needs.is_empty() {
                done.push(self.waiting.remove(index));
            } else {
                index += 1;
            }
        }
        done
    }
}
