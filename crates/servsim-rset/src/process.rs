//! Threads and processes that exist: bound to a set's processors, and their memory moved to a set's nodes.

use crate::error::RsetError;
use crate::ids::{Nodes, Processors};
use crate::set::ResourceSet;
use crate::system;
use std::collections::BTreeSet;

/// What became of a process's threads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// Threads that are bound now.
    pub threads: usize,
}

/// Binds one thread (0: the calling one) to the processors of a set.
///
/// # Errors
/// [`RsetError::NoProcessor`], [`RsetError::NoProcess`], and [`RsetError::Refused`] with the kernel's reason.
pub fn bind_thread(thread: i32, set: &ResourceSet) -> Result<(), RsetError> {
    if set.processors.is_empty() {
        return Err(RsetError::NoProcessor);
    }
    system::set_affinity(thread, &set.processors)
}

/// Binds every thread of a process, those included that begin meanwhile.
///
/// # Errors
/// As [`bind_thread`].
pub fn bind_process(process: i32, set: &ResourceSet) -> Result<Bound, RsetError> {
    let mut bound = BTreeSet::new();
    // A thread inherits from the one that made it: when a look finds no thread that was not seen before, all are bound.
    loop {
        let fresh: Vec<i32> =
            threads(process)?.into_iter().filter(|thread| !bound.contains(thread)).collect();
        if fresh.is_empty() {
            return Ok(Bound { threads: bound.len() });
        }
        for thread in fresh {
            match bind_thread(thread, set) {
                // It ended before its turn.
                Err(RsetError::NoProcess { .. }) if thread != process => {}
                outcome => outcome?,
            }
            bound.insert(thread);
        }
    }
}

/// Moves the memory of a process that lies outside a set's nodes into them; returns the pages that would not move.
///
/// # Errors
/// [`RsetError::NoMemory`] for a set without nodes, [`RsetError::NoProcess`], and [`RsetError::Refused`].
pub fn migrate_process(process: i32, from: &Nodes, set: &ResourceSet) -> Result<u64, RsetError> {
    if set.nodes.is_empty() {
        return Err(RsetError::NoMemory { with_memory: from.clone() });
    }
    let outside = from.difference(&set.nodes);
    if outside.is_empty() {
        return Ok(0);
    }
    system::migrate(process, &outside, &set.nodes)
}

/// The threads of a process, by number.
fn threads(process: i32) -> Result<Vec<i32>, RsetError> {
    let path = format!("/proc/{process}/task");
    let folder = std::fs::read_dir(&path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => RsetError::NoProcess { id: process },
        _ => RsetError::File { path: path.clone(), source },
    })?;
    Ok(folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Gives this thread, and what it starts, the processors and the memory of a set.
///
/// # Errors
/// As [`bind_thread`]; [`RsetError::Refused`].
pub fn enter(set: &ResourceSet) -> Result<(), RsetError> {
    bind_thread(0, set)?;
    if set.nodes.is_empty() {
        return Ok(());
    }
    system::set_memory_policy(&set.nodes)
}

/// The processors that a thread may run on now.
///
/// # Errors
/// [`RsetError::NoProcess`], [`RsetError::Refused`].
pub fn processors_of(thread: i32) -> Result<Processors, RsetError> {
    system::affinity(thread)
}
