//! The run loop of the timing engine: bus grants, completions and processors in time order.
//!
//! Over 400 lines: the three kinds of step work on one state, and the order among them at equal
//! times is what must be read together.

use super::along::Recorder;
use super::following::{Following, Times};
use super::io::{IoBase, IoSystem};
use super::measure::Measure;
use super::processor::{Context, Processor, Wait};
use super::requests::Requests;
use super::stepping::{advance, step, Pace, Records, Stop};
use super::streams::{handlers_of, open_all, Stream};
use super::subsystem::{Levels, Profiles};
use super::{deadlock, Model};
use crate::result::{ProcessorTimes, Replication};
use crate::simulate::SimulateError;
use crate::warm::Request as Asked;
use crate::warm::WarmStart;
use servsim_config::Arbitration;
use servsim_core::{Event, Instruction, Interrupt, Privacy, RandomStream, TaskId, TaskSource, WakeId};
use servsim_mem::{
    Bus, Class, Counters, Fabric, Hierarchy, HierarchySpec, LevelCounters, Origin, PrefetchCounters, Request,
    TlbCounters, WordMask, WriteBufferCounters,
};
use servsim_os::{FixedDisk, LockCounts, Locks, Scheduler, Wakeups};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Something that happens at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// The oldest store of a processor got its data; it is `performed` or must ask again.
    Store { cpu: usize, performed: bool },
    /// The data of a load under way arrive.
    Load { cpu: usize, load: u64 },
    /// A disk request completes.
    Disk { request: u64 },
    /// Something happens in the described disks and I/O buses.
    Io,
    /// A task's sleep is over.
    SleepOver { task: TaskId },
}

/// Counters at the start of the measured window.
pub(super) struct Base {
    pub(super) counters: Counters,
    pub(super) levels: Vec<(String, LevelCounters)>,
    pub(super) tlb: TlbCounters,
    pub(super) prefetches: (PrefetchCounters, u64),
    pub(super) times: Vec<ProcessorTimes>,
    pub(super) references: Vec<[[u64; 3]; 2]>,
    pub(super) tasks: Vec<[[u64; 3]; 2]>,
    pub(super) bus_busy: u64,
    pub(super) buffers: WriteBufferCounters,
    /// Cycles that ports or links were taken, and that fetches waited for banks.
    pub(super) fabric: (Vec<u64>, u64),
    pub(super) switches: (u64, u64),
    pub(super) dispatches: u64,
    pub(super) locks: LockCounts,
    pub(super) disk: [u64; 2],
    pub(super) active_integral: u128,
    pub(super) io: Option<IoBase>,
    pub(super) levels_of_tasks: Levels,
    pub(super) places: Vec<Times>,
}

/// How many rounds of the loop pass between looks at the stop flag.
const ROUNDS_PER_LOOK: u64 = 4096;

pub struct Engine<'a, W> {
    pub(super) source: &'a dyn TaskSource,
    pub(super) privacy: &'a Privacy,
    pub(super) interrupts: &'a [Interrupt],
    pub(super) instructions: &'a [Instruction],
    pub(super) model: &'a Model,
    pub(super) seed: u64,
    pub(super) caches: Hierarchy<W>,
    pub(super) bus: Bus,
    pub(super) fabric: Fabric,
    pub(super) processors: Vec<Processor<W>>,
    /// When each processor acts next, apart: the loop looks at all of them in every round.
    next_times: Vec<u64>,
    /// Processors whose entry of `next_times` is out of date, as bits.
    pub(super) moved: u64,
    pub(super) streams: Vec<Stream<'a>>,
    /// The address space of each task.
    pub(super) spaces: Vec<Option<u32>>,
    pub(super) task_references: Vec<[[u64; 3]; 2]>,
    pub(super) scheduler: Scheduler,
    pub(super) wakeups: Wakeups,
    pub(super) locks: Locks,
    pub(super) disk: FixedDisk,
    /// Described disks and I/O buses, instead of the pool.
    pub(super) io: Option<IoSystem<'a>>,
    /// Disk requests by the task that handed them in.
    pub(super) task_requests: Vec<[u64; 2]>,
    pub(super) task_levels: Levels,
    pub(super) profiles: Profiles,
    pub(super) following: Following,
    pub(super) happenings: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    pub(super) happened: u64,
    /// Requests that each interrupt handler still waits for; `None` once it was triggered.
    pub(super) waiting_for: Vec<Option<usize>>,
    pub(super) handlers_of: HashMap<u64, Vec<usize>>,
    pub(super) requests: Requests,
    pub(super) delay: RandomStream,
    pub(super) measure: Measure,
    pub(super) recorder: Recorder,
    pub(super) base: Option<Base>,
    /// Ready or running tasks, the integral of their number over time, and when it last changed.
    pub(super) active: u64,
    pub(super) most_active: u64,
    pub(super) active_integral: u128,
    pub(super) active_since: u64,
    pub(super) now: u64,
    pub(super) shift: u32,
}

