//! Functional warming: every task's stream through the caches, each bus transaction at once, with a
//! count of references in the place of time.
//!
//! The tasks are placed by the machine's own scheduler and time slice, because where a task ran decides
//! what lies in which cache. A processor runs [`TURN`] records, then the one that is furthest behind
//! goes on. A reference stands for a nanosecond: sleeps last as recorded, disk requests [`DISK`].
//! Interrupt handlers run at once where they are given to. Locks are not arbitrated; instead each
//! processor runs on at the end until its task holds no spinlock.
//!
//! Over 400 lines: turns, the events they meet and what is left at the end work on one state.

use super::state::{PendingIo, WarmStart};
use super::Amount;
use crate::error::SimulateError;
use crate::functional::for_each_line;
use crate::place::page_of;
use crate::setup::{with_word_mask, Setup};
use crate::timing::deadlock;
use crate::timing::streams::{handlers_of, open_all, Stream};
use servsim_core::reference::CONTINUATION;
use servsim_core::{Event, Interrupt, Op, Privacy, Record, TaskId, TaskSource, WakeId};
use servsim_mem::snapshot::Writer;
use servsim_mem::{Hierarchy, HierarchySpec, RunCounts, WordMask};
use servsim_os::{Policy, Scheduler, Wakeups};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

/// Records of a processor's turn: some hundred nanoseconds of a machine, less than tasks take to hand
/// work to one another.
const TURN: usize = 256;

/// References that a disk request lasts: at a nanosecond each, the half millisecond of a write to a
/// controller's cache (the default of `disk.write_time`). Reads come from there as well, so that a
/// warm-up does not idle.
const DISK: u64 = 500_000;

/// Records after which a processor stops although its task holds a spinlock: far beyond any true hold.
const LONGEST_HOLD: u64 = 1_000_000;

/// Seed of choices during warming: one for all runs, whose own seeds begin with the timing.
const SEED: u64 = 0;

/// What warming needs to know of a machine.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Processors, first level and protocol.
    pub setup: Setup,
    /// The other levels.
    pub hierarchy: HierarchySpec,
    /// How tasks are placed.
    pub policy: Policy,
    /// References per time slice.
    pub time_slice: u64,
}

/// Warms the caches of `shape` with the first `amount` of `source`. `proceed` is told the references so
/// far now and then; `false` stops.
///
/// # Errors
/// When the trace ends before, is damaged or dead-locks, or when `proceed` said to stop.
pub fn warm_up(
    source: &dyn TaskSource,
    shape: &Shape,
    amount: Amount,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<WarmStart, SimulateError> {
    with_word_mask!(shape.setup.geometry.line, run(source, shape, amount, proceed))
}

fn run<W: WordMask>(
    source: &dyn TaskSource,
    shape: &Shape,
    amount: Amount,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<WarmStart, SimulateError> {
    let mut warming: Warming<'_, W> = Warming::new(source, shape)?;
    warming.begin()?;
    let mut turns = 0_u64;
    while !warming.has(amount) {
        turns += 1;
        // Every 1024th.
        if turns.trailing_zeros() >= 10 && !proceed(warming.references) {
            return Err(SimulateError::Interrupted);
        }
        if !warming.turn()? && !warming.unstick()? {
            if amount == Amount::Whole {
                let warmed = warming.finish();
                return Ok(Warming::<W>::new(source, shape)?.finish().begun_again(warmed));
            }
            return Err(too_long(amount, &warming));
        }
    }
    warming.drain()?;
    Ok(warming.finish())
}

fn too_long<W>(amount: Amount, warming: &Warming<'_, W>) -> SimulateError {
    SimulateError::Usage(format!(
        "the functional warm-up of {amount} is longer than the trace, which ended after {} transactions \
         and {} references: nothing would be measured; use a shorter --functional-warm-up, or a longer trace",
        warming.transactions, warming.references
    ))
}

/// What happens at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TimedEvent {
    Disk(u64),
    SleepOver(TaskId),
}

#[derive(Debug, Default)]
struct Cpu {
    time: u64,
    task: Option<TaskId>,
    slice: u64,
    handlers: VecDeque<usize>,
    last_interrupt: u64,
}

struct Warming<'a, W> {
    source: &'a dyn TaskSource,
    privacy: &'a Privacy,
    interrupts: &'a [Interrupt],
    caches: Hierarchy<W>,
    shift: u32,
    time_slice: u64,
    streams: Vec<Stream<'a>>,
    /// Per task: references that each record at hand stands for.
    weights: Vec<Vec<u8>>,
    cpus: Vec<Cpu>,
    scheduler: Scheduler,
    wakeups: Wakeups,
    timed_events: BinaryHeap<Reverse<(u64, u64, TimedEvent)>>,
    sequence: u64,
    requests: HashMap<u64, (u64, PendingIo)>,
    waiting_for: Vec<Option<usize>>,
    handlers_of: HashMap<u64, Vec<usize>>,
    /// Per task: words of the spinlocks it holds.
    spinlocks: Vec<HashSet<u64>>,
    now: u64,
    references: u64,
    transactions: u64,
}

