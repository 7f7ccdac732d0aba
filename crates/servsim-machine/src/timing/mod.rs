//! The timing engine: tasks re-scheduled over the processors, each reference in simulated time,
//! misses and coherence over a contended bus. Follows Foglia et al. 2004 section 4 (Table 4 times,
//! two-word store buffer, time slices) and Alameldeen et al. 2003 (fixed transaction count after a
//! warm-up, small random delays).
//!
//! **Processor**: with `processor.model = "fixed"` in order, every reference a fixed time; a load or fetch that misses blocks it until the data arrive; stores
//! that need the bus wait in the store buffer and are performed in order (processor consistency),
//! and the processor stalls when the buffer is full. Loads may take words from it.
//!
//! **Order of events.** The order is that of time. Of what happens at one time, timed events come first, then processors by
//! their numbers, then grants: the outcome is that of one record at a time, to the byte. Plain hits concern nobody else, so a
//! processor goes on alone as far as the others are known to hit (`foresight.rs`), up to the next event or grant. With a
//! core it runs ahead of the others up to the next time at which a grant could change what it sees: the bus is busy until
//! then, or nobody can ask earlier.
//!
//! With `inorder` or `ooo` instructions enter a core at its width and complete when their operands and
//! loads let them, beside execution (`cores.rs`, crate `servsim-cpu`).
//!
//! Beside the caches there may be address translation (`walking.rs`), prefetchers (`prefetching.rs`) and
//! write buffers (`servsim-mem`, `interconnect/`).
//!
//! Left out: wake-up preemption, DMA traffic.

mod accounts;
mod base;
mod begin;
mod cores;
mod disks;
mod dispatching;
mod elsewhere;
mod engine;
mod events;
mod foresight;
mod history;
mod io;
mod locking;
mod measure;
mod memory;
mod memory_counts;
mod outcome;
mod pending;
mod port;
mod prefetch_unit;
mod prefetching;
mod processor;
mod recorder;
mod sampled;
mod stepping;
mod stop;
pub mod subsystem;
mod taken;
mod translator;
mod turns;
pub mod user_states;
mod walking;
mod whereabouts;

use crate::error::SimulateError;
use crate::result::Replication;
use crate::setup::{with_word_mask, Setup};
use crate::storage::Plan;
use crate::warm::{Shape, WarmStart, Work};
use engine::Engine;
pub use sampled::Measured;
use servsim_config::{Arbitration, CoreModel, Machine, Memory, Migration, Nodes};
use servsim_core::{NodeId, TaskSource};
use servsim_cpu::Parameters;
use servsim_mem::interconnect::{interconnect_by_name, page_policy_by_name, MonitorSpec, PagePlan};
use servsim_mem::{
    Adaptive, BusTimes, CoherenceSpec, HierarchySpec, InterconnectSpec, LatencyTable, MessageSpec,
    MigrationSpec, NodeMemory, NodeSpec, PathSpec, WordMask,
};
use servsim_os::{Bindings, Policy};
use servsim_units::Cycles;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;
use translator::TranslationTimes;

/// Everything a run needs to know of machine and method.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) setup: Setup,
    pub(crate) cycles_per_reference: Cycles,
    pub(crate) store_buffer: usize,
    pub(crate) outstanding_misses: usize,
    pub(crate) all_asynchronous: bool,
    pub(crate) policy: Policy,
    pub(crate) bindings: Bindings,
    /// Rules for pages of nodes.
    pub(crate) plan: Option<Arc<PagePlan>>,
    /// What of the traffic between nodes is counted.
    pub(crate) monitor: Option<MonitorSpec>,
    pub(crate) time_slice: u64,
    pub(crate) disk_read: Cycles,
    pub(crate) disk_write: Cycles,
    pub(crate) disk_parallel: usize,
    pub(crate) shared_flushes: bool,
    pub(crate) hertz: u64,
    pub(crate) transactions: Option<u64>,
    pub(crate) warmup: u64,
    /// References to measure instead of transactions; `warmup` counts these then.
    pub(crate) references: Option<u64>,
    pub(crate) core: Option<Parameters>,
    pub(crate) branch_penalty: Cycles,
    pub(crate) locks: Arbitration,
    pub(crate) spin_interval: Cycles,
    /// Whether the turns of processors that spin in the kernel are skipped: their loads all hit where nobody writes.
    pub(crate) skips_spins: bool,
    /// Clients elsewhere: cycles of a reference of theirs, and of a wake-up's way.
    pub(crate) clients: Option<(Cycles, Cycles)>,
    pub(crate) interconnect: InterconnectSpec,
    pub(crate) hierarchy: HierarchySpec,
    /// Further time of a hit in each private level outside the first.
    pub(crate) outer_hit_latency: Vec<Cycles>,
    /// Single disks and I/O buses; without them the pool of disks serves.
    pub(crate) storage: Option<Plan>,
    /// Times of a second-level hit and of a walk's reference that hits, where addresses are translated.
    pub(crate) translation: Option<TranslationTimes>,
}