impl<'a, W: WordMask> Engine<'a, W> {
    pub fn new(source: &'a dyn TaskSource, model: &'a Model, seed: u64) -> Result<Self, SimulateError> {
        let (n, setup) = (model.setup.processors, &model.setup);
        let spec = HierarchySpec { seed, ..model.hierarchy.clone() };
        let shift = setup.geometry.line.trailing_zeros();
        let tasks = source.tasks().len();
        let handlers_of = handlers_of(source.interrupts());
        Ok(Self {
            source,
            privacy: source.privacy(),
            interrupts: source.interrupts(),
            instructions: source.code(),
            model,
            seed,
            caches: Hierarchy::new(n, setup.geometry, setup.protocol.clone(), setup.shadow, &spec),
            fabric: Fabric::new(n, model.fabric),
            bus: Bus::new(n, model.fifo, model.outstanding_misses).with_write_buffers(model.write_buffer),
            processors: (0..n).map(|_| Processor::new(model.core, &spec, shift)).collect(),
            next_times: vec![u64::MAX; n],
            moved: 0,
            streams: open_all(source)?,
            spaces: source.spaces(),
            task_references: vec![[[0; 3]; 2]; tasks],
            scheduler: Scheduler::new(model.policy, tasks, n, seed),
            wakeups: Wakeups::default(),
            locks: Locks::new(tasks + n),
            io: model.storage.as_ref().map(|plan| IoSystem::new(plan, seed)),
            task_requests: vec![[0; 2]; tasks],
            task_levels: Levels::default(),
            profiles: Profiles::default(),
            following: Following::default(),
            disk: FixedDisk::new(model.disk_parallel, model.disk_read, model.disk_write)
                .with_shared_flushes(model.shared_flushes),
            happenings: BinaryHeap::new(),
            happened: 0,
            waiting_for: source.interrupts().iter().map(|i| Some(i.requests.len())).collect(),
            handlers_of,
            requests: Requests::new(source.interrupts()),
            delay: RandomStream::new(seed, "memory delay"),
            measure: Measure::new(source.transaction_kinds(), model.warmup, model.transactions),
            recorder: Recorder::new(n),
            base: None,
            active: 0,
            most_active: 0,
            active_integral: 0,
            active_since: 0,
            now: 0,
            shift,
        })
    }

    pub fn run(
        mut self,
        start: Option<&WarmStart>,
        stop: &AtomicBool,
        done: &AtomicU64,
    ) -> Result<Replication, SimulateError> {
        match start {
            None => self.begin()?,
            Some(start) => self.resume(start)?,
        }
        self.maybe_start(0);
        let (mut rounds, mut told) = (0_u64, 0);
        while !self.measure.complete() {
            rounds += 1;
            if rounds % ROUNDS_PER_LOOK == 0 {
                let total = self.reading().references;
                done.fetch_add(total - told, Ordering::Relaxed);
                told = total;
                if stop.load(Ordering::Relaxed) {
                    return Err(SimulateError::Interrupted);
                }
            }
            if !self.round()? && !self.unstick()? {
                break;
            }
        }
        done.fetch_add(self.reading().references - told, Ordering::Relaxed);
        Ok(self.finish())
    }

