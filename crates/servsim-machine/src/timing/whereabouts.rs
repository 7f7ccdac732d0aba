//! The engine's side of the users' states: what every task does now, and so where each user is.

use super::engine::{Engine, TimedEvent};
use super::processor::Context;
use super::user_states::{state_of, TaskState, Times};
use servsim_core::TaskId;
use servsim_mem::WordMask;

impl<W: WordMask> Engine<'_, W> {
    /// Looks again where tasks are, if one of them moved.
    #[inline]
    pub(super) fn follow(&mut self) {
        if let Some(at) = self.accounts.user_states.changed.take() {
            let tasks = self.task_states();
            let states = (0..tasks.len()).map(|task| state_of(&tasks, task)).collect();
            self.accounts.user_states.move_to(states, at);
        }
    }

    /// Has the next round look where tasks are. With described disks it looks at every change; otherwise, where
    /// only time without work matters, now and then is enough.
    pub(super) fn look_at_users(&mut self, now: u64) {
        if self.io.is_none() {
            self.accounts.user_states.note(now);
        }
    }

    fn task_states(&self) -> Vec<TaskState> {
        let waits = |task: TaskId| {
            let blocker = self.software.locks.blocker(task);
            // Numbers beyond the tasks are handlers: who waits for one waits for an interrupt.
            TaskState::Waits(blocker.filter(|&other| (other as usize) < self.software.streams.len()))
        };
        let mut tasks = vec![TaskState::Over; self.software.streams.len()];
        for (task, _) in self.software.wakeups.waiting() {
            tasks[task as usize] = waits(task);
        }
        for task in (0..tasks.len() as TaskId).filter(|&task| self.software.locks.sleeps(task)) {
            tasks[task as usize] = waits(task);
        }
        for (.., event) in self.events.iter() {
            if let TimedEvent::SleepOver { task } | TimedEvent::Elsewhere { task } = event {
                tasks[task as usize] = TaskState::Sleeps;
            }
        }
        let running = self.processors.iter().flat_map(|p| {
            let current = match p.context {
                Some(Context::Task(task)) => Some(task),
                _ => None,
            };
            [current, p.interrupted]
        });
        for &task in running.flatten().collect::<Vec<_>>().iter().chain(self.software.scheduler.ready_tasks())
        {
            tasks[task as usize] = TaskState::Runs;
        }
        tasks
    }

    /// Cycles by state of all users together since `base`, and how many users there are. A user is a server
    /// process that some client had an answer of.
    pub(super) fn users(&self, base: Option<&Vec<Times>>) -> (usize, Times) {
        let mut sum = Times::default();
        let servers: Vec<usize> = self.accounts.profiles.servers().collect();
        for &task in &servers {
            let before = base.and_then(|base| base.get(task)).copied().unwrap_or_default();
            let now = self.accounts.user_states.times.get(task).copied().unwrap_or_default();
            sum.iter_mut().zip(now.iter().zip(before)).for_each(|(sum, (now, then))| *sum += now - then);
        }
        (servers.len(), sum)
    }
}