impl Model {
    /// From a description; `transactions` after `warmup` transactions are measured.
    ///
    /// # Panics
    /// For an interconnect that is described but not built: an internal fault.
    pub fn new(machine: &Machine, setup: &Setup, transactions: Option<u64>, warmup: u64) -> Self {
        Self {
            setup: setup.clone(),
            cycles_per_reference: machine.cycles_per_reference,
            store_buffer: machine.store_buffer,
            outstanding_misses: machine.outstanding_misses,
            all_asynchronous: machine.protocol.all_asynchronous,
            policy: if machine.affinity { Policy::Affinity } else { Policy::Random },
            bindings: Bindings::default(),
            plan: None,
            monitor: None,
            time_slice: machine.time_slice,
            disk_read: machine.disk_read.to_cycles(machine.clock),
            disk_write: machine.disk_write.to_cycles(machine.clock),
            disk_parallel: machine.disk_parallel,
            shared_flushes: machine.shared_flushes,
            hertz: machine.clock.0,
            transactions,
            warmup,
            references: None,
            core: core_of(machine),
            branch_penalty: machine.core.branch_penalty,
            locks: machine.locks.arbitrated,
            spin_interval: machine.locks.spin_interval,
            skips_spins: false,
            clients: machine
                .clients
                .map(|clients| (clients.cycles_per_reference, clients.latency.to_cycles(machine.clock))),
            interconnect: interconnect_of(machine, setup),
            hierarchy: HierarchySpec::default(),
            outer_hit_latency: latencies_of(machine, false),
            storage: None,
            translation: machine
                .tlb
                .map(|tlb| TranslationTimes { second: tlb.second_latency, step: tlb.walk_step }),
        }
    }

    /// The same with levels around the first.
    #[must_use]
    pub fn with_hierarchy(mut self, hierarchy: HierarchySpec) -> Self {
        self.hierarchy = hierarchy;
        self
    }

    /// The same with single disks and I/O buses.
    #[must_use]
    pub fn with_storage(mut self, storage: Option<Plan>) -> Self {
        self.storage = storage;
        self
    }

    /// The same with pages and tasks in their places.
    #[must_use]
    pub fn with_placement(mut self, bindings: Bindings, plan: Option<PagePlan>) -> Self {
        (self.bindings, self.plan) = (bindings, plan.map(Arc::new));
        self
    }

    /// The same with a monitor of the traffic between nodes.
    #[must_use]
    pub fn with_monitor(self, monitor: Option<MonitorSpec>) -> Self {
        Self { monitor, ..self }
    }

    /// The same for a coarse run, whose references last `cycles`, and those of the trace `cycles_per_reference`.
    #[must_use]
    pub fn coarse(&self, cycles: u64, cycles_per_reference: f64) -> Self {
        // Saturates where slices have no end.
        let time_slice = (self.time_slice as f64 * cycles_per_reference / cycles as f64).max(1.0) as u64;
        let skips_spins = true;
        Self { core: None, cycles_per_reference: Cycles(cycles), time_slice, skips_spins, ..self.clone() }
    }

    /// What warming caches for this model needs to know of it.
    pub fn shape(&self) -> Shape {
        Shape {
            setup: self.setup.clone(),
            hierarchy: self.hierarchy.clone(),
            policy: self.policy,
            bindings: self.bindings.clone(),
            time_slice: self.time_slice,
        }
    }

    /// Nanoseconds of the simulated clock in cycles.
    pub(crate) fn nanos_to_cycles(&self, nanos: u64) -> Cycles {
        servsim_units::Picos(nanos.saturating_mul(1000)).to_cycles(servsim_units::Hertz(self.hertz))
    }
}

/// Latencies of the levels outside the first that are shared, or of those that are not.
fn latencies_of(machine: &Machine, shared: bool) -> Vec<Cycles> {
    machine.levels.iter().filter(|level| level.is_shared() == shared).map(|level| level.latency).collect()
}

fn interconnect_of(machine: &Machine, setup: &Setup) -> InterconnectSpec {
    let (bus, described) = (&machine.bus, &machine.interconnect);
    let transfer = Cycles(setup.geometry.line.div_ceil(bus.bytes_per_cycle));
    let times = BusTimes {
        invalidate: bus.invalidate,
        write: bus.write,
        memory_read: bus.memory_read,
        cache_read: bus.cache_read,
        write_back: bus.write_back,
        transfer,
        memory_hold: bus.memory_hold,
    };
    InterconnectSpec {
        latency: LatencyTable {
            bus: times,
            shared: latencies_of(machine, true),
            intervention: bus.intervention,
            crossing: machine.groups.map_or(Cycles(0), |groups| groups.crossing),
        },
        paths: PathSpec {
            kind: interconnect_by_name(&described.kind).expect("descriptions are checked"),
            order: described.order,
            hop: described.hop,
            transfer,
            banks: described.banks,
            bank_time: described.bank_time,
        },
        nodes: machine.nodes.as_ref().map(|nodes| nodes_of(nodes, setup)),
        messages: machine.nodes.as_ref().filter(|nodes| nodes.by_messages()).map(messages_of),
        fifo: bus.fifo,
        most_fetches: machine.outstanding_misses,
        write_buffer: machine.write_buffer,
        delay: machine.memory_delay,
    }
}