    /// Handles what is next in time; `false` when nothing is.
    pub(super) fn round(&mut self) -> Result<bool, SimulateError> {
        self.follow();
        let happening = self.happenings.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
        let grant = self.bus.next_grant();
        let (cpu, first, second) = self.earliest();
        let now = happening.min(grant).min(first);
        if now == u64::MAX {
            return Ok(false);
        }
        self.now = self.now.max(now);
        if self.measure.window_over(now) {
            self.settle_idle(now);
            let reading = self.reading();
            self.measure.close_window(now, reading);
        }
        if happening <= grant && happening <= first {
            self.happen();
        } else if first <= grant {
            let sync = happening.min(grant).min(second);
            let limit = happening.min(grant).min(self.bus.free_at().max(second));
            self.run_processor(cpu, limit, sync)?;
        } else {
            self.grant();
        }
        Ok(true)
    }

    /// The processor that acts first, its time, and the time of the next one.
    #[inline]
    pub(super) fn earliest(&mut self) -> (usize, u64, u64) {
        while self.moved != 0 {
            let cpu = self.moved.trailing_zeros() as usize;
            self.moved &= self.moved - 1;
            self.next_times[cpu] = self.processors[cpu].next_time();
        }
        let (mut cpu, mut first, mut second) = (0, u64::MAX, u64::MAX);
        for (index, &time) in self.next_times.iter().enumerate() {
            if time < first {
                (cpu, second, first) = (index, first, time);
            } else {
                second = second.min(time);
            }
        }
        (cpu, first, second)
    }

    pub(super) fn schedule(&mut self, time: u64, happening: Happening) {
        self.happened += 1;
        self.happenings.push(Reverse((time, self.happened, happening)));
    }

    pub(super) fn happen(&mut self) {
        let Some(Reverse((now, _, happening))) = self.happenings.pop() else { return };
        match happening {
            Happening::Store { cpu, performed } => self.store_returned(cpu, now, performed),
            Happening::Load { cpu, load } => self.load_returned(cpu, load, now),
            Happening::SleepOver { task } => self.make_ready(task, now),
            Happening::Disk { request } => self.disk_done(request, now),
            Happening::Io => self.io_happens(now),
        }
    }

    /// A disk request is complete: handlers that waited for it last are triggered.
    pub(super) fn disk_done(&mut self, request: u64, now: u64) {
        for index in self.handlers_of.get(&request).cloned().unwrap_or_default() {
            if let Some(left) = &mut self.waiting_for[index] {
                *left -= 1;
                if *left == 0 {
                    self.trigger(index, now);
                }
            }
        }
    }

    /// Gives a handler to an idle processor, or to the one interrupted longest ago.
    pub(super) fn trigger(&mut self, index: usize, now: u64) {
        self.waiting_for[index] = None;
        let rank = |&cpu: &usize| {
            let processor = &self.processors[cpu];
            (processor.wait != Wait::Task, processor.last_interrupt)
        };
        let cpu = (0..self.processors.len()).min_by_key(rank).unwrap_or(0);
        let processor = &mut self.processors[cpu];
        processor.last_interrupt = now;
        processor.handlers.push_back(index);
        if processor.wait == Wait::Task {
            self.leave_idle(cpu, now);
        }
    }

    pub(super) fn leave_idle(&mut self, cpu: usize, now: u64) {
        self.moved |= 1 << cpu;
        let processor = &mut self.processors[cpu];
        processor.times.idle += now - processor.since;
        processor.time = now;
        processor.wait = Wait::Nothing;
    }

    pub(super) fn count_active(&mut self, now: u64, change: i64) {
        let now = now.max(self.active_since);
        if self.io.is_some() {
            let instructions = self.instructions();
            self.task_levels.note(self.active, now, instructions, change < 0);
            self.following.note(now);
        }
        self.active_integral += u128::from(self.active) * u128::from(now - self.active_since);
        self.active_since = now;
        self.active = self.active.wrapping_add_signed(change);
        self.most_active = self.most_active.max(self.active);
    }

