//! Importers of foreign traces: one file per format, one line each in [`FORMATS`].
//!
//! All are streaming and read the file twice: once to learn the tasks and which pages more than
//! one task touches, once to deliver references. Malformed input ends in one sentence that names
//! the place; nothing is guessed.

pub mod captured;
pub mod memory;
pub mod raw16;
pub mod survey;
pub mod text;

pub use memory::{InMemory, ListSource};
pub use survey::Survey;

use servsim_core::{GlobalSource, SourceError};
use std::path::Path;

/// Opens a file of one format for a machine of so many processors.
pub type Open = fn(&Path, usize) -> Result<Box<dyn GlobalSource>, SourceError>;

/// A registered format: name, file extensions, opener.
pub struct Format {
    /// Name for `--format`.
    pub name: &'static str,
    /// Extensions that imply it.
    pub extensions: &'static [&'static str],
    /// Opens a file.
    pub open: Open,
}

/// Every format.
pub const FORMATS: &[Format] = &[
    Format { name: "text", extensions: &["txt", "text"], open: text::open },
    Format { name: "raw16", extensions: &["raw16", "raw"], open: raw16::open },
];

/// The format called `name`, or the one that the extension of `path` implies.
///
/// # Errors
/// When neither names a known format.
pub fn format_of(path: &Path, name: Option<&str>) -> Result<&'static Format, SourceError> {
    let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = name {
        return FORMATS
            .iter()
            .find(|f| f.name == name)
            .ok_or_else(|| SourceError(format!("unknown trace format `{name}`: accepted are {}", names())));
    }
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    FORMATS.iter().find(|f| f.extensions.contains(&extension)).ok_or_else(|| {
        SourceError(format!(
            "{}: the extension does not tell the trace format; say which with --format ({})",
            path.display(),
            names()
        ))
    })
}

/// A file that could not be opened or read.
pub(crate) fn io_error(path: &Path, error: &std::io::Error) -> SourceError {
    SourceError(format!("{}: {error}", path.display()))
}
