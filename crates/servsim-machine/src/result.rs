//! The result of a simulation as JSON, schema `servsim.simulate/1`: the resolved machine, the
//! trace's hash, every replication raw, and a summary with intervals.
//!
//! Nothing in it depends on the host or its threads: the same input and seed give the same bytes.

use crate::along::{self, Along, MORE};
use crate::statistics::Summary;
use serde_json::{json, Map, Value};
use servsim_core::LockClass;
use servsim_mem::protocol::BusOp;
use servsim_mem::{CoherenceClass, Counters, LevelCounters, MissClass, SwitchCause};
use servsim_os::LockCounts;

/// Where the cycles of one processor went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessorTimes {
    /// Executing in user mode.
    pub user: u64,
    /// Executing in kernel mode.
    pub kernel: u64,
    /// Waiting for a block or a full store buffer, after the grant of the bus.
    pub memory_stall: u64,
    /// Waiting for the grant of the bus.
    pub bus_wait: u64,
    /// Spinning for a lock, without the misses of its word.
    pub lock_spin: u64,
    /// Refilling the pipeline after mispredicted branches.
    pub branch: u64,
    /// No ready task.
    pub idle: u64,
    /// Of the waits for memory and bus: by fetches, loads, and stores (full buffer).
    pub stalls: [u64; 3],
}

impl ProcessorTimes {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user - earlier.user,
            kernel: self.kernel - earlier.kernel,
            memory_stall: self.memory_stall - earlier.memory_stall,
            bus_wait: self.bus_wait - earlier.bus_wait,
            lock_spin: self.lock_spin - earlier.lock_spin,
            branch: self.branch - earlier.branch,
            idle: self.idle - earlier.idle,
            stalls: std::array::from_fn(|i| self.stalls[i] - earlier.stalls[i]),
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
    /// Sum of response times in cycles, from the same user's previous reply to this one: users
    /// without think time send the next request at once.
    pub response_cycles: u64,
    /// Transactions with a response time (a client's first mark has none).
    pub timed: u64,
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
    /// The further counters of [`along::MORE_NAMES`].
    pub more: [u64; MORE],
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
    /// Task switches.
    pub context_switches: u64,
    /// Tasks that continued on another processor than before.
    pub migrations: u64,
    /// Disk requests completed.
    pub disk_reads: u64,
    /// Disk writes completed.
    pub disk_writes: u64,
    /// Cycles that each port or link of the interconnect was taken; empty for a bus.
    pub ways_busy: Vec<u64>,
    /// Cycles that fetches waited for a memory bank.
    pub bank_wait: u64,
    /// What each cache level counted, from the inside out.
    pub levels: Vec<(String, LevelCounters)>,
    /// Length of a timeline window in cycles.
    pub window_cycles: u64,
    /// Timeline.
    pub timeline: Vec<Window>,
    /// Schedule and disk requests along the run.
    pub along: Along,
    /// Most tasks that were ready or running at once.
    pub most_ready: u64,
    /// Processor-time average of ready or running tasks, in thousandths.
    pub mean_ready_thousandths: u64,
    /// The trace ended before the wished number of transactions.
    pub trace_exhausted: bool,
    /// Times a task got a processor.
    pub dispatches: u64,
    /// Digest of the processors that each task ran on, in order, since the beginning.
    pub placement_digest: u64,
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
    /// Distinct lines touched.
    pub distinct_lines: u64,
    /// Times, from the timing engine.
    pub timing: Option<Timing>,
}

impl Replication {
    /// Transactions of every kind.
    pub fn transactions(&self) -> u64 {
        self.kinds.iter().map(|k| k.count).sum()
    }

    /// Figures that the summary describes, by name; absent ones are left out.
    pub fn figures(&self) -> Vec<(String, f64)> {
        let c = &self.counters;
        let references = c.total_references().max(1) as f64;
        let misses: u64 = c.misses.iter().flatten().sum();
        let mut figures = vec![
            ("references".into(), c.total_references() as f64),
            ("instructions".into(), c.instructions() as f64),
            ("misses_per_reference".into(), misses as f64 / references),
        ];
        for (index, name) in MissClass::NAMES.iter().enumerate() {
            let count = c.misses[0][index] + c.misses[1][index];
            figures.push((format!("misses.{name}"), count as f64));
        }
        for (index, name) in CoherenceClass::NAMES.iter().enumerate() {
            let count = c.coherence[0][index] + c.coherence[1][index];
            figures.push((format!("coherence.{name}"), count as f64));
        }
        let sum = |table: [[u64; 3]; 2]| table.iter().flatten().sum::<u64>() as f64;
        figures.push(("misses.context_switch".into(), sum(c.context_switch)));
        figures.push(("removed.copies".into(), (c.removed[0][0] + c.removed[1][0]) as f64));
        figures.push(("removed.misses".into(), (c.removed[0][1] + c.removed[1][1]) as f64));
        for op in BusOp::ALL {
            figures.push((format!("bus.{}", op.name()), c.bus_total(op) as f64));
        }
        if let Some(timing) = &self.timing {
            figures.extend(self.timing_figures(timing));
        }
        figures
    }

