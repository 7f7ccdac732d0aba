//! Instructions and addresses that wait for values whose time is not known, because a load that
//! misses is among their ancestors. A few at a time: most code waits for known times only, which needs
//! no list.

use servsim_core::Cycles;

/// What something waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need(u64);

impl Need {
    /// The completion of an instruction, by its number.
    pub fn instruction(number: u64) -> Self {
        Self(number << 1)
    }

    /// The data of a load, by its number.
    pub fn load(number: u64) -> Self {
        Self(number << 1 | 1)
    }
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub target: Target,
    /// When what is known of its operands is there.
    pub known: u64,
    /// From its operands to its completion.
    pub latency: Cycles,
    /// Registers it writes.
    pub writes: u64,
}

/// All that wait. Who needs what is one list, so that nothing is allocated for each.
#[derive(Debug, Default)]
pub(crate) struct WaitingList {
    /// Those that wait, and how many of their needs are not met; and places that are free.
    places: Vec<(Waiting, usize)>,
    free: Vec<usize>,
    /// Needs, and the place of who has each.
    needs: Vec<(Need, usize)>,
    /// Those whose needs are met.
    ready: Vec<Waiting>,
}

impl WaitingList {
    pub fn is_empty(&self) -> bool {
        self.needs.is_empty()
    }

    /// `waiting` waits for all of `needs`, of which there is one.
    pub fn push(&mut self, waiting: Waiting, needs: impl Iterator<Item = Need>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((waiting, 0));
            self.places.len() - 1
        });
        let first = self.needs.len();
        // One that occurs twice is met twice.
        self.needs.extend(needs.map(|need| (need, place)));
        self.places[place] = (waiting, self.needs.len() - first);
    }

    /// `need` is met at `at`; those that need nothing else are ready.
    pub fn provide(&mut self, need: Need, at: u64) {
        let mut index = 0;
        while let Some(&(other, place)) = self.needs.get(index) {
            if other != need {
                index += 1;
                continue;
            }
            self.needs.swap_remove(index);
            let (waiting, missing) = &mut self.places[place];
            waiting.known = waiting.known.max(at);
            *missing -= 1;
            if *missing == 0 {
                self.ready.push(*waiting);
                self.free.push(place);
            }
        }
    }

    /// Removes and returns one that is ready.
    pub fn next_ready(&mut self) -> Option<Waiting> {
        self.ready.pop()
    }
}
