//! The processors as one service centre, as Du et al. 2001 section 3.2 see them: how long so many
//! tasks were ready or running, what was executed and how many left in that time; and what each kind
//! of transaction asks of the parts of the machine (their Table 6).

use std::collections::HashMap;

/// The centre while a given number of tasks is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadLevel {
    /// Cycles.
    pub cycles: u64,
    /// Tasks that left: to wait for a disk, a lock or another task, to sleep, or at their end.
    pub departures: u64,
    /// Instructions executed by all processors.
    pub instructions: u64,
}

/// The centre by the number of tasks in it, from 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadLevels {
    /// By number of tasks.
    pub levels: Vec<LoadLevel>,
    since: u64,
    instructions: u64,
}

impl LoadLevels {
    /// `active` tasks were there up to `now`, when `instructions` had been executed in all.
    pub fn note(&mut self, active: u64, now: u64, instructions: u64, leaves: bool) {
        let active = active as usize;
        if self.levels.len() <= active {
            self.levels.resize(active + 1, LoadLevel::default());
        }
        let level = &mut self.levels[active];
        level.cycles += now.saturating_sub(self.since);
        level.instructions += instructions - self.instructions;
        level.departures += u64::from(leaves);
        self.since = self.since.max(now);
        self.instructions = instructions;
    }

    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<LoadLevel> {
        let zero = LoadLevel::default();
        let then = earlier.levels.iter().chain(std::iter::repeat(&zero));
        let difference = |(now, then): (&LoadLevel, &LoadLevel)| LoadLevel {
            cycles: now.cycles - then.cycles,
            departures: now.departures - then.departures,
            instructions: now.instructions - then.instructions,
        };
        self.levels.iter().zip(then).map(difference).collect()
    }
}

/// What a task did: instructions, loads, stores, and disk requests handed in (reads, writes).
pub type Work = [u64; 5];

/// What the transactions of one kind asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Profile {
    /// Transactions followed from reply to reply.
    pub transactions: u64,
    /// Sum of the work of the server process.
    pub work: Work,
}

/// The work of each kind of transaction.
#[derive(Debug, Default)]
pub struct Profiles {
    /// By kind.
    pub kinds: Vec<Profile>,
    last: HashMap<usize, Work>,
}

impl Profiles {
    /// Tasks that served a transaction.
    pub fn servers(&self) -> impl Iterator<Item = usize> + '_ {
        self.last.keys().copied()
    }

    /// Task `task` served a transaction of `kind`, having done `work` in all; it is counted if the
    /// task's previous one was seen, and `measured`.
    pub fn served(&mut self, task: usize, kind: usize, work: Work, measured: bool) {
        let before = self.last.insert(task, work);
        let (Some(before), true) = (before, measured) else { return };
        if self.kinds.len() <= kind {
            self.kinds.resize(kind + 1, Profile::default());
        }
        let profile = &mut self.kinds[kind];
        profile.transactions += 1;
        profile.work.iter_mut().zip(work).zip(before).for_each(|((sum, now), then)| *sum += now - then);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_departures_belong_to_the_number_that_was_there() {
        let mut levels = LoadLevels::default();
        levels.note(0, 10, 0, false);
        levels.note(1, 30, 40, false);
        let base = levels.clone();
        levels.note(2, 50, 100, true);
        levels.note(1, 55, 104, true);
        let level = |cycles, departures, instructions| LoadLevel { cycles, departures, instructions };
        assert_eq!(levels.since(&base), [level(0, 0, 0), level(5, 1, 4), level(20, 1, 60)]);
        assert_eq!(base.levels, [level(10, 0, 0), level(20, 0, 40)]);
    }

    #[test]
    fn the_first_transaction_of_a_task_has_no_beginning_and_is_not_counted() {
        let mut profiles = Profiles::default();
        profiles.served(3, 1, [10; 5], true);
        profiles.served(3, 1, [17; 5], true);
        profiles.served(3, 2, [18; 5], false);
        assert_eq!(profiles.kinds[1], Profile { transactions: 1, work: [7; 5] });
        assert_eq!(profiles.kinds.len(), 2);
    }
}
