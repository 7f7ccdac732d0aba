//! One simulation from request to result: reads the description, opens the trace, runs the engine
//! as often as asked, over the host's cores, and writes the result.

use crate::builders::{clients_here, hierarchy_of, reading_of, setup_of};
use crate::counts::run_functional;
use crate::error::{Proceed, SimulateError};
use crate::json::{document, header_of};
use crate::mapped::{self, Frames};
use crate::result::Replication;
use crate::run_spec::{RunSpec, Start};
use crate::setup::Setup;
use crate::storage::Plan;
use crate::users::UserSubset;
use crate::warm::{start_of, Amount, WarmStart};
use crate::warnings::{self, Warning};
use crate::window::{Held, Window};
use crate::{monitored, placed, replay, timing, translation};
use serde_json::{json, Value};
use servsim_config::Machine;
use servsim_core::{GlobalSource, SourceError, TaskSource};
use servsim_import::{open_by_task, open_in_order};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Replications whose windows and activity are kept, the first: more than a picture shows. Of a thousand they
/// would be most of the memory and of the result, and each can be run again by its seed.
pub const DETAILED: usize = 32;

/// Runs `request`. `proceed` is called from the calling thread a few times a second with the
/// number of references simulated so far; `false` stops the run. A document with the replications that had
/// ended by then, the first seeds, says `interrupted`.
///
/// # Errors
/// For wrong input, an interruption before the first replication ended, or an internal fault.
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
    if request.start != Start::Cold {
        clients_here(&machine)?;
    }
    if request.functional && request.nodes.is_given() {
        return Err(SimulateError::Usage(
            "the functional engine knows no nodes: leave out --placement and --monitor, or use --engine timing".into(),
        ));
    }
    if request.functional {
        run_functional(request, &machine, &setup, proceed)
    } else {
        run_timing(request, &machine, &setup, proceed)
    }
}

/// The trace of a request in the order in which it was recorded.
fn in_order(
    request: &RunSpec,
    machine: &Machine,
    setup: &Setup,
) -> Result<Box<dyn GlobalSource>, SourceError> {
    let processors = reading_of(machine, setup).processors;
    open_in_order(&request.trace_file(), processors, machine.protocol.private_kernel)
}

/// A trace as one stream per task, and the frames of its pages if these are not the captured ones.
type Placed = (Box<dyn TaskSource>, Option<Arc<Frames>>);

/// The trace of a request as one stream per task, as its machine and options want it, and where its pages lie.
pub(crate) fn source_of(
    request: &RunSpec,
    machine: &Machine,
    setup: &Setup,
) -> Result<Placed, SimulateError> {
    let frames = Frames::of(machine, || in_order(request, machine, setup))?;
    let reading = reading_of(machine, setup);
    let mut source = open_by_task(&request.trace_file(), &reading)?;
    if let Some(tlb) = &machine.tlb {
        source = translation::tasks_with_pages(source, tlb.identity)?;
    }
    if let Some(users) = request.users {
        source = UserSubset::of(source.as_ref(), users)?.by_task(source);
    }
    Ok((mapped::by_task(source, frames.as_ref()), frames))
}