impl<'a, W: WordMask> Warming<'a, W> {
    fn new(source: &'a dyn TaskSource, shape: &Shape) -> Result<Self, SimulateError> {
        let (setup, n) = (&shape.setup, shape.setup.processors);
        let spec = HierarchySpec { seed: SEED, ..shape.hierarchy.clone() };
        let tasks = source.tasks().len();
        let handlers_of = handlers_of(source.interrupts());
        Ok(Self {
            source,
            privacy: source.privacy(),
            interrupts: source.interrupts(),
            caches: Hierarchy::new(n, setup.geometry, setup.protocol.clone(), setup.shadow, &spec),
            shift: setup.geometry.line.trailing_zeros(),
            time_slice: shape.time_slice,
            streams: open_all(source)?,
            weights: vec![Vec::new(); tasks],
            cpus: (0..n).map(|_| Cpu::default()).collect(),
            scheduler: Scheduler::new(shape.policy, tasks, n, SEED),
            wakeups: Wakeups::default(),
            timed_events: BinaryHeap::new(),
            sequence: 0,
            requests: HashMap::new(),
            waiting_for: source.interrupts().iter().map(|i| Some(i.requests.len())).collect(),
            handlers_of,
            spinlocks: vec![HashSet::new(); tasks],
            now: 0,
            references: 0,
            transactions: 0,
        })
    }

    fn begin(&mut self) -> Result<(), SimulateError> {
        for task in 0..self.streams.len() {
            if self.refill(task as TaskId)? {
                self.make_ready(task as TaskId, 0);
            }
        }
        for index in 0..self.waiting_for.len() {
            if self.waiting_for[index] == Some(0) {
                self.trigger(index, 0);
            }
        }
        Ok(())
    }

    fn has(&self, amount: Amount) -> bool {
        match amount {
            Amount::Transactions(wanted) => self.transactions >= wanted,
            Amount::References(wanted) => self.references >= wanted,
            Amount::Whole => false,
        }
    }

    /// Loads further records; each loses what it says of consecutive fetches, which is kept apart.
    fn refill(&mut self, task: TaskId) -> Result<bool, SimulateError> {
        let stream = &mut self.streams[task as usize];
        let more = stream.refill()?;
        let weights = &mut self.weights[task as usize];
        weights.clear();
        weights.extend(stream.batch.records.iter().map(weight));
        stream.batch.records.iter_mut().for_each(|record| record.cpu = 1);
        Ok(more)
    }

