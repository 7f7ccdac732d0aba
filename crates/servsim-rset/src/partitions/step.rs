//! One thing that is done to the machine: shown before, noted, done, and looked at afterwards.

use crate::error::RsetError;
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
            Self::Remove { path } => write!(out, "remove {}", path.display()),
        }
    }
}

impl Step {
    /// A write of a value that the file does not repeat.
    pub(super) fn write(path: &Path, value: impl Into<String>) -> Self {
        Self::Write { path: path.to_owned(), value: value.into(), becomes: None }
    }

    pub(super) fn execute(&self) -> Result<(), RsetError> {
        let refused = |source: Error| RsetError::Step { step: self.to_string(), source };
        match self {
            Self::Make { path } => fs::create_dir(path).map_err(refused),
            Self::Remove { path } => match fs::remove_dir(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(refused(error)),
                _ => Ok(()),
            },
            Self::Write { path, value, becomes } => {
                fs::write(path, value).map_err(refused)?;
                let Some(wished) = becomes else { return Ok(()) };
                let said = fs::read_to_string(path).map_err(refused)?;
                if said.trim() == wished {
                    Ok(())
                } else {
                    // The kernel takes the value and says in the file why it does not follow it.
                    Err(refused(Error::other(format!("the kernel says {:?}", said.trim()))))
                }
            }
        }
    }
}
