//! Threads with memory of their own, as a thread package has them: the sets stay out of sight.

use crate::block::Block;
use crate::error::RsetError;
use crate::order::ThreadOrder;
use crate::policy::MemoryPolicy;
use crate::process::bind_thread;
use crate::set::ResourceSet;
use crate::topology::Topology;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Sender};
use std::sync::RwLock;
use std::thread::Builder;

/// Threads that are to work together: where they run, and where what they allocate lies.
///
/// ```
/// use servsim_rset::{MemoryPolicy, Team};
///
/// let team = Team::new(2.try_into()?).memory(MemoryPolicy::Local);
/// let sums = team.run(|member| {
///     let mut own = member.allocate(1 << 16)?;
///     own.fill(1);
///     Ok::<u64, servsim_rset::RsetError>(own.iter().map(|&byte| u64::from(byte)).sum())
/// })?;
/// assert!(sums.into_iter().all(|sum| sum.is_ok_and(|sum| sum == 1 << 16)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Team {
    threads: NonZeroUsize,
    order: ThreadOrder,
    memory: MemoryPolicy,
    within: Option<ResourceSet>,
}

/// One thread of a team, on the processor that it is bound to.
#[derive(Debug)]
pub struct Member<'a> {
    /// Its number among the threads, from zero.
    pub index: usize,
    /// How many threads there are.
    pub threads: usize,
    /// The processor it runs on.
    pub processor: u32,
    team: &'a Team,
    machine: &'a Topology,
    set: &'a ResourceSet,
}

impl Team {
    /// So many threads, node by node, their memory local, in all that this process may use.
    pub fn new(threads: NonZeroUsize) -> Self {
        Self { threads, order: ThreadOrder::Fill, memory: MemoryPolicy::Local, within: None }
    }

    /// Deals the threads to processors in another order.
    #[must_use]
    pub fn order(self, order: ThreadOrder) -> Self {
        Self { order, ..self }
    }

    /// Places what members allocate by another policy.
    #[must_use]
    pub fn memory(self, memory: MemoryPolicy) -> Self {
        Self { memory, ..self }
    }

    /// Keeps threads and memory inside a set.
    #[must_use]
    pub fn within(self, set: ResourceSet) -> Self {
        Self { within: Some(set), ..self }
    }

    /// Runs `work` once in each thread, every one bound before any begins; returns what they made, by number.
    ///
    /// # Errors
    /// As [`ThreadOrder::processors`] and [`bind_thread`]; then no thread has begun its work.
    ///
    /// # Panics
    /// With what `work` panics with.
    pub fn run<T: Send>(&self, work: impl Fn(&Member<'_>) -> T + Sync) -> Result<Vec<T>, RsetError> {
        let machine = Topology::discover()?;
        let set = match &self.within {
            Some(set) => set.clone(),
            None => machine.global()?,
        };
        machine.validate(&set)?;
        let dealt = self.order.processors(&machine, &set, self.threads.get())?;
        // Nobody passes before this thread knows that every other one runs and is bound.
        let gate = RwLock::new(false);
        let (tell, told) = mpsc::channel();
        let (gate, work, machine, set) = (&gate, &work, &machine, &set);
        let member = |index: usize, processor: u32, tell: Sender<Result<(), RsetError>>| -> Option<T> {
            let own = ResourceSet { processors: [processor].into_iter().collect(), ..ResourceSet::empty() };
            // The other end is there as long as the gate is shut.
            let _ = tell.send(bind_thread(0, &own));
            let open = *gate.read().expect("who opens the gate does not panic");
            let member = Member { index, threads: dealt.len(), processor, team: self, machine, set };
            open.then(|| work(&member))
        };
        let member = &member;
        std::thread::scope(|scope| {
            let mut open = gate.write().expect("nobody else writes");
            let mut threads = Vec::with_capacity(dealt.len());
            for (index, &processor) in dealt.iter().enumerate() {
                let tell = tell.clone();
                let begun = Builder::new().spawn_scoped(scope, move || member(index, processor, tell));
                threads.push(begun.map_err(|source| RsetError::refused("starting a thread", source))?);
            }
            told.iter().take(threads.len()).collect::<Result<(), _>>()?;
            *open = true;
            drop(open);
            Ok(threads
                .into_iter()
                .filter_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect())
        })
    }
}

impl Member<'_> {
    /// Allocates memory by the team's policy.
    ///
    /// # Errors
    /// As [`Block::allocate`].
    pub fn allocate(&self, bytes: usize) -> Result<Block, RsetError> {
        Block::allocate(self.machine, self.set, self.team.memory, bytes)
    }

    /// The node that this thread runs on.
    ///
    /// # Errors
    /// [`RsetError::Overlapping`] where processors are in several nodes.
    pub fn node(&self) -> Result<u32, RsetError> {
        Ok(self.machine.node_of(self.processor)?.id)
    }
}
