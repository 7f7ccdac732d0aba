//! The run loop of the timing engine: bus grants, completions and processors in time order.

use super::accounts::Accounts;
use super::elsewhere::Elsewhere;
use super::foresight::Foreseen;
use super::io::IoSystem;
use super::measure::Measure;
use super::port::MemoryPort;
use super::processor::{Context, Processor};
use super::stepping::runs::Unaccounted;
use super::stepping::{advance, step};
use super::stop::{Pace, Records, Stop};
use super::Model;
use crate::error::SimulateError;
use crate::event_queue::EventQueue;
use crate::result::Replication;
use crate::software::{Executor, Software};
use crate::warm::WarmStart;
use servsim_core::earliest::Earliest;
use servsim_core::{CpuId, ProcessorSet, TaskId, TaskSource, WakeId};
use servsim_mem::{HierarchySpec, WordMask};
use servsim_os::FixedDisk;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Something that happens at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimedEvent {
    /// The oldest store of a processor got its data; it is `performed` or must ask again.
    Store { cpu: CpuId, performed: bool },
    /// The data of a load under way arrive.
    Load { cpu: CpuId, load: u64 },
    /// A disk request completes.
    Disk { request: u64 },
    /// Something happens in the described disks and I/O buses.
    Io,
    /// A task's sleep is over.
    SleepOver { task: TaskId },
    /// A task on another machine comes to an event in its stream.
    Elsewhere { task: TaskId },
    /// A wake-up arrives from another machine.
    Arrives { wake: WakeId },
}

/// How many rounds of the loop pass between looks at the stop flag.
const ROUNDS_PER_LOOK: u64 = 4096;
/// How many pass between two counts of the references, where these bound the window.
pub(super) const ROUNDS_PER_COUNT: u64 = 16;

pub struct Engine<'a, W> {
    pub(super) model: &'a Model,
    pub(super) seed: u64,
    /// What the tasks do.
    pub(super) software: Software<'a>,
    /// Caches, and what joins them with memory.
    pub(super) port: MemoryPort<W>,
    pub(super) processors: Vec<Processor<W>>,
    /// When each processor acts next.
    pub(super) next_times: Earliest,
    /// Processors whose entry of `next_times` is out of date.
    pub(super) stale: ProcessorSet,
    /// What each is known to do before.
    pub(super) foreseen: Vec<Foreseen>,
    /// Whether anything can be foreseen on this machine.
    pub(super) foresees: bool,
    /// Processors that spin and whose turns are skipped.
    pub(super) skipping: Vec<CpuId>,
    pub(super) disk: FixedDisk,
    /// Described disks and I/O buses, instead of the pool.
    pub(super) io: Option<IoSystem<'a>>,
    /// Tasks that run on a machine of their own.
    pub(super) elsewhere: Option<Elsewhere>,
    pub(super) events: EventQueue<TimedEvent>,
    /// What was counted.
    pub(super) accounts: Accounts,
    /// What processors did in turns that are not counted yet.
    pub(super) unaccounted: Vec<Unaccounted>,
    pub(super) now: u64,
}

impl<'a, W: WordMask> Engine<'a, W> {
    pub fn new(source: &'a dyn TaskSource, model: &'a Model, seed: u64) -> Result<Self, SimulateError> {
        let n = model.setup.processors;
        let spec = HierarchySpec { seed, ..model.hierarchy.clone() };
        let port = MemoryPort::new(model, &spec);
        let measure = Measure::new(source.transaction_kinds(), model.warmup, model.transactions)
            .by_references(model.references);
        Ok(Self {
            model,
            seed,
            software: Software::new(source, n, (model.policy, &model.bindings), model.locks, seed)?,
            processors: (0..n).map(|_| Processor::new(model.core, &spec, port.shift())).collect(),
            next_times: Earliest::new(n),
            stale: ProcessorSet::default(),
            foreseen: vec![Foreseen::default(); n],
            foresees: port.keeps_other_lines(),
            skipping: Vec::new(),
            elsewhere: model.clients.map(|times| Elsewhere::new(source.tasks(), times)),
            io: model.storage.as_ref().map(|plan| IoSystem::new(plan, seed)),
            disk: FixedDisk::new(model.disk_parallel, model.disk_read, model.disk_write)
                .with_shared_flushes(model.shared_flushes),
            events: EventQueue::new(),
            accounts: Accounts::new(source.tasks().len(), n, measure),
            unaccounted: vec![Unaccounted::default(); n],
            port,
            now: 0,
        })
    }

