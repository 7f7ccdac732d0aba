//! Sampled simulation: windows of a trace, each timed from a live-point, until the caller has enough.
//!
//! One functional pass ([`crate::warm::survey`]) leaves live-points in a file that belongs to a trace and a shape of
//! machine; timings do not matter, so machines of one shape share it. Which windows are timed, and when they are
//! enough, is statistics and is decided by the caller (`servsim.statistics.sampling`), who is given what the pass
//! counted and what the windows took so far. A window depends on its live-point and the first seed alone, so the same
//! windows can be timed on several machines.

mod coarse;
mod file;

pub use coarse::Paces;

use crate::builders::{clients_here, hierarchy_of, setup_of};
use crate::error::{Proceed, SimulateError};
use crate::json::header_of;
use crate::run_spec::{RunSpec, Start};
use crate::setup::Setup;
use crate::simulate::source_of;
use crate::software::read_ahead;
use crate::storage::Plan;
use crate::timing::{self, Measured};
use crate::warm::outline::Outline;
use crate::warm::{self, Survey, Work};
use crate::warnings::Warning;
use crate::window::{Held, Window};
use crate::{placed, replay};
use file::{counts_json, groups_json, Belongs, LivePoints, Unfit, Writer};
use serde_json::{json, Value};
use servsim_config::Machine;
use servsim_core::TaskSource;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Instructions that a processor times before the measurement of a window, and in it: some thousand misses of the
/// queues and buffers that a live-point begins without, and enough to average over system calls.
const WARMUP: u64 = 50_000;
/// See [`WARMUP`].
const MEASURED: u64 = 100_000;

/// Where live-points are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// In this file, which must fit if it is there.
    File(PathBuf),
    /// In a file of this folder, named by what it belongs to; one that does not fit is made again.
    Folder(PathBuf),
}

impl Store {
    fn path(&self, owner: &Belongs) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Folder(folder) => {
                let mut hasher = DefaultHasher::new();
                (&owner.trace, &owner.settings, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
                folder.join(format!("{:016x}.live", hasher.finish()))
            }
        }
    }
}

/// What is to be done next; nothing ends the simulation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wish {
    /// Windows to time, by number.
    pub windows: Vec<usize>,
    /// Coarse runs to make then.
    pub coarse: Vec<Paces>,
}

/// Chooses what is done next from what is known: `range`, `points`, the `windows` timed and the `coarse` runs made so
/// far, and the `warmup` before the range. It is asked before live-points are made as well, with a `range` that nothing
/// was counted of and no `points`, so that what they cost can be told; nothing can be wished then.
pub type Choose<'a> = dyn FnMut(&Value) -> Result<Wish, SimulateError> + 'a;

