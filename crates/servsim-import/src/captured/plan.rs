//! What a first pass over a captured trace learns: which pages are private, who caused each
//! wake-up, and what becomes of each interrupt episode.
//!
//! * A wake-up by a task, or by a device handler that completes disk requests, is a dependence on
//!   that stream's position.
//! * A wake-up by the timer, or by a handler that interrupted the idle loop without completing a
//!   request, ends a sleep that lasts as long as it did when captured.
//! * A handler that completes disk requests runs when the simulated disk completes them. Any other
//!   handler that interrupted a task runs at the same point of that task. One that interrupted the
//!   idle loop has no place in a machine that is not idle then, and is left out (and counted).
//! * A kernel thread that an interrupt woke and that then completes disk requests (the daemon of soft
//!   interrupts) waited for these requests, whatever interrupt it was: for those submitted before it ran.
//! * A block whose wake-up was not captured lasts until the task runs again.
//! * A task that was about to take a lock when it blocked, woken by one that was giving up that very
//!   lock, waited for the lock.

mod kept;

use super::contention::{Contention, LockWait};
use super::findings::Findings;
use super::locks::LockWords;
use super::pages::Pages;
use super::{error, go_on};
use servsim_core::{SourceError, TransactionEnds, WakeId, Watch};
use servsim_trace::{
    Dictionary, Epochs, Event, EventKind, GlobalCursor, MarkKind, MemOp, Ref, ShapeId, Sink, SwitchReason,
    TaskId, TaskKind, TraceReader,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What the pass that makes a plan is called where it is watched.
const FIRST_PASS: &str = "first pass";
/// Items between two looks at the memory of the plan, a power of two.
const ITEMS_PER_CLAIM: u64 = 1 << 16;
/// Number of the local timer among interrupt sources.
const TIMER: u32 = 1;
/// The "block" that the creation of a task ends.
const CREATION: u64 = 0xFFFF_FFFF;

/// The wake-up that ends block number `block` of `task`.
pub fn wake_id(task: TaskId, block: u64) -> WakeId {
    u64::from(task) << 32 | (block & 0xFFFF_FFFF)
}

/// The wake-up that starts a task created during the trace.
pub fn creation_id(task: TaskId) -> WakeId {
    wake_id(task, CREATION)
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEnd {
    /// By a stream's wake-up.
    Stream,
    /// After so many nanoseconds.
    Sleep(u64),
    /// When the disk has served certain requests.
    Disk,
}

/// Where an interrupt episode runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpisodePlacement {
    /// It runs on completion of its disk requests.
    Device,
    /// It runs within a task.
    Inline,
    /// It is left out.
    Dropped,
}

/// The plan.
#[derive(Debug)]
pub struct Plan {
    /// What lies on the pages.
    pub pages: Pages,
    /// How each block ends.
    pub ends: HashMap<WakeId, BlockEnd>,
    /// Placement of each episode, in captured order.
    pub placements: Vec<EpisodePlacement>,
    /// Per task: the episodes that run inside it, as (items of the task before it, episode).
    pub inline: Vec<Vec<(u64, usize)>>,
    /// Per task: a wake-up that its first item waits for.
    pub first_wait: Vec<Option<WakeId>>,
    /// Disk requests that the trace submits: how many before each, and by which task. Others were under way
    /// when it began.
    pub submitted: HashMap<u64, (usize, TaskId)>,
    /// The words of its locks.
    pub locks: LockWords,
    /// Task that causes each wake-up, but for those of interrupt handlers.
    pub wakers: HashMap<WakeId, TaskId>,
    /// Requests that must be complete for each block that ends with the disk.
    pub completions: BTreeMap<WakeId, Vec<u64>>,
    /// Blocks that were waits for a lock.
    pub lock_waits: HashMap<WakeId, LockWait>,
    /// Transactions by the task that marks their ends and the user whom they are for.
    pub transaction_ends: TransactionEnds,
    /// Per task: the epochs in which it ran.
    pub ran: Vec<Epochs>,
}

/// An episode being read.
#[derive(Debug, Default)]
struct Episode {
    interrupted: TaskId,
    source: u32,
    completes: bool,
    wakes: Vec<(WakeId, u64)>,
}

struct Planner {
    plan: Plan,
    items: Vec<u64>,
    blocked_at: HashMap<WakeId, u64>,
    woken_by_stream: HashMap<WakeId, u64>,
    open: Option<Episode>,
    last_block: Vec<Option<WakeId>>,
    /// Per task: the block that ended last, and how many requests had been submitted when it ran again.
    resumed: Vec<Option<(WakeId, usize)>>,
    kinds: Vec<TaskKind>,
    contention: Contention,
}

impl Plan {
    /// The plan of a trace: the one that `findings` keep, or one that is made and kept there.
    ///
    /// # Errors
    /// When the trace is damaged, or `watch` stopped the pass.
    pub fn of(
        reader: &Arc<TraceReader>,
        findings: Option<Findings<'_>>,
        watch: Option<&Watch>,
    ) -> Result<Self, SourceError> {
        let Some(findings) = findings else { return Self::made(reader, watch) };
        let kept = findings.load(reader);
        if let Some(plan) = kept.and_then(|(tables, _claim)| Self::unpack(&tables, reader)) {
            return Ok(plan);
        }
        let plan = Self::made(reader, watch)?;
        findings.keep(&plan.pack(), reader);
        Ok(plan)
    }

    /// Makes the plan; one pass over the trace.
    fn made(reader: &Arc<TraceReader>, watch: Option<&Watch>) -> Result<Self, SourceError> {
        let tasks = reader.tasks().len();
        let planner = Planner {
            plan: Self {
                pages: Pages::new(reader.tasks()),
                ends: HashMap::new(),
                placements: Vec::new(),
                inline: vec![Vec::new(); tasks],
                first_wait: vec![None; tasks],
                submitted: HashMap::new(),
                locks: LockWords::new(reader.meta().per_cpu_area),
                wakers: HashMap::new(),
                completions: BTreeMap::new(),
                lock_waits: HashMap::new(),
                transaction_ends: TransactionEnds::new(),
                ran: Vec::new(),
            },
            items: vec![0; tasks],
            blocked_at: HashMap::new(),
            woken_by_stream: HashMap::new(),
            open: None,
            last_block: vec![None; tasks],
            resumed: vec![None; tasks],
            kinds: reader.tasks().iter().map(|t| t.kind).collect(),
            contention: Contention::new(tasks),
        };
        let mut memory = reader.budget().claim(0).map_err(SourceError)?;
        let mut cursor = GlobalCursor::new(reader.clone());
        let stage = |what, of| watch.iter().for_each(|watch| watch.begin(what, of));
        stage(FIRST_PASS, reader.epoch_count() as u64);
        let mut walk =
            Walk { planner, dictionary: reader.dictionary(), task: 0, ops: &[], looked_at: None, items: 0 };
        while cursor.run(&mut walk).map_err(|e| error(&e))? {
            if walk.items >= ITEMS_PER_CLAIM {
                walk.items = 0;
                watch.iter().for_each(|watch| _ = watch.tell(cursor.epochs_read()));
                go_on(watch)?;
                let claimed = memory.grow_to(walk.planner.memory());
                claimed.map_err(|what| SourceError(format!("{}: {what}", reader.path().display())))?;
            }
        }
        let mut planner = walk.planner;
        planner.plan.ran = cursor.ran().iter().map(|epochs| epochs.as_slice().into()).collect();
        planner.plan.pages.classify();
        stage("", 0);
        Ok(planner.finish())
    }

    /// Bytes that it takes, about: 64 for each entry of a table.
    fn memory(&self) -> u64 {
        let waits = self.ends.len() + self.wakers.len();
        64 * (self.pages.len() + self.placements.len() + self.submitted.len() + waits) as u64
    }
}

/// The one pass over the trace.
struct Walk<'a> {
    planner: Planner,
    dictionary: &'a Dictionary,
    /// Whose block it is at, and the accesses of that.
    task: TaskId,
    ops: &'a [MemOp],
    /// The references of the block, if the word of a lock is looked for among them.
    looked_at: Option<Vec<Ref>>,
    /// Items since the last look at memory.
    items: u64,
}

