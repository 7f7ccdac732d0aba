//! The exceptions of `servsim.errors`, raised from Rust.
//!
//! Each Rust error is turned into exactly one of these at the boundary; the Python side maps the
//! class to the process exit code. A Rust panic stays a `PanicException`: an internal bug.

// One function per exception class, whether or not a part raises it yet.
#![allow(dead_code)]

use pyo3::prelude::*;
use servsim_files::{Blame, WriteError};

/// Imports `servsim.errors.NAME` and makes an instance with `message`.
fn exception(name: &str, message: &str) -> PyErr {
    Python::with_gil(|py| {
        let class = py.import("servsim.errors").and_then(|module| module.getattr(name));
        match class.and_then(|class| class.call1((message,))) {
            Ok(instance) => PyErr::from_value(instance),
            Err(error) => error,
        }
    })
}

/// The user's input or usage is wrong (exit code 2).
pub fn usage(message: impl AsRef<str>) -> PyErr {
    exception("UsageError", message.as_ref())
}

/// A model gets more than it can serve, or nearly so (exit code 2).
pub fn saturated(message: impl AsRef<str>) -> PyErr {
    exception("Saturated", message.as_ref())
}

/// The environment lacks something (exit code 3).
pub fn environment(message: impl AsRef<str>) -> PyErr {
    exception("EnvironmentProblem", message.as_ref())
}

/// A file cannot be written: its name is wrong, or the host refuses.
pub fn unwritable(error: &WriteError) -> PyErr {
    match error.blame() {
        Blame::Name => usage(error.to_string()),
        Blame::Host => environment(error.to_string()),
    }
}

/// A check of otherwise well-formed data failed (exit code 1).
pub fn check_failed(message: impl AsRef<str>) -> PyErr {
    exception("CheckFailed", message.as_ref())
}

/// A fault of servsim itself (exit code 70).
pub fn internal(message: impl AsRef<str>) -> PyErr {
    exception("InternalBug", message.as_ref())
}
