//! The run loop of the timing engine: bus grants, completions and processors in time order.

use super::base::Base;
use super::io::IoSystem;
use super::measure::Measure;
use super::processor::{Context, Processor};
use super::recorder::Recorder;
use super::requests::Requests;
use super::stepping::{advance, step};
use super::stop::{Pace, Records, Stop};
use super::streams::{handlers_of, open_all, Stream};
use super::subsystem::{LoadLevels, Profiles};
use super::user_states::UserStates;
use super::{deadlock, Model};
use crate::error::SimulateError;
use crate::result::Replication;
use crate::warm::WarmStart;
use servsim_core::{Instruction, Interrupt, Privacy, RandomStream, TaskId, TaskSource};
use servsim_mem::{Bus, Fabric, Hierarchy, HierarchySpec, WordMask};
use servsim_os::{FixedDisk, Locks, Scheduler, Wakeups};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Something that happens at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimedEvent {
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
    pub(super) task_levels: LoadLevels,
    pub(super) profiles: Profiles,
    pub(super) user_states: UserStates,
    pub(super) timed_events: BinaryHeap<Reverse<(u64, u64, TimedEvent)>>,
    pub(super) sequence: u64,
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
            task_levels: LoadLevels::default(),
            profiles: Profiles::default(),
            user_states: UserStates::default(),
            disk: FixedDisk::new(model.disk_parallel, model.disk_read, model.disk_write)
                .with_shared_flushes(model.shared_flushes),
            timed_events: BinaryHeap::new(),
            sequence: 0,
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
        let event = self.timed_events.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
        let grant = self.bus.next_grant();
        let (cpu, first, second) = self.earliest();
        let now = event.min(grant).min(first);
        if now == u64::MAX {
            return Ok(false);
        }
        self.now = self.now.max(now);
        if self.measure.window_over(now) {
            self.settle_idle(now);
            let reading = self.reading();
            self.measure.close_window(now, reading);
            self.look_at_users(now);
        }
        if event <= grant && event <= first {
            self.handle_timed_event();
        } else if first <= grant {
            let sync = event.min(grant).min(second);
            let limit = event.min(grant).min(self.bus.free_at().max(second));
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

    pub(super) fn schedule(&mut self, time: u64, event: TimedEvent) {
        self.sequence += 1;
        self.timed_events.push(Reverse((time, self.sequence, event)));
    }

    pub(super) fn handle_timed_event(&mut self) {
        let Some(Reverse((now, _, event))) = self.timed_events.pop() else { return };
        match event {
            TimedEvent::Store { cpu, performed } => self.store_returned(cpu, now, performed),
            TimedEvent::Load { cpu, load } => self.load_returned(cpu, load, now),
            TimedEvent::SleepOver { task } => self.make_ready(task, now),
            TimedEvent::Disk { request } => self.disk_done(request, now),
            TimedEvent::Io => self.io_happens(now),
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

    /// Runs a processor's task or handler as far as it goes alone, at most to `limit`.
    pub(super) fn step(&mut self, cpu: usize, context: Context, limit: u64) -> Stop<W> {
        let model = self.model;
        let pace = Pace {
            limit,
            shift: self.shift,
            cycles: model.cycles_per_reference,
            branch_penalty: model.branch_penalty,
            outer_hit_latency: &model.outer_hit_latency,
            translation: model.translation,
        };
        self.with_records(cpu, context, |processor, caches, work| step(cpu, processor, caches, work, pace))
    }

    /// Completes the current access without another look at the cache.
    pub(super) fn advance(&mut self, cpu: usize, context: Context) {
        let (shift, cycles) = (self.shift, self.model.cycles_per_reference);
        self.with_records(cpu, context, |processor, _, work| advance(processor, work, shift, cycles, cpu));
        if self.processors[cpu].has_more {
            self.post_prefetches(cpu, self.processors[cpu].time);
        }
    }

    /// Works on the records of a processor's task or handler, and keeps how far it came.
    #[inline]
    fn with_records<R>(
        &mut self,
        cpu: usize,
        context: Context,
        work: impl FnOnce(&mut Processor<W>, &mut Hierarchy<W>, &mut Records<'_>) -> R,
    ) -> R {
        let processor = &mut self.processors[cpu];
        let mut handler_position = processor.handler_position;
        let (batch, position) = match context {
            Context::Task(task) => {
                let stream = &mut self.streams[task as usize];
                (&stream.batch, &mut stream.position)
            }
            Context::Interrupt(index) => (&self.interrupts[index].batch, &mut handler_position),
        };
        let mut records = Records {
            records: &batch.records,
            pages: &batch.pages,
            spaces: &self.spaces,
            position,
            code: &batch.code,
            instructions: self.instructions,
            privacy: self.privacy,
            tasks: &mut self.task_references,
        };
        let found = work(processor, &mut self.caches, &mut records);
        processor.handler_position = handler_position;
        found
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
