//! Where the users of a workload are: each waits with its server process, which runs, waits for a device,
//! or waits for another task, which in turn is somewhere. A closed queueing model has exactly these places
//! for its customers, so this account says which of its stations holds them.

use super::engine::{Engine, Happening};
use super::processor::Context;
use servsim_core::TaskId;
use servsim_mem::WordMask;
use std::cmp::Reverse;

/// Where a task is, seen from whom it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Ready or running.
    Processors,
    /// Waits for an interrupt: a disk request.
    Devices,
    /// Waits for a task that is ready or running: for its answer, its wake-up or its lock.
    BehindProcessors,
    /// Waits for a task that waits for an interrupt.
    BehindDevices,
    /// Sleeps for a time, or waits for a task that does.
    Asleep,
    /// Its stream is over, or that of the task it waits for: the trace has no more work for it.
    #[default]
    Gone,
}

/// Names of the places in results, in order.
pub const PLACES: [&str; 6] =
    ["processors", "devices", "behind_processors", "behind_devices", "asleep", "gone"];

/// Cycles in each place.
pub type Times = [u64; PLACES.len()];

impl Place {
    /// Where one is that waits for a task which is here.
    fn behind(self) -> Self {
        match self {
            Self::Processors | Self::BehindProcessors => Self::BehindProcessors,
            Self::Devices | Self::BehindDevices => Self::BehindDevices,
            other => other,
        }
    }
}

/// What a task itself does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Is ready or runs.
    Runs,
    /// Waits for this task, or for an interrupt.
    Waits(Option<TaskId>),
    /// Sleeps for a time.
    Sleeps,
    /// Nothing any more.
    Over,
}

/// Where a task is, given what all do; who waits for itself in the end is as good as asleep.
pub fn place(doing: &[Doing], task: usize) -> Place {
    let mut now = task;
    for step in 0..=doing.len() {
        let here = match doing[now] {
            Doing::Runs => Place::Processors,
            Doing::Waits(None) => Place::Devices,
            Doing::Sleeps => Place::Asleep,
            Doing::Over => Place::Gone,
            Doing::Waits(Some(next)) => {
                now = next as usize;
                continue;
            }
        };
        return if step == 0 { here } else { here.behind() };
    }
    Place::Asleep
}

/// The places of all tasks over time.
#[derive(Debug, Clone, Default)]
pub struct Following {
    /// Cycles by place, per task.
    pub times: Vec<Times>,
    places: Vec<Place>,
    since: u64,
    /// When a task began or ceased to run, if nobody has looked since.
    changed: Option<u64>,
}

impl Following {
    /// A task began or ceased to run at `now`.
    pub fn note(&mut self, now: u64) {
        self.changed = Some(self.changed.unwrap_or(0).max(now));
    }

    /// Counts the time up to `now` for the places known so far.
    pub fn settle(&mut self, now: u64) {
        let passed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        for (times, place) in self.times.iter_mut().zip(&self.places) {
            times[*place as usize] += passed;
        }
    }

    fn move_to(&mut self, places: Vec<Place>, at: u64) {
        self.settle(at);
        self.times.resize(places.len(), Times::default());
        self.places = places;
    }
}

impl<W: WordMask> Engine<'_, W> {
    /// Looks again where tasks are, if one of them moved.
    #[inline]
    pub(super) fn follow(&mut self) {
        if let Some(at) = self.following.changed.take() {
            let doing = self.doing();
            let places = (0..doing.len()).map(|task| place(&doing, task)).collect();
            self.following.move_to(places, at);
        }
    }

    fn doing(&self) -> Vec<Doing> {
        let waits = |task: TaskId| {
            let blocker = self.locks.blocker(task);
            // Numbers beyond the tasks are handlers: who waits for one waits for an interrupt.
            Doing::Waits(blocker.filter(|&other| (other as usize) < self.streams.len()))
        };
        let mut doing = vec![Doing::Over; self.streams.len()];
        for (task, _) in self.wakeups.waiting() {
            doing[task as usize] = waits(task);
        }
        for task in (0..doing.len() as TaskId).filter(|&task| self.locks.sleeps(task)) {
            doing[task as usize] = waits(task);
        }
        for Reverse((.., happening)) in &self.happenings {
            if let Happening::SleepOver { task } = happening {
                doing[*task as usize] = Doing::Sleeps;
            }
        }
        let running = self.processors.iter().flat_map(|p| {
            let current = match p.context {
                Some(Context::Task(task)) => Some(task),
                _ => None,
            };
            [current, p.interrupted]
        });
        for &task in running.flatten().collect::<Vec<_>>().iter().chain(self.scheduler.ready_tasks()) {
            doing[task as usize] = Doing::Runs;
        }
        doing
    }

    /// Cycles by place of all users together since `base`, and how many users there are. A user is a server
    /// process that some client had an answer of.
    pub(super) fn users(&self, base: Option<&Vec<Times>>) -> (usize, Times) {
        let mut sum = Times::default();
        let servers: Vec<usize> = self.profiles.servers().collect();
        for &task in &servers {
            let before = base.and_then(|base| base.get(task)).copied().unwrap_or_default();
            let now = self.following.times.get(task).copied().unwrap_or_default();
            sum.iter_mut().zip(now.iter().zip(before)).for_each(|(sum, (now, then))| *sum += now - then);
        }
        (servers.len(), sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_behind_the_last_of_a_chain() {
        use Doing::{Over, Runs, Sleeps, Waits};
        let doing =
            [Runs, Waits(None), Waits(Some(0)), Waits(Some(1)), Waits(Some(2)), Sleeps, Waits(Some(5)), Over];
        let expected = [
            Place::Processors,
            Place::Devices,
            Place::BehindProcessors,
            Place::BehindDevices,
            Place::BehindProcessors,
            Place::Asleep,
            Place::Asleep,
            Place::Gone,
        ];
        let found: Vec<Place> = (0..doing.len()).map(|task| place(&doing, task)).collect();
        assert_eq!(found, expected);
        assert_eq!(
            place(&[Waits(Some(1)), Waits(Some(0))], 0),
            Place::Asleep,
            "two that wait for each other"
        );
        assert_eq!(place(&[Waits(Some(1)), Over], 0), Place::Gone);
    }

    #[test]
    fn time_belongs_to_the_place_that_was_known_while_it_passed() {
        let mut following = Following::default();
        following.move_to(vec![Place::Processors, Place::Devices], 10);
        following.move_to(vec![Place::Devices, Place::Gone], 25);
        following.settle(30);
        assert_eq!(following.times, [[15, 5, 0, 0, 0, 0], [0, 15, 0, 0, 0, 5]]);
    }
}
