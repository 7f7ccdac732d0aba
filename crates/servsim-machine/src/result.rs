//! What a simulation counted, and the figures that follow from it.

use crate::activity_log::ActivityLog;
use crate::counted::Windowed;
use crate::storage::results::StorageResult;
use crate::timing::subsystem::{LoadLevel, Profile};
use crate::timing::user_states::Times;
use servsim_mem::interconnect::MonitorCounts;
use servsim_mem::{
    Counters, GroupCounters, LevelCounters, NodeCounts, PrefetchCounters, TlbCounters, WriteBufferCounters,
};
use servsim_os::LockCounts;

servsim_core::counters! {
    /// Where the cycles of one processor went.
    pub struct ProcessorTimes {
        user: u64 = "busy_user" [], "cycles", Parts, [windows], "Cycles executing in user mode";
        kernel: u64 = "busy_kernel" [], "cycles", Parts, [windows], "Cycles executing in kernel mode";
        memory_stall: u64 = "memory_stall" [], "cycles", Parts, [windows],
            "Cycles waiting for a block or a full store buffer, after the grant of the bus";
        bus_wait: u64 = "bus_wait" [], "cycles", Parts, [windows], "Cycles waiting for the grant of the bus";
        lock_spin: u64 = "lock_spin" [], "cycles", Parts, [windows],
            "Cycles spinning for a lock, without the misses of its word";
        branch: u64 = "branch" [], "cycles", Parts, [],
            "Cycles waiting for mispredicted branches to execute, and refilling the pipeline behind them";
        idle: u64 = "idle" [], "cycles", Parts, [windows], "Cycles without a ready task";
        stalls: [u64; 3] = "stalls" ["fetch", "load", "store"], "cycles", Hidden, [],
            "Of the waits for memory and bus: by fetches, loads, and stores (full buffer)";
        dependence: u64 = "dependence" [], "cycles", Hidden, [],
            "Of the execution: nothing entered because operands were on their way from functional units or the first level";
        translation: u64 = "translation" [], "cycles", Hidden, [],
            "Of the waits for memory and bus: by address translation";
    }
}

servsim_core::counters! {
    /// What scheduler, disks and interconnect counted for the whole machine, under the timing engine.
    pub struct SystemCounters {
        context_switches: u64 = "context_switches" [], "switches", Parts, [windows],
            "Times a processor went from one task to another";
        migrations: u64 = "migrations" [], "tasks", Parts, [windows],
            "Times a task continued on another processor than before";
        dispatches: u64 = "dispatches" [], "dispatches", Parts, [], "Times a task got a processor";
        disk_reads: u64 = "disk.reads" [], "requests", Parts, [windows], "Reads that disks accepted";
        disk_writes: u64 = "disk.writes" [], "requests", Parts, [windows], "Writes that disks accepted";
        bank_wait: u64 = "interconnect.bank_wait_cycles" [], "cycles", Parts, [],
            "Cycles that fetches waited for a memory bank";
    }
}

impl ProcessorTimes {
    /// Adds `cycles` of execution.
    #[inline]
    pub fn execute(&mut self, in_kernel: bool, cycles: u64) {
        *(if in_kernel { &mut self.kernel } else { &mut self.user }) += cycles;
    }

    /// Cycles at work: neither idle nor spinning.
    #[inline]
    pub fn work(&self) -> u64 {
        self.user + self.kernel + self.memory_stall + self.bus_wait + self.branch
    }

    /// No category more than `most` cycles.
    #[must_use]
    pub fn at_most(&self, most: u64) -> Self {
        Self {
            user: self.user.min(most),
            kernel: self.kernel.min(most),
            memory_stall: self.memory_stall.min(most),
            bus_wait: self.bus_wait.min(most),
            lock_spin: self.lock_spin.min(most),
            branch: self.branch.min(most),
            idle: self.idle.min(most),
            stalls: self.stalls.map(|stall| stall.min(most)),
            dependence: self.dependence.min(most),
            translation: self.translation.min(most),
        }
    }

    /// Share of the non-idle time that was not delayed by memory (U of Foglia et al. 2004); spinning
    /// for a lock and refilling after a mispredicted branch count as delay.
    pub fn utilization(&self) -> f64 {
        let busy = (self.user + self.kernel) as f64;
        let total = busy + (self.memory_stall + self.bus_wait + self.lock_spin + self.branch) as f64;
        if total == 0.0 {
            0.0
        } else {
            busy / total
        }
    }
}

/// Completed transactions of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KindResult {
    /// Name of the kind.
    pub name: String,
    /// Completed in the measured window.
    pub count: u64,
    /// Response times in cycles, as transactions ended, from the same user's previous reply to this one: users
    /// without think time send the next request at once. A client's first mark has none.
    pub responses: Vec<u64>,
}

/// Transactions that must take longer than a percentile of their response times for it to be told: of fewer, one that is
/// slow by chance is all of it.
const BEYOND: usize = 5;

/// Mean of response times in cycles; `None` without any.
pub fn mean_response(responses: &[u64]) -> Option<f64> {
    (!responses.is_empty()).then(|| responses.iter().sum::<u64>() as f64 / responses.len() as f64)
}

