//! The ready queue and the policies of Foglia et al. 2004: `random` gives a free processor any
//! ready task; `affinity` (Squillante & Lazowska 1993) one that last ran there, if there is one,
//! else the one that has waited longest.

use crate::locks::chain;
use servsim_core::{CpuId, RandomStream, TaskId};

/// Which ready task a free processor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Any, with equal probability.
    Random,
    /// The longest waiting of those that last ran on this processor, else the longest waiting.
    Affinity,
}

/// What a scheduler knows of its tasks at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchedulerState {
    /// Ready tasks in the order they became so.
    pub ready: Vec<TaskId>,
    /// Per task: where it ran last.
    pub last_processor: Vec<Option<CpuId>>,
    /// Per processor: the task that it ran last.
    pub previous: Vec<Option<TaskId>>,
}

/// Ready tasks and where each ran last.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    ready: Vec<TaskId>,
    last_processor: Vec<Option<CpuId>>,
    random: RandomStream,
    /// Dispatches of a task other than the one that ran before on that processor.
    pub switches: u64,
    /// Dispatches on another processor than the task's last.
    pub migrations: u64,
    previous: Vec<Option<TaskId>>,
    /// Tasks given to a processor.
    pub dispatches: u64,
    histories: Vec<u64>,
}

impl Scheduler {
    /// No task is ready yet.
    pub fn new(policy: Policy, tasks: usize, processors: usize, seed: u64) -> Self {
        Self {
            policy,
            ready: Vec::new(),
            last_processor: vec![None; tasks],
            random: RandomStream::new(seed, "schedule"),
            switches: 0,
            migrations: 0,
            previous: vec![None; processors],
            dispatches: 0,
            histories: vec![0; tasks],
        }
    }

    /// `task` became ready.
    pub fn make_ready(&mut self, task: TaskId) {
        self.ready.push(task);
    }

    /// Number of ready tasks.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The ready tasks, in the order they became so.
    pub fn ready_tasks(&self) -> &[TaskId] {
        &self.ready
    }

    /// Takes the task that `processor` runs next.
    pub fn dispatch(&mut self, processor: CpuId) -> Option<TaskId> {
        if self.ready.is_empty() {
            return None;
        }
        let index = match self.policy {
            Policy::Random => self.random.below(self.ready.len() as u64) as usize,
            Policy::Affinity => {
                let here = |&task: &TaskId| self.last_processor[task as usize] == Some(processor);
                self.ready.iter().position(here).unwrap_or(0)
            }
        };
        let task = self.ready.remove(index);
        self.place(task, processor);
        Some(task)
    }

    /// Notes that `task` runs on `processor` now.
    pub fn place(&mut self, task: TaskId, processor: CpuId) {
        let last = self.last_processor[task as usize].replace(processor);
        self.migrations += u64::from(last.is_some_and(|last| last != processor));
        self.switches += u64::from(self.previous[processor] != Some(task));
        self.previous[processor] = Some(task);
        self.dispatches += 1;
        let history = &mut self.histories[task as usize];
        *history = chain(*history, processor.0 as u64);
    }

    /// Who is ready, in order, and who ran where.
    pub fn state(&self) -> SchedulerState {
        SchedulerState {
            ready: self.ready.clone(),
            last_processor: self.last_processor.clone(),
            previous: self.previous.clone(),
        }
    }

    /// Takes over who is ready and who ran where; random choices, counts and histories stay its own.
    pub fn resume(&mut self, state: &SchedulerState) {
        let SchedulerState { ready, last_processor, previous } = state.clone();
        (self.ready, self.last_processor, self.previous) = (ready, last_processor, previous);
    }

    /// One number that depends on which processors each task ran on, in order, and on nothing else.
    pub fn placement_digest(&self) -> u64 {
        let ran = (0..).zip(&self.histories).filter(|(_, history)| **history != 0);
        ran.fold(0, |sum: u64, (task, &history)| sum.wrapping_add(chain(history, task)))
    }

    /// The idle processor that a task becoming ready starts on: under affinity its last one if
    /// that is idle, else any (random) or the first (affinity).
    ///
    /// # Panics
    /// When `idle` is empty.
    pub fn choose_idle(&mut self, task: TaskId, idle: &[CpuId]) -> CpuId {
        match (self.policy, self.last_processor[task as usize]) {
            (Policy::Affinity, Some(last)) if idle.contains(&last) => last,
            (Policy::Affinity, _) => idle[0],
            (Policy::Random, _) => idle[self.random.below(idle.len() as u64) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_returns_a_task_to_its_processor_and_random_does_not() {
        let migrations = |policy| {
            let mut scheduler = Scheduler::new(policy, 4, 2, 1);
            (0..4).for_each(|task| scheduler.make_ready(task));
            for round in 0..200 {
                let processor = round % 2;
                let task = scheduler.dispatch(CpuId(processor)).unwrap();
                scheduler.make_ready(task);
            }
            scheduler.migrations
        };
        assert!(migrations(Policy::Affinity) <= 2, "only while tasks find a home");
        assert!(migrations(Policy::Random) > 50);
    }

    #[test]
    fn an_empty_queue_dispatches_nothing() {
        assert_eq!(Scheduler::new(Policy::Random, 1, 1, 0).dispatch(CpuId(0)), None);
    }

    #[test]
    fn the_placement_digest_tells_where_each_task_ran_and_not_when() {
        let run = |places: &[(TaskId, usize)]| {
            let mut scheduler = Scheduler::new(Policy::Random, 2, 2, 1);
            places.iter().for_each(|&(task, processor)| scheduler.place(task, CpuId(processor)));
            scheduler.placement_digest()
        };
        let base = run(&[(0, 0), (1, 1), (0, 1)]);
        assert_eq!(base, run(&[(1, 1), (0, 0), (0, 1)]));
        assert_ne!(base, run(&[(0, 1), (1, 1), (0, 0)]));
        assert_ne!(base, run(&[(0, 0), (1, 0), (0, 1)]));
    }
}
