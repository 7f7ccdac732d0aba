//! Functional runs of a request: on one machine, or on several in as few passes as they allow.

use crate::builders::{clients_here, hierarchy_of, reading_of, setup_of};
use crate::error::{Proceed, SimulateError};
use crate::functional::{needs_first_pass, run_ahead, run_on, Counted};
use crate::json::{document, header_of, levels_json};
use crate::mapped::{self, Frames, CAPTURED};
use crate::result::{KindResult, Replication, TaskResult};
use crate::run_spec::RunSpec;
use crate::setup::Setup;
use crate::up_to::UpTo;
use crate::users::UserSubset;
use crate::warnings::{of_machine::began_empty, Rank, Warning};
use crate::window::{Held, Transactions, Window};
use crate::{multi_config, replay, sharded, translation};
use serde_json::{json, Value};
use servsim_config::Machine;
use servsim_core::GlobalSource;
use servsim_import::{open_by_task, open_in_order, FirstPass, TraceFile};
use servsim_mem::HierarchySpec;

/// Opens the trace as `machine` sees it: with virtual pages if it translates addresses, without the
/// users that are left out, its pages where the machine puts them.
fn open(
    request: &RunSpec,
    machine: &Machine,
    setup: &Setup,
    first_pass: FirstPass,
) -> Result<Box<dyn GlobalSource>, SimulateError> {
    clients_here(machine)?;
    let kernel = machine.protocol.private_kernel;
    let trace = TraceFile { first_pass, ..request.trace_file() };
    let whole = || open_in_order(&trace, setup.processors, kernel);
    let frames = Frames::of(machine, whole)?;
    let mut source = whole()?;
    if let Some(tlb) = &machine.tlb {
        source = translation::with_pages(source, tlb.identity)?;
    }
    if let Some(users) = request.users {
        let tasks = open_by_task(&trace, &reading_of(machine, setup))?;
        source = UserSubset::of(tasks.as_ref(), users)?.in_order(source);
    }
    if request.warmup.is_some_and(|warmup| warmup > 0) {
        return Err(SimulateError::Usage(
            "the functional engine counts from the beginning of the trace: leave out --warm-up, or use --engine \
             timing"
                .into(),
        ));
    }
    if let Transactions::References(_) = request.transactions {
        return Err(SimulateError::Usage(
            "the functional engine counts whole transactions: use --transactions for --references, or --engine timing"
                .into(),
        ));
    }
    let held = Held::of(&source.transaction_ends());
    if let Transactions::Number(number) = request.transactions {
        Window::of(request.transactions, Some(0), held, 0)?;
        source = Box::new(UpTo::new(source, number));
    }
    Ok(mapped::in_order(source, frames.as_ref()))
}

/// Runs the trace on the machine of `request`.
///
/// # Errors
/// As [`crate::simulate()`].
pub(crate) fn run_functional(
    request: &RunSpec,
    machine: &Machine,
    setup: &Setup,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let spec = hierarchy_of(machine, request.seed)?;
    let shards = sharded::shards(setup, &spec, request.threads);
    let mut source = open(request, machine, setup, first_pass_for(request, machine, (setup, &spec)))?;
    let mut stopped = false;
    let counted = replay::guarded(setup, || {
        let mut go_on = |done| {
            stopped = !proceed(done);
            !stopped
        };
        match shards {
            1 if request.threads > 1 => run_ahead(source.as_mut(), setup, &spec, &mut go_on),
            shards => sharded::run(source.as_mut(), setup, &spec, shards, &mut go_on),
        }
    })?;
    if stopped {
        return Err(SimulateError::Interrupted);
    }
    Ok(functional_document(request, machine, source.as_ref(), counted?))
}

/// Whether the trace reaches the caches as it is, so that machines can share a pass over it.
fn is_plain(machine: &Machine) -> bool {
    machine.tlb.is_none() && machine.prefetch.is_none() && machine.mapping.policy == CAPTURED
}

/// The first pass that the run of one machine needs.
fn first_pass_for(
    request: &RunSpec,
    machine: &Machine,
    (setup, spec): (&Setup, &HierarchySpec),
) -> FirstPass {
    if request.users.is_none() && is_plain(machine) && !needs_first_pass(setup, spec) {
        FirstPass::LeftOut
    } else {
        FirstPass::On(request.threads)
    }
}

/// The result of a functional run.
fn functional_document(
    request: &RunSpec,
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
        tlb: counted.tlb,
        prefetches: counted.prefetches,
        groups: counted.groups,
        timing: None,
    };
    let mut warnings = Warning::notes(source.notes());
    let remedy = "run a longer trace; servsim classify counts later transactions alone";
    warnings.extend(began_empty(&counted.levels, remedy));
    if request.replications > 1 {
        let text = "the functional engine was run once: it does not repeat a trace".into();
        warnings.push(Warning { rank: Rank::Note, code: "run-once", text });
    }
    let header = header_of(request, machine, "functional", warnings);
    let mut result = document(&header, &[replication]);
    if let Transactions::Number(number) = request.transactions {
        result["options"]["transactions"] = json!(number);
    }
    result["replications"][0]["levels"] = levels;
    if machine.levels.iter().any(servsim_config::OuterLevel::is_shared) {
        result["replications"][0]["memory"] = json!({"reads": memory.0, "writes": memory.1});
    }
    result
}

/// Runs the trace functionally on several machines, in as few passes over it as their differences
/// allow: that of `request` with each of `variants`, which are overrides after its own. The result is
/// one document (schema `servsim.simulate.each/1`) that holds theirs, in order.
///
/// # Errors
/// As [`fn@crate::simulate`].
pub fn simulate_each(
    request: &RunSpec,
    variants: &[Vec<String>],
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let mut machines = Vec::new();
    for variant in variants {
        let (text, file) = (&request.machine, &request.machine_file);
        let machine = Machine::from_toml_with(text, file, &request.overrides, variant)
            .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
        machines.push(((setup_of(&machine)?, hierarchy_of(&machine, request.seed)?), machine));
    }
    let mut results: Vec<Value> = vec![Value::Null; machines.len()];
    let mut before = 0;
    while let Some(first) = results.iter().position(Value::is_null) {
        let ((setup, spec), machine) = &machines[first];
        let kernel = machine.protocol.private_kernel;
        let joins = |((other, levels), described): &(_, Machine)| {
            let plain = is_plain(machine) && is_plain(described);
            let private = described.protocol.private_kernel == kernel;
            plain && private && multi_config::together((setup, spec), (other, levels))
        };
        let others = (first + 1..machines.len()).filter(|&index| joins(&machines[index]));
        let members: Vec<usize> = std::iter::once(first).chain(others).collect();
        let built: Vec<_> = members.iter().map(|&index| machines[index].0.clone()).collect();
        let first_pass = match members.as_slice() {
            [_] => first_pass_for(request, machine, (setup, spec)),
            _ => FirstPass::On(request.threads),
        };
        let mut source = open(request, machine, setup, first_pass)?;
        let (mut stopped, mut now) = (false, 0);
        let counted = replay::guarded(setup, || {
            let mut go_on = |done| {
                now = before + done;
                stopped = !proceed(now);
                !stopped
            };
            match built.as_slice() {
                [(setup, spec)] => Ok(vec![run_on(source.as_mut(), setup, spec, &mut go_on)?]),
                all => multi_config::run(source.as_mut(), all, request.threads, &mut go_on),
            }
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
