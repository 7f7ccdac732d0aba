//! One simulation from request to result: reads the description, opens the trace, runs the engine
//! as often as asked, over the host's cores, and writes the result.

use crate::result::{document, Header, KindResult, Replication, TaskResult};
use crate::setup::Setup;
use crate::{functional, timing};
use serde_json::{json, Value};
use servsim_config::{CoreModel, Machine};
use servsim_core::{GlobalSource, SourceError, TaskSource};
use servsim_import::captured::Wanted;
use servsim_import::{open_by_task, open_in_order};
use servsim_mem::protocol::{by_name, Options, Rules};
use servsim_mem::Geometry;
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
    let counted = functional::run(source.as_mut(), setup, &mut |done| {
        stopped = !proceed(done);
        !stopped
    });
    if stopped {
        return Err(SimulateError::Interrupted);
    }
    let counted = counted?;
    let kinds = source.transaction_kinds();
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
        warnings.push("the functional engine has no randomness: one replication was run".into());
    }
    let header = header_of(request, machine, "functional", warnings);
    Ok(document(&header, &[replication]))
}

fn run_timing(
    request: &Request,
    machine: &Machine,
    setup: &Setup,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let (format, line) = (request.format.as_deref(), setup.geometry.line);
    let kernel = machine.protocol.private_kernel;
    let source = open_by_task(
        &request.trace,
        format,
        servsim_mem::MAX_PROCESSORS,
        line,
        kernel,
        machine.locks.arbitrated,
        wanted_of(machine),
    )?;
    let model = timing::Model::new(machine, setup, request.transactions, request.warmup);
    let replications = replicate(request, source.as_ref(), &model, proceed)?;
    let mut warnings = source.notes();
    warnings.extend(warnings_of(request, machine, &replications));
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
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(SimulateError::Internal(panic_text(&*panic))));
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

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic").to_owned()
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

/// Fewer transactions than this say little about a mix of five kinds.
const FEW_TRANSACTIONS: u64 = 30;

fn warnings_of(request: &Request, machine: &Machine, replications: &[Replication]) -> Vec<String> {
    let mut warnings = Vec::new();
    let timings = || replications.iter().filter_map(|r| r.timing.as_ref());
    let least = timings().map(|t| t.most_ready).min().unwrap_or(0);
    let mean = timings().map(|t| t.mean_ready_thousandths).min().unwrap_or(0) as f64 / 1000.0;
    if least < machine.processors as u64 || mean < machine.processors as f64 {
        warnings.push(format!(
            "the {} processors outnumber the ready tasks ({mean:.1} on average, {least} at most): \
             some processors idle for lack of work, not because of the machine",
            machine.processors
        ));
    }
    let fewest = replications.iter().map(Replication::transactions).min().unwrap_or(0);
    if fewest == 0 {
        warnings.push("no transaction ended in the measured window: the trace has no marks there, and there is no cycles per transaction".into());
    } else if fewest < FEW_TRANSACTIONS {
        warnings.push(format!(
            "only {fewest} transactions were measured; {FEW_TRANSACTIONS} or more give a steadier mix"
        ));
    }
    let counts = || timings().filter_map(|t| t.locks).map(|locks| locks.counts);
    let forced: u64 = counts().map(|c| c.forced_releases + c.forced_handovers).sum();
    if forced > 0 {
        warnings.push(format!(
            "{forced} holds of a lock ended by force because the trace holds no release in time: \
             see `locks` of the replications; `--set locks.arbitrated=off` keeps the recorded order"
        ));
    }
    if timings().any(|t| t.trace_exhausted) && request.transactions.is_some() {
        warnings.push("the trace ended before the wished number of transactions".into());
    }
    if replications.len() < 3 {
        warnings.push(format!(
            "{} replications: too few for an interval; use --replications 3 or more",
            replications.len()
        ));
    }
    warnings
}