impl Walk<'_> {
    /// Another item of `task` was told; whether to go on before memory is looked at.
    #[inline]
    fn count(&mut self, task: TaskId) -> bool {
        self.planner.items[task as usize] += 1;
        self.items += 1;
        self.items < ITEMS_PER_CLAIM
    }
}

impl Sink for Walk<'_> {
    #[inline]
    fn block(&mut self, task: TaskId, shape: ShapeId) {
        let shape = self.dictionary.shape(shape);
        (self.task, self.ops) = (task, &shape.ops);
        self.looked_at = self.planner.plan.locks.searches(task).then(Vec::new);
        self.planner.plan.pages.code(task, shape);
    }

    #[inline]
    fn reference(&mut self, index: usize, reference: Ref) {
        self.planner.plan.pages.data(self.task, &self.ops[index], &reference);
        if let Some(references) = &mut self.looked_at {
            references.push(reference);
        }
    }

    #[inline]
    fn end_block(&mut self) -> bool {
        if let Some(references) = self.looked_at.take() {
            self.planner.plan.locks.record_references(self.task, &references);
        }
        self.count(self.task)
    }

    fn event(&mut self, task: TaskId, event: Event) -> bool {
        self.planner.event(task, event.time_ns, event.kind);
        self.count(task)
    }
}

impl Planner {
    /// Bytes that the plan and what it is made of take.
    fn memory(&self) -> u64 {
        self.plan.memory() + 64 * (self.blocked_at.len() + self.woken_by_stream.len()) as u64
    }

