//! One simulation from request to result: reads the description, opens the trace, runs the engine
//! as often as asked, over the host's cores, and writes the result.

use crate::functional::Counted;
use crate::json::{document, levels_json, Header};
use crate::result::{KindResult, Replication, TaskResult};
use crate::setup::Setup;
use crate::storage::Plan;
use crate::{replay, several, sharded, timing, warnings};
use serde_json::{json, Value};
use servsim_config::{Arbitration, CoreModel, Level, Machine};
use servsim_core::{GlobalSource, SourceError, TaskSource};
use servsim_import::captured::Wanted;
use servsim_import::{open_by_task, open_in_order, Reading};
use servsim_mem::protocol::{by_name, Options, Rules};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Request {
    /// The trace.
    pub trace: PathBuf,
    /// Its format, when the extension does not say.
    pub format: Option<String>,
    /// Hash of the trace's bytes, for the result.
    pub trace_hash: String,
    /// Text of the machine description.
    pub machine: String,
    /// Its file name, for messages.
    pub machine_file: String,
    /// Overrides `key=value`.
    pub overrides: Vec<String>,
    /// Functional instead of timing.
    pub functional: bool,
    /// Transactions to measure; all that the trace holds without it.
    pub transactions: Option<u64>,
    /// Transactions before measurement.
    pub warmup: u64,
    /// Replications.
    pub replications: u32,
    /// Seed of the first replication; the others follow.
    pub seed: u64,
    /// Host threads.
    pub threads: usize,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The user's input is wrong.
    #[error("{0}")]
    Usage(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A fault of the simulator.
    #[error("{0}")]
    Internal(String),
}

impl From<SourceError> for SimulateError {
    fn from(error: SourceError) -> Self {
        Self::Usage(error.0)
    }
}

/// Says how far a simulation is, and asks whether to go on.
pub type Proceed<'a> = dyn FnMut(u64) -> bool + 'a;

/// Runs `request`. `proceed` is called from the calling thread a few times a second with the
/// number of references simulated so far; `false` stops the run.
///
/// # Errors
/// For wrong input, an interruption, or an internal fault.
pub fn simulate(request: &Request, proceed: &mut Proceed<'_>) -> Result<Value, SimulateError> {
    let machine = Machine::from_toml(&request.machine, &request.machine_file, &request.overrides)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
    let setup = setup_of(&machine)?;
    if request.replications == 0 {
        return Err(SimulateError::Usage("--replications must be at least 1".into()));
    }
    if request.functional {
        run_functional(request, &machine, &setup, proceed)
    } else {
        run_timing(request, &machine, &setup, proceed)
    }
}

/// The machine, its components and the opened trace of a functional run.
pub(crate) fn open_machine(
    request: &Request,
) -> Result<(Machine, Setup, Box<dyn GlobalSource>), SimulateError> {
    let machine = Machine::from_toml(&request.machine, &request.machine_file, &request.overrides)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
    one_level(&machine, "`classify`")?;
    let setup = setup_of(&machine)?;
    let kernel = machine.protocol.private_kernel;
    let source = open_in_order(&request.trace, request.format.as_deref(), setup.processors, kernel)?;
    Ok((machine, setup, source))
}

fn setup_of(machine: &Machine) -> Result<Setup, SimulateError> {
    let p = &machine.protocol;
    let options = Options {
        any_copy_supplies: p.any_copy_supplies,
        sticky_migratory: p.sticky_migratory,
        start_migratory: p.start_migratory,
        private_handover_updates_memory: p.private_handover_updates_memory,
        two_hand_overs: p.two_hand_overs,
        write_updates_memory: p.write_updates_memory,
        any_copy_supplies_private: p.any_copy_supplies_private,
        rules: Rules { flush_private: p.flush_private, judge_at_miss: machine.judge_at_miss },
    };
    let protocol = by_name(&p.name, &options).ok_or_else(|| {
        SimulateError::Internal(format!("protocol `{}` is described but not built", p.name))
    })?;
    Ok(Setup {
        processors: machine.processors,
        geometry: Geometry {
            size: machine.cache.size.0,
            ways: machine.cache.associativity,
            line: machine.cache.line.0,
        },
        protocol,
        shadow: machine.exact_replacement,
    })
}

/// The levels around the first.
fn hierarchy_of(machine: &Machine, seed: u64) -> Result<HierarchySpec, SimulateError> {
    let level = |level: &Level| {
        let inclusion = Inclusion::by_name(&level.inclusion).ok_or_else(|| {
            SimulateError::Internal(format!("inclusion `{}` is described but not built", level.inclusion))
        })?;
        let (size, ways) = (level.size.0, level.associativity);
        Ok::<_, SimulateError>(LevelSpec {
            geometry: Geometry { size, ways, line: machine.cache.line.0 },
            replacement: level.replacement.clone(),
            inclusion,
        })
    };
    let of = |shared: bool| {
        let levels = machine.levels.iter().filter(move |l| l.shared == shared);
        levels.map(level).collect::<Result<Vec<_>, _>>()
    };
    Ok(HierarchySpec {
        split: machine.split,
        replacement: machine.replacement.clone(),
        private: of(false)?,
        shared: of(true)?,
        seed,
    })
}

/// Refuses machines with more than one unified LRU cache per processor.
fn one_level(machine: &Machine, who: &str) -> Result<(), SimulateError> {
    if !machine.has_hierarchy() {
        return Ok(());
    }
    Err(SimulateError::Usage(format!(
        "{who} knows machines with one unified LRU cache per processor only: leave out \
         cache.organisation, cache.replacement, [l2] and [l3], or use `simulate`"
    )))
}

fn run_functional(
    request: &Request,
    machine: &Machine,
    setup: &Setup,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let kernel = machine.protocol.private_kernel;
    let format = request.format.as_deref();
    let mut source = open_in_order(&request.trace, format, setup.processors, kernel)?;
    let mut stopped = false;
    let spec = hierarchy_of(machine, request.seed)?;
    let counted = replay::guarded(setup, || {
        let shards = sharded::shards(setup, &spec, request.threads);
        sharded::run(source.as_mut(), setup, &spec, shards, &mut |done| {
            stopped = !proceed(done);
            !stopped
        })
    })?;
    if stopped {
        return Err(SimulateError::Interrupted);
    }
    let counted = counted?;
    Ok(functional_document(request, machine, source.as_ref(), counted))
}

/// The result of a functional run.
fn functional_document(
    request: &Request,
    machine: &Machine,
    source: &dyn GlobalSource,
    counted: Counted,
) -> Value {
    let kinds = source.transaction_kinds();
    let (levels, memory) = (levels_json(&counted.levels), counted.memory);
    let replication = Replication {
        seed: request.seed,
        counters: counted.total(),
        kinds: kinds
            .into_iter()
            .zip(&counted.transactions)
            .map(|(name, &count)| KindResult { name, count, ..KindResult::default() })
            .collect(),
        tasks: source.tasks().iter().zip(counted.tasks).map(|(t, c)| TaskResult::new(t, c)).collect(),
        distinct_lines: counted.distinct_lines,
        timing: None,
    };
    let mut warnings = source.notes();
    if request.replications > 1 {
        warnings.push("the functional engine was run once: it does not repeat a trace".into());
    }
    let header = header_of(request, machine, "functional", warnings);
    let mut result = document(&header, &[replication]);
    result["replications"][0]["levels"] = levels;
    if machine.levels.iter().any(|level| level.shared) {
        result["replications"][0]["memory"] = json!({"reads": memory.0, "writes": memory.1});
    }
    result
}

/// Runs the trace functionally on several machines, in as few passes over it as their differences
/// allow: that of `request` with each of `variants`, which are overrides after its own. The result is
/// one document (schema `servsim.simulate.each/1`) that holds theirs, in order.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_each(
    request: &Request,
    variants: &[Vec<String>],
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let mut machines = Vec::new();
    for variant in variants {
        let overrides: Vec<String> = request.overrides.iter().chain(variant).cloned().collect();
        let machine = Machine::from_toml(&request.machine, &request.machine_file, &overrides)
            .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
        machines.push(((setup_of(&machine)?, hierarchy_of(&machine, request.seed)?), machine));
    }
    let mut results: Vec<Value> = vec![Value::Null; machines.len()];
    let mut before = 0;
    while let Some(first) = results.iter().position(Value::is_null) {
        let ((setup, spec), machine) = &machines[first];
        let kernel = machine.protocol.private_kernel;
        let joins = |((other, levels), described): &(_, Machine)| {
            several::together((setup, spec), (other, levels)) && described.protocol.private_kernel == kernel
        };
        let members: Vec<usize> = (first..machines.len()).filter(|&index| joins(&machines[index])).collect();
        let built: Vec<_> = members.iter().map(|&index| machines[index].0.clone()).collect();
        let format = request.format.as_deref();
        let mut source = open_in_order(&request.trace, format, setup.processors, kernel)?;
        let (mut stopped, mut now) = (false, 0);
        let counted = replay::guarded(setup, || {
            several::run(source.as_mut(), &built, &mut |done| {
                now = before + done;
                stopped = !proceed(now);
                !stopped
            })
        })?;
        if stopped {
            return Err(SimulateError::Interrupted);
        }
        before = now;
        for (index, counted) in members.into_iter().zip(counted?) {
            results[index] = functional_document(request, &machines[index].1, source.as_ref(), counted);
        }
    }
    Ok(json!({"schema": "servsim.simulate.each/1", "variants": variants, "results": results}))
}