    fn timing_figures(&self, timing: &Timing) -> Vec<(String, f64)> {
        let cycles = timing.cycles.max(1) as f64;
        let mut figures = vec![
            ("cycles".into(), timing.cycles as f64),
            ("gsp".into(), gsp(timing)),
            ("bus_utilization".into(), timing.bus_busy as f64 / cycles),
        ];
        let transactions = self.transactions();
        if transactions > 0 {
            let count = transactions as f64;
            figures.push(("cycles_per_transaction".into(), timing.cycles as f64 / count));
            figures.push(("transactions_per_million_cycles".into(), count * 1e6 / cycles));
        }
        figures
    }

    fn to_json(&self) -> Value {
        let c = &self.counters;
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.into(), value);
        put("seed", json!(self.seed));
        put("references", json!(c.total_references()));
        put("instructions", json!(c.instructions()));
        put("transactions", json!(self.transactions()));
        put("cycles", json!(self.timing.as_ref().map(|t| t.cycles)));
        let per = |t: &Timing| {
            let n = self.transactions();
            (n > 0).then(|| t.cycles as f64 / n as f64)
        };
        put("cycles_per_transaction", json!(self.timing.as_ref().and_then(per)));
        put("gsp", json!(self.timing.as_ref().map(gsp)));
        let utilization =
            |t: &Timing| t.processors.iter().map(ProcessorTimes::utilization).collect::<Vec<_>>();
        put("processor_utilization", json!(self.timing.as_ref().map(utilization)));
        let bus_use = |t: &Timing| t.bus_busy as f64 / t.cycles.max(1) as f64;
        put("bus_utilization", json!(self.timing.as_ref().map(bus_use)));
        put("references_by_kind", by_mode(&["fetch", "load", "store"], &c.references, false));
        put("misses", by_mode(&MissClass::NAMES, &c.misses, true));
        put("misses_true_by_self", json!({"user": c.true_by_self[0][0], "kernel": c.true_by_self[1][0]}));
        put("coherence", by_mode(&CoherenceClass::NAMES, &c.coherence, true));
        put("removed", by_mode(&["copies", "misses"], &c.removed, false));
        put("misses_by_owner", by_mode(&MissClass::NAMES, &c.misses_by_owner, true));
        put("coherence_by_owner", by_mode(&CoherenceClass::NAMES, &c.coherence_by_owner, true));
        put("context_switch_misses", by_mode(&SwitchCause::NAMES, &c.context_switch, true));
        put("flushed_copies", json!(c.flushed[0][0] + c.flushed[1][0]));
        put("bus", bus_json(c));
        // A kind without name and transactions is a number that the workload does not use.
        let used = self.kinds.iter().filter(|kind| kind.count > 0 || kind.name != "none");
        put("transactions_by_kind", used.map(kind_json).collect());
        put("tasks", json!(self.tasks.iter().map(task_json).collect::<Vec<_>>()));
        put("distinct_lines", json!(self.distinct_lines));
        if let Some(timing) = &self.timing {
            timing_json(timing, &mut object);
        }
        Value::Object(object)
    }
}

/// GSP: the sum of the processors' utilizations (Foglia et al. 2004 section 4).
pub fn gsp(timing: &Timing) -> f64 {
    timing.processors.iter().map(ProcessorTimes::utilization).sum()
}

pub(crate) fn by_mode<const N: usize>(names: &[&str; N], table: &[[u64; N]; 2], total: bool) -> Value {
    let mut object = Map::new();
    for (index, name) in names.iter().enumerate() {
        let value = json!({"user": table[0][index], "kernel": table[1][index]});
        object.insert((*name).into(), value);
    }
    if total {
        let sum = |mode: usize| table[mode].iter().sum::<u64>();
        object.insert("total".into(), json!({"user": sum(0), "kernel": sum(1)}));
    }
    Value::Object(object)
}

fn bus_json(c: &Counters) -> Value {
    let mut object = Map::new();
    for op in BusOp::ALL {
        object.insert(op.name().into(), json!(c.bus_total(op)));
    }
    let supplied = c.cache_to_cache[0][0] + c.cache_to_cache[1][0];
    object.insert("cache_to_cache".into(), json!(supplied));
    Value::Object(object)
}

fn kind_json(kind: &KindResult) -> Value {
    let mean = (kind.timed > 0).then(|| kind.response_cycles as f64 / kind.timed as f64);
    json!({"kind": kind.name, "count": kind.count, "mean_response_cycles": mean})
}

fn task_json(task: &TaskResult) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), json!(task.name));
    object.insert("pid".into(), json!(task.pid));
    object.insert("client".into(), json!(task.client));
    if let Value::Object(kinds) = by_mode(&["fetch", "load", "store"], &task.references, false) {
        object.extend(kinds);
    }
    Value::Object(object)
}

