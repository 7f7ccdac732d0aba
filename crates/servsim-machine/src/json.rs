//! The result of a simulation as JSON, schema `servsim.simulate/1`: the resolved machine, the
//! trace's hash, and every replication raw. Its summary is added in Python, where all statistics are.
//!
//! Nothing in it depends on the host or its threads: the same input and seed give the same bytes.

use crate::counted::{self, Windowed};
use crate::figures::figures;
use crate::result::{
    gsp, mean_response, percentile_response, Detail, KindResult, ProcessorTimes, Replication, TaskResult,
    Timing, Window,
};
use crate::run_spec::RunSpec;
use crate::timing::subsystem::{LoadLevel, Profile};
use crate::timing::user_states::USER_STATES;
use crate::warnings::Warning;
use serde_json::{json, Map, Value};
use servsim_config::Machine;
use servsim_core::LockClass;
use servsim_mem::{LevelCounters, NodeCounts, PairCounters};
use servsim_os::LockCounts;

impl Replication {
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
        counted::write(counted::counted(self), &mut object);
        let mut put = |key: &str, value: Value| object.insert(key.into(), value);
        // A kind without name and transactions is a number that the workload does not use.
        let used = self.kinds.iter().filter(|kind| kind.count > 0 || kind.name != "none");
        put("transactions_by_kind", used.map(kind_json).collect());
        put("tasks", json!(self.tasks.iter().map(task_json).collect::<Vec<_>>()));
        put("distinct_lines", json!(self.distinct_lines));
        if let Some(timing) = &self.timing {
            timing_json(timing, &mut object);
            self.storage_json(timing, &mut object);
        }
        if let (Some(timing), Some(_)) = (&self.timing, &self.prefetches) {
            object["prefetch"]["late"] = json!(timing.late_prefetches);
        }
        if let (Some(timing), Some(_)) = (&self.timing, &self.tlb) {
            translation_json(timing, &mut object);
        }
        let figures = figures(self).into_iter().map(|(path, value)| (path, json!(value)));
        object.insert("figures".into(), Value::Object(figures.collect()));
        Value::Object(object)
    }
}

