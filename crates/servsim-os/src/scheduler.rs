//! The ready queue and the policies of Foglia et al. 2004: `random` gives a free processor any
//! ready task; `affinity` (Squillante & Lazowska 1993) one that last ran there, if there is one,
//! else the one that has waited longest. On a machine with nodes affinity prefers, after the same processor, one of
//! the same node; and tasks may be bound to processors ([`Bindings`]), whatever the policy.

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

/// What a scheduler knows of nodes, and which tasks keep to which processors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bindings {
    /// The node of each processor; empty without nodes.
    pub node_of: Vec<usize>,
    /// By task, the processors that it keeps to; none, or beyond the end, for any.
    pub tasks: Vec<Option<Vec<CpuId>>>,
}

impl Bindings {
    /// Whether `task` may run on `processor`.
    #[inline]
    pub fn allow(&self, task: TaskId, processor: CpuId) -> bool {
        match self.tasks.get(task as usize) {
            Some(Some(processors)) => processors.contains(&processor),
            _ => true,
        }
    }

    /// Whether two processors are of one node of several.
    fn are_near(&self, a: CpuId, b: CpuId) -> bool {
        self.node_of.get(a.0).is_some_and(|node| self.node_of[b.0] == *node)
    }
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
    bindings: Bindings,
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
            bindings: Bindings::default(),
        }
    }

    /// The same with nodes, and tasks that keep to processors.
    #[must_use]
    pub fn with_bindings(mut self, bindings: Bindings) -> Self {
        self.bindings = bindings;
        self
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

    /// Whether a ready task may run on `processor`.
    pub fn has_for(&self, processor: CpuId) -> bool {
        self.ready.iter().any(|&task| self.bindings.allow(task, processor))
    }

    /// Takes the task that `processor` runs next.
    pub fn dispatch(&mut self, processor: CpuId) -> Option<TaskId> {
        let may = |&(_, &task): &(usize, &TaskId)| self.bindings.allow(task, processor);
        let mut candidates = self.ready.iter().enumerate().filter(may);
        let index = match self.policy {
            Policy::Random => match candidates.clone().count() as u64 {
                0 => return None,
                count => candidates.nth(self.random.below(count) as usize)?.0,
            },
            Policy::Affinity => {
                let last = |task: TaskId| self.last_processor[task as usize];
                let here = |&(_, &task): &(usize, &TaskId)| last(task) == Some(processor);
                let near = |&(_, &task): &(usize, &TaskId)| {
                    last(task).is_some_and(|last| self.bindings.are_near(last, processor))
                };
                let found = candidates.clone().find(here).or_else(|| candidates.clone().find(near));
                found.or_else(|| candidates.next())?.0
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
    /// that is idle, else one of the same node, else any (random) or the first (affinity). None when none of
    /// `idle` is for it.
    pub fn choose_idle(&mut self, task: TaskId, idle: &[CpuId]) -> Option<CpuId> {
        let mut idle = idle.iter().copied().filter(|&cpu| self.bindings.allow(task, cpu));
        match (self.policy, self.last_processor[task as usize]) {
            (Policy::Affinity, Some(last)) => {
                let near = |&cpu: &CpuId| self.bindings.are_near(last, cpu);
                let found = idle.clone().find(|&cpu| cpu == last).or_else(|| idle.clone().find(near));
                found.or_else(|| idle.next())
            }
            (Policy::Affinity, None) => idle.next(),
            (Policy::Random, _) => match idle.clone().count() as u64 {
                0 => None,
                count => idle.nth(self.random.below(count) as usize),
            },
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
    fn bound_tasks_keep_to_their_processors_under_either_policy() {
        for policy in [Policy::Random, Policy::Affinity] {
            let bindings = Bindings { node_of: vec![0, 0, 1, 1], tasks: vec![Some(vec![CpuId(2)]), None] };
            let mut scheduler = Scheduler::new(policy, 3, 4, 1).with_bindings(bindings);
            assert_eq!(scheduler.choose_idle(0, &[CpuId(0), CpuId(1)]), None);
            assert_eq!(scheduler.choose_idle(0, &[CpuId(0), CpuId(2)]), Some(CpuId(2)));
            scheduler.make_ready(0);
            assert!(!scheduler.has_for(CpuId(1)) && scheduler.dispatch(CpuId(1)).is_none());
            scheduler.make_ready(1);
            assert_eq!(scheduler.dispatch(CpuId(1)), Some(1), "{policy:?}: the first may not");
            assert_eq!(scheduler.dispatch(CpuId(2)), Some(0));
        }
    }

    #[test]
    fn affinity_prefers_the_node_after_the_processor() {
        let bindings = Bindings { node_of: vec![0, 0, 1, 1], tasks: Vec::new() };
        let mut scheduler = Scheduler::new(Policy::Affinity, 3, 4, 1).with_bindings(bindings);
        for (task, processor) in [(0, 0), (1, 2), (2, 3)] {
            scheduler.place(task, CpuId(processor));
        }
        assert_eq!(scheduler.choose_idle(1, &[CpuId(0), CpuId(3)]), Some(CpuId(3)), "the same node");
        assert_eq!(
            scheduler.choose_idle(1, &[CpuId(0), CpuId(3), CpuId(2)]),
            Some(CpuId(2)),
            "the same processor"
        );
        (0..3).for_each(|task| scheduler.make_ready(task));
        assert_eq!(scheduler.dispatch(CpuId(3)), Some(2), "the same processor");
        assert_eq!(scheduler.dispatch(CpuId(3)), Some(1), "the same node, though task 0 waits longer");
        assert_eq!(scheduler.dispatch(CpuId(3)), Some(0), "rather than none");
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
