//! What the host knows about the guest before the capture starts: addresses of kernel functions
//! and variables, offsets of kernel structure members, addresses of program functions. Read from
//! one JSON file that the capture command writes.

use serde::Deserialize;
use servsim_trace::Meta;
use std::collections::HashMap;
use std::path::PathBuf;

/// Contents of the facts file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Final name of the trace.
    pub output: PathBuf,
    /// Where the summary of the capture is written, as JSON.
    pub summary: PathBuf,
    /// Description of the trace; the per-CPU area is filled in by the plug-in.
    pub meta: Meta,
    /// Kernel symbols: virtual addresses (offsets for per-CPU variables).
    pub symbols: HashMap<String, u64>,
    /// Byte offsets of structure members, as `"task_struct.pid"`.
    pub offsets: HashMap<String, u64>,
    /// Bytes of those kernel functions whose returns tell an outcome.
    pub sizes: HashMap<String, u64>,
    /// Functions of user programs whose calls are lock operations, by program (Linux `comm`). Programs
    /// whose addresses are not randomised share them, hence the program tells which function it is.
    pub programs: HashMap<String, Vec<LockFunction>>,
}

/// A function of a user program that has to do with a lock.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFunction {
    /// Where it begins.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// What it does with the lock that its first argument points to; the second is 0 where the lock is
    /// asked for alone, otherwise it is shared.
    pub does: Does,
}

/// What a function does with a lock.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Takes it, waiting if need be.
    Acquire,
    /// Gives it up.
    Release,
    /// Takes it if it is free, and returns whether it did.
    Try,
    /// Takes it if it is free, otherwise waits and does not take it; returns whether it did.
    TryOrWait,
}

impl Facts {
    /// Reads the file.
    pub fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
    }

    /// The address of a kernel symbol.
    pub fn symbol(&self, name: &str) -> Result<u64, String> {
        self.symbols.get(name).copied().ok_or_else(|| format!("the guest's kernel has no symbol {name}"))
    }

    /// The offset of a structure member.
    pub fn offset(&self, name: &str) -> Result<u64, String> {
        self.offsets.get(name).copied().ok_or_else(|| format!("the guest's kernel has no member {name}"))
    }
}