impl Replication {
    /// What there is only with described disks, so that other results stay as they were.
    fn storage_json(&self, timing: &Timing, object: &mut Map<String, Value>) {
        let Some(storage) = &timing.storage else { return };
        object.insert("storage".into(), storage.to_json(timing.cycles));
        let column = |part: fn(&LoadLevel) -> u64| timing.task_levels.iter().map(part).collect::<Vec<_>>();
        let levels = json!({
            "cycles": column(|l| l.cycles), "departures": column(|l| l.departures),
            "instructions": column(|l| l.instructions),
        });
        object.insert("processor_levels".into(), levels);
        let (count, times) = timing.users;
        let mut users = Map::new();
        users.insert("count".into(), json!(count));
        users.extend(
            USER_STATES.iter().zip(times).map(|(state, cycles)| (format!("{state}_cycles"), json!(cycles))),
        );
        object.insert("users".into(), users.into());
        let profile = |(kind, p): (usize, &Profile)| {
            let [instructions, loads, stores, reads, writes] = p.work;
            let name = self.kinds.get(kind).map_or_else(|| format!("kind {kind}"), |k| k.name.clone());
            json!({
                "kind": name, "transactions": p.transactions, "instructions": instructions,
                "loads": loads, "stores": stores, "disk_reads": reads, "disk_writes": writes,
            })
        };
        let followed = timing.profiles.iter().enumerate().filter(|(_, p)| p.transactions > 0);
        object.insert("work_by_kind".into(), followed.map(profile).collect());
    }
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

/// Percentiles of response times that are told of each kind.
const PERCENTILES: [usize; 4] = [50, 90, 95, 99];

fn kind_json(kind: &KindResult) -> Value {
    let mut sorted = kind.responses.clone();
    sorted.sort_unstable();
    let mut object = Map::new();
    object.insert("kind".into(), json!(kind.name));
    object.insert("count".into(), json!(kind.count));
    object.insert("mean_response_cycles".into(), json!(mean_response(&sorted)));
    for percent in PERCENTILES {
        object.insert(format!("p{percent}_response_cycles"), json!(percentile_response(&sorted, percent)));
    }
    Value::Object(object)
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

/// The cycles that address translation took.
fn translation_json(timing: &Timing, object: &mut Map<String, Value>) {
    object["tlb"]["cycles"] = json!(timing.processors.iter().map(|t| t.translation).sum::<u64>());
    for (stack, times) in object["cycle_stacks"].as_array_mut().into_iter().flatten().zip(&timing.processors)
    {
        stack["translation"] = json!(times.translation);
    }
}

/// Where the cycles of one processor went, by cause; waits for dependences where the model knows them.
fn stack_json(t: &ProcessorTimes, cores: bool) -> Value {
    let mut stack = json!({
        "base": t.user + t.kernel - t.dependence, "fetch_miss": t.stalls[0], "load_miss": t.stalls[1],
        "store": t.stalls[2], "branch": t.branch, "lock_spin": t.lock_spin, "idle": t.idle,
    });
    if cores {
        stack["dependence"] = json!(t.dependence);
    }
    stack
}

fn timing_json(timing: &Timing, object: &mut Map<String, Value>) {
    let times = |t: &ProcessorTimes| {
        let mut object = Map::new();
        counted::write(t.registered(), &mut object);
        Value::Object(object)
    };
    object.insert("processors".into(), timing.processors.iter().map(times).collect());
    object.insert(
        "cycle_stacks".into(),
        timing.processors.iter().map(|t| stack_json(t, timing.cores)).collect(),
    );
    object.insert("bus_busy_cycles".into(), json!(timing.bus_busy));
    object.insert("placement_digest".into(), json!(format!("{:016x}", timing.placement_digest)));
    let order = timing.locks.map(|locks| format!("{:016x}", locks.order_digest));
    object.insert("lock_order_digest".into(), json!(order));
    object.insert("locks".into(), json!(timing.locks.map(|locks| locks_json(&locks.counts))));
    object.insert("most_ready_tasks".into(), json!(timing.most_ready));
    object.insert("mean_ready_tasks".into(), json!(timing.mean_ready_thousandths as f64 / 1000.0));
    object.insert("trace_exhausted".into(), json!(timing.trace_exhausted));
    let busiest = timing.ways_busy.iter().max().map(|&busy| busy as f64 / timing.cycles.max(1) as f64);
    object["interconnect"]["busiest_way_utilization"] = json!(busiest);
    if let Some(nodes) = &timing.nodes {
        object["nodes"]["pairs"] = pairs_json(nodes);
    }
    object.insert("levels".into(), levels_json(&timing.levels));
    object.insert("window_cycles".into(), json!(timing.window_cycles));
    let window = |w: &Window| {
        json!({
            "start": w.start, "references": w.references, "instructions": w.instructions,
            "misses": w.misses, "bus_busy": w.bus_busy, "busy": w.busy,
            "transactions": w.transactions,
        })
    };
    if let Some(Detail { timeline, activity_log }) = &timing.detail {
        object.insert("timeline".into(), timeline.iter().map(window).collect());
        object.insert(
            "windows".into(),
            Windowed::columns(
                &timeline.iter().map(|window| window.counters).collect::<Vec<_>>(),
                timing.nodes.is_some(),
            ),
        );
        object.insert("activity".into(), activity_log.to_json());
    }
}

pub(crate) fn levels_json(levels: &[(String, LevelCounters)]) -> Value {
    let level = |(name, c): &(String, LevelCounters)| {
        let mut object = Map::from_iter([("name".to_owned(), json!(name))]);
        counted::write(c.registered(), &mut object);
        Value::Object(object)
    };
    levels.iter().map(level).collect()
}

/// What each node had to do with each that it asked; both count from 1.
fn pairs_json(nodes: &NodeCounts) -> Value {
    let count = nodes.pairs.len().isqrt();
    let pair = |(place, counters): (usize, &PairCounters)| {
        let mut object = Map::new();
        object.insert("from".into(), json!(place / count + 1));
        object.insert("to".into(), json!(place % count + 1));
        counted::write(counters.registered(), &mut object);
        Value::Object(object)
    };
    nodes.pairs.iter().enumerate().map(pair).collect()
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
    /// What the reader must see before the figures, the worst first.
    pub warnings: Vec<Warning>,
}

/// What the result of `request` on `machine` says beside the replications.
pub(crate) fn header_of(
    request: &RunSpec,
    machine: &Machine,
    engine: &'static str,
    warnings: Vec<Warning>,
) -> Header {
    let name = request.trace.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut options = json!({
        "transactions": null,
        "warmup": 0,
        "replications": request.replications,
        "seed": request.seed,
    });
    if let Some(users) = request.users {
        options["users"] = json!(users);
    }
    let trace = json!({"name": name, "hash": request.trace_hash});
    Header { engine, machine: machine.resolved(), trace, options, warnings }
}

/// The whole result but its summary.
pub fn document(header: &Header, replications: &[Replication]) -> Value {
    json!({
        "schema": "servsim.simulate/1",
        "engine": header.engine,
        "machine": header.machine,
        "trace": header.trace,
        "options": header.options,
        "warnings": header.warnings.iter().map(Warning::to_json).collect::<Vec<_>>(),
        "replications": replications.iter().map(Replication::to_json).collect::<Vec<_>>(),
    })
}
