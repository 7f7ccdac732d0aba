//! What the timing engine counts beside the caches, the bus and the processors themselves: the measured
//! window, who ran where, and the work of every task.

use super::base::Base;
use super::measure::Measure;
use super::recorder::Recorder;
use super::subsystem::{LoadLevels, Profiles};
use super::user_states::UserStates;

/// Counters of a run.
pub struct Accounts {
    pub measure: Measure,
    pub recorder: Recorder,
    /// What the counters were when the measured window began.
    pub base: Option<Base>,
    /// References by task, mode and operation.
    pub task_references: Vec<[[u64; 3]; 2]>,
    /// Cycles at work by task, up to when each processor was charged last, and how many those were of each processor.
    pub task_work: Vec<u64>,
    pub charged: Vec<u64>,
    /// Disk requests by the task that handed them in.
    pub task_requests: Vec<[u64; 2]>,
    pub task_levels: LoadLevels,
    pub profiles: Profiles,
    pub user_states: UserStates,
    /// Ready or running tasks, the integral of their number over time, and when it last changed.
    pub active: u64,
    pub most_active: u64,
    pub active_integral: u128,
    pub active_since: u64,
}

impl Accounts {
    /// Nothing counted yet, for so many tasks and processors.
    pub fn new(tasks: usize, processors: usize, measure: Measure) -> Self {
        Self {
            measure,
            recorder: Recorder::new(processors),
            base: None,
            task_references: vec![[[0; 3]; 2]; tasks],
            task_work: vec![0; tasks],
            charged: vec![0; processors],
            task_requests: vec![[0; 2]; tasks],
            task_levels: LoadLevels::default(),
            profiles: Profiles::default(),
            user_states: UserStates::default(),
            active: 0,
            most_active: 0,
            active_integral: 0,
            active_since: 0,
        }
    }

    /// The number of ready or running tasks changes at `now`.
    pub fn count_active(&mut self, now: u64, change: i64) {
        let now = now.max(self.active_since);
        self.active_integral += u128::from(self.active) * u128::from(now - self.active_since);
        self.active_since = now;
        self.active = self.active.wrapping_add_signed(change);
        self.most_active = self.most_active.max(self.active);
    }
}
