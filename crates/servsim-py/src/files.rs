//! Bindings of `servsim-files`: Python writes through the same writer as Rust.

use crate::errors::unwritable;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use servsim_files::{Special, WriteError};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// A file on its way to its name; pipes and devices are written to.
#[pyclass(module = "servsim._core")]
struct AtomicFile {
    path: PathBuf,
    file: Option<servsim_files::AtomicFile>,
}

#[pymethods]
impl AtomicFile {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let created = servsim_files::AtomicFile::create(&path, Special::WriteTo);
        let file = created.map_err(|source| unwritable(&WriteError::new(&path, source)))?;
        Ok(Self { path, file: Some(file) })
    }

    /// The descriptor to write to; it is closed with the file.
    fn fileno(&self) -> PyResult<i32> {
        self.file.as_ref().map(|file| file.file().as_raw_fd()).ok_or_else(closed)
    }

    /// Gives the file its name.
    fn commit(&mut self, py: Python<'_>) -> PyResult<()> {
        let file = self.file.take().ok_or_else(closed)?;
        let done = py.allow_threads(|| file.commit());
        done.map(drop).map_err(|source| unwritable(&WriteError::new(&self.path, source)))
    }

    /// Leaves nothing of it; does nothing to one that has its name.
    fn discard(&mut self) {
        self.file = None;
    }

    /// The exception for an error number of a write to the descriptor.
    fn refused(&self, errno: i32) -> PyErr {
        unwritable(&WriteError::new(&self.path, std::io::Error::from_raw_os_error(errno)))
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the file is already committed or discarded")
}

/// Removes the unfinished files of this process, which is about to end.
#[pyfunction]
fn discard_unfinished_files() {
    servsim_files::discard_unfinished();
}

/// Adds this part to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AtomicFile>()?;
    module.add_function(wrap_pyfunction!(discard_unfinished_files, module)?)
}