/// Time in cycles within which `percent` of 100 of these ended (nearest rank), where enough took longer. `sorted` goes up.
pub fn percentile_response(sorted: &[u64], percent: usize) -> Option<u64> {
    let within = (sorted.len() * percent).div_ceil(100);
    (sorted.len() >= within + BEYOND).then(|| sorted[within.max(1) - 1])
}

/// Counters of one window of simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Cycle at which it begins, counted from the start of measurement.
    pub start: u64,
    /// References.
    pub references: u64,
    /// Instructions.
    pub instructions: u64,
    /// Misses.
    pub misses: u64,
    /// Cycles the bus was busy.
    pub bus_busy: u64,
    /// Processor cycles spent executing.
    pub busy: u64,
    /// Transactions completed.
    pub transactions: u64,
    /// The registered counters that windows keep.
    pub counters: Windowed,
}

/// What happened when in a run: most of what a replication takes in memory and in a result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// Counters by window.
    pub timeline: Vec<Window>,
    /// Who ran where, and when disk requests were under way.
    pub activity_log: ActivityLog,
}

/// What only the timing engine knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timing {
    /// Measured cycles.
    pub cycles: u64,
    /// Per processor.
    pub processors: Vec<ProcessorTimes>,
    /// Cycles the bus was occupied.
    pub bus_busy: u64,
    /// What write buffers counted, if there are any.
    pub write_buffers: Option<WriteBufferCounters>,
    /// What scheduler, disks and interconnect counted.
    pub system: SystemCounters,
    /// Cycles that each port or link of the interconnect was taken; empty for a bus.
    pub ways_busy: Vec<u64>,
    /// What nodes had to do with one another, if there are any.
    pub nodes: Option<NodeCounts>,
    /// What the monitor of the traffic between nodes counted, if there was one.
    pub monitor: Option<MonitorCounts>,
    /// Useful prefetches that were still on their way when they were asked for.
    pub late_prefetches: u64,
    /// What each cache level counted, from the inside out.
    pub levels: Vec<(String, LevelCounters)>,
    /// Length of a timeline window in cycles.
    pub window_cycles: u64,
    /// What happened when; not kept of every one of many replications.
    pub detail: Option<Detail>,
    /// Most tasks that were ready or running at once.
    pub most_ready: u64,
    /// Processor-time average of ready or running tasks, in thousandths.
    pub mean_ready_thousandths: u64,
    /// When each measured transaction ended, in cycles since the start of measurement.
    pub transaction_ends: Vec<u64>,
    /// The trace ended before the requested number of transactions.
    pub trace_exhausted: bool,
    /// Digest of the processors that each task ran on, in order, since the beginning.
    pub placement_digest: u64,
    /// Disks and I/O buses, when they were described.
    pub storage: Option<StorageResult>,
    /// The processors by the number of ready or running tasks, when disks were described.
    pub task_levels: Vec<LoadLevel>,
    /// What each kind of transaction asked for, when disks were described.
    pub profiles: Vec<Profile>,
    /// How many users were served, and their cycles by place.
    pub users: (usize, Times),
    /// Whether the processors have cores, which know dependences.
    pub cores: bool,
    /// Locks, when they were arbitrated.
    pub locks: Option<LockResult>,
}

/// What happened to the locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockResult {
    /// Counts in the measured window.
    pub counts: LockCounts,
    /// Digest of who took each lock, in order, since the beginning.
    pub order_digest: u64,
}

/// References of one task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskResult {
    /// Name.
    pub name: String,
    /// Process id in the captured system, or the number the trace gives.
    pub pid: u32,
    /// Whether it belongs to the load generator, which figures of the server exclude.
    pub client: bool,
    /// References by mode and operation.
    pub references: [[u64; 3]; 2],
}

impl TaskResult {
    /// Of `info` with these references.
    pub fn new(info: &servsim_core::TaskInfo, references: [[u64; 3]; 2]) -> Self {
        Self { name: info.name.clone(), pid: info.pid, client: info.client, references }
    }
}

/// One replication.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replication {
    /// Its seed.
    pub seed: u64,
    /// Memory-system counters.
    pub counters: Counters,
    /// Completed transactions per kind.
    pub kinds: Vec<KindResult>,
    /// References per task and mode.
    pub tasks: Vec<TaskResult>,
    /// Lines touched for the first time in the measured window.
    pub distinct_lines: u64,
    /// What address translation counted, if it was simulated.
    pub tlb: Option<TlbCounters>,
    /// What became of prefetches, if there were any.
    pub prefetches: Option<PrefetchCounters>,
    /// What core groups had to do with one another, if there are any.
    pub groups: Option<GroupCounters>,
    /// Times, from the timing engine.
    pub timing: Option<Timing>,
}

impl Replication {
    /// The same without what happened when.
    #[must_use]
    pub fn without_detail(mut self) -> Self {
        self.timing = self.timing.map(|timing| Timing { detail: None, ..timing });
        self
    }

    /// Transactions of every kind.
    pub fn transactions(&self) -> u64 {
        self.kinds.iter().map(|k| k.count).sum()
    }
}

/// GSP: the sum of the processors' utilizations (Foglia et al. 2004 section 4).
pub fn gsp(timing: &Timing) -> f64 {
    timing.processors.iter().map(ProcessorTimes::utilization).sum()
}
