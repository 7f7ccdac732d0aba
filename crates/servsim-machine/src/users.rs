//! A trace with fewer of its users: the streams of the others, and of the client's tasks that serve
//! nobody else, are left out.
//!
//! A *user* is whoever transactions end for: the server process that the client's mark names, or, in
//! traces whose marks name nobody, the task that makes the mark; without any mark, every user task. The
//! first K by number stay; tasks that belong to no user stay always.
//!
//! A stream may wait for another one. Whoever leaves out the one that ends a wait must not let the
//! sleeper go on as if it had been woken: its later work would be that of a machine that never was. So
//! a trace in which a task that stays waits for one that goes is refused, with the names (ADR 0322).

use servsim_core::{
    Batch, Event, GlobalSource, Interrupt, Record, SourceError, TaskCursor, TaskId, TaskInfo, TaskKind,
    TaskSource, TransactionEnds, WakeId,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Waits named in a refusal.
const NAMED: usize = 3;

/// What one pass over all streams learns.
#[derive(Debug, Default)]
struct Survey {
    /// Per task: the users that its marks name.
    marks: Vec<BTreeSet<u32>>,
    /// Who delivers each wake-up.
    wakers: HashMap<WakeId, Waker>,
    /// Who waits for each.
    sleepers: Vec<(TaskId, WakeId)>,
    /// Which task submits each disk request.
    submitters: HashMap<u64, TaskId>,
}

#[derive(Debug, Clone, Copy)]
enum Waker {
    Task(TaskId),
    Handler(usize),
}

/// Which tasks stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSubset {
    tasks: Vec<bool>,
    /// Requests of tasks that go, which no handler may wait for.
    dropped: HashSet<u64>,
}

impl UserSubset {
    /// The tasks of the first `users` users of `source`.
    ///
    /// # Errors
    /// When there are fewer users, or a task that stays waits for one that goes.
    pub fn of(source: &dyn TaskSource, users: u32) -> Result<Self, SourceError> {
        let survey = Survey::of(source)?;
        let mut all: BTreeSet<u32> = survey.marks.iter().flatten().copied().collect();
        if all.is_empty() {
            let user = |(task, info): (usize, &TaskInfo)| (info.kind == TaskKind::User).then(|| itself(task));
            all = source.tasks().iter().enumerate().filter_map(user).collect();
        }
        if all.len() < users as usize || users == 0 {
            return Err(SourceError(format!(
                "--users {users}: this trace has {} users; use a number from 1 to that, or leave it out to run \
                 all",
                all.len()
            )));
        }
        let stay: BTreeSet<u32> = all.iter().copied().take(users as usize).collect();
        let tasks = source.tasks();
        let keeps = |task: usize| {
            let served = &survey.marks[task];
            let own = user_of(task, &tasks[task], &all);
            let goes = |user: &u32| !stay.contains(user);
            !(own.is_some_and(|user| goes(&user)) || !served.is_empty() && served.iter().all(goes))
        };
        let kept: Vec<bool> = (0..tasks.len()).map(keeps).collect();
        let goes = |task: TaskId| !kept[task as usize];
        let dropped = survey.submitters.iter().filter(|(_, &task)| goes(task)).map(|(&r, _)| r).collect();
        let kept = Self { tasks: kept, dropped };
        kept.check(source, &survey, users)?;
        Ok(kept)
    }

    /// Refuses when a task that stays waits for one that goes.
    fn check(&self, source: &dyn TaskSource, survey: &Survey, users: u32) -> Result<(), SourceError> {
        let mut missing: BTreeMap<(TaskId, String), u64> = BTreeMap::new();
        for &(task, wake) in survey.sleepers.iter().filter(|(task, _)| self.tasks[*task as usize]) {
            let lacks = match survey.wakers.get(&wake) {
                Some(&Waker::Task(waker)) if !self.tasks[waker as usize] => {
                    Some(described(&source.tasks()[waker as usize]))
                }
                Some(&Waker::Handler(handler)) => {
                    let requests = &source.interrupts()[handler].requests;
                    let gone = !requests.is_empty() && requests.iter().all(|r| self.dropped.contains(r));
                    gone.then(|| "the completion of a disk request of a user left out".to_owned())
                }
                _ => None,
            };
            if let Some(lacks) = lacks {
                *missing.entry((task, lacks)).or_default() += 1;
            }
        }
        let waits: u64 = missing.values().sum();
        if waits == 0 {
            return Ok(());
        }
        let name = |((task, waker), times): (&(TaskId, String), &u64)| {
            format!("{} is woken {times} times by {waker}", described(&source.tasks()[*task as usize]))
        };
        let first: Vec<String> = missing.iter().take(NAMED).map(name).collect();
        Err(SourceError(format!(
            "--users {users}: {waits} waits of tasks that stay are ended by tasks that would go ({}{}), and \
             without them they would never end; capture the workload with {users} users instead, or run all",
            first.join(", "),
            if missing.len() > NAMED { ", and others" } else { "" }
        )))
    }