    fn event(&mut self, task: TaskId, now: u64, kind: EventKind) {
        match kind {
            EventKind::SwitchOut(SwitchReason::Blocked { block, .. }) => {
                let id = wake_id(task, block);
                self.blocked_at.insert(id, now);
                self.last_block[task as usize] = Some(id);
                self.contention.block(task, id);
            }
            EventKind::SwitchIn => self.resume(task, now),
            EventKind::Wake { task: woken, block } => self.wake(task, wake_id(woken, block), woken, now),
            EventKind::Create { task: created } if self.items[created as usize] == 0 => {
                self.plan.first_wait[created as usize] = Some(creation_id(created));
                self.plan.ends.insert(creation_id(created), BlockEnd::Stream);
            }
            EventKind::InterruptBegin { source, interrupted } => {
                self.open = Some(Episode { interrupted, source, ..Episode::default() });
            }
            EventKind::IoComplete { request } => match (&mut self.open, self.kinds[task as usize]) {
                (Some(open), TaskKind::Interrupt) => open.completes = true,
                (None, TaskKind::Kernel) => self.completes(task, request),
                _ => {}
            },
            EventKind::IoSubmit { request, .. } => {
                self.plan.submitted.insert(request, (self.plan.submitted.len(), task));
            }
            EventKind::InterruptEnd => self.close(),
            EventKind::Mark { kind: MarkKind::TransactionEnd, server, .. } => {
                *self.plan.transaction_ends.entry((task, server)).or_default() += 1;
            }
            EventKind::LockAcquire { class, address } => {
                self.contention.acquire(task, class, address);
                self.plan.locks.record_event(task, kind);
            }
            EventKind::LockRelease { class, address } => {
                self.contention.release(task, class, address);
                self.plan.locks.record_event(task, kind);
            }
            _ => {}
        }
    }

    fn wake(&mut self, waker: TaskId, id: WakeId, woken: TaskId, now: u64) {
        // A task asleep when the trace begins waits for the first wake-up that names it.
        let known = self.blocked_at.contains_key(&id) || self.items[woken as usize] > 0;
        if !known && self.plan.first_wait[woken as usize].is_none() {
            self.plan.first_wait[woken as usize] = Some(id);
        }
        if let Some(open) = &mut self.open {
            open.wakes.push((id, now));
            return;
        }
        self.woken_by_stream.insert(id, now);
        self.plan.wakers.insert(id, waker);
        if let Some(lock) = self.contention.wake(waker, id) {
            self.plan.lock_waits.insert(id, lock);
        }
    }

    /// A kernel thread completes a request: if that was submitted before the thread ran, it waited for it.
    fn completes(&mut self, task: TaskId, request: u64) {
        let Some((wake, before)) = self.resumed[task as usize] else { return };
        if self.plan.submitted.get(&request).is_some_and(|&(place, _)| place < before) {
            self.plan.completions.entry(wake).or_default().push(request);
        }
    }

    /// A task runs again: if nothing woke it, its block lasts just as long as it did.
    fn resume(&mut self, task: TaskId, now: u64) {
        let block = self.last_block[task as usize].take();
        if let Some(id) =
            block.or(self.plan.first_wait[task as usize].filter(|_| self.items[task as usize] == 0))
        {
            self.resumed[task as usize] = Some((id, self.plan.submitted.len()));
        }
        if let Some(id) = block {
            let slept = now.saturating_sub(self.blocked_at.get(&id).copied().unwrap_or(now));
            self.plan.ends.entry(id).or_insert(BlockEnd::Sleep(slept));
        }
    }

    fn close(&mut self) {
        let Some(episode) = self.open.take() else { return };
        let idle = self.kinds.get(episode.interrupted as usize) == Some(&TaskKind::Idle);
        let number = self.plan.placements.len();
        let placement = match (episode.completes, idle) {
            (true, _) => EpisodePlacement::Device,
            (false, true) => EpisodePlacement::Dropped,
            (false, false) => EpisodePlacement::Inline,
        };
        self.plan.placements.push(placement);
        if placement == EpisodePlacement::Inline {
            let task = episode.interrupted as usize;
            if let Some(inline) = self.plan.inline.get_mut(task) {
                inline.push((self.items[task], number));
            }
        }
        let timed = placement != EpisodePlacement::Device
            && (episode.source == TIMER || placement == EpisodePlacement::Dropped);
        for (id, now) in episode.wakes {
            let slept = now.saturating_sub(self.blocked_at.get(&id).copied().unwrap_or(0));
            let end = if timed { BlockEnd::Sleep(slept) } else { BlockEnd::Stream };
            self.plan.ends.insert(id, end);
        }
    }

    fn finish(mut self) -> Plan {
        for id in self.woken_by_stream.into_keys() {
            self.plan.completions.remove(&id);
            self.plan.ends.insert(id, BlockEnd::Stream);
        }
        for &id in self.plan.completions.keys() {
            self.plan.ends.insert(id, BlockEnd::Disk);
        }
        self.plan
    }
}
