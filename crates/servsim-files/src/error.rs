//! A file that cannot be written: what happened, who can help it, and how.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Who can help it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The name is wrong: another one helps.
    Name,
    /// The host refuses: a full disk, a read-only file system, a missing right, a failing device.
    Host,
}

/// A file that cannot be written, in one sentence with its remedy.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; {}", path.display(), self.remedy())]
pub struct WriteError {
    /// The file that was to be written.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: Error,
}

impl WriteError {
    /// An error of the operating system while `path` was written.
    pub fn new(path: &Path, source: Error) -> Self {
        Self { path: path.to_owned(), source }
    }

    /// Who can help it.
    pub fn blame(&self) -> Blame {
        match self.source.kind() {
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidFilename
            | ErrorKind::AlreadyExists => Blame::Name,
            _ => Blame::Host,
        }
    }

    fn remedy(&self) -> &'static str {
        match self.source.kind() {
            ErrorKind::NotFound => "make its folder first, or choose another",
            ErrorKind::NotADirectory => "a file has that name where a folder is wanted; choose another",
            ErrorKind::IsADirectory => "give the name of a file in it",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some room, or choose another disk",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "choose a place that you may write to"
            }
            _ if self.blame() == Blame::Name => "choose another name",
            _ => "choose another disk, or mend this one",
        }
    }
}
