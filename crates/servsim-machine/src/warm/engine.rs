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

use super::state::WarmStart;
use super::survey::{Counts, Done, Groups, Keep, Range, Survey, Surveyor};
use super::Amount;
use crate::error::{transactions, SimulateError};
use crate::event_queue::EventQueue;
use crate::functional::for_each_line;
use crate::place::page_of;
use crate::setup::{with_word_mask, Setup};
use crate::software::{Effect, Executor, PendingIo, Software, Stream};
use servsim_config::Arbitration;
use servsim_core::steps::Run;
use servsim_core::{CpuId, Event, Op, Privacy, Record, TaskId, TaskInfo, TaskSource};
use servsim_mem::protocol::BusOp;
use servsim_mem::snapshot::Writer;
use servsim_mem::{Hierarchy, HierarchySpec, RunCounts, WordMask};
use servsim_os::{Bindings, Policy};
use std::collections::{HashMap, HashSet};

/// Records of a processor's turn: some hundred nanoseconds of a machine, less than tasks take to hand
/// work to one another.
const TURN: usize = 256;

/// The same in a pass that leaves live-points: what a machine's processors write to one another goes to and fro
/// several times in a turn of the above, and windows would begin with states that had too little of it.
const FINE_TURN: usize = 32;

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
    /// Which tasks keep to which processors.
    pub bindings: Bindings,
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
    warming.begin_all()?;
    let mut turns = 0_u64;
    while !warming.has(amount) {
        turns += 1;
        // Every 1024th.
        if turns.trailing_zeros() >= 10 && !proceed(warming.references) {
            return Err(SimulateError::Interrupted);
        }
        if !warming.turn()? && !warming.unstick()? {
            if amount == Amount::Whole {
                let warmed = warming.state();
                return Ok(Warming::<W>::new(source, shape)?.state().begun_again(warmed));
            }
            return Err(too_long(amount, &warming));
        }
    }
    warming.drain()?;
    Ok(warming.state())
}

/// Runs the first part of `source` through the caches of `shape`, and hands over its state at the places that
/// `survey` asks for; returns what lies between the first and the last of the transactions.
///
/// # Errors
/// As [`warm_up`], and whatever `keep` says.
pub fn survey(
    source: &dyn TaskSource,
    shape: &Shape,
    survey: Survey,
    keep: &mut Keep<'_>,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Range, SimulateError> {
    with_word_mask!(shape.setup.geometry.line, run_survey(source, shape, survey, keep, proceed))
}

fn run_survey<W: WordMask>(
    source: &dyn TaskSource,
    shape: &Shape,
    survey: Survey,
    keep: &mut Keep<'_>,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Range, SimulateError> {
    let mut warming: Warming<'_, W> = Warming::new(source, shape)?;
    warming.turn = FINE_TURN;
    // Windows tell how many misses they have, and nothing of their causes.
    warming.caches.system.switches.leave_out_causes();
    warming.begin_all()?;
    let mut surveyor = Surveyor::new(survey);
    let mut turns = 0_u64;
    loop {
        turns += 1;
        // Every 1024th.
        if turns.trailing_zeros() >= 10 && !proceed(warming.references) {
            return Err(SimulateError::Interrupted);
        }
        let done = Done { instructions: warming.instructions, transactions: warming.transactions };
        if surveyor.is_over(done) {
            return surveyor.finish(done, &warming.groups());
        }
        if surveyor.is_due(done) && surveyor.look(done, warming.groups()) {
            warming.drain()?;
            keep(warming.state())?;
        }
        if !warming.turn()? && !warming.unstick()? {
            return surveyor.finish(done, &warming.groups());
        }
    }
}