fn run_timing(
    request: &RunSpec,
    machine: &Machine,
    setup: &Setup,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let (source, frames) = source_of(request, machine, setup)?;
    let read = || in_order(request, machine, setup);
    let held = Held::of(&source.transaction_ends());
    let window = |passed| Window::of(request.transactions, request.warmup, held, passed);
    // What cannot be measured is refused before anything is simulated.
    let known = match request.start {
        Start::Functional { amount: Amount::Transactions(number), .. } => number,
        _ => 0,
    };
    let foreseen = window(known)?;
    let placement = request.nodes.placement.as_ref().map(|file| placed::read(file, machine)).transpose()?;
    let monitor = request.nodes.monitor.as_ref().map(|file| monitored::read(file, machine)).transpose()?;
    let check_parts = |window: Window| match (&monitor, &request.nodes.monitor) {
        (Some(program), Some(file)) => monitored::check_parts(program, &file.name, window.transactions),
        _ => Ok(()),
    };
    check_parts(foreseen)?;
    let bindings = placed::bindings_of(machine.nodes.as_ref(), placement.as_ref(), source.tasks())?;
    let planned = match (&placement, &machine.nodes) {
        (Some(file), Some(nodes)) => {
            let mut pages = mapped::in_order(read()?, frames.as_ref());
            Some(placed::plan_of(file, pages.as_mut(), nodes.memories.len(), machine.processors)?)
        }
        _ => None,
    };
    let (plan, planned) = planned.unzip();
    let mut model = timing::Model::new(machine, setup, None, 0)
        .with_placement(bindings, plan)
        .with_monitor(monitor.as_ref().map(|program| monitored::spec_of(program, setup.geometry.line)))
        .with_hierarchy(hierarchy_of(machine, request.seed)?)
        .with_storage(Plan::of(machine, source.as_ref())?);
    let start = start_of(request, machine, source.as_ref(), &model, proceed)?;
    let window =
        window(start.as_ref().map_or(0, |(amount, start)| held.passed(*amount, start.transactions)))?;
    check_parts(window)?;
    (model.transactions, model.warmup) = (window.transactions, window.warmup);
    model.references = window.references;
    let from = start.as_ref().map(|(_, start)| start);
    let replications = replicate(request, source.as_ref(), (&model, from), proceed)?;
    refuse_unbegun(window, &replications)?;
    let warmed = start.as_ref().map(|(amount, _)| *amount);
    let mut warnings = warnings::of(window, machine, warmed, &replications);
    warnings.extend(Warning::notes(source.notes()));
    warnings.extend(Warning::of_left_out_detail(DETAILED, replications.len()));
    let mut header = header_of(request, machine, "timing", warnings);
    header.options["transactions"] = json!(window.transactions);
    header.options["warmup"] = json!(window.warmup);
    if let Some(references) = window.references {
        header.options["references"] = json!(references);
    }
    header.options["window"] = window.to_json();
    if let (Some(file), Some(pages)) = (&request.nodes.placement, planned) {
        header.options["placement"] = json!({"file": file.name, "text": file.text, "pages": pages});
    }
    if let Some((amount, start)) = &start {
        header.options["functional_warmup"] = json!(amount.to_string());
        header.options["functional_warmup_references"] = json!(start.references);
    }
    let mut document = document(&header, &replications);
    if let Some(program) = &monitor {
        let source = mapped::in_order(read()?, frames.as_ref());
        let mut telling = monitored::Telling::new(program, machine, source)?;
        for (index, run) in replications.iter().enumerate() {
            let counts = run.timing.as_ref().and_then(|timing| timing.monitor.as_ref());
            document["replications"][index]["monitor"] = json!(counts.map(|counts| telling.tell(counts)));
        }
    }
    if replications.len() < request.replications as usize {
        document["interrupted"] = json!(true);
    }
    Ok(document)
}

/// Refuses a window of references that never began: how many a trace holds is known by running it only.
fn refuse_unbegun(window: Window, replications: &[Replication]) -> Result<(), SimulateError> {
    let unbegun = |run: &Replication| run.timing.as_ref().is_some_and(|t| t.trace_exhausted && t.cycles == 0);
    if window.references.is_none() || !replications.iter().any(unbegun) {
        return Ok(());
    }
    Err(SimulateError::Usage(format!(
        "the trace ended within the warm-up of {} references: nothing was measured; use a shorter --warm-up, or a \
         longer trace",
        window.warmup
    )))
}

/// Runs the replications over the host's threads; the order of the results is that of the seeds. Fewer than
/// were asked for when the caller stopped them.
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
    // What a functional warm-up has told of already goes on from there, for whoever watches.
    let warmed = match request.start {
        Start::Functional { .. } => start.map_or(0, |start| start.references),
        Start::Cold | Start::Checkpoint(_) => 0,
    };
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(warmed));
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        // To begin each of the replications left only to stop it would take long where they are many.
        if index >= count || stop.load(Ordering::Relaxed) {
            return;
        }
        let seed = request.seed + index as u64;
        let run = || timing::run_from(source, model, start, seed, &stop, &done);
        let result = replay::guarded(&model.setup, run).and_then(|result| result);
        let result = result.map(|run| if index < DETAILED { run } else { run.without_detail() });
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
    if let Some(fault) = fault {
        return Err(fault);
    }
    // Of an interrupted run the first seeds are kept, up to one that had not ended: to keep whatever had
    // ended would prefer short runs.
    let kept: Vec<_> = results.into_iter().map_while(Result::ok).collect();
    if kept.is_empty() {
        return Err(SimulateError::Interrupted);
    }
    Ok(kept)
}
