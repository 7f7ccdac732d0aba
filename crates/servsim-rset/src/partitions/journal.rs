//! The journal: what was done to the machine, one line of JSON each, noted before it is done.
//!
//! It is an audit log that only grows. Undoing closes what stands in it; what was done before a closing line needs no
//! undoing.

use super::step::Step;
use crate::error::RsetError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where steps are noted.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Line {
    /// Seconds since 1970.
    time_s: f64,
    process: u32,
    #[serde(flatten)]
    event: Event,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Event {
    Step(Step),
    Failed { failed: bool },
    Undone { undone: bool },
}

impl Journal {
    /// Where the machine's journal is: gone with the partitions when the machine starts again.
    pub const PLACE: &'static str = "/run/servsim/partitions.jsonl";

    /// A journal in this file, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn wrong(&self, source: std::io::Error) -> RsetError {
        RsetError::File { path: self.path.display().to_string(), source }
    }

    fn open(&self) -> Result<File, RsetError> {
        let open = || {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new("/")))?;
            OpenOptions::new().create(true).append(true).read(true).open(&self.path)
        };
        open().map_err(|source| self.wrong(source))
    }

    /// Keeps others who change partitions waiting until the file returned is dropped.
    pub(super) fn lock(&self) -> Result<File, RsetError> {
        let file = self.open()?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } < 0 {
            return Err(self.wrong(std::io::Error::last_os_error()));
        }
        Ok(file)
    }

    pub(super) fn note(&self, step: &Step) -> Result<(), RsetError> {
        self.append(Event::Step(step.clone()))
    }

    /// Says that the step noted last was not done.
    pub(super) fn failed(&self) -> Result<(), RsetError> {
        self.append(Event::Failed { failed: true })
    }

    /// Says that nothing stands any more.
    pub(super) fn close(&self) -> Result<(), RsetError> {
        self.append(Event::Undone { undone: true })
    }

    fn append(&self, event: Event) -> Result<(), RsetError> {
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let line = Line { time_s, process: std::process::id(), event };
        let mut text = serde_json::to_string(&line).expect("it is text and numbers");
        text.push('\n');
        let mut file = self.open()?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(|source| self.wrong(source))
    }

    /// The steps since the last undoing, in their order. A line that a crash cut short was not done.
    pub(super) fn standing(&self) -> Result<Vec<Step>, RsetError> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|source| self.wrong(source))?,
        };
        let mut steps = Vec::new();
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(Line { event: Event::Step(step), .. }) => steps.push(step),
                Ok(Line { event: Event::Failed { .. }, .. }) => drop(steps.pop()),
                Ok(Line { event: Event::Undone { .. }, .. }) => steps.clear(),
                Err(_) => {}
            }
        }
        Ok(steps)
    }
}
