//! Whom a task really waits for that waits for a disk request.
//!
//! A handler wakes it when the request is complete. But the request may be one that another task has yet to
//! submit: the kernel's worker that hands out flushes, for example. Then it waits for that task, and a
//! chain of waits through it may come back to a lock's holder.

use servsim_core::{Event, Interrupt, WakeId};
use std::collections::{HashMap, HashSet};

/// A disk request under way. It is asked anew when the timing begins, so that any disk may serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingIo {
    /// Its number.
    pub request: u64,
    /// The disk.
    pub device: u32,
    /// First sector.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
}

/// Which requests each wake-up follows, and which were submitted.
#[derive(Debug, Default)]
pub struct Requests {
    awaited: HashMap<WakeId, Vec<u64>>,
    pub submitted: HashSet<u64>,
}

impl Requests {
    /// None submitted yet.
    pub fn new(handlers: &[Interrupt]) -> Self {
        let mut awaited = HashMap::new();
        for handler in handlers {
            for event in &handler.batch.events {
                if let Event::Wake { wake } = event {
                    awaited.insert(*wake, handler.requests.clone());
                }
            }
        }
        Self { awaited, submitted: HashSet::new() }
    }

    /// The requests that `wake` follows and nobody has submitted.
    pub(super) fn missing(&self, wake: WakeId) -> impl Iterator<Item = u64> + '_ {
        let requests = self.awaited.get(&wake).into_iter().flatten();
        requests.copied().filter(|request| !self.submitted.contains(request))
    }
}