    pub fn run(
        mut self,
        start: Option<&WarmStart>,
        stop: &AtomicBool,
        done: &AtomicU64,
    ) -> Result<Replication, SimulateError> {
        match start {
            None => self.begin_all()?,
            Some(start) => self.resume(start, true)?,
        }
        self.maybe_start(0);
        self.watch_the_window();
        let (mut rounds, mut told) = (0_u64, 0);
        let by_references = self.accounts.measure.is_by_references();
        while !self.accounts.measure.complete() {
            rounds += 1;
            if rounds % ROUNDS_PER_LOOK == 0 {
                let total = self.reading().references;
                done.fetch_add(total - told, Ordering::Relaxed);
                told = total;
                if stop.load(Ordering::Relaxed) {
                    return Err(SimulateError::Interrupted);
                }
            }
            if by_references && rounds % ROUNDS_PER_COUNT == 0 {
                self.count_references();
            }
            // Up to the next look or count.
            let every = if by_references { ROUNDS_PER_COUNT } else { ROUNDS_PER_LOOK };
            let passed = self.rounds(every - rounds % every)?;
            if passed == 0 && !self.unstick()? {
                break;
            }
            rounds += passed.saturating_sub(1);
        }
        done.fetch_add(self.reading().references - told, Ordering::Relaxed);
        Ok(self.finish())
    }

    /// Handles what is next in time, and what comes behind it as long as that is turns of processors, `most` in all; how
    /// many there were: none when nothing is next.
    pub(super) fn rounds(&mut self, most: u64) -> Result<u64, SimulateError> {
        self.follow();
        let event = self.events.next_time();
        let grant = self.port.next_grant();
        let turn = self.earliest();
        let now = event.min(grant).min(turn);
        if now == u64::MAX {
            return Ok(0);
        }
        if self.accounts.measure.window_over(now) {
            self.end_window(now);
            return self.rounds(most);
        }
        self.now = self.now.max(now);
        if event <= grant && event <= turn {
            self.handle_timed_event()?;
        } else if turn <= grant {
            return self.turns(event, grant, most);
        } else {
            self.grant();
        }
        Ok(1)
    }

    /// Closes the window of the timeline that is over at `now`, before anything else happens.
    fn end_window(&mut self, now: u64) {
        // What is foreseen may go beyond the window, and then begin there first.
        self.perform_all_foreseen(self.accounts.measure.last_of_window());
        let known = self.processors.iter().zip(&self.foreseen).filter(|(_, foreseen)| foreseen.known);
        let now = known.map(|(processor, _)| processor.time).fold(now, u64::min);
        self.now = self.now.max(now);
        self.settle_waits(now);
        let reading = self.reading();
        self.accounts.measure.close_window(now, &reading);
        self.look_at_users(now);
    }

    /// When a processor acts next.
    #[inline]
    fn earliest(&mut self) -> u64 {
        while let Some(cpu) = self.stale.take_first() {
            self.next_times.set(cpu.0, self.next_time(cpu));
        }
        self.next_times.time()
    }

    pub(super) fn schedule(&mut self, time: u64, event: TimedEvent) {
        self.events.push(time, event);
    }

    pub(super) fn handle_timed_event(&mut self) -> Result<(), SimulateError> {
        let Some((now, event)) = self.events.pop() else { return Ok(()) };
        // A store that comes back concerns a processor of which nothing is foreseen.
        if !matches!(event, TimedEvent::Store { .. }) {
            self.settle(now.saturating_sub(1));
        }
        match event {
            TimedEvent::Store { cpu, performed } => self.store_returned(cpu, now, performed),
            TimedEvent::Load { cpu, load } => self.load_returned(cpu, load, now),
            TimedEvent::SleepOver { task } => self.make_ready(task, now),
            TimedEvent::Disk { request } => self.complete(request, now),
            TimedEvent::Io => self.io_happens(now),
            TimedEvent::Elsewhere { task } => return self.event_elsewhere(task, now),
            TimedEvent::Arrives { wake } => self.wake_arrives(wake, now),
        }
        Ok(())
    }