fn run_timing(
    request: &Request,
    machine: &Machine,
    setup: &Setup,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let reading = Reading {
        processors: servsim_mem::MAX_PROCESSORS,
        line: setup.geometry.line,
        private_kernel: machine.protocol.private_kernel,
        locks: machine.locks.arbitrated != Arbitration::Off,
        flow: wanted_of(machine),
    };
    let source = open_by_task(&request.trace, request.format.as_deref(), &reading)?;
    let model = timing::Model::new(machine, setup, request.transactions, request.warmup)
        .with_hierarchy(hierarchy_of(machine, request.seed)?)
        .with_storage(Plan::of(machine, source.as_ref())?);
    let replications = replicate(request, source.as_ref(), &model, proceed)?;
    let mut warnings = source.notes();
    warnings.extend(warnings::of(request, machine, &replications));
    let header = header_of(request, machine, "timing", warnings);
    Ok(document(&header, &replications))
}

/// What the machine's cores want to know of the code.
fn wanted_of(machine: &Machine) -> Wanted {
    match machine.core.model {
        CoreModel::Fixed => Wanted::Nothing,
        CoreModel::InOrder => Wanted::Uses,
        CoreModel::OutOfOrder => Wanted::Producers,
    }
}

/// Runs the replications over the host's threads; the order of the results is that of the seeds.
fn replicate(
    request: &Request,
    source: &dyn TaskSource,
    model: &timing::Model,
    proceed: &mut Proceed<'_>,
) -> Result<Vec<Replication>, SimulateError> {
    let count = request.replications as usize;
    let slots: Vec<Mutex<Option<Result<Replication, SimulateError>>>> =
        (0..count).map(|_| Mutex::new(None)).collect();
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return;
        }
        let seed = request.seed + index as u64;
        let run = || timing::run(source, model, seed, &stop, &done);
        let result = replay::guarded(&model.setup, run).and_then(|result| result);
        if result.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        *slots[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
        finished.fetch_add(1, Ordering::Release);
    };
    std::thread::scope(|scope| {
        let threads = request.threads.clamp(1, count);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if !proceed(done.load(Ordering::Relaxed)) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    let results: Vec<_> = slots
        .into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
        .map(|result| result.unwrap_or(Err(SimulateError::Interrupted)))
        .collect();
    // A real fault stops the other replications: report it, not the interruption it caused.
    let fault = results.iter().find_map(|r| match r {
        Err(error) if *error != SimulateError::Interrupted => Some(error.clone()),
        _ => None,
    });
    match fault {
        Some(fault) => Err(fault),
        None => results.into_iter().collect(),
    }
}

fn header_of(request: &Request, machine: &Machine, engine: &'static str, warnings: Vec<String>) -> Header {
    let name = request.trace.file_name().map(|n| n.to_string_lossy().into_owned());
    Header {
        engine,
        machine: machine.resolved(),
        trace: json!({"name": name, "hash": request.trace_hash}),
        options: json!({
            "transactions": request.transactions,
            "warmup": request.warmup,
            "replications": request.replications,
            "seed": request.seed,
        }),
        warnings,
    }
}
