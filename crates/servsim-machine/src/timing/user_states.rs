//! Where the users of a workload are: each waits with its server process, which runs, waits for a device,
//! or waits for another task, which in turn is somewhere. A closed queueing model has exactly these states
//! for its customers, so this account says which of its stations holds them.

use servsim_core::TaskId;

/// Where a task is, seen from whom it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserState {
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

/// Names of the states in results, in order.
pub const USER_STATES: [&str; 6] =
    ["processors", "devices", "behind_processors", "behind_devices", "asleep", "gone"];

/// Cycles in each state.
pub type Times = [u64; USER_STATES.len()];

impl UserState {
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
pub enum TaskState {
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
pub fn state_of(tasks: &[TaskState], task: usize) -> UserState {
    let mut now = task;
    for step in 0..=tasks.len() {
        let here = match tasks[now] {
            TaskState::Runs => UserState::Processors,
            TaskState::Waits(None) => UserState::Devices,
            TaskState::Sleeps => UserState::Asleep,
            TaskState::Over => UserState::Gone,
            TaskState::Waits(Some(next)) => {
                now = next as usize;
                continue;
            }
        };
        return if step == 0 { here } else { here.behind() };
    }
    UserState::Asleep
}

/// The states of all tasks over time.
#[derive(Debug, Clone, Default)]
pub struct UserStates {
    /// Cycles by state, per task.
    pub times: Vec<Times>,
    states: Vec<UserState>,
    since: u64,
    /// When a task began or ceased to run, if nobody has looked since.
    pub(super) changed: Option<u64>,
}

impl UserStates {
    /// A task began or ceased to run at `now`.
    pub fn note(&mut self, now: u64) {
        self.changed = Some(self.changed.unwrap_or(0).max(now));
    }

    /// Counts the time up to `now` for the states known so far.
    pub fn settle(&mut self, now: u64) {
        let passed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        for (times, state) in self.times.iter_mut().zip(&self.states) {
            times[*state as usize] += passed;
        }
    }

    pub(super) fn move_to(&mut self, states: Vec<UserState>, at: u64) {
        self.settle(at);
        self.times.resize(states.len(), Times::default());
        self.states = states;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_behind_the_last_of_a_chain() {
        use TaskState::{Over, Runs, Sleeps, Waits};
        let tasks =
            [Runs, Waits(None), Waits(Some(0)), Waits(Some(1)), Waits(Some(2)), Sleeps, Waits(Some(5)), Over];
        let expected = [
            UserState::Processors,
            UserState::Devices,
            UserState::BehindProcessors,
            UserState::BehindDevices,
            UserState::BehindProcessors,
            UserState::Asleep,
            UserState::Asleep,
            UserState::Gone,
        ];
        let found: Vec<UserState> = (0..tasks.len()).map(|task| state_of(&tasks, task)).collect();
        assert_eq!(found, expected);
        assert_eq!(
            state_of(&[Waits(Some(1)), Waits(Some(0))], 0),
            UserState::Asleep,
            "two that wait for each other"
        );
        assert_eq!(state_of(&[Waits(Some(1)), Over], 0), UserState::Gone);
    }

    #[test]
    fn time_belongs_to_the_state_that_was_known_while_it_passed() {
        let mut states = UserStates::default();
        states.move_to(vec![UserState::Processors, UserState::Devices], 10);
        states.move_to(vec![UserState::Devices, UserState::Gone], 25);
        states.settle(30);
        assert_eq!(states.times, [[15, 5, 0, 0, 0, 0], [0, 15, 0, 0, 0, 5]]);
    }
}
