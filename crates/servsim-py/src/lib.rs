//! Python bindings. Structured values cross the boundary as JSON text, so that one schema serves
//! the command line, the Python package and the files on disk. One file per part; each has a
//! `register` function, listed below.

// The bindings serve one Python package, which documents them in `_core.pyi`.
#![allow(missing_docs, clippy::missing_errors_doc)]

use pyo3::prelude::*;

mod classify;
mod disk;
mod errors;
mod files;
mod interrupt;
mod machine;
mod model;
mod rset;
mod simulate;
mod trace;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    classify::register(module)?;
    disk::register(module)?;
    files::register(module)?;
    machine::register(module)?;
    model::register(module)?;
    rset::register(module)?;
    simulate::register(module)?;
    trace::register(module)
}
