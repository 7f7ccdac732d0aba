//! What can be wrong with a trace, each with the remedy in its text.

use crate::EXTENSION;
use std::path::{Path, PathBuf};

/// A trace that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{path}: {source}; check the path and the permissions")]
    Io {
        /// File concerned.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] servsim_files::WriteError),
    /// The file is something else.
    #[error("{} is not a servsim trace{}", .0.display(), remedy(.0))]
    NotATrace(PathBuf),
    /// Written by another version of the format.
    #[error("{path} has trace format version {found}, this servsim reads version {expected}; capture it again or use the servsim that wrote it")]
    Version {
        /// File concerned.
        path: PathBuf,
        /// Version in the file.
        found: u32,
        /// Version this crate reads.
        expected: u32,
    },
    /// A checksum or a structural rule does not hold.
    #[error("{path} is damaged at byte {offset}: {what}; restore it from a copy or capture it again")]
    Corrupt {
        /// File concerned.
        path: PathBuf,
        /// Where the damaged chunk begins, in bytes.
        offset: u64,
        /// The rule that does not hold.
        what: String,
    },
    /// The bytes are as they were written, but say what cannot be.
    #[error(
        "{path} contradicts itself at byte {offset}: {what}; capture it again, or see `servsim trace check`"
    )]
    Contradiction {
        /// File concerned.
        path: PathBuf,
        /// Where the chunk that says so begins, in bytes.
        offset: u64,
        /// The rule that does not hold.
        what: String,
    },
    /// The caller asked for something the trace does not hold.
    #[error("{0}")]
    Request(String),
}

/// What to do with the file `path` that is no servsim trace.
fn remedy(path: &Path) -> &'static str {
    let inner = path.file_stem().map(Path::new).and_then(Path::extension);
    if inner.is_some_and(|extension| extension == EXTENSION) {
        return " as it stands; its chunks are compressed already, so decompress it if somebody compressed it once more";
    }
    "; `servsim simulate` and `servsim trace import` read other formats, with --format"
}

/// A structural fault inside one chunk; the reader adds file and offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(pub String);

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Fault(text.to_owned())
    }
}
