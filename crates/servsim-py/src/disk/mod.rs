//! Disks: opens files, calls `servsim-disk`, hands back JSON text and columns of numbers.
//!
//! Work runs on a thread of its own while the calling thread watches for signals, so that Ctrl-C
//! ends a command at once whatever is being computed.

mod fit;
mod program;
mod run;
mod simulate;
mod source;
mod written;

use crate::errors::{unwritable, usage};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{json, Value};
use servsim_disk::error::{ImportError, ModelError};
use servsim_disk::importers::{captured, IMPORTERS};
use servsim_disk::models::KINDS;
use servsim_files::WriteError;

/// A fault to tell the user, or one of ours.
pub(super) enum Fault {
    Usage(String),
    Unwritable(WriteError),
    Interrupted,
}

impl From<ImportError> for Fault {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Interrupted => Fault::Interrupted,
            other => Fault::Usage(other.to_string()),
        }
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        Fault::Usage(error.to_string())
    }
}

impl From<WriteError> for Fault {
    fn from(error: WriteError) -> Self {
        Fault::Unwritable(error)
    }
}

pub(super) type Outcome<T> = Result<T, Fault>;

/// Runs `work` aside ([`crate::interrupt`]) and raises what went wrong.
pub(super) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> PyResult<T> {
    crate::interrupt::interruptible(py, work)?.map_err(|fault| match fault {
        Fault::Usage(message) => usage(message),
        Fault::Unwritable(error) => unwritable(&error),
        Fault::Interrupted => PyKeyboardInterrupt::new_err("interrupted"),
    })
}

pub(super) fn options<'a, T: Deserialize<'a>>(text: &'a str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| usage(format!("disk options: {error}")))
}

/// Formats and kinds of models, as JSON.
#[pyfunction]
fn disk_catalogue() -> String {
    let formats: Vec<Value> = IMPORTERS
        .iter()
        .map(|importer| json!({"name": importer.name(), "about": importer.about()}))
        .collect();
    let formats: Vec<Value> =
        [json!({"name": captured::FORMAT, "about": "disk requests of a guest, in a servsim trace"})]
            .into_iter()
            .chain(formats)
            .collect();
    let compressions = servsim_import::input::EXTENSIONS;
    let drives = ["hp97560", "hp335h", "agrawal2008"];
    json!({"formats": formats, "compressions": compressions, "models": KINDS, "drives": drives}).to_string()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(disk_catalogue, module)?)?;
    module.add_function(wrap_pyfunction!(program::disk_capture_program, module)?)?;
    module.add_function(wrap_pyfunction!(source::disk_import, module)?)?;
    module.add_function(wrap_pyfunction!(source::disk_columns, module)?)?;
    module.add_function(wrap_pyfunction!(fit::disk_fit, module)?)?;
    module.add_function(wrap_pyfunction!(fit::disk_info, module)?)?;
    module.add_function(wrap_pyfunction!(run::disk_evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::disk_simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::disk_sweep, module)?)?;
    module.add_function(wrap_pyfunction!(run::disk_reorganize, module)?)?;
    Ok(())
}