/// Where the cycles of one processor went, by cause.
fn stack_json(t: &ProcessorTimes) -> Value {
    json!({
        "base": t.user + t.kernel, "fetch_miss": t.stalls[0], "load_miss": t.stalls[1],
        "store": t.stalls[2], "branch": t.branch, "lock_spin": t.lock_spin, "idle": t.idle,
    })
}

fn timing_json(timing: &Timing, object: &mut Map<String, Value>) {
    let times = |t: &ProcessorTimes| {
        json!({
            "busy_user": t.user, "busy_kernel": t.kernel, "memory_stall": t.memory_stall,
            "bus_wait": t.bus_wait, "lock_spin": t.lock_spin, "branch": t.branch, "idle": t.idle,
        })
    };
    object.insert("processors".into(), timing.processors.iter().map(times).collect());
    object.insert("cycle_stacks".into(), timing.processors.iter().map(stack_json).collect());
    object.insert("bus_busy_cycles".into(), json!(timing.bus_busy));
    object.insert("context_switches".into(), json!(timing.context_switches));
    object.insert("migrations".into(), json!(timing.migrations));
    object.insert("dispatches".into(), json!(timing.dispatches));
    object.insert("placement_digest".into(), json!(format!("{:016x}", timing.placement_digest)));
    let order = timing.locks.map(|locks| format!("{:016x}", locks.order_digest));
    object.insert("lock_order_digest".into(), json!(order));
    object.insert("locks".into(), json!(timing.locks.map(|locks| locks_json(&locks.counts))));
    object.insert("disk".into(), json!({"reads": timing.disk_reads, "writes": timing.disk_writes}));
    object.insert("most_ready_tasks".into(), json!(timing.most_ready));
    object.insert("mean_ready_tasks".into(), json!(timing.mean_ready_thousandths as f64 / 1000.0));
    object.insert("trace_exhausted".into(), json!(timing.trace_exhausted));
    let busiest = timing.ways_busy.iter().max().map(|&busy| busy as f64 / timing.cycles.max(1) as f64);
    object.insert(
        "interconnect".into(),
        json!({"busiest_way_utilization": busiest, "bank_wait_cycles": timing.bank_wait}),
    );
    object.insert("levels".into(), levels_json(&timing.levels));
    object.insert("window_cycles".into(), json!(timing.window_cycles));
    let window = |w: &Window| {
        json!({
            "start": w.start, "references": w.references, "instructions": w.instructions,
            "misses": w.misses, "bus_busy": w.bus_busy, "busy": w.busy,
            "transactions": w.transactions,
        })
    };
    object.insert("timeline".into(), timing.timeline.iter().map(window).collect());
    along::insert(timing, object);
}

pub(crate) fn levels_json(levels: &[(String, LevelCounters)]) -> Value {
    let level = |(name, c): &(String, LevelCounters)| {
        json!({
            "name": name, "hits": c.hits, "misses": c.misses, "evictions": c.evictions,
            "write_backs": c.write_backs, "back_invalidations": c.back_invalidations,
        })
    };
    levels.iter().map(level).collect()
}

fn locks_json(counts: &LockCounts) -> Value {
    let mut object = Map::new();
    for (class, c) in LockClass::ALL.iter().zip(&counts.classes) {
        let value = json!({
            "acquisitions": c.acquisitions, "contended": c.contended,
            "wait_cycles": c.wait_cycles, "spin_references": c.spin_references,
        });
        object.insert(class.name().into(), value);
    }
    object.insert("unmatched_releases".into(), json!(counts.unmatched_releases));
    object.insert("repeated_acquisitions".into(), json!(counts.repeated));
    object.insert("forced_releases".into(), json!(counts.forced_releases));
    object.insert("cut_holds".into(), json!(counts.cut_holds));
    object.insert("forced_handovers".into(), json!(counts.forced_handovers));
    Value::Object(object)
}

/// What the result says beside the replications.
#[derive(Debug, Clone)]
pub struct Header {
    /// `functional` or `timing`.
    pub engine: &'static str,
    /// The resolved machine.
    pub machine: Value,
    /// Name and hash of the trace, and what the run was asked for.
    pub trace: Value,
    /// The options of the run.
    pub options: Value,
    /// Sentences that the reader must see before the figures.
    pub warnings: Vec<String>,
}

/// The whole result.
pub fn document(header: &Header, replications: &[Replication]) -> Value {
    let mut summary = Map::new();
    let all: Vec<Vec<(String, f64)>> = replications.iter().map(Replication::figures).collect();
    for (name, _) in all.first().into_iter().flatten() {
        let values: Vec<f64> = all
            .iter()
            .filter_map(|figures| figures.iter().find(|(n, _)| n == name).map(|(_, v)| *v))
            .collect();
        summary.insert(name.clone(), Summary::of(&values).to_json());
    }
    json!({
        "schema": "servsim.simulate/1",
        "engine": header.engine,
        "machine": header.machine,
        "trace": header.trace,
        "options": header.options,
        "warnings": header.warnings,
        "summary": summary,
        "replications": replications.iter().map(Replication::to_json).collect::<Vec<_>>(),
    })
}
