//! Simulated times on their way into a file: CSV, a line a request, made and written as requests are served.

use super::Outcome;
use servsim_disk::lines::Lines;
use servsim_files::{AtomicFile, Special, WriteError};
use std::io::{Error, Write};
use std::path::Path;

/// The file, and what has been made of it.
pub(super) struct Written<'a> {
    path: &'a str,
    file: AtomicFile,
    lines: Lines,
    /// What went wrong first; nothing is written after that.
    failed: Option<Error>,
}

impl<'a> Written<'a> {
    /// Begins the file that will be `path`.
    pub(super) fn create(path: &'a str) -> Outcome<Self> {
        let file = AtomicFile::create(Path::new(path), Special::WriteTo);
        let file = file.map_err(|error| WriteError::new(Path::new(path), error))?;
        Ok(Written { path, file, lines: Lines::new(""), failed: None })
    }

    /// Begins anew.
    pub(super) fn again(self) -> Outcome<Self> {
        Written::create(self.path)
    }

    /// Names the columns; the last is that of the device where there are several.
    pub(super) fn heading(&mut self, several: bool) {
        let device = if several { ",device" } else { "" };
        self.failed = self.file.write_all(format!("arrival_ns,response_ns{device}\n").as_bytes()).err();
    }

    /// Whether nothing is there unless it is committed: what went into a pipe cannot be taken back.
    pub(super) fn can_be_undone(&self) -> bool {
        self.file.can_be_undone()
    }

    /// What follows is of the device called `name`.
    pub(super) fn device(&mut self, name: &str) {
        self.write();
        self.lines = Lines::new(&format!(",\"{}\"", name.replace('"', "\"\"")));
    }

    #[inline]
    pub(super) fn push(&mut self, arrival_ns: u64, response_ns: u64) {
        if self.lines.push(arrival_ns, response_ns) {
            self.write();
        }
    }

    #[cold]
    fn write(&mut self) {
        let made = self.lines.take();
        if self.failed.is_none() {
            self.failed = self.file.write_all(made).err();
        }
    }

    /// Gives the file its name.
    pub(super) fn commit(mut self) -> Outcome<()> {
        self.write();
        let done = self.failed.map_or_else(|| self.file.commit().map(drop), Err);
        Ok(done.map_err(|error| WriteError::new(Path::new(self.path), error))?)
    }
}