    pub(super) fn make_ready(&mut self, task: TaskId, now: u64) {
        self.count_active(now, 1);
        let idle: Vec<usize> =
            (0..self.processors.len()).filter(|&cpu| self.processors[cpu].wait == Wait::Task).collect();
        if idle.is_empty() {
            self.scheduler.make_ready(task);
            return;
        }
        let cpu = self.scheduler.choose_idle(task, &idle);
        self.scheduler.place(task, cpu);
        self.leave_idle(cpu, now);
        self.begin_task(cpu, task);
    }

    pub(super) fn begin_task(&mut self, cpu: usize, task: TaskId) {
        let processor = &mut self.processors[cpu];
        processor.context = Some(Context::Task(task));
        processor.slice = self.model.time_slice;
        processor.change_context();
        self.recorder.begin(cpu, task, processor.time);
        self.caches.system.run_task(cpu, task);
        for (cpu, line) in std::mem::take(&mut self.caches.system.flushed) {
            let (ready, class) = (self.processors[cpu].time, Class::WriteBack);
            self.bus.post(Request { cpu, ready, line, class, origin: Origin::Processor });
        }
    }

    /// The processor has nothing to run: it takes a ready task or becomes idle.
    pub(super) fn dispatch(&mut self, cpu: usize) {
        self.processors[cpu].context = None;
        self.recorder.end(cpu, self.processors[cpu].time);
        if let Some(task) = self.scheduler.dispatch(cpu) {
            self.begin_task(cpu, task);
            return;
        }
        let processor = &mut self.processors[cpu];
        if processor.handlers.is_empty() {
            processor.wait = Wait::Task;
            processor.since = processor.time;
        }
    }

