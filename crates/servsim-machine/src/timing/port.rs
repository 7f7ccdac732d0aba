//! The memory system as processors and the loop of the engine see it: caches, what joins them with memory, and
//! what a hit outside the first level costs. A processor looks a line up, posts what misses, and is told at the
//! grant when its data arrive. Nobody else in the engine knows who orders transactions or carries data, so that
//! another interconnect, a directory for one, stands behind the same operations.
//!
//! Left out: what waiting does to a processor (`memory.rs`, `cores.rs`), and which prefetches are wished for
//! (`prefetch_unit.rs`).

mod completion;
mod grants;

use super::processor::Processor;
use super::taken::Taken;
use super::Model;
pub use completion::Completion;
use servsim_core::{CpuId, Cycles, LineAddr, NodeId, Op, Record, TaskId};
use servsim_mem::protocol::BusOp;
use servsim_mem::snapshot::{Damaged, Reader};
use servsim_mem::{
    Access, BusRequest, Class, Few, Follower, Grant, Hierarchy, HierarchySpec, Interconnect, Origin,
    RunCounts, WordMask,
};
use std::ops::Range;

/// As many references as it does not pay to begin a long run for.
const FEW: u64 = 24;

/// Caches, interconnect and memory of a run.
pub struct MemoryPort<W> {
    pub(super) caches: Hierarchy<W>,
    pub(super) interconnect: Interconnect,
    /// Further time of a hit in each private level outside the first.
    outer_hit_latency: Vec<Cycles>,
    /// Prefetches of a processor that may wait for their grant.
    pub(super) most_prefetches: usize,
    /// The coherent caches in the node of each processor, where nodes keep coherent by messages.
    node_caches: Option<Vec<Range<usize>>>,
    /// Whether stores that hit outside the first level take its time: those of a core, which does not wait.
    stores_take_time: bool,
    /// See [`MemoryPort::take_posted`].
    posted: bool,
    shift: u32,
    /// What its transactions took.
    pub(super) taken: Taken,
}

impl<W: WordMask> MemoryPort<W> {
    /// Empty caches around an idle interconnect; `spec` has the seed of the run.
    pub fn new(model: &Model, spec: &HierarchySpec) -> Self {
        let (setup, n) = (&model.setup, model.setup.processors);
        let mut caches = Hierarchy::new(n, setup.geometry, setup.protocol.clone(), setup.shadow, spec);
        caches.system.times_write_backs = true;
        let mut interconnect = Interconnect::new(n, &model.interconnect, spec.seed);
        if let Some(plan) = &model.plan {
            interconnect.follow(plan);
        }
        if let Some(monitor) = &model.monitor {
            interconnect.watch(monitor);
        }
        Self {
            caches,
            interconnect,
            outer_hit_latency: model.outer_hit_latency.clone(),
            most_prefetches: model.outstanding_misses,
            node_caches: node_caches(model, spec.coherent_caches()),
            stores_take_time: model.core.is_some(),
            posted: false,
            shift: setup.geometry.line.trailing_zeros(),
            taken: Taken::default(),
        }
    }

    /// Takes over what caches held.
    pub fn restore(&mut self, caches: &[u8]) -> Result<(), Damaged> {
        let mut caches = Reader::new(caches);
        self.caches.restore(&mut caches)?;
        if self.node_caches.is_some() {
            self.caches.share_clean_copies();
        }
        let interconnect = &mut self.interconnect;
        self.caches.for_each_copy(|cpu, line, dirty| interconnect.found(line, cpu, dirty));
        caches.end()
    }

    /// log2 of the line size.
    #[inline]
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Performs an access that needs no transaction; how far out its line was, 0 for the first level.
    #[inline]
    pub fn try_hit(&mut self, access: &Access<W>, now: u64) -> Option<usize> {
        let depth = self.caches.try_hit(access);
        if depth.is_some_and(|depth| depth != 0) {
            self.posted |= !self.caches.system.written_back.is_empty();
            self.post_write_backs(|_| now);
        }
        depth
    }

    /// Whether a hit has asked for a write-back since this was asked last.
    #[inline]
    pub fn take_posted(&mut self) -> bool {
        std::mem::take(&mut self.posted)
    }

    /// Performs records of a task's stream from the first on as long as they are plain hits of the first level and less
    /// than `most` references come before. Adds the references that they stand for to `counts`; returns how many records
    /// it performed, and for how many references these stand. Look-ups are to be counted by [`MemoryPort::count_lookups`]; what
    /// the records leave behind besides is what [`MemoryPort::try_hit`] leaves.
    #[inline]
    pub fn run_hits(
        &mut self,
        cpu: CpuId,
        records: &[Record],
        most: u64,
        counts: &mut RunCounts,
    ) -> (usize, u64) {
        let few = if most <= FEW {
            self.caches.run_few_hits::<true>(cpu, self.shift, (records, most), counts)
        } else {
            Few { crosses: true, ..Few::default() }
        };
        let Few { performed, made, crosses } = few;
        // A run is of one task.
        match records.get(performed) {
            Some(next) if crosses && next.task == records[0].task => {
                let before = references(counts);
                let more =
                    self.caches.run_joined_hits(cpu, self.shift, &records[performed..], most - made, counts);
                (performed + more, made + references(counts) - before)
            }
            _ => (performed, made),
        }
    }