fn messages_of(nodes: &Nodes) -> MessageSpec {
    let coherence = &nodes.coherence;
    MessageSpec {
        requests: coherence.request_buffers,
        forwards: coherence.forward_buffers,
        oldest: coherence.deadlock_threshold,
        ..MessageSpec::default()
    }
}

fn nodes_of(nodes: &Nodes, setup: &Setup) -> NodeSpec {
    let line = setup.geometry.line;
    let memory = |memory: &Option<Memory>| match memory {
        None => NodeMemory { pages: 0, latency: Cycles(0), line_time: Cycles(0) },
        Some(Memory { size, latency, bytes_per_cycle }) => NodeMemory {
            pages: size.map_or(u64::MAX, |size| size.0 / PAGE_BYTES),
            latency: *latency,
            line_time: Cycles(bytes_per_cycle.map_or(0, |bytes| line.div_ceil(bytes))),
        },
    };
    let time = |bytes: u64| Cycles((bytes * 1000).div_ceil(nodes.link_rate));
    let coherence = &nodes.coherence;
    NodeSpec {
        of_processor: nodes.of_processor.iter().map(|&node| NodeId(node)).collect(),
        distances: nodes.distances.clone(),
        links: nodes.links,
        routes: nodes.routes.clone(),
        request_time: time(nodes.request.0),
        data_time: time(line + nodes.header.0),
        memories: nodes.memories.iter().map(memory).collect(),
        policy: page_policy_by_name(&nodes.placement.policy).expect("descriptions are checked"),
        stride: nodes.placement.stride,
        page_shift: (PAGE_BYTES / line).trailing_zeros(),
        coherence: CoherenceSpec {
            policy: coherence.policy.clone(),
            directory: coherence.directory,
            adaptive: Adaptive {
                interval: coherence.interval,
                threshold: coherence.threshold,
                dead_band: coherence.dead_band,
                width: coherence.counter_bits,
            },
        },
        migration: nodes.migration.as_ref().map(migration_of),
    }
}

fn migration_of(migration: &Migration) -> MigrationSpec {
    let Migration { policy, interval, work, shootdown, pages, sample_period, hot_threshold, drained } =
        migration.clone();
    let drained = drained.map(NodeId);
    MigrationSpec { policy, interval, work, shootdown, pages, sample_period, hot_threshold, drained }
}

/// Bytes of the pages that nodes have.
const PAGE_BYTES: u64 = 4096;

fn core_of(machine: &Machine) -> Option<Parameters> {
    let core = &machine.core;
    let parameters = |in_order| Parameters {
        width: core.width,
        window: core.window as usize,
        misses: machine.outstanding_misses,
        in_order,
        latencies: std::array::from_fn(
            |class| if class == 0 { Cycles(0) } else { core.latencies[class - 1] },
        ),
        agen: core.agen,
        load: core.load_to_use,
    };
    match core.model {
        CoreModel::Fixed => None,
        CoreModel::InOrder => Some(parameters(true)),
        CoreModel::OutOfOrder => Some(parameters(false)),
    }
}

/// Runs one replication from the beginning of the trace. `done` grows by the references simulated;
/// setting `stop` ends the run.
///
/// # Errors
/// When the trace is damaged, the run was stopped, or the tasks dead-lock (an internal fault).
pub fn run(
    source: &dyn TaskSource,
    model: &Model,
    seed: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<Replication, SimulateError> {
    run_from(source, model, None, seed, stop, done)
}

/// The same from where a warm-up ended, if one is given.
///
/// # Errors
/// As [`run`]; also when the warm start belongs to another source or machine.
pub fn run_from(
    source: &dyn TaskSource,
    model: &Model,
    start: Option<&WarmStart>,
    seed: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<Replication, SimulateError> {
    with_word_mask!(model.setup.geometry.line, run_with(source, model, start, seed, stop, done))
}

fn run_with<W: WordMask>(
    source: &dyn TaskSource,
    model: &Model,
    start: Option<&WarmStart>,
    seed: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<Replication, SimulateError> {
    Engine::<W>::new(source, model, seed)?.run(start, stop, done)
}

/// Times one window from a live-point on; `done` grows by its references when it ends.
///
/// # Errors
/// As [`run_from`].
pub fn run_window(
    source: &dyn TaskSource,
    model: &Model,
    (start, work): (&WarmStart, Work),
    seed: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<Measured, SimulateError> {
    with_word_mask!(model.setup.geometry.line, window_with(source, model, (start, work), seed, stop, done))
}

fn window_with<W: WordMask>(
    source: &dyn TaskSource,
    model: &Model,
    (start, work): (&WarmStart, Work),
    seed: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<Measured, SimulateError> {
    Engine::<W>::new(source, model, seed)?.run_window(start, work, stop, done)
}
