//! One thing that is done to the machine: shown before, noted, done, and looked at afterwards.

use crate::error::RsetError;
use crate::ids::Nodes;
use crate::process::migrate_process;
use crate::set::ResourceSet;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// A step, as a person reads it ([`fmt::Display`]) and as the journal keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Step {
    /// Make a group.
    Make {
        /// Its folder.
        path: PathBuf,
    },
    /// Write a file of the kernel.
    Write {
        /// The file.
        path: PathBuf,
        /// What is written.
        value: String,
        /// What it must say afterwards, where it says the same thing back.
        #[serde(default)]
        becomes: Option<String>,
    },
    /// Move what the kernel left elsewhere of the memory of a group's processes: it gives up on pages that are in use
    /// at the moment when it tries.
    Gather {
        /// The group's folder.
        path: PathBuf,
        /// A list of nodes.
        nodes: String,
    },
    /// Remove a group that holds no process any more.
    Remove {
        /// Its folder.
        path: PathBuf,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make { path } => write!(out, "make {}", path.display()),
            Self::Write { path, value, .. } => write!(out, "write {value} to {}", path.display()),
            Self::Gather { path, nodes } => {
                write!(
                    out,
                    "move memory that processes of {} have elsewhere to nodes {nodes}",
                    path.display()
                )
            }
            Self::Remove { path } => write!(out, "remove {}", path.display()),
        }
    }
}

impl Step {
    /// A write of a value that the file does not repeat.
    pub(super) fn write(path: &Path, value: impl Into<String>) -> Self {
        Self::Write { path: path.to_owned(), value: value.into(), becomes: None }
    }

    /// Does it; returns how many pages would not move.
    pub(super) fn execute(&self) -> Result<u64, RsetError> {
        let change = match self {
            Self::Gather { path, nodes } => return gather(path, &nodes.parse()?),
            Self::Make { path } => fs::create_dir(path),
            Self::Remove { path } => match fs::remove_dir(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                outcome => outcome,
            },
            Self::Write { path, value, becomes } => write(path, value, becomes.as_deref()),
        };
        change.map(|()| 0).map_err(|source| RsetError::Step { step: self.to_string(), source })
    }
}

/// Writes a value, and makes sure that the file says `becomes` then.
fn write(path: &Path, value: &str, becomes: Option<&str>) -> Result<(), Error> {
    fs::write(path, value)?;
    let Some(wished) = becomes else { return Ok(()) };
    let said = fs::read_to_string(path)?;
    if said.trim() == wished {
        Ok(())
    } else {
        // The kernel takes the value and says in the file why it does not follow it.
        Err(Error::other(format!("the kernel says {:?}", said.trim())))
    }
}

/// Moves the memory of a group's processes into these nodes, and returns how many pages would not move.
fn gather(path: &Path, nodes: &Nodes) -> Result<u64, RsetError> {
    let file = path.join("cgroup.procs");
    let listed = fs::read_to_string(&file)
        .map_err(|source| RsetError::File { path: file.display().to_string(), source })?;
    let everywhere = Topology::discover()?.with_memory();
    let set = ResourceSet { nodes: nodes.clone(), ..ResourceSet::empty() };
    let mut left = 0;
    for process in listed.lines().filter_map(|line| line.parse().ok()) {
        let mut before = u64::MAX;
        loop {
            match migrate_process(process, &everywhere, &set) {
                // Some were in use and may be free now; those that never move are as many every time.
                Ok(pages) if 0 < pages && pages < before => before = pages,
                Ok(pages) => {
                    left += pages;
                    break;
                }
                // It ended meanwhile.
                Err(RsetError::NoProcess { .. }) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(left)
}
