//! What every kernel offers: how it is asked for, its phases, its checks.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;
use servsim_units::Bytes;

use crate::array::Structures;
use crate::team::{Member, Team};
use crate::{Error, Result};

/// A setting that one kernel has beside those of all.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name on the command line, without dashes.
    pub name: &'static str,
    /// Its value when it is not given.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// A kernel in the registry.
#[derive(Debug)]
pub struct Spec {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line on what it computes.
    pub summary: &'static str,
    /// What `--size` counts.
    pub size: &'static str,
    /// The size when none is given: done in about a second.
    pub default_size: &'static str,
    /// The size called `paper` (Brock et al. 2001, table 1), and the iterations that go with it.
    pub paper: Option<(&'static str, u64)>,
    /// Iterations when none are given.
    pub iterations: u64,
    /// Its own settings.
    pub settings: &'static [Setting],
    /// Allocates its structures.
    pub make: fn(&RunOptions, &mut Structures) -> Result<Box<dyn Kernel>>,
}

/// What a run is asked to do.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Threads.
    pub threads: usize,
    /// The size, as written.
    pub size: String,
    /// Seed of the initial values.
    pub seed: u64,
    /// Values of the kernel's own settings.
    pub settings: BTreeMap<&'static str, String>,
}

impl RunOptions {
    /// The size as a number of `what`.
    ///
    /// # Errors
    /// [`Error::Usage`] when it is not a whole number.
    pub fn count(&self, what: &str) -> Result<u64> {
        number(&self.size).filter(|count| *count > 0).ok_or_else(|| {
            Error::Usage(format!(
                "--size '{}' is not a number of {what}: write a whole number from 1",
                self.size
            ))
        })
    }

    /// The size in bytes.
    ///
    /// # Errors
    /// [`Error::Usage`] without a unit.
    pub fn bytes(&self) -> Result<Bytes> {
        self.size.parse().map_err(|error| Error::Usage(format!("--size: {error}")))
    }

    /// The value of a setting, within a range.
    ///
    /// # Errors
    /// [`Error::Usage`] when it is no number or outside.
    ///
    /// # Panics
    /// When the kernel's specification does not list the setting.
    pub fn setting<T: FromStr + PartialOrd + Display + Copy>(
        &self,
        name: &'static str,
        least: T,
        most: T,
    ) -> Result<T> {
        let text = &self.settings[name];
        let value = text.parse().ok().filter(|value| *value >= least && *value <= most);
        value.ok_or_else(|| {
            Error::Usage(format!("--{name} must be a number from {least} to {most}, not '{text}'"))
        })
    }

    /// Refuses more threads than there are parts of the work.
    ///
    /// # Errors
    /// [`Error::Usage`] with both numbers.
    pub fn at_most_threads(&self, parts: u64, what: &str) -> Result<()> {
        if self.threads as u64 <= parts {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{} threads cannot share {parts} {what}: give at most {parts} --threads, or a larger --size",
            self.threads
        )))
    }
}

/// Reads a whole number that may have underscores.
fn number(text: &str) -> Option<u64> {
    text.replace('_', "").parse().ok()
}

/// A kernel with its structures allocated. Functions that take a member run on all threads at once.
pub trait Kernel: Sync {
    /// Writes the initial values; every thread those of its [`Member::init_share`].
    fn init(&self, me: &Member<'_>);

    /// Computes what the first iteration begins with, behind a barrier, before the measured phase.
    fn begin(&self, _me: &Member<'_>) {}

    /// Computes one iteration; a barrier follows it.
    fn iterate(&self, me: &Member<'_>);

    /// What was computed, and a digest of its bits, both the same for any number of threads.
    fn outcome(&self) -> Outcome;

    /// Checks what so many iterations computed; may compute more, and overwrite it.
    ///
    /// # Errors
    /// When the host gives no threads.
    fn check(&self, team: &Team, iterations: u64) -> Result<Vec<Check>>;

    /// Figures that depend on the host, such as bandwidths.
    fn measured(&self) -> Value {
        Value::Null
    }
}

/// What a kernel computed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Figures with their names.
    pub figures: Value,
    /// Digest of all result bits.
    pub digest: u64,
}

/// A quantity that must not exceed its limit.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Check {
    /// What must hold.
    pub check: &'static str,
    /// What was found.
    pub value: f64,
    /// What is allowed.
    pub limit: f64,
    /// Whether it holds.
    pub passed: bool,
}

impl Check {
    /// The check that `value` is at most `limit`; one that is not a number fails.
    pub fn at_most(check: &'static str, value: f64, limit: f64) -> Self {
        Check { check, value, limit, passed: value <= limit }
    }

    /// What failed, in words, if it did; a value that is not a number is none.
    pub fn problem(&self) -> Option<String> {
        let value = if self.value.is_nan() { "null".to_owned() } else { format!("{:?}", self.value) };
        (!self.passed).then(|| format!("{} is {value}, at most {:?} is allowed", self.check, self.limit))
    }
}

/// The largest of some errors; not a number if one is.
pub fn largest(errors: impl Iterator<Item = f64>) -> f64 {
    errors.fold(0.0, |most, error| if error.is_nan() || error > most { error } else { most })
}