    /// Lets the next event happen, or the processor furthest behind run; `false` when there is
    /// neither.
    fn turn(&mut self) -> Result<bool, SimulateError> {
        let event = self.timed_events.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
        let busy = |cpu: &Cpu| cpu.task.is_some() || !cpu.handlers.is_empty();
        let behind = (0..self.cpus.len()).filter(|&cpu| busy(&self.cpus[cpu]));
        let behind = behind.min_by_key(|&cpu| self.cpus[cpu].time);
        let time = behind.map_or(u64::MAX, |cpu| self.cpus[cpu].time);
        self.now = self.now.max(time.min(event).min(u64::MAX - 1));
        match behind {
            Some(cpu) if time < event => self.run_cpu(cpu, TURN)?,
            _ if event < u64::MAX => self.handle_timed_event(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn handle_timed_event(&mut self) {
        let Some(Reverse((now, _, event))) = self.timed_events.pop() else { return };
        match event {
            TimedEvent::SleepOver(task) => self.make_ready(task, now),
            TimedEvent::Disk(request) => {
                self.requests.remove(&request);
                for index in self.handlers_of.get(&request).cloned().unwrap_or_default() {
                    if let Some(left) = &mut self.waiting_for[index] {
                        *left -= 1;
                        if *left == 0 {
                            self.trigger(index, now);
                        }
                    }
                }
            }
        }
    }

    fn schedule(&mut self, time: u64, event: TimedEvent) {
        self.sequence += 1;
        self.timed_events.push(Reverse((time, self.sequence, event)));
    }

    /// Gives a handler to an idle processor, or to the one interrupted longest ago.
    fn trigger(&mut self, index: usize, now: u64) {
        self.waiting_for[index] = None;
        let rank = |&cpu: &usize| (self.cpus[cpu].task.is_some(), self.cpus[cpu].last_interrupt);
        let cpu = (0..self.cpus.len()).min_by_key(rank).unwrap_or(0);
        let cpu = &mut self.cpus[cpu];
        cpu.last_interrupt = now;
        cpu.handlers.push_back(index);
        cpu.time = cpu.time.max(now);
    }

    fn make_ready(&mut self, task: TaskId, now: u64) {
        let idle: Vec<usize> = (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].task.is_none()).collect();
        if idle.is_empty() {
            self.scheduler.make_ready(task);
            return;
        }
        let cpu = self.scheduler.choose_idle(task, &idle);
        self.scheduler.place(task, cpu);
        self.cpus[cpu].time = self.cpus[cpu].time.max(now);
        self.begin_task(cpu, task);
    }

    fn begin_task(&mut self, cpu: usize, task: TaskId) {
        self.cpus[cpu].task = Some(task);
        self.cpus[cpu].slice = self.time_slice;
        self.caches.system.run_task(cpu, task);
        self.caches.system.flushed.clear();
    }

    fn dispatch(&mut self, cpu: usize) {
        self.cpus[cpu].task = None;
        if let Some(task) = self.scheduler.dispatch(cpu) {
            self.begin_task(cpu, task);
        }
    }

    /// Runs a processor for at most `most` records, up to its next event.
    fn run_cpu(&mut self, cpu: usize, most: usize) -> Result<(), SimulateError> {
        while let Some(index) = self.cpus[cpu].handlers.pop_front() {
            self.run_handler(cpu, index);
        }
        let Some(task) = self.cpus[cpu].task else { return Ok(()) };
        let Self { streams, caches, privacy, shift, .. } = self;
        let stream = &mut streams[task as usize];
        let rest = &stream.batch.records[stream.position..];
        let most = most.min(usize::try_from(self.cpus[cpu].slice).unwrap_or(most)).min(rest.len());
        let run = rest[..most].iter().position(|record| record.op == Op::Event).unwrap_or(most);
        touch(caches, cpu, &rest[..run], privacy, *shift);
        let done = stream.position..stream.position + run;
        stream.position += run;
        self.count(cpu, self.weights[task as usize][done].iter().map(|&weight| u64::from(weight)).sum());
        let stream = &mut self.streams[task as usize];
        if let Some(record) = stream.batch.records.get(stream.position) {
            if run < most {
                let event = stream.batch.events[record.address as usize];
                stream.position += 1;
                self.event(cpu, Some(task), event);
            }
        } else if !self.refill(task)? {
            self.dispatch(cpu);
        }
        self.end_slice(cpu);
        Ok(())
    }

    fn count(&mut self, cpu: usize, references: u64) {
        self.references += references;
        let cpu = &mut self.cpus[cpu];
        cpu.time += references;
        cpu.slice = cpu.slice.saturating_sub(references);
    }

    /// A slice is over, unless its task holds a spinlock.
    fn end_slice(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].task.filter(|_| self.cpus[cpu].slice == 0) else { return };
        if !self.spinlocks[task as usize].is_empty() {
            self.cpus[cpu].slice = TURN as u64;
        } else if self.scheduler.ready() > 0 {
            self.scheduler.make_ready(task);
            self.dispatch(cpu);
        } else {
            self.cpus[cpu].slice = self.time_slice;
        }
    }

    /// Runs a whole handler.
    fn run_handler(&mut self, cpu: usize, index: usize) {
        let batch = &self.interrupts[index].batch;
        let mut rest = batch.records.as_slice();
        while !rest.is_empty() {
            let run = rest.iter().position(|record| record.op == Op::Event).unwrap_or(rest.len());
            touch(&mut self.caches, cpu, &rest[..run], self.privacy, self.shift);
            let slice = self.cpus[cpu].slice;
            self.count(cpu, rest[..run].iter().map(|record| u64::from(weight(record))).sum());
            self.cpus[cpu].slice = slice;
            rest = &rest[run..];
            if let Some((record, after)) = rest.split_first() {
                self.event(cpu, None, batch.events[record.address as usize]);
                rest = after;
            }
        }
    }

    /// An event of `task`, or of a handler, at `cpu`.
    fn event(&mut self, cpu: usize, task: Option<TaskId>, event: Event) {
        let now = self.cpus[cpu].time;
        match (event, task) {
            (Event::Wake { wake }, _) => {
                if let Some(task) = self.wakeups.deliver(wake) {
                    self.make_ready(task, now);
                }
            }
            (Event::IoSubmit { request, device, sector, bytes, write }, _) => {
                self.schedule(now + DISK, TimedEvent::Disk(request));
                let asked = PendingIo { request, device, sector, bytes, write };
                self.requests.insert(request, (self.sequence, asked));
            }
            // The caches are warmed in the order of the capture: waits for locks are kept.
            (Event::LockWait { wake, .. }, Some(task)) => self.block(cpu, task, Some(wake)),
            (Event::Block { wake }, Some(task)) => self.block(cpu, task, wake),
            (Event::Sleep { nanos }, Some(task)) => {
                self.schedule(now.saturating_add(nanos), TimedEvent::SleepOver(task));
                self.dispatch(cpu);
            }
            (Event::TransactionEnd { .. }, Some(_)) => self.transactions += 1,
            (Event::LockAcquire { class, word }, Some(task)) if class.spins() => {
                self.spinlocks[task as usize].insert(word);
            }
            (Event::LockRelease { word }, Some(task)) => {
                self.spinlocks[task as usize].remove(&word);
            }
            _ => {}
        }
    }

    fn block(&mut self, cpu: usize, task: TaskId, wake: Option<WakeId>) {
        if wake.is_none_or(|wake| self.wakeups.wait(task, wake)) {
            self.dispatch(cpu);
        }
    }

    /// Nothing can run: a handler whose requests never came runs now; `false` at the end of the trace.
    fn unstick(&mut self) -> Result<bool, SimulateError> {
        if let Some(index) = self.waiting_for.iter().position(Option::is_some) {
            self.trigger(index, self.now);
            return Ok(true);
        }
        let waiting = self.wakeups.waiting();
        if waiting.is_empty() {
            return Ok(false);
        }
        Err(SimulateError::Internal(deadlock::message(self.now, &waiting, self.source.tasks())))
    }

    /// Runs every processor on until its task holds no spinlock and its handlers are done.
    fn drain(&mut self) -> Result<(), SimulateError> {
        for cpu in 0..self.cpus.len() {
            let last = self.cpus[cpu].time + LONGEST_HOLD;
            let holds = |cpu: &Cpu, spinlocks: &[HashSet<u64>]| {
                cpu.task.is_some_and(|task| !spinlocks[task as usize].is_empty())
            };
            while (!self.cpus[cpu].handlers.is_empty() || holds(&self.cpus[cpu], &self.spinlocks))
                && self.cpus[cpu].time < last
            {
                self.run_cpu(cpu, 1)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> WarmStart {
        let mut caches = Writer::default();
        self.caches.save(&mut caches);
        let mut sleeping: Vec<(u64, u64, TaskId)> = Vec::new();
        for Reverse((time, order, event)) in self.timed_events {
            if let TimedEvent::SleepOver(task) = event {
                sleeping.push((time.saturating_sub(self.now), order, task));
            }
        }
        sleeping.sort_unstable();
        let mut requests: Vec<(u64, PendingIo)> = self.requests.into_values().collect();
        requests.sort_unstable_by_key(|(order, _)| *order);
        WarmStart {
            references: self.references,
            transactions: self.transactions,
            positions: self.streams.iter().map(Stream::done).collect(),
            ended: self.streams.iter().map(Stream::is_over).collect(),
            scheduler: self.scheduler.state(),
            running: self.cpus.iter().map(|cpu| cpu.task.map(|task| (task, cpu.slice))).collect(),
            waiting: self.wakeups.waiting(),
            delivered: self.wakeups.delivered(),
            sleeping: sleeping.into_iter().map(|(left, _, task)| (task, left)).collect(),
            requests: requests.into_iter().map(|(_, request)| request).collect(),
            handlers: self.waiting_for,
            again: false,
            caches: caches.into_bytes(),
        }
    }
}

/// References that a record of a task's stream stands for.
fn weight(record: &Record) -> u8 {
    match record.op {
        Op::Event => 0,
        _ if record.flags & CONTINUATION != 0 => 0,
        Op::Fetch => record.cpu,
        Op::Load | Op::Store => 1,
    }
}

/// Performs references of processor `cpu`, without events among them.
fn touch<W: WordMask>(
    caches: &mut Hierarchy<W>,
    cpu: usize,
    records: &[Record],
    privacy: &Privacy,
    shift: u32,
) {
    let (cache, data) = caches.first_caches(cpu);
    let (mut rest, mut unread) = (records, RunCounts::default());
    while let Some(first) = rest.first() {
        if caches.first_level_is_coherent() {
            let hits = caches.system.run_hits(cache, data, shift, rest, &mut unread);
            rest = &rest[hits..];
        }
        if let Some(record) = rest.first().filter(|record| record.task == first.task) {
            for_each_line(record, cpu, shift, |access, piece| {
                caches.access(access, || page_of(privacy, piece));
            });
            rest = &rest[1..];
        }
    }
}