/// Times windows of `request`'s trace until `choose` wants no more. `proceed` is as for [`crate::simulate()`].
///
/// # Errors
/// For wrong input, live-points of something else, an interruption before the first window, or an internal fault.
pub fn sample(
    request: &RunSpec,
    store: &Store,
    choose: &mut Choose<'_>,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let machine = Machine::from_toml(&request.machine, &request.machine_file, &request.overrides)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
    // Nobody asks a window by which kind a miss was, and to know it takes a second cache beside each.
    let setup = Setup { shadow: false, ..setup_of(&machine)? };
    refuse(request, &machine)?;
    let (source, _) = source_of(request, &machine, &setup)?;
    let source = source.as_ref();
    let ends = source.transaction_ends();
    if ends.is_empty() {
        return Err(SimulateError::Usage(
            "the trace has no marks of transactions, and --precision samples those between a first and a last: use a \
             trace that has, or leave out --precision, --transactions and --warm-up to measure the whole trace"
                .into(),
        ));
    }
    let window = Window::of(request.transactions, request.warmup, Held::of(&ends), 0)?;
    let transactions = window.transactions.ok_or_else(|| {
        SimulateError::Usage(
            "--precision samples the transactions between a first and a last: leave out --transactions all"
                .into(),
        )
    })?;
    let bindings = placed::bindings_of(machine.nodes.as_ref(), None, source.tasks())?;
    let model = timing::Model::new(&machine, &setup, None, 0)
        .with_placement(bindings, None)
        .with_hierarchy(hierarchy_of(&machine, request.seed)?)
        .with_storage(Plan::of(&machine, source)?);
    let processors = setup.processors as u64;
    let work = Work { warmup: WARMUP * processors, measured: MEASURED * processors };
    let survey = Survey { before: window.warmup, transactions, work };
    let owner = owner_of(request, &machine, &model, survey);
    let path = store.path(&owner);
    let each = json!({"warmup": work.warmup, "measured": work.measured});
    let (points, made) = match (LivePoints::open(&path, &owner), store) {
        (Ok(Some(points)), _) => (points, None),
        (Err(Unfit(why)), Store::File(_)) => {
            return Err(SimulateError::Usage(format!("{why}; name another file with --live-points, or none")))
        }
        (Ok(None), _) | (Err(_), Store::Folder(_)) => {
            let range = json!({"transactions": transactions, "users": window.users(), "window": each});
            choose(&json!({"range": range, "warmup": window.warmup}))?;
            request.watch.begin("live-points", 0);
            let references = make(source, &model, survey, (&path, &owner, request.threads), proceed)?;
            let points =
                LivePoints::open(&path, &owner).map_err(|Unfit(why)| SimulateError::Internal(why))?;
            let points = points.ok_or_else(|| SimulateError::Internal("the live-points vanished".into()))?;
            (points, Some(references))
        }
    };
    let whole_range = warm::sum_of(&points.range.groups);
    let mut known = json!({
        "range": {
            "instructions": whole_range.instructions, "transactions": points.range.transactions,
            "counts": counts_json(&whole_range), "groups": groups_json(&points.range.groups),
            "spacing": points.range.spacing,
            "users": window.users(),
            "window": each,
            "processors": processors, "cycles_per_reference": if model.core.is_none() { model.cycles_per_reference.0 } else { 0 },
        },
        "warmup": window.warmup,
        "points": points.range.places.iter().map(|place| {
            let counts = warm::sum_of(&place.groups);
            json!({
                "transactions": place.transactions, "instructions": counts.instructions,
                "counts": counts_json(&counts), "groups": groups_json(&place.groups),
            })
        }).collect::<Vec<_>>(),
        "windows": [],
        "coarse": [],
    });
    let mut whole = model.clone();
    (whole.transactions, whole.warmup) = (window.transactions, window.warmup);
    let interrupted =
        simulate_all(request, source, (&model, &whole, &points, work), (&mut known, choose), proceed)?;
    let mut header = header_of(request, &machine, "timing", Warning::notes(source.notes()));
    header.options["transactions"] = json!(transactions);
    header.options["warmup"] = json!(window.warmup);
    if let Some(known) = known.as_object_mut() {
        // The options tell it.
        known.shift_remove("warmup");
    }
    header.options["window"] = window.to_json();
    if let Some(options) = header.options.as_object_mut() {
        options.remove("replications");
    }
    known["schema"] = json!("servsim.sample/1");
    known["engine"] = json!(header.engine);
    known["machine"] = header.machine;
    known["trace"] = header.trace;
    known["options"] = header.options;
    known["warnings"] = header.warnings.iter().map(Warning::to_json).collect();
    known["live_points"] = json!({
        "file": path.display().to_string(), "bytes": points.bytes, "made": made.is_some(),
        "references": made.unwrap_or(0),
    });
    if interrupted {
        known["interrupted"] = json!(true);
    }
    Ok(known)
}

