//! Where the timing of a run begins: cold, after a functional warm-up, or from a checkpoint.

use super::{checkpoint, settings, warm_up, Amount, WarmStart};
use crate::simulate::{Proceed, RunSpec, SimulateError};
use crate::{replay, timing};
use servsim_config::Machine;
use servsim_core::TaskSource;
use std::path::PathBuf;

/// Where the timing of a run begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// At the beginning of the trace, with empty caches.
    #[default]
    Cold,
    /// Where this amount of the trace has warmed the caches.
    Functional {
        /// How much.
        amount: Amount,
        /// The checkpoint to write then.
        save: Option<PathBuf>,
    },
    /// Where this checkpoint was made.
    Checkpoint(PathBuf),
}

impl Start {
    /// From what a person wrote.
    ///
    /// # Errors
    /// When the options do not fit together, or the amount cannot be read.
    pub fn of(
        functional_warmup: Option<&str>,
        save: Option<PathBuf>,
        checkpoint: Option<PathBuf>,
    ) -> Result<Self, SimulateError> {
        match (functional_warmup, save, checkpoint) {
            (None, None, None) => Ok(Self::Cold),
            (None, None, Some(path)) => Ok(Self::Checkpoint(path)),
            (Some(_), _, Some(_)) => Err(SimulateError::Usage(
                "--from-checkpoint begins where a warm-up has ended: leave out --functional-warm-up".into(),
            )),
            (None, Some(_), _) => Err(SimulateError::Usage(
                "--save-checkpoint saves where a functional warm-up ends: say how long it is with \
                 --functional-warm-up, for example --functional-warm-up 200"
                    .into(),
            )),
            (Some(text), save, None) => {
                Ok(Self::Functional { amount: text.parse().map_err(SimulateError::Usage)?, save })
            }
        }
    }
}

/// Warms the caches, or reads the checkpoint that says how they were.
pub(crate) fn start_of(
    request: &RunSpec,
    machine: &Machine,
    source: &dyn TaskSource,
    model: &timing::Model,
    proceed: &mut Proceed<'_>,
) -> Result<Option<(Amount, WarmStart)>, SimulateError> {
    let settings = || {
        let mut settings = settings::binding(&machine.resolved());
        let users = request.users.map_or_else(|| "all".to_owned(), |users| users.to_string());
        settings.insert("--users".to_owned(), users);
        settings
    };
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
                checkpoint::write(path, &origin, &start).map_err(SimulateError::Usage)?;
            }
            Ok(Some((*amount, start)))
        }
    }
}
