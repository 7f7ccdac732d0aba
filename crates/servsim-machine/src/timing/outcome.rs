//! From the engine's counters to a replication: what was counted since the warm-up.

use super::base::Base;
use super::engine::Engine;
use super::measure::Reading;
use crate::counted::Windowed;
use crate::result::{Detail, LockResult, ProcessorTimes, Replication, SystemCounters, TaskResult, Timing};
use servsim_config::Arbitration;
use servsim_core::{TaskId, TaskInfo};
use servsim_mem::{TlbCounters, WordMask};

impl<W: WordMask> Engine<'_, W> {
    pub(super) fn reading(&self) -> Reading {
        let memory = self.port.totals();
        let mut times = ProcessorTimes::default();
        self.processors.iter().for_each(|processor| times.add(&processor.times));
        let counters = Windowed::of(&memory, &times, &self.system_counters(), &self.port.requests());
        let (misses, bus_busy) = (memory.total_misses(), self.port.order_busy());
        let mut reading = Reading { misses, bus_busy, counters, ..Reading::default() };
        for processor in &self.processors {
            reading.references += processor.references.iter().flatten().sum::<u64>();
            reading.instructions += processor.references[0][0] + processor.references[1][0];
            reading.busy += processor.times.user + processor.times.kernel;
        }
        reading
    }

    /// Instructions executed by all processors so far.
    pub(super) fn instructions(&self) -> u64 {
        self.processors.iter().map(|p| p.references[0][0] + p.references[1][0]).sum()
    }

    /// The client `task` has a reply of its user: what the user's server did is that transaction's.
    pub(super) fn profile(&mut self, task: TaskId, kind: u32, user: u32) {
        let is_server = |info: &TaskInfo| user != 0 && info.pid == user && !info.client;
        let server = self.software.source.tasks().iter().position(is_server).unwrap_or(task as usize);
        let references = &self.accounts.task_references[server];
        let of = |op: usize| references[0][op] + references[1][op];
        let [reads, writes] = self.accounts.task_requests[server];
        let measured = self.accounts.measure.start.is_some();
        self.accounts.profiles.served(server, kind as usize, [of(0), of(1), of(2), reads, writes], measured);
    }

    /// What scheduler, disks and interconnect counted so far.
    fn system_counters(&self) -> SystemCounters {
        let (scheduler, [disk_reads, disk_writes]) = (&self.software.scheduler, self.disk.accepted);
        SystemCounters {
            context_switches: scheduler.switches,
            migrations: scheduler.migrations,
            dispatches: scheduler.dispatches,
            disk_reads,
            disk_writes,
            bank_wait: self.port.bank_wait(),
        }
    }

    /// Prefetches so far that came after they were wanted.
    fn late_prefetches(&self) -> u64 {
        self.processors.iter().filter_map(|p| p.prefetching.as_ref()).map(|p| p.late).sum()
    }

    /// What the processors' translation counted so far.
    fn translation_counters(&self) -> TlbCounters {
        let mut total = TlbCounters::default();
        for translator in self.processors.iter().filter_map(|p| p.translator.as_ref()) {
            total.add(&translator.mmu.counters);
        }
        total
    }

    pub(super) fn maybe_start(&mut self, now: u64) {
        if !self.accounts.measure.should_start() {
            return;
        }
        self.settle_waits(now);
        self.count_active(now, 0);
        self.accounts.user_states.settle(now);
        self.port.interconnect.restart_monitor();
        self.port.caches.system.leave_pending_misses_out();
        let reading = self.reading();
        self.accounts.measure.begin(now, &reading);
        self.accounts.recorder.restart();
        self.accounts.base = Some(Base {
            memory: self.port.counts(),
            tlb: self.translation_counters(),
            late_prefetches: self.late_prefetches(),
            times: self.processors.iter().map(|p| p.times_at(now)).collect(),
            references: self.processors.iter().map(|p| p.references).collect(),
            tasks: self.accounts.task_references.clone(),
            system: self.system_counters(),
            locks: self.software.locks.counts,
            active_integral: self.accounts.active_integral,
            io: self.io.as_mut().map(|io| io.base(now)),
            levels_of_tasks: self.accounts.task_levels.clone(),
            user_states: self.accounts.user_states.times.clone(),
        });
        self.accounts.most_active = self.accounts.active;
    }

    /// Begins or ends a window of references when so many have been made.
    pub(super) fn count_references(&mut self) {
        self.perform_all_foreseen(self.now.saturating_sub(1));
        let made = self.processors.iter().map(|p| p.references.iter().flatten().sum::<u64>()).sum();
        self.accounts.measure.count_references(made, self.now);
        self.maybe_start(self.now);
        self.watch_the_window();
    }

    /// Charges processors that wait for that, up to now.
    pub(super) fn settle_waits(&mut self, now: u64) {
        self.processors.iter_mut().for_each(|processor| processor.settle(now));
    }

    /// Keeps what processors are charged where the window may soon begin or end.
    pub(super) fn watch_the_window(&mut self) {
        let keep = self.accounts.measure.is_near_a_bound();
        self.processors.iter_mut().for_each(|processor| processor.keep_history(keep));
    }

    pub(super) fn finish(mut self) -> Replication {
        let exhausted = !self.accounts.measure.complete();
        let last = self.processors.iter().map(|p| p.time).max().unwrap_or(0);
        let end =
            if exhausted { self.now.max(last) } else { self.accounts.measure.last_end().unwrap_or(self.now) };
        self.settle_waits(end);
        self.count_active(end, 0);
        self.accounts.user_states.settle(end);
        let start = self.accounts.measure.start.unwrap_or(end);
        let base = self.accounts.base.take();
        let mut memory = self.port.final_counts();
        let mut late_prefetches = self.late_prefetches();
        if let Some(base) = &base {
            memory = memory.since(&base.memory);
            late_prefetches -= base.late_prefetches;
        }
        let mut tlb = self.translation_counters();
        tlb = base.as_ref().map_or(tlb, |base| tlb.since(&base.tlb));
        let mut system = self.system_counters();
        system = base.as_ref().map_or(system, |base| system.since(&base.system));
        let mut references = [[0; 3]; 2];
        let mut times = Vec::new();
        for (cpu, processor) in self.processors.iter().enumerate() {
            let (base_times, base_references) =
                base.as_ref().map_or_else(Default::default, |b| (b.times[cpu], b.references[cpu]));
            times.push(processor.times_at(end).since(&base_times));
            subtract_into(&mut references, &processor.references, &base_references);
        }
        memory.counters.references = references;
        let task = |task: usize| {
            let before = base.as_ref().map_or([[0; 3]; 2], |b| b.tasks[task]);
            let mut counts = [[0; 3]; 2];
            subtract_into(&mut counts, &self.accounts.task_references[task], &before);
            TaskResult::new(&self.software.source.tasks()[task], counts)
        };
        let integral = base.as_ref().map_or(0, |b| b.active_integral);
        let locks = base.as_ref().map_or_else(Default::default, |b| b.locks);
        let io_base = base.as_ref().and_then(|b| b.io.as_ref());
        let storage = self.io.as_mut().map(|io| io.result(io_base, end));
        let task_levels = base.as_ref().map_or_else(
            || self.accounts.task_levels.levels.clone(),
            |base| self.accounts.task_levels.since(&base.levels_of_tasks),
        );
        let users = self.users(base.as_ref().map(|base| &base.user_states));
        let cycles = end - start;
        let ready = (self.accounts.active_integral - integral) * 1000 / u128::from(cycles.max(1));
        Replication {
            seed: self.seed,
            counters: memory.counters,
            kinds: self.accounts.measure.kinds.clone(),
            tasks: (0..self.software.streams.len()).map(task).collect(),
            distinct_lines: memory.distinct_lines as u64,
            tlb: self.model.translation.map(|_| tlb),
            prefetches: self.model.hierarchy.prefetch.as_ref().map(|_| memory.prefetches),
            groups: memory.groups,
            timing: Some(Timing {
                cycles,
                processors: times,
                bus_busy: memory.order_busy,
                write_buffers: (self.model.interconnect.write_buffer > 0).then_some(memory.write_buffers),
                system,
                late_prefetches,
                levels: memory.levels,
                ways_busy: memory.paths_busy,
                nodes: memory.nodes,
                monitor: self.port.interconnect.monitor_counts().cloned(),
                window_cycles: self.accounts.measure.window,
                detail: Some(Detail {
                    timeline: self.accounts.measure.timeline,
                    activity_log: self.accounts.recorder.finish(start, end),
                }),
                transaction_ends: self.accounts.measure.ends,
                most_ready: self.accounts.most_active,
                mean_ready_thousandths: ready as u64,
                trace_exhausted: exhausted,
                storage,
                task_levels,
                profiles: self.accounts.profiles.kinds,
                users,
                placement_digest: self.software.scheduler.placement_digest(),
                cores: self.model.core.is_some(),
                locks: (self.software.arbitration != Arbitration::Off).then(|| LockResult {
                    counts: self.software.locks.counts.since(&locks),
                    order_digest: self.software.locks.order_digest(),
                }),
            }),
        }
    }
}

fn subtract_into(sum: &mut [[u64; 3]; 2], now: &[[u64; 3]; 2], before: &[[u64; 3]; 2]) {
    for mode in 0..2 {
        for op in 0..3 {
            sum[mode][op] += now[mode][op] - before[mode][op];
        }
    }
}
