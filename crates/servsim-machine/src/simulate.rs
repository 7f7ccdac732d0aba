//! One simulation from request to result: reads the description, opens the trace, runs the engine
//! as often as asked, over the host's cores, and writes the result.

use crate::counts::run_functional;
use crate::json::{document, Header};
use crate::mapped::{self, Frames};
use crate::result::Replication;
use crate::setup::Setup;
use crate::storage::Plan;
use crate::users::UserSubset;
use crate::warm::{start_of, Start, WarmStart};
use crate::{replay, timing, translation, warnings};
use serde_json::{json, Value};
use servsim_config::{Arbitration, CoreModel, Machine, OuterLevel};
use servsim_core::{GlobalSource, SourceError, TaskSource};
use servsim_import::captured::CodeDetail;
use servsim_import::{open_by_task, open_in_order, Reading};
use servsim_mem::protocol::{by_name, Options, Rules};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec, PrefetchSpec, TlbSpec};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct RunSpec {
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
    /// Where the timing begins.
    pub start: Start,
    /// Run only so many of the trace's users.
    pub users: Option<u32>,
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
pub fn simulate(request: &RunSpec, proceed: &mut Proceed<'_>) -> Result<Value, SimulateError> {
    let machine = Machine::from_toml(&request.machine, &request.machine_file, &request.overrides)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
    let setup = setup_of(&machine)?;
    if request.replications == 0 {
        return Err(SimulateError::Usage("--replications must be at least 1".into()));
    }
    if request.functional && request.start != Start::Cold {
        return Err(SimulateError::Usage(
            "the functional engine runs the whole trace from empty caches: leave out --functional-warm-up and \
             --from-checkpoint, or use --engine timing"
                .into(),
        ));
    }
    if request.functional {
        run_functional(request, &machine, &setup, proceed)
    } else {
        run_timing(request, &machine, &setup, proceed)
    }
}

/// The machine, its components and the opened trace of a functional run.
pub(crate) fn open_machine(
    request: &RunSpec,
) -> Result<(Machine, Setup, Box<dyn GlobalSource>), SimulateError> {
    let machine = Machine::from_toml(&request.machine, &request.machine_file, &request.overrides)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
    one_level(&machine, "`classify`")?;
    let setup = setup_of(&machine)?;
    let kernel = machine.protocol.private_kernel;
    let open = || open_in_order(&request.trace, request.format.as_deref(), setup.processors, kernel);
    let frames = Frames::of(&machine, open)?;
    let source = mapped::in_order(open()?, frames.as_ref());
    Ok((machine, setup, source))
}

pub(crate) fn setup_of(machine: &Machine) -> Result<Setup, SimulateError> {
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
pub(crate) fn hierarchy_of(machine: &Machine, seed: u64) -> Result<HierarchySpec, SimulateError> {
    let level = |level: &OuterLevel| {
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
        prefetch: machine.prefetch.as_ref().map(|prefetch| PrefetchSpec {
            policy: prefetch.policy.clone(),
            degree: prefetch.degree,
            level: prefetch.level,
            entries: prefetch.entries,
        }),
        tlb: machine.tlb.map(|tlb| TlbSpec {
            entries: tlb.entries,
            ways: tlb.associativity,
            split: tlb.split,
            second: tlb.second,
            tagged: tlb.tagged,
            walk_entries: tlb.walk_entries,
        }),
    })
}

/// Refuses machines with more than one unified LRU cache per processor.
fn one_level(machine: &Machine, who: &str) -> Result<(), SimulateError> {
    if machine.tlb.is_some() || machine.prefetch.is_some() {
        return Err(SimulateError::Usage(format!(
            "{who} follows neither page walks nor prefetches: leave out [tlb] and [prefetch], or use `simulate`"
        )));
    }
    if !machine.has_hierarchy() {
        return Ok(());
    }
    Err(SimulateError::Usage(format!(
        "{who} knows machines with one unified LRU cache per processor only: leave out \
         cache.organisation, cache.replacement, [l2] and [l3], or use `simulate`"
    )))
}

fn run_timing(
    request: &RunSpec,
    machine: &Machine,
    setup: &Setup,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let reading = reading_of(machine, setup);
    let format = request.format.as_deref();
    let kernel = machine.protocol.private_kernel;
    let read = || open_in_order(&request.trace, format, reading.processors, kernel);
    let frames = Frames::of(machine, read)?;
    let mut source = open_by_task(&request.trace, format, &reading)?;
    if let Some(tlb) = &machine.tlb {
        source = translation::tasks_with_pages(source, tlb.identity)?;
    }
    if let Some(users) = request.users {
        source = UserSubset::of(source.as_ref(), users)?.by_task(source);
    }
    let source = mapped::by_task(source, frames.as_ref());
    let model = timing::Model::new(machine, setup, request.transactions, request.warmup)
        .with_hierarchy(hierarchy_of(machine, request.seed)?)
        .with_storage(Plan::of(machine, source.as_ref())?);
    let start = start_of(request, machine, source.as_ref(), &model, proceed)?;
    let from = start.as_ref().map(|(_, start)| start);
    let replications = replicate(request, source.as_ref(), (&model, from), proceed)?;
    let mut warnings = source.notes();
    warnings.extend(warnings::of(request, machine, &replications));
    let mut header = header_of(request, machine, "timing", warnings);
    if let Some((amount, start)) = &start {
        header.options["functional_warmup"] = json!(amount.to_string());
        header.options["functional_warmup_references"] = json!(start.references);
    }
    Ok(document(&header, &replications))
}

/// How the timing engine reads a trace.
pub(crate) fn reading_of(machine: &Machine, setup: &Setup) -> Reading {
    Reading {
        processors: servsim_mem::MAX_PROCESSORS,
        line: setup.geometry.line,
        private_kernel: machine.protocol.private_kernel,
        locks: machine.locks.arbitrated != Arbitration::Off,
        code: code_detail(machine),
    }
}

/// What the machine's cores want to know of the code.
fn code_detail(machine: &Machine) -> CodeDetail {
    match machine.core.model {
        CoreModel::Fixed => CodeDetail::None,
        CoreModel::InOrder | CoreModel::OutOfOrder => CodeDetail::Instructions,
    }
}

/// Runs the replications over the host's threads; the order of the results is that of the seeds.
fn replicate(
    request: &RunSpec,
    source: &dyn TaskSource,
    (model, start): (&timing::Model, Option<&WarmStart>),
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
        let run = || timing::run_from(source, model, start, seed, &stop, &done);
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

pub(crate) fn header_of(
    request: &RunSpec,
    machine: &Machine,
    engine: &'static str,
    warnings: Vec<String>,
) -> Header {
    let name = request.trace.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut options = json!({
        "transactions": request.transactions,
        "warmup": request.warmup,
        "replications": request.replications,
        "seed": request.seed,
    });
    if let Some(users) = request.users {
        options["users"] = json!(users);
    }
    let trace = json!({"name": name, "hash": request.trace_hash});
    Header { engine, machine: machine.resolved(), trace, options, warnings }
}
