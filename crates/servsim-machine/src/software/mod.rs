//! The software of a run: the streams of its tasks, who is ready and who ran where, wake-ups, locks,
//! interrupt handlers and the disk requests they wait for. It knows neither caches nor time; the timing
//! engine and functional warming both execute it, as an [`Executor`] each.

mod ahead;
mod deadlock;
mod effect;
mod executor;
mod handlers;
mod requests;
mod streams;

pub use ahead::read_ahead;
pub use effect::Effect;
pub use executor::Executor;
pub use handlers::Handlers;
pub use requests::{PendingIo, Requests};
pub use streams::{runs, Bookmark, Stream};

use crate::error::SimulateError;
use servsim_config::Arbitration;
use servsim_core::{CpuId, Instruction, Interrupt, LockClass, Privacy, TaskId, TaskSource, WakeId};
use servsim_os::{Bindings, Locks, Policy, Scheduler, Wakeups};
use std::collections::BTreeSet;

/// What the tasks of a trace have done so far, and what they wait for.
pub struct Software<'a> {
    /// The trace.
    pub source: &'a dyn TaskSource,
    /// Its interrupt handlers.
    pub interrupts: &'a [Interrupt],
    /// Its private pages.
    pub privacy: &'a Privacy,
    /// Its instructions, where cores want to know them.
    pub instructions: &'a [Instruction],
    /// The address space of each task.
    pub spaces: Vec<Option<u32>>,
    /// Where each task is in its stream.
    pub streams: Vec<Stream<'a>>,
    /// Who is ready, and who ran where.
    pub scheduler: Scheduler,
    /// Who waits to be woken.
    pub wakeups: Wakeups,
    /// Who holds which lock, and who waits for it.
    pub locks: Locks,
    /// Which locks are taken again; the waits for the others are those of the capture.
    pub arbitration: Arbitration,
    /// Handlers that wait for disk requests, and for processors.
    pub handlers: Handlers,
    /// Which requests each wake-up follows.
    pub requests: Requests,
    /// Room for the idle processors among which one is chosen.
    idle: Vec<CpuId>,
}

impl<'a> Software<'a> {
    /// Every task at the beginning of its stream, none of them ready; `seed` is that of random placement.
    ///
    /// # Errors
    /// When the trace is damaged or cannot be read.
    pub fn new(
        source: &'a dyn TaskSource,
        processors: usize,
        (policy, bindings): (Policy, &Bindings),
        arbitration: Arbitration,
        seed: u64,
    ) -> Result<Self, SimulateError> {
        let tasks = source.tasks().len();
        Ok(Self {
            source,
            interrupts: source.interrupts(),
            privacy: source.privacy(),
            instructions: source.code(),
            spaces: source.spaces(),
            streams: streams::open_all(source)?,
            scheduler: Scheduler::new(policy, tasks, processors, seed).with_bindings(bindings.clone()),
            wakeups: Wakeups::default(),
            locks: Locks::new(tasks + processors),
            arbitration,
            handlers: Handlers::new(source.interrupts(), processors),
            requests: Requests::new(source.interrupts()),
            idle: Vec::new(),
        })
    }

    /// Whether locks of `class` are taken again.
    pub fn arbitrates(&self, class: LockClass) -> bool {
        match self.arbitration {
            Arbitration::Off => false,
            Arbitration::Spinlocks => class.spins(),
            Arbitration::All => true,
        }
    }

    /// The task that has to do something before `wake` comes; `None` when only a device has.
    pub fn waker(&self, wake: WakeId) -> Option<TaskId> {
        let submitter = || self.requests.missing(wake).find_map(|request| self.source.submitter(request));
        self.source.waker(wake).or_else(submitter)
    }

    /// Requests that were submitted and that handlers with others to come wait for, in order.
    pub fn submitted(&self) -> Vec<u64> {
        let waits = self.interrupts.iter().zip(self.handlers.left()).filter(|(_, left)| left.is_some());
        let awaited = waits.flat_map(|(interrupt, _)| &interrupt.requests);
        let submitted: BTreeSet<u64> =
            awaited.copied().filter(|request| self.requests.submitted.contains(request)).collect();
        submitted.into_iter().collect()
    }

    /// Nothing can run any more: that is the end, unless a task still waits to be woken.
    ///
    /// # Errors
    /// When one does.
    fn check_over(&self, now: u64) -> Result<(), SimulateError> {
        if self.wakeups.waiting().is_empty() {
            return Ok(());
        }
        Err(deadlock::error(now, self))
    }
}
