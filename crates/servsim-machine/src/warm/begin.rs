//! Where the timing of a run begins: cold, after a functional warm-up, or from a checkpoint.

use super::settings::binding;
use super::{checkpoint, warm_up, Amount, WarmStart};
use crate::error::{Proceed, SimulateError};
use crate::run_spec::{RunSpec, Start};
use crate::{replay, timing};
use servsim_config::Machine;
use servsim_core::TaskSource;
use std::collections::BTreeMap;

/// Warms the caches, or reads the checkpoint that says how they were.
pub(crate) fn start_of(
    request: &RunSpec,
    machine: &Machine,
    source: &dyn TaskSource,
    model: &timing::Model,
    proceed: &mut Proceed<'_>,
) -> Result<Option<(Amount, WarmStart)>, SimulateError> {
    let settings = || settings_of(request, machine, model);
    let trace_name = request.trace.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if request.start != Start::Cold && (machine.tlb.is_some() || machine.prefetch.is_some()) {
        return Err(SimulateError::Usage(
            "a functional warm-up warms caches, neither TLBs nor prefetchers: leave out [tlb] and [prefetch], or \
             warm up in time with --warm-up"
                .into(),
        ));
    }
    match &request.start {
        Start::Cold => Ok(None),
        Start::Checkpoint(path) => checkpoint::read(path, (&request.trace_hash, &trace_name), &settings())
            .map(Some)
            .map_err(SimulateError::Usage),
        Start::Functional { amount, save } => {
            let start = replay::guarded(&model.setup, || warm_up(source, &model.shape(), *amount, proceed))??;
            if let Some(path) = save {
                let (trace, amount, settings) = (request.trace_hash.clone(), *amount, settings());
                let origin = checkpoint::Origin { trace, trace_name, amount, settings };
                checkpoint::write(path, &origin, &start)?;
            }
            Ok(Some((*amount, start)))
        }
    }
}

/// What a warm state of a run depends on, by name.
pub(crate) fn settings_of(
    request: &RunSpec,
    machine: &Machine,
    model: &timing::Model,
) -> BTreeMap<String, String> {
    let mut settings = binding(&machine.resolved());
    let users = request.users.map_or_else(|| "all".to_owned(), |users| users.to_string());
    settings.insert("--users".to_owned(), users);
    // Where tasks may run decided where those of the state ran.
    if let Some(file) = request.nodes.placement.as_ref().filter(|_| !model.bindings.tasks.is_empty()) {
        settings.insert("--placement".to_owned(), file.text.clone());
    }
    settings
}