    /// The same with somebody who goes along.
    #[inline]
    pub fn run_followed_hits(
        &mut self,
        cpu: CpuId,
        records: (&[Record], u64),
        follower: &mut impl Follower<W>,
        counts: &mut RunCounts,
    ) -> usize {
        self.caches.run_followed_hits(cpu, self.shift, records, follower, counts)
    }

    /// Counts so many look-ups of code and of data. A record is one look-up, however many fetches it stands for.
    #[inline]
    pub fn count_lookups(&mut self, cpu: CpuId, code: u64, data: u64) {
        self.caches.count_lookups(cpu, Op::Fetch as usize, code);
        self.caches.count_lookups(cpu, Op::Load as usize, data);
    }

    /// Asks for the write-back of lines that left by themselves.
    fn post_write_backs(&mut self, ready: impl Fn(CpuId) -> u64) {
        for &(cpu, line) in &self.caches.system.written_back {
            let (ready, class) = (ready(cpu), Class::WriteBack);
            self.interconnect.post(BusRequest { cpu, ready, line, class, origin: Origin::Processor });
        }
        self.caches.system.written_back.clear();
    }

    /// How long a hit at `depth` takes beyond one in the first level.
    #[inline]
    pub fn beyond_first(&self, depth: usize) -> Cycles {
        if depth == 0 {
            Cycles(0)
        } else {
            self.outer_hit_latency[depth - 1]
        }
    }

    /// The transaction that an access would need now; `None` when it would hit.
    pub fn needed(&self, access: &Access<W>) -> Option<BusOp> {
        self.caches.needed(access)
    }

    /// When the next request is granted; `u64::MAX` without one.
    #[inline]
    pub fn next_grant(&self) -> u64 {
        self.interconnect.next_grant()
    }

    /// No request posted from now on is granted before.
    #[inline]
    pub fn earliest_grant(&self) -> u64 {
        self.interconnect.earliest_grant(None)
    }

    /// Asks for the transaction that `access` needs.
    pub fn post(&mut self, cpu: CpuId, origin: Origin, access: &Access<W>, ready: u64) {
        self.caches.foresee(access);
        let fetches = self.caches.needed(access).is_some_and(BusOp::is_fetch);
        let class = if fetches { Class::Fetch } else { Class::Coherence };
        self.interconnect.post(BusRequest { cpu, ready, line: access.line, class, origin });
    }

    /// `task` begins a quantum at `cpu`: lines that must not outlive the one before are written back.
    pub fn run_task(&mut self, cpu: CpuId, task: TaskId, ready: impl Fn(CpuId) -> u64) {
        self.caches.system.run_task(cpu, task);
        self.post_write_backs(ready);
    }

    /// Performs the oldest stores of `processor` that need no transaction, and posts the first that does. A
    /// store that takes time stays first until then: returned.
    pub fn perform_stores(&mut self, cpu: CpuId, processor: &mut Processor<W>, now: u64) -> Option<u64> {
        while let Some(pending) = processor.stores.front() {
            match self.try_hit(&pending.access, now) {
                None => {
                    self.post(cpu, Origin::StoreBuffer, &pending.access, now);
                    return None;
                }
                Some(depth) if depth != 0 && self.stores_take_time => {
                    return Some(now + self.beyond_first(depth));
                }
                Some(_) => {}
            }
            processor.stores.pop_front();
        }
        None
    }

    /// The next request that is granted, for [`MemoryPort::grant`]; `None` when nobody waits for it.
    pub fn next_request(&mut self) -> Option<Grant> {
        self.interconnect.grant()
    }

    /// What accesses led prefetchers to so far does not count for the next.
    #[inline]
    pub fn forget_trigger(&mut self) {
        self.caches.system.trigger = None;
    }

    /// The line whose miss or first use a prefetcher is to be told of.
    #[inline]
    pub fn take_trigger(&mut self) -> Option<LineAddr> {
        self.caches.system.trigger.take().map(|(_, line)| line)
    }
}

/// All references that a run counted.
#[inline]
pub fn references(counts: &RunCounts) -> u64 {
    counts.as_flattened().iter().sum()
}

/// Data references among those that a run counted.
pub fn data_references(counts: &RunCounts) -> u64 {
    counts.iter().map(|of| of[Op::Load as usize] + of[Op::Store as usize]).sum()
}

/// The coherent caches in the node of each processor, of which each has so many, where nodes keep coherent by messages.
fn node_caches(model: &Model, each: usize) -> Option<Vec<Range<usize>>> {
    let nodes = model.interconnect.nodes.as_ref().filter(|_| model.interconnect.messages.is_some())?;
    let caches = |node: &NodeId| {
        let is_there = |other: &NodeId| other == node;
        let first = nodes.of_processor.iter().position(is_there).unwrap_or(0);
        let count = nodes.of_processor.iter().filter(|other| is_there(other)).count();
        first * each..(first + count) * each
    };
    Some(nodes.of_processor.iter().map(caches).collect())
}
