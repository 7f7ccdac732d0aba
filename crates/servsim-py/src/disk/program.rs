//! The program that a capture of block requests runs in the kernel, as `build.rs` compiled it.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/block_requests.bpf.o"));

/// The object file, or `None` where it was not compiled.
#[pyfunction]
pub fn disk_capture_program(py: Python<'_>) -> Option<Bound<'_, PyBytes>> {
    (!PROGRAM.is_empty()).then(|| PyBytes::new(py, PROGRAM))
}