fn too_long<W>(amount: Amount, warming: &Warming<'_, W>) -> SimulateError {
    SimulateError::Usage(format!(
        "the functional warm-up of {amount} is longer than the trace, which ended after {} \
         and {} references: nothing would be measured; use a shorter --functional-warm-up, or a longer trace",
        transactions(warming.transactions),
        warming.references
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
}

struct Warming<'a, W> {
    software: Software<'a>,
    caches: Hierarchy<W>,
    /// Whether there is a level that the processors, or groups of them, share.
    shared_level: bool,
    shift: u32,
    time_slice: u64,
    cpus: Vec<Cpu>,
    events: EventQueue<TimedEvent>,
    /// Disk requests under way, and when they were asked, in order.
    requests: HashMap<u64, (u64, PendingIo)>,
    /// Per task: words of the spinlocks that it holds.
    spinlocks: Vec<HashSet<u64>>,
    now: u64,
    references: u64,
    instructions: u64,
    transactions: u64,
    /// Names of tasks, what those of each did, and which name each task has.
    names: Vec<&'a str>,
    counts: Vec<Counts>,
    name_of: Vec<usize>,
    /// Per processor: misses and reads of memory that its caches had counted when they were asked last, and those reads that
    /// shared levels had.
    seen: Vec<(u64, u64)>,
    seen_shared: u64,
    /// Records of a processor's turn.
    turn: usize,
}

impl<'a, W: WordMask> Executor<'a> for Warming<'a, W> {
    fn software(&mut self) -> &mut Software<'a> {
        &mut self.software
    }

    fn refill(&mut self, task: TaskId) -> Result<bool, SimulateError> {
        Ok(self.software.streams[task as usize].refill()?)
    }

    fn is_idle(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].task.is_none()
    }

    fn count_ready(&mut self, _now: u64) {}

    fn start(&mut self, cpu: CpuId, task: TaskId, now: u64) {
        self.cpus[cpu].time = self.cpus[cpu].time.max(now);
        self.begin_task(cpu, task);
    }

    fn interrupted(&mut self, cpu: CpuId, now: u64) {
        self.cpus[cpu].time = self.cpus[cpu].time.max(now);
    }

    fn extends_slice(&mut self, cpu: CpuId) -> bool {
        let extends = holds_spinlock(&self.cpus[cpu], &self.spinlocks);
        if extends {
            self.cpus[cpu].slice = self.turn as u64;
        }
        extends
    }

    fn dispatch(&mut self, cpu: CpuId) {
        self.cpus[cpu].task = None;
        if let Some(task) = self.software.scheduler.dispatch(cpu) {
            self.begin_task(cpu, task);
        }
    }

    fn renew_slice(&mut self, cpu: CpuId) {
        self.cpus[cpu].slice = self.time_slice;
    }

    fn processors(&self) -> usize {
        self.cpus.len()
    }

    fn come_to_rest(&mut self) -> u64 {
        self.now = self.cpus.iter().map(|cpu| cpu.time).fold(self.now, u64::max);
        self.now
    }
}

fn holds_spinlock(cpu: &Cpu, spinlocks: &[HashSet<u64>]) -> bool {
    cpu.task.is_some_and(|task| !spinlocks[task as usize].is_empty())
}