    /// Runs a processor until it passes `limit` or waits. Only up to `sync` may it do what others
    /// must see in order: events, task switches. `ran` if it has just run through hits, to the first reference that is none.
    pub(super) fn run_processor(
        &mut self,
        cpu: CpuId,
        limit: u64,
        sync: u64,
        mut ran: bool,
    ) -> Result<(), SimulateError> {
        self.stale.insert(cpu);
        let mut limit = limit;
        if self.software.handlers.wait_for(cpu) {
            self.settle_before(cpu, self.processors[cpu].time);
            self.enter_handler(cpu);
            // It enters as soon as the task lets it, which is looked at before each record.
            if self.software.handlers.wait_for(cpu) && !self.processors[cpu].is_in_handler() {
                limit = limit.min(self.processors[cpu].time);
            }
        }
        let processor = &mut self.processors[cpu];
        if let Some(history) = &mut processor.history {
            history.forget_before(self.now);
        }
        let Some(context) = processor.context else {
            self.settle_before(cpu, self.processors[cpu].time);
            self.dispatch(cpu);
            return Ok(());
        };
        if processor.forgets_translations() {
            return Ok(());
        }
        if let Some(spin) = processor.spinning {
            self.settle_before(cpu, self.next_times.time());
            self.spin(cpu, context, spin);
            return Ok(());
        }
        loop {
            let stop = self.step(cpu, context, limit, std::mem::take(&mut ran));
            match stop {
                Stop::Limit => return Ok(()),
                Stop::Miss(pending) => {
                    if !self.miss(cpu, context, pending) {
                        return Ok(());
                    }
                    limit = limit.min(self.port.next_grant());
                }
                Stop::Load(pending, way) => {
                    if !self.load(cpu, context, pending, way) {
                        return Ok(());
                    }
                    limit = limit.min(self.port.next_grant());
                }
                Stop::Busy => {
                    self.hold_load(cpu);
                    return Ok(());
                }
                Stop::Posted => limit = limit.min(self.port.next_grant()),
                Stop::Prefetch => {
                    self.post_prefetches(cpu);
                    limit = limit.min(self.port.next_grant());
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
                    limit = limit.min(self.port.next_grant());
                }
                _ if self.processors[cpu].time > sync => return Ok(()),
                Stop::Slice => {
                    self.settle_before(cpu, self.processors[cpu].time);
                    if let Context::Task(task) = context {
                        self.end_slice(cpu, task);
                    }
                    return Ok(());
                }
                Stop::Event => {
                    self.settle_before(cpu, self.processors[cpu].time);
                    self.event(cpu, context);
                    return Ok(());
                }
                Stop::End => {
                    self.settle_before(cpu, self.processors[cpu].time);
                    if !self.next_records(cpu, context)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Runs a processor's task or handler as far as it goes alone, at most to `limit`.
    fn step(&mut self, cpu: CpuId, context: Context, limit: u64, ran: bool) -> Stop<W> {
        let pace = self.pace(limit);
        self.with_records(cpu, context, |processor, port, work| step(cpu, processor, port, work, &pace, ran))
    }

    /// How far and how fast processors step.
    #[inline]
    pub(super) fn pace(&self, limit: u64) -> Pace {
        let model = self.model;
        Pace {
            limit,
            shift: self.port.shift(),
            cycles: model.cycles_per_reference,
            branch_penalty: model.branch_penalty,
            most_stores: if model.all_asynchronous { model.store_buffer } else { 0 },
            translation: model.translation,
        }
    }

    /// Completes the current access without another look at the cache.
    pub(super) fn advance(&mut self, cpu: CpuId, context: Context) {
        let (shift, cycles) = (self.port.shift(), self.model.cycles_per_reference);
        self.with_records(cpu, context, |processor, _, work| advance(processor, work, shift, cycles, cpu));
        if self.processors[cpu].has_more {
            self.post_prefetches(cpu);
        }
    }

    /// Works on the records of a processor's task or handler, and keeps how far it came.
    #[inline]
    fn with_records<R>(
        &mut self,
        cpu: CpuId,
        context: Context,
        work: impl FnOnce(&mut Processor<W>, &mut MemoryPort<W>, &mut Records<'_>) -> R,
    ) -> R {
        let processor = &mut self.processors[cpu];
        let mut handler_position = processor.handler_position;
        let (batch, position) = match context {
            Context::Task(task) => {
                let stream = &mut self.software.streams[task as usize];
                (&stream.batch, &mut stream.position)
            }
            Context::Interrupt(index) => (&self.software.interrupts[index].batch, &mut handler_position),
        };
        let mut records = Records {
            batch,
            position,
            spaces: &self.software.spaces,
            instructions: self.software.instructions,
            privacy: self.software.privacy,
            tasks: &mut self.accounts.task_references,
        };
        let found = work(processor, &mut self.port, &mut records);
        processor.handler_position = handler_position;
        found
    }
}
