//! The specification of a run, as a caller gives it: which trace on which machine, what of it to
//! measure, and where the timing begins.

use crate::error::SimulateError;
use crate::warm::Amount;
use crate::window::Transactions;
use servsim_core::Watch;
use servsim_import::captured::Findings;
use servsim_import::{FirstPass, TraceFile};
use std::path::PathBuf;
use std::sync::Arc;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The trace.
    pub trace: PathBuf,
    /// Its format, when the extension does not say.
    pub format: Option<String>,
    /// Hash of the trace's bytes, for the result.
    pub trace_hash: String,
    /// Folder in which what a first pass finds of a captured trace is kept; nowhere without.
    pub findings: Option<PathBuf>,
    /// Text of the machine description.
    pub machine: String,
    /// Its file name, for messages.
    pub machine_file: String,
    /// Overrides `key=value`.
    pub overrides: Vec<String>,
    /// Functional instead of timing.
    pub functional: bool,
    /// What to measure: transactions, or references.
    pub transactions: Transactions,
    /// Transactions before measurement, or references before a measurement of these; chosen without it.
    pub warmup: Option<u64>,
    /// Where the timing begins.
    pub start: Start,
    /// Run only so many of the trace's users.
    pub users: Option<u32>,
    /// What is asked of machines with nodes.
    pub nodes: NodeOptions,
    /// Replications.
    pub replications: u32,
    /// Seed of the first replication; the others follow.
    pub seed: u64,
    /// Host threads.
    pub threads: usize,
    /// Who waits for it, and may stop it while the trace is opened as well.
    pub watch: Arc<Watch>,
}

impl RunSpec {
    /// The trace, as it is opened.
    pub(crate) fn trace_file(&self) -> TraceFile<'_> {
        let findings = |folder| Findings { folder, trace_hash: &self.trace_hash };
        TraceFile {
            path: &self.trace,
            format: self.format.as_deref(),
            findings: self.findings.as_deref().map(findings),
            first_pass: FirstPass::On(self.threads),
            watch: Some(&self.watch),
        }
    }
}

/// What is asked of machines with nodes beyond their description.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// Where pages lie and tasks run.
    pub placement: Option<TextFile>,
    /// What of the traffic between nodes is counted.
    pub monitor: Option<TextFile>,
}

impl NodeOptions {
    /// Whether anything is asked.
    pub fn is_given(&self) -> bool {
        self.placement.is_some() || self.monitor.is_some()
    }
}

/// A file that was read, and its name for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Its name.
    pub name: String,
    /// What it says.
    pub text: String,
}

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
