//! DynamoRIO's offline traces (`drmemtrace`), final form: 12-byte little-endian records `u16 type,
//! u16 size, u64 address`, versions 2 to 7, raw or compressed; one file, or a directory with one file
//! per thread (or per core), merged by their timestamps. The address space of each process is kept
//! apart by its rank in bits 48 and up of user addresses: the trace has virtual addresses, which mean
//! different memory in different processes.
//!
//! Threads are tasks. What lies between the markers of a traced system call or context switch is
//! kernel mode. Markers are metadata and touch nothing; those numbered above the last one known here
//! are refused, since one might say what later records mean, except the numbers from 100 up, which
//! the format leaves to users. Record types that are not listed in `file.rs` are refused.
//!
//! Format: DynamoRIO, `trace_entry.h` (types, markers, versions) and its page "Trace Format".

mod file;
mod merge;

use crate::foreign::Foreign;
use merge::Merge;
use servsim_core::SourceError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the format is, holds and lacks.
pub const ABOUT: [&str; 3] = [
    "DynamoRIO's offline traces, versions 2 to 7: a file, or a directory of threads",
    "fetches, loads, stores, sizes, threads as tasks, kernel mode where it was traced",
    "physical addresses, what blocks and wakes threads",
];

/// Surveys the file or directory at `path`.
///
/// # Errors
/// When it cannot be read or is malformed.
pub fn survey(path: &Path) -> Result<Foreign, SourceError> {
    let trace = Arc::new(merge::Trace::new(files(path)?));
    Foreign::open(&path.display().to_string(), move |only| Ok(Box::new(Merge::begin(&trace, only)?)))
}

/// The files of a trace in the order of their names. DynamoRIO keeps them in a folder `trace`
/// beside the raw data; schedules and lists in the same folder are no traces.
fn files(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let inner = path.join("trace");
    let folder = if inner.is_dir() { &inner } else { path };
    let listing = std::fs::read_dir(folder).map_err(|e| crate::io_error(folder, &e))?;
    let mut found = Vec::new();
    for entry in listing {
        let file = entry.map_err(|e| crate::io_error(folder, &e))?.path();
        let name = file.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let named = name.split('.').any(|part| part == "trace" || part == "memtrace");
        if named && file.is_file() && !name.contains("schedule") {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(SourceError(format!(
            "{}: no *.trace or *.memtrace file in it; raw captures must first be converted by \
             DynamoRIO (drrun -t drmemtrace -indir DIR)",
            folder.display()
        )));
    }
    Ok(found)
}