/// Does what `choose` wishes, and adds it to what is known, until it wishes nothing; whether it was interrupted. Windows
/// are run on `model`, the outline of the trace on `whole`.
fn simulate_all(
    request: &RunSpec,
    source: &dyn TaskSource,
    (model, whole, points, work): (&timing::Model, &timing::Model, &LivePoints, Work),
    (known, choose): (&mut Value, &mut Choose<'_>),
    proceed: &mut Proceed<'_>,
) -> Result<bool, SimulateError> {
    let (mut windows, mut coarse_runs, mut outline) = (Vec::new(), Vec::new(), None);
    let mut interrupted = false;
    loop {
        let wish = choose(known)?;
        let last = interrupted;
        if !wish.windows.is_empty() && !last {
            let whole = warm::sum_of(&points.range.groups);
            let instructions = work.whole() * wish.windows.len() as u64;
            // A window has about as many references for an instruction as the range.
            let references = instructions * whole.references / whole.instructions.max(1);
            request.watch.begin("windows", references);
            let timed = time_all(request, source, (model, points, work), &wish.windows, proceed)?;
            interrupted = timed.len() < wish.windows.len();
            windows.extend(timed);
            known["windows"] = json!(windows);
        }
        if !wish.coarse.is_empty() {
            let outline = match &mut outline {
                Some(outline) => outline,
                none => none.insert(usable(points.outline(source.tasks().len()))?),
            };
            let outline = &*outline;
            let each = |index: usize, stop: &AtomicBool, done: &AtomicU64| {
                let run =
                    coarse::run((source, outline), whole, &wish.coarse[index], stop, &AtomicU64::new(0));
                done.fetch_add(1, Ordering::Relaxed);
                run
            };
            let stage = if interrupted { "coarse runs of what was sampled" } else { "coarse runs" };
            request.watch.begin(stage, wish.coarse.len() as u64);
            // Without them windows tell nothing: who wants to stop waits for them, unless he insists.
            let mut wait = |done| {
                interrupted |= !proceed(done);
                !request.watch.insists()
            };
            let made = all(request, model, wish.coarse.len(), &each, &mut wait)?;
            if made.len() < wish.coarse.len() {
                return Err(SimulateError::Interrupted);
            }
            coarse_runs.extend(made);
            known["coarse"] = json!(coarse_runs);
        }
        if windows.is_empty() {
            return Err(SimulateError::Interrupted);
        }
        if wish == Wish::default() || last || interrupted && !coarse_runs.is_empty() {
            return Ok(interrupted);
        }
    }
}

/// Refuses what cannot be sampled, before anything is read.
fn refuse(request: &RunSpec, machine: &Machine) -> Result<(), SimulateError> {
    let why = if request.functional {
        "--precision samples a timing run: leave out --engine functional, which gives exact counts"
    } else if request.start != Start::Cold {
        "--precision warms the caches by itself: leave out --functional-warm-up and --from-checkpoint"
    } else if request.nodes.is_given() {
        "a sampled run cannot be placed or monitored, since pages would have no home before its windows: leave out \
         --precision, or --placement and --monitor"
    } else if machine.tlb.is_some() || machine.prefetch.is_some() {
        "live-points hold caches, neither TLBs nor prefetchers: leave out --precision, or [tlb] and [prefetch]"
    } else {
        return clients_here(machine);
    };
    Err(SimulateError::Usage(why.into()))
}

fn owner_of(request: &RunSpec, machine: &Machine, model: &timing::Model, survey: Survey) -> Belongs {
    let mut settings = warm::settings_of(request, machine, model);
    let Survey { before, transactions, work } = survey;
    settings.insert("sampled transactions".into(), format!("{} to {}", before + 1, before + transactions));
    settings.insert("instructions of a window".into(), format!("{} + {}", work.warmup, work.measured));
    let trace_name = request.trace.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    Belongs { trace: request.trace_hash.clone(), trace_name, settings }
}

/// Makes the live-points; the references of the pass.
fn make(
    source: &dyn TaskSource,
    model: &timing::Model,
    survey: Survey,
    (path, owner, threads): (&std::path::Path, &Belongs, usize),
    proceed: &mut Proceed<'_>,
) -> Result<u64, SimulateError> {
    let mut writer = Writer::create(path)?;
    let (mut references, stop) = (0, AtomicBool::new(false));
    let outlined = || Outline::of(source, &|| !stop.load(Ordering::Relaxed));
    let mut surveyed = |source: &dyn TaskSource| {
        let mut keep = |state| writer.keep(&state);
        let mut told = |done| {
            references = done;
            proceed(done)
        };
        let range = warm::survey(source, &model.shape(), survey, &mut keep, &mut told);
        stop.store(range.is_err(), Ordering::Relaxed);
        range
    };
    let (range, outline) = replay::guarded(&model.setup, || {
        if threads == 1 {
            return surveyed(source).and_then(|range| Ok((range, outlined()?)));
        }
        std::thread::scope(|scope| {
            let beside = scope.spawn(outlined);
            let range = read_ahead(source, &mut surveyed);
            let outline = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((range?, outline?))
        })
    })??;
    writer.finish(owner, &range, &outline)?;
    Ok(references)
}

/// Times the `wanted` windows.
fn time_all(
    request: &RunSpec,
    source: &dyn TaskSource,
    (model, points, work): (&timing::Model, &LivePoints, Work),
    wanted: &[usize],
    proceed: &mut Proceed<'_>,
) -> Result<Vec<Value>, SimulateError> {
    let one = |index: usize, stop: &AtomicBool, done: &AtomicU64| {
        let point = wanted[index];
        let start = usable(points.state(point))?;
        let seed = request.seed.wrapping_add(point as u64);
        let measured = timing::run_window(source, model, (&start, work), seed, stop, done)?;
        Ok(window_json(point, &measured))
    };
    all(request, model, wanted.len(), &one, proceed)
}

/// A part of live-points that are not damaged.
fn usable<T>(part: Result<T, Unfit>) -> Result<T, SimulateError> {
    part.map_err(|Unfit(why)| SimulateError::Usage(format!("{why}; remove the file")))
}

/// Makes one of several simulations, by number, which may be told to stop and tells the references it has made.
type One<'a> = dyn Fn(usize, &AtomicBool, &AtomicU64) -> Result<Value, SimulateError> + Sync + 'a;

/// Makes `count` simulations over the host's threads; of an interrupted run those before the first that had not
/// ended, since to keep whatever had would prefer short ones.
fn all(
    request: &RunSpec,
    model: &timing::Model,
    count: usize,
    one: &One<'_>,
    proceed: &mut Proceed<'_>,
) -> Result<Vec<Value>, SimulateError> {
    let (next, done, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let slots: Vec<Mutex<Option<Result<Value, SimulateError>>>> =
        (0..count).map(|_| Mutex::new(None)).collect();
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count || stop.load(Ordering::Relaxed) {
            return;
        }
        let result = replay::guarded(&model.setup, || one(index, &stop, &done)).and_then(|result| result);
        if result.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        *slots[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    };
    std::thread::scope(|scope| {
        let threads = request.threads.clamp(1, count);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
            if !proceed(done.load(Ordering::Relaxed)) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    let mut made = Vec::new();
    for slot in slots {
        match slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(one)) => made.push(one),
            Some(Err(SimulateError::Interrupted)) | None => return Ok(made),
            Some(Err(fault)) => return Err(fault),
        }
    }
    Ok(made)
}

fn window_json(point: usize, measured: &Measured) -> Value {
    let Measured { cycles, counted, taken, times, transactions, first_half, groups, timed, cut_short } =
        measured;
    let groups: BTreeMap<&String, [u64; 3]> =
        groups.iter().map(|(name, of)| (name, [of.instructions, of.references, of.work])).collect();
    json!({
        "point": point, "cycles": cycles, "instructions": counted.instructions, "references": counted.references,
        "misses": counted.misses, "bus_busy": counted.bus_busy, "transactions": transactions,
        "busy_user": times.user, "busy_kernel": times.kernel, "memory_stall": times.memory_stall,
        "bus_wait": times.bus_wait, "lock_spin": times.lock_spin, "branch": times.branch, "idle": times.idle,
        "first_half": {"cycles": first_half.0, "instructions": first_half.1},
        "transactions_take": taken.cycles, "memory_reads": taken.memory_reads, "memory_reads_take": taken.memory_cycles,
        "groups": groups, "timed_references": timed, "cut_short": cut_short,
    })
}