impl<'a, W: WordMask> Warming<'a, W> {
    fn new(source: &'a dyn TaskSource, shape: &Shape) -> Result<Self, SimulateError> {
        let (setup, n) = (&shape.setup, shape.setup.processors);
        let tasks = source.tasks().len();
        let mut names: Vec<&str> = source.tasks().iter().map(|task| task.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let name_of = |task: &TaskInfo| names.partition_point(|&name| name < task.name.as_str());
        let name_of = source.tasks().iter().map(name_of).collect();
        let spec = HierarchySpec { seed: SEED, ..shape.hierarchy.clone() };
        Ok(Self {
            // The caches are warmed in the order of the capture: its waits for locks are kept.
            software: Software::new(source, n, (shape.policy, &shape.bindings), Arbitration::Off, SEED)?,
            caches: Hierarchy::new(n, setup.geometry, setup.protocol.clone(), setup.shadow, &spec),
            shared_level: !spec.shared.is_empty(),
            shift: setup.geometry.line.trailing_zeros(),
            time_slice: shape.time_slice,
            cpus: (0..n).map(|_| Cpu::default()).collect(),
            events: EventQueue::new(),
            requests: HashMap::new(),
            spinlocks: vec![HashSet::new(); tasks],
            now: 0,
            references: 0,
            instructions: 0,
            transactions: 0,
            counts: vec![Counts::default(); names.len()],
            names,
            name_of,
            seen: vec![(0, 0); n],
            seen_shared: 0,
            turn: TURN,
        })
    }

    fn has(&self, amount: Amount) -> bool {
        match amount {
            Amount::Transactions(wanted) => self.transactions >= wanted,
            Amount::References(wanted) => self.references >= wanted,
            Amount::Whole => false,
        }
    }

    /// Lets the next event happen, or the processor furthest behind run; `false` when there is
    /// neither.
    fn turn(&mut self) -> Result<bool, SimulateError> {
        let event = self.events.next_time();
        let busy = |&cpu: &CpuId| self.cpus[cpu].task.is_some() || self.software.handlers.wait_for(cpu);
        let behind = CpuId::all(self.cpus.len()).filter(busy);
        let behind = behind.min_by_key(|&cpu| self.cpus[cpu].time);
        let time = behind.map_or(u64::MAX, |cpu| self.cpus[cpu].time);
        if time.min(event) < u64::MAX {
            self.now = self.now.max(time.min(event));
        }
        match behind {
            Some(cpu) if time < event => self.run_cpu(cpu, self.turn)?,
            _ if event < u64::MAX => self.handle_timed_event(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn handle_timed_event(&mut self) {
        let Some((now, event)) = self.events.pop() else { return };
        match event {
            TimedEvent::SleepOver(task) => self.make_ready(task, now),
            TimedEvent::Disk(request) => {
                self.requests.remove(&request);
                self.complete(request, now);
            }
        }
    }

    fn begin_task(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu].task = Some(task);
        self.cpus[cpu].slice = self.time_slice;
        self.caches.system.run_task(cpu, task);
    }

    /// Runs a processor for at most `most` records, up to its next event.
    fn run_cpu(&mut self, cpu: CpuId, most: usize) -> Result<(), SimulateError> {
        while let Some(index) = self.software.handlers.next(cpu) {
            self.run_handler(cpu, index);
        }
        let Some(task) = self.cpus[cpu].task else { return Ok(()) };
        let Self { software, caches, shift, .. } = self;
        let stream = &mut software.streams[task as usize];
        let rest = &stream.batch.records[stream.position..];
        let most = most.min(usize::try_from(self.cpus[cpu].slice).unwrap_or(most)).min(rest.len());
        let touched = touch(caches, cpu, &rest[..most], software.privacy, *shift);
        let run = touched.records;
        stream.position += run;
        self.count(cpu, task, touched);
        let stream = &mut self.software.streams[task as usize];
        if let Some(record) = stream.batch.records.get(stream.position) {
            if run < most {
                let event = stream.batch.events[record.address as usize];
                stream.position += 1;
                self.event(cpu, Some(task), event);
            }
        } else if !self.refill(task)? {
            self.dispatch(cpu);
        }
        if let Some(task) = self.cpus[cpu].task.filter(|_| self.cpus[cpu].slice == 0) {
            self.end_slice(cpu, task);
        }
        Ok(())
    }

    /// Counts what `task` did at `cpu`.
    fn count(&mut self, cpu: CpuId, task: TaskId, Touched { work, all_hit, .. }: Touched) {
        let Run { instructions, references } = work;
        let missed = if all_hit { Counts::default() } else { self.missed(cpu) };
        self.counts[self.name_of[task as usize]].add(Counts { instructions, references, ..missed });
        self.instructions += instructions;
        self.references += references;
        let cpu = &mut self.cpus[cpu];
        cpu.time += references;
        cpu.slice = cpu.slice.saturating_sub(references);
    }

    /// Runs a whole handler.
    fn run_handler(&mut self, cpu: CpuId, index: usize) {
        let batch = &self.software.interrupts[index].batch;
        let mut rest = batch.records.as_slice();
        while !rest.is_empty() {
            let task = rest[0].task;
            let touched = touch(&mut self.caches, cpu, rest, self.software.privacy, self.shift);
            let slice = self.cpus[cpu].slice;
            rest = &rest[touched.records..];
            self.count(cpu, task, touched);
            self.cpus[cpu].slice = slice;
            if let Some((record, after)) = rest.split_first() {
                self.event(cpu, None, batch.events[record.address as usize]);
                rest = after;
            }
        }
    }

    /// An event of `task`, or of a handler, at `cpu`.
    fn event(&mut self, cpu: CpuId, task: Option<TaskId>, event: Event) {
        let now = self.cpus[cpu].time;
        match self.software.react(event, task) {
            Effect::Ready(task) => self.make_ready(task, now),
            Effect::Submit(asked) => {
                let order = self.events.push(now + DISK, TimedEvent::Disk(asked.request));
                self.requests.insert(asked.request, (order, asked));
            }
            Effect::Leave { .. } => self.dispatch(cpu),
            Effect::Sleep { task, nanos } => {
                self.events.push(now.saturating_add(nanos), TimedEvent::SleepOver(task));
                self.dispatch(cpu);
            }
            Effect::TransactionEnd { .. } => self.transactions += 1,
            Effect::Acquire { class, word } if class.spins() => {
                if let Some(task) = task {
                    self.spinlocks[task as usize].insert(word);
                }
            }
            Effect::Release { word } => {
                if let Some(task) = task {
                    self.spinlocks[task as usize].remove(&word);
                }
            }
            Effect::None | Effect::Acquire { .. } => {}
        }
    }

    /// Runs every processor on until its task holds no spinlock and its handlers are done.
    fn drain(&mut self) -> Result<(), SimulateError> {
        for cpu in CpuId::all(self.cpus.len()) {
            let last = self.cpus[cpu].time + LONGEST_HOLD;
            while (self.software.handlers.wait_for(cpu) || holds_spinlock(&self.cpus[cpu], &self.spinlocks))
                && self.cpus[cpu].time < last
            {
                self.run_cpu(cpu, 1)?;
            }
        }
        Ok(())
    }

    /// What the caches counted at `cpu` that tells how long a piece of the trace takes, since they were asked last.
    fn missed(&mut self, cpu: CpuId) -> Counts {
        let (mut misses, mut fetched, mut supplied) = (0, 0, 0);
        for caches in self.caches.counted_at(cpu) {
            misses += caches.total_misses();
            fetched += BusOp::FETCHES.iter().map(|&op| caches.bus_total(op)).sum::<u64>();
            supplied += caches.cache_to_cache.iter().flatten().sum::<u64>();
        }
        // Shared levels count what they read; without one memory supplies whatever no other cache does.
        let (reads, seen) = if self.shared_level {
            (self.caches.memory_traffic().0, &mut self.seen_shared)
        } else {
            (fetched - supplied, &mut self.seen[cpu].1)
        };
        let memory_reads = reads - std::mem::replace(seen, reads);
        let misses = misses - std::mem::replace(&mut self.seen[cpu].0, misses);
        Counts { misses, memory_reads, ..Counts::default() }
    }

    /// What the tasks of each name did.
    fn groups(&self) -> Groups {
        self.names.iter().map(|&name| name.to_owned()).zip(self.counts.iter().copied()).collect()
    }

    /// What is known here.
    fn state(&self) -> WarmStart {
        let mut caches = Writer::default();
        self.caches.save(&mut caches);
        let mut sleeping: Vec<(u64, u64, TaskId)> = Vec::new();
        for (time, order, event) in self.events.iter() {
            if let TimedEvent::SleepOver(task) = event {
                sleeping.push((time.saturating_sub(self.now), order, task));
            }
        }
        sleeping.sort_unstable();
        let mut requests: Vec<(u64, PendingIo)> = self.requests.values().copied().collect();
        requests.sort_unstable_by_key(|(order, _)| *order);
        WarmStart {
            references: self.references,
            transactions: self.transactions,
            positions: self.software.streams.iter().map(Stream::done).collect(),
            bookmarks: self.software.streams.iter().map(Stream::bookmark).collect(),
            ended: self.software.streams.iter().map(Stream::is_over).collect(),
            scheduler: self.software.scheduler.state(),
            running: self.cpus.iter().map(|cpu| cpu.task.map(|task| (task, cpu.slice))).collect(),
            waiting: self.software.wakeups.waiting(),
            delivered: self.software.wakeups.delivered(),
            sleeping: sleeping.into_iter().map(|(left, _, task)| (task, left)).collect(),
            requests: requests.into_iter().map(|(_, request)| request).collect(),
            submitted: self.software.submitted(),
            handlers: self.software.handlers.left().to_vec(),
            again: false,
            caches: caches.into_bytes(),
        }
    }
}

/// What was done of a list of records.
struct Touched {
    /// The first so many, up to the first event.
    records: usize,
    work: Run,
    /// All of them were plain hits, so that nothing missed.
    all_hit: bool,
}

/// Performs references of processor `cpu` up to the first event.
fn touch<W: WordMask>(
    caches: &mut Hierarchy<W>,
    cpu: CpuId,
    records: &[Record],
    privacy: &Privacy,
    shift: u32,
) -> Touched {
    let (mut rest, mut hits, mut work) = (records, RunCounts::default(), Run::default());
    let mut all_hit = true;
    while let Some(first) = rest.first() {
        let count = caches.run_joined_hits(cpu, shift, rest, u64::MAX, &mut hits);
        rest = &rest[count..];
        let Some(record) = rest.first().filter(|record| record.op != Op::Event) else { break };
        if record.task == first.task {
            all_hit = false;
            for_each_line(record, cpu, shift, |access, piece| {
                caches.access(access, |_| page_of(privacy, piece));
            });
            work.add(record);
            rest = &rest[1..];
        }
    }
    let of_hits = |op: Op| hits[0][op as usize] + hits[1][op as usize];
    work.instructions += of_hits(Op::Fetch);
    work.references += hits.iter().flatten().sum::<u64>();
    Touched { records: records.len() - rest.len(), work, all_hit }
}