    /// Runs a processor until it passes `limit` or waits. Only up to `sync` may it do what others
    /// must see in order: events, task switches.
    pub(super) fn run_processor(&mut self, cpu: usize, limit: u64, sync: u64) -> Result<(), SimulateError> {
        self.moved |= 1 << cpu;
        self.enter_handler(cpu);
        let Some(context) = self.processors[cpu].context else {
            self.dispatch(cpu);
            return Ok(());
        };
        if let Some(spin) = self.processors[cpu].spinning {
            self.spin(cpu, context, spin);
            return Ok(());
        }
        let mut limit = limit;
        loop {
            let stop = self.step(cpu, context, limit);
            match stop {
                Stop::Limit => return Ok(()),
                Stop::Miss(pending) => {
                    if !self.miss(cpu, context, pending) {
                        return Ok(());
                    }
                    limit = limit.min(self.bus.next_grant());
                }
                Stop::Load(pending, way) => {
                    if !self.load(cpu, context, pending, way) {
                        return Ok(());
                    }
                    limit = limit.min(self.bus.next_grant());
                }
                Stop::Busy => {
                    self.hold_load(cpu);
                    return Ok(());
                }
                Stop::Prefetch => {
                    self.post_prefetches(cpu, self.processors[cpu].time);
                    limit = limit.min(self.bus.next_grant());
                }
                Stop::Walk(pending) => {
                    self.demand(cpu, pending);
                    return Ok(());
                }
                Stop::Full => {
                    self.wait_for_load(cpu);
                    return Ok(());
                }
                Stop::FarStore(pending, latency) => {
                    limit = limit.min(self.far_store(cpu, context, pending, latency));
                }
                Stop::Store(pending) => {
                    if !self.store(cpu, context, pending) {
                        return Ok(());
                    }
                    limit = limit.min(self.bus.next_grant());
                }
                _ if self.processors[cpu].time > sync => return Ok(()),
                Stop::Slice => {
                    self.end_slice(cpu, context);
                    return Ok(());
                }
                Stop::Event => {
                    self.event(cpu, context);
                    return Ok(());
                }
                Stop::End => {
                    if !self.refill(cpu, context)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    pub(super) fn enter_handler(&mut self, cpu: usize) {
        let processor = &mut self.processors[cpu];
        let busy = processor.is_within_record()
            || processor.is_walking()
            || matches!(processor.context, Some(Context::Interrupt(_)));
        if processor.handlers.is_empty() || busy || self.is_masked(cpu) {
            return;
        }
        let processor = &mut self.processors[cpu];
        if let Some(index) = processor.handlers.pop_front() {
            processor.interrupted = match processor.context {
                Some(Context::Task(task)) => Some(task),
                _ => None,
            };
            processor.context = Some(Context::Interrupt(index));
            processor.handler_position = 0;
            processor.change_context();
            processor.saved_slice = processor.slice;
            processor.slice = u64::MAX;
        }
    }

    pub(super) fn step(&mut self, cpu: usize, context: Context, limit: u64) -> Stop<W> {
        let Self {
            processors,
            streams,
            caches,
            interrupts,
            task_references,
            privacy,
            spaces,
            instructions,
            ..
        } = self;
        let processor = &mut processors[cpu];
        let parameters = Pace {
            limit,
            shift: self.shift,
            cycles: self.model.cycles_per_reference,
            branch_penalty: self.model.branch_penalty,
            farther: &self.model.farther,
            translation: self.model.translation,
        };
        match context {
            Context::Task(task) => {
                let stream = &mut streams[task as usize];
                let mut work = Records {
                    records: &stream.batch.records,
                    pages: &stream.batch.pages,
                    spaces,
                    position: &mut stream.position,
                    code: &stream.batch.code,
                    instructions,
                    privacy,
                    tasks: task_references,
                };
                step(cpu, processor, caches, &mut work, parameters)
            }
            Context::Interrupt(index) => {
                let mut position = processor.handler_position;
                let mut work = Records {
                    records: &interrupts[index].batch.records,
                    pages: &interrupts[index].batch.pages,
                    spaces,
                    position: &mut position,
                    code: &interrupts[index].batch.code,
                    instructions,
                    privacy,
                    tasks: task_references,
                };
                let stop = step(cpu, processor, caches, &mut work, parameters);
                processor.handler_position = position;
                stop
            }
        }
    }

    /// Completes the current access without another look at the cache.
    pub(super) fn advance(&mut self, cpu: usize, context: Context) {
        let Self { processors, streams, interrupts, task_references, privacy, spaces, instructions, .. } =
            self;
        let processor = &mut processors[cpu];
        let cycles = self.model.cycles_per_reference;
        match context {
            Context::Task(task) => {
                let stream = &mut streams[task as usize];
                let mut work = Records {
                    records: &stream.batch.records,
                    pages: &stream.batch.pages,
                    spaces,
                    position: &mut stream.position,
                    code: &stream.batch.code,
                    instructions,
                    privacy,
                    tasks: task_references,
                };
                advance(processor, &mut work, self.shift, cycles, cpu);
            }
            Context::Interrupt(index) => {
                let mut position = processor.handler_position;
                let mut work = Records {
                    records: &interrupts[index].batch.records,
                    pages: &interrupts[index].batch.pages,
                    spaces,
                    position: &mut position,
                    code: &interrupts[index].batch.code,
                    instructions,
                    privacy,
                    tasks: task_references,
                };
                advance(processor, &mut work, self.shift, cycles, cpu);
                processor.handler_position = position;
            }
        }
        if self.processors[cpu].has_more {
            self.post_prefetches(cpu, self.processors[cpu].time);
        }
    }

    pub(super) fn end_slice(&mut self, cpu: usize, context: Context) {
        let Context::Task(task) = context else { return };
        if self.extends_slice(cpu) {
            return;
        }
        if self.scheduler.ready() > 0 {
            self.scheduler.make_ready(task);
            self.dispatch(cpu);
        } else {
            self.processors[cpu].slice = self.model.time_slice;
        }
    }

    /// Loads further records, or ends the task or handler; `false` when it ended.
    pub(super) fn refill(&mut self, cpu: usize, context: Context) -> Result<bool, SimulateError> {
        match context {
            Context::Task(task) => {
                if self.streams[task as usize].refill()? {
                    return Ok(true);
                }
                if !self.drain(cpu) {
                    return Ok(false);
                }
                self.leave_locks(cpu, context, true);
                self.leave(cpu);
            }
            Context::Interrupt(_) => {
                self.leave_locks(cpu, context, true);
                let processor = &mut self.processors[cpu];
                processor.slice = processor.saved_slice;
                processor.change_context();
                processor.context = processor.interrupted.take().map(Context::Task);
                if processor.context.is_none() && processor.handlers.is_empty() {
                    self.dispatch(cpu);
                }
            }
        }
        Ok(false)
    }

    /// The running task cannot go on.
    pub(super) fn leave(&mut self, cpu: usize) {
        let now = self.processors[cpu].time;
        if let Some(context) = self.processors[cpu].context {
            self.leave_locks(cpu, context, false);
        }
        self.count_active(now, -1);
        self.dispatch(cpu);
    }

    pub(super) fn event(&mut self, cpu: usize, context: Context) {
        let now = self.processors[cpu].time;
        let event = match context {
            Context::Task(task) => {
                let stream = &mut self.streams[task as usize];
                let record = stream.batch.records[stream.position];
                stream.position += 1;
                stream.batch.events[record.address as usize]
            }
            Context::Interrupt(index) => {
                let batch = &self.interrupts[index].batch;
                let record = batch.records[self.processors[cpu].handler_position];
                self.processors[cpu].handler_position += 1;
                batch.events[record.address as usize]
            }
        };
        match (event, context) {
            (Event::Wake { wake }, _) => {
                if let Some(task) = self.wakeups.deliver(wake) {
                    self.locks.wakes(task);
                    self.make_ready(task, now);
                }
            }
            (Event::IoSubmit { request, device, sector, bytes, write }, _) => {
                if let (Context::Task(task), Some(_)) = (context, &self.io) {
                    self.task_requests[task as usize][usize::from(write)] += u64::from(bytes > 0);
                }
                self.submit(&Asked { request, device, sector, bytes, write }, now);
            }
            (Event::LockAcquire { class, word }, _) if self.arbitrates(class) => {
                self.acquire(cpu, context, class, word);
            }
            (Event::LockRelease { word }, _) if self.model.locks != Arbitration::Off => {
                self.release(cpu, context, word);
            }
            // The simulated lock was waited for where it was taken.
            (Event::LockWait { class, .. }, _) if self.arbitrates(class) => {}
            (Event::LockWait { wake, .. }, Context::Task(task)) => self.block(cpu, task, Some(wake)),
            (Event::Block { wake }, Context::Task(task)) => self.block(cpu, task, wake),
            (Event::Sleep { nanos }, Context::Task(task)) => {
                let over = now + self.model.nanos_to_cycles(nanos);
                self.schedule(over, Happening::SleepOver { task });
                self.leave(cpu);
            }
            (Event::TransactionEnd { kind, user }, Context::Task(task)) => {
                let previous = self.streams[task as usize].last_mark.insert(user, now);
                if self.io.is_some() {
                    self.profile(task, kind, user);
                }
                self.measure.transaction(kind, now, previous);
                self.maybe_start(now);
            }
            _ => {}
        }
    }

    /// `task` gives up its processor until `wake`, unless that came first.
    fn block(&mut self, cpu: usize, task: TaskId, wake: Option<WakeId>) {
        if wake.is_none_or(|wake| self.wakeups.wait(task, wake)) {
            self.leave(cpu);
            if let Some(waker) = wake.and_then(|wake| self.waker(wake)) {
                self.waits_for(task, waker);
            }
        }
    }

    /// Nothing is next in time: a handler whose requests never came runs now, otherwise the run is
    /// over; `false` says so.
    pub(super) fn unstick(&mut self) -> Result<bool, SimulateError> {
        if let Some(index) = self.waiting_for.iter().position(Option::is_some) {
            self.trigger(index, self.now);
            return Ok(true);
        }
        if let Some(task) = self.locks.force_one(self.now) {
            self.make_ready(task, self.now);
            return Ok(true);
        }
        let waiting = self.wakeups.waiting();
        if waiting.is_empty() {
            return Ok(false);
        }
        Err(SimulateError::Internal(deadlock::message(self.now, &waiting, self.source.tasks())))
    }
}