    /// `source` without the tasks that go.
    pub fn by_task(&self, source: Box<dyn TaskSource>) -> Box<dyn TaskSource> {
        let handler = |interrupt: &Interrupt| {
            let gone = |request: &&u64| !self.dropped.contains(request);
            let requests: Vec<u64> = interrupt.requests.iter().filter(gone).copied().collect();
            let own = !requests.is_empty() || interrupt.requests.is_empty();
            own.then(|| Interrupt { requests, batch: interrupt.batch.clone() })
        };
        let interrupts = source.interrupts().iter().filter_map(handler).collect();
        Box::new(FewerTasks { inner: source, kept: self.tasks.clone(), interrupts })
    }

    /// The same in the order of the trace. Interrupts stay.
    pub fn in_order(&self, source: Box<dyn GlobalSource>) -> Box<dyn GlobalSource> {
        Box::new(FewerInOrder { inner: source, kept: self.tasks.clone() })
    }
}

/// The user that a task is: the server process of that number, or the task itself where marks name
/// nobody.
fn user_of(task: usize, info: &TaskInfo, users: &BTreeSet<u32>) -> Option<u32> {
    let own = (info.kind == TaskKind::User && !info.client && info.pid != 0).then_some(info.pid);
    own.filter(|pid| users.contains(pid)).or_else(|| Some(itself(task)).filter(|user| users.contains(user)))
}

/// The number of a user that is a task: beyond those of processes (at most 2^22 on Linux).
fn itself(task: usize) -> u32 {
    1 << 31 | task as u32
}

fn described(task: &TaskInfo) -> String {
    format!("{} (pid {})", task.name, task.pid)
}

impl Survey {
    fn of(source: &dyn TaskSource) -> Result<Self, SourceError> {
        let mut survey = Self { marks: vec![BTreeSet::new(); source.tasks().len()], ..Self::default() };
        let mut batch = Batch::default();
        for (task, info) in source.tasks().iter().enumerate() {
            if !matches!(info.kind, TaskKind::User | TaskKind::Kernel) {
                continue;
            }
            let mut cursor = source.open(task as TaskId)?;
            while cursor.next_batch(&mut batch)? {
                for &event in &batch.events {
                    survey.note(task as TaskId, event);
                }
            }
        }
        for (handler, interrupt) in source.interrupts().iter().enumerate() {
            for event in &interrupt.batch.events {
                if let Event::Wake { wake } = event {
                    survey.wakers.insert(*wake, Waker::Handler(handler));
                }
            }
        }
        Ok(survey)
    }

    fn note(&mut self, task: TaskId, event: Event) {
        match event {
            Event::TransactionEnd { user, .. } => {
                let user = if user == 0 { itself(task as usize) } else { user };
                self.marks[task as usize].insert(user);
            }
            Event::Wake { wake } => {
                self.wakers.insert(wake, Waker::Task(task));
            }
            Event::Block { wake: Some(wake) } | Event::LockWait { wake, .. } => {
                self.sleepers.push((task, wake));
            }
            Event::IoSubmit { request, .. } => {
                self.submitters.insert(request, task);
            }
            _ => {}
        }
    }
}

struct FewerTasks {
    inner: Box<dyn TaskSource>,
    kept: Vec<bool>,
    interrupts: Vec<Interrupt>,
}

impl TaskSource for FewerTasks {
    fn inner(&self) -> Option<&dyn TaskSource> {
        Some(self.inner.as_ref())
    }

    fn transaction_ends(&self) -> TransactionEnds {
        let ends = self.inner.transaction_ends().into_iter();
        ends.filter(|((task, _), _)| self.kept[*task as usize]).collect()
    }

    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        if self.kept[task as usize] {
            self.inner.open(task)
        } else {
            Ok(Box::new(Nothing))
        }
    }

    fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }
}

/// The stream of a task that was left out.
struct Nothing;

impl TaskCursor for Nothing {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        Ok(false)
    }
}

struct FewerInOrder {
    inner: Box<dyn GlobalSource>,
    kept: Vec<bool>,
}

impl GlobalSource for FewerInOrder {
    fn inner(&self) -> Option<&dyn GlobalSource> {
        Some(self.inner.as_ref())
    }

    fn transaction_ends(&self) -> TransactionEnds {
        let ends = self.inner.transaction_ends().into_iter();
        ends.filter(|((task, _), _)| self.kept[*task as usize]).collect()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.inner.next_batch(batch)?;
        let kept = |record: &Record| self.kept[record.task as usize];
        if !batch.pages.is_empty() {
            let mut stays = batch.records.iter().map(kept);
            batch.pages.retain(|_| stays.next() == Some(true));
        }
        batch.records.retain(kept);
        Ok(more)
    }
}
