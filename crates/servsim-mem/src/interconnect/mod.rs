//! What joins processors, shared levels and memory, behind one contract (`contract.rs`) that engines drive and kinds fulfil
//! (over 400 lines: who fulfils each of its operations):
//!
//! 1. [`Interconnect::post`]: somebody asks for a transaction on a line.
//! 2. [`Interconnect::next_grant`]: when the next request is granted, if none is posted before.
//! 3. [`Interconnect::grant`]: it is granted. The grant is the point of serialisation: the engine now performs
//!    the transaction by the state that it finds.
//!    Where requests go to some nodes only, [`Interconnect::send`] comes first and may find that not all whom one
//!    concerns will see it; then nothing is performed, and it is granted once more.
//! 4. [`Interconnect::carry`]: what was performed ([`Transaction`]: who supplies, which victim is written back)
//!    occupies the ways of data and the homes of the line and of the victim; says when it is complete.
//! 5. [`Interconnect::end_grant`]: the next request is chosen.
//! 6. [`Interconnect::earliest_grant`]: how far a processor may run ahead of a request that it has not posted.
//!
//! Demand misses, stores, prefetches and write-backs take the same way. Each line has a [`Home`], the memory
//! bank that keeps it. All present kinds have one order point (`arbiter.rs`) and differ in the ways of data
//! (`paths.rs`). A kind with an order point per home (a directory) or with retries grants the same requests in
//! another order and asks for the home where it is given (docs/adr/0330). Processors are numbers here, never
//! bits of a mask, so their count has no limit.

mod arbiter;
mod by_messages;
mod calendar;
pub mod coherence;
mod contract;
mod latency;
mod links;
mod migration;
mod monitor;
mod node_counts;
pub mod node_set;
mod nodes;
mod pages;
mod paths;
mod write_buffer;

pub use by_messages::{Completed, MessageCounters, MessageSpec, Words};
pub use coherence::{coherence_names, Adaptive, CoherenceSpec, RequestCounters};
pub use contract::{BusRequest, Class, Grant, Home, Origin, Supplier, Transaction, LATER};
pub use latency::{BusTimes, LatencyTable};
pub use migration::{migration_names, Change, MigrationCounters, MigrationSpec, PageMove};
pub use monitor::{MonitorCounts, MonitorSpec, RegionFilter, ThresholdEvent, Traffic};
pub use node_counts::{LinkCounters, NodeCounts, PairCounters};
pub use nodes::{NodeMemory, NodeSpec};
pub use pages::{page_policy_by_name, PagePlan, PagePolicy, PageRule, PAGE_POLICIES};
pub use paths::PathSpec;
pub use write_buffer::WriteBufferCounters;

use crate::messages::{HomeTable, NodeTable};
use crate::protocol::BusOp;
use arbiter::Arbiter;
use by_messages::ByMessages;
use monitor::Monitor;
use nodes::Nodes;
use paths::{Carried, Paths};
use servsim_core::{CpuId, Cycles, LineAddr, NodeId, RandomStream};
use std::sync::Arc;

/// What joins the parts of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterconnectKind {
    /// One shared bus.
    Bus,
    /// Ports.
    Crossbar,
    /// Links.
    Network,
}

/// Names in descriptions.
pub const INTERCONNECTS: &[(&str, InterconnectKind)] = &[
    ("bus", InterconnectKind::Bus),
    ("crossbar", InterconnectKind::Crossbar),
    ("network", InterconnectKind::Network),
];

/// The kind called `name`.
pub fn interconnect_by_name(name: &str) -> Option<InterconnectKind> {
    INTERCONNECTS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// Shape, times and rules of an interconnect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterconnectSpec {
    /// Times without anything in the way.
    pub latency: LatencyTable,
    /// The ways of data, and memory banks.
    pub paths: PathSpec,
    /// Nodes, in place of these.
    pub nodes: Option<NodeSpec>,
    /// The nodes keep coherent by messages.
    pub messages: Option<MessageSpec>,
    /// First come, first served instead of round-robin.
    pub fifo: bool,
    /// Fetches that each processor may have under way.
    pub most_fetches: usize,
    /// Entries of each processor's write buffer; 0 for none.
    pub write_buffer: usize,
    /// Width of the random delay of a fetch, uniform with the mean unchanged; 0 for none.
    pub delay: Cycles,
}

/// An interconnect at work.
#[derive(Debug)]
pub struct Interconnect {
    latency: LatencyTable,
    order: Arbiter,
    paths: Paths,
    nodes: Option<Box<Nodes>>,
    /// Nodes that keep coherent by messages, in place of order point and nodes.
    messages: Option<Box<ByMessages>>,
    monitor: Option<Box<Monitor>>,
    /// Time that a transaction takes the order point of nodes.
    order_time: Cycles,
    write_buffers: bool,
    banks: u64,
    delay: Cycles,
    random: RandomStream,
}

impl Interconnect {
    /// An idle interconnect of `processors`.
    pub fn new(processors: usize, spec: &InterconnectSpec, seed: u64) -> Self {
        Self {
            latency: spec.latency.clone(),
            order: Arbiter::new(processors, spec.fifo, spec.most_fetches)
                .with_write_buffers(spec.write_buffer),
            paths: Paths::new(processors, spec.paths),
            nodes: spec
                .nodes
                .clone()
                .filter(|_| spec.messages.is_none())
                .map(|nodes| Box::new(Nodes::new(nodes, seed))),
            messages: spec
                .messages
                .zip(spec.nodes.as_ref())
                .map(|(messages, nodes)| Box::new(ByMessages::new(nodes, messages, spec, seed))),
            monitor: None,
            order_time: spec.paths.order,
            write_buffers: spec.write_buffer > 0,
            banks: spec.paths.banks as u64,
            delay: spec.delay,
            random: RandomStream::new(seed, "memory delay"),
        }
    }

    /// Pages get their nodes by `plan` from now on; without nodes there is nothing to do.
    pub fn follow(&mut self, plan: &Arc<PagePlan>) {
        if let Some(nodes) = &mut self.nodes {
            nodes.follow(plan.clone());
        }
        if let Some(messages) = &mut self.messages {
            messages.follow(plan.clone());
        }
    }

    /// Counts the traffic between nodes from now on; without nodes there is none.
    pub fn watch(&mut self, spec: &MonitorSpec) {
        let of_nodes = self.nodes.as_ref().map(|nodes| nodes.monitor(spec.clone()));
        let of_messages = || self.messages.as_ref().map(|messages| messages.monitor(spec.clone()));
        self.monitor = of_nodes.or_else(of_messages).map(Box::new);
    }

    /// Counts of the monitor begin anew.
    pub fn restart_monitor(&mut self) {
        self.monitor.iter_mut().for_each(|monitor| monitor.restart());
    }

    /// So many transactions of the workload have been measured, of as many as are wanted: a monitor may count parts apart.
    pub fn tell_monitor_of(&mut self, measured: u64, wanted: u64) {
        self.monitor.iter_mut().for_each(|monitor| monitor.measured(measured, wanted));
    }

    /// What the monitor counted, if there is one.
    pub fn monitor_counts(&self) -> Option<&MonitorCounts> {
        self.monitor.as_ref().map(|monitor| &monitor.counts)
    }

    /// Where the line of a request that is granted lives: its page may get its node by that.
    #[inline]
    fn home_of(&mut self, request: &BusRequest) -> Home {
        match &mut self.nodes {
            None => Home((request.line.0 % self.banks) as usize),
            Some(nodes) => Home(nodes.home(request.line, request.cpu).0),
        }
    }

    /// Whether pages move, so that [`Interconnect::touch`] is to follow each grant.
    #[inline]
    pub fn moves_pages(&self) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.moves_pages())
    }

    /// A granted request needs `op`, if anything by now: its page may move first, and be served elsewhere then.
    pub fn touch(&mut self, grant: &mut Grant, op: Option<BusOp>) {
        if let Some(nodes) = &mut self.nodes {
            grant.home = Home(nodes.touch(grant.time, &grant.request, op).0);
        }
    }

    /// A page that the request granted last made move: its lines are to be taken from the caches concerned, and then
    /// [`Interconnect::carry_move`] is to follow, before the request is sent or carried out.
    #[inline]
    pub fn next_move(&mut self) -> Option<PageMove> {
        self.nodes.as_mut()?.next_move()
    }

    /// The lines of a page that moves.
    pub fn lines_of(&self, moved: &PageMove) -> Vec<LineAddr> {
        self.nodes.iter().flat_map(|nodes| nodes.lines_of(moved)).collect()
    }

    /// Whether the processor is of a node whose caches lose the lines of a page that moves.
    pub fn is_concerned(&self, moved: &PageMove, cpu: CpuId) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| moved.concerned.has(nodes.of_processor()[cpu]))
    }

    /// Carries a move out: `lines` has, for each line of the page, how many copies caches lost and the processor whose
    /// cache alone had it, if one did; `interrupted` processors forget the translation. What that takes from each.
    pub fn carry_move(
        &mut self,
        moved: &PageMove,
        lines: &[(u64, Option<CpuId>)],
        interrupted: u64,
    ) -> Cycles {
        let Some(nodes) = &mut self.nodes else { return Cycles(0) };
        nodes.carry_move(moved, lines, interrupted, &self.latency)
    }

    /// Asks for a transaction.
    pub fn post(&mut self, request: BusRequest) {
        if let Some(messages) = &mut self.messages {
            return messages.post(request);
        }
        if let (Class::WriteBack, false, Some(nodes)) = (request.class, self.write_buffers, &mut self.nodes) {
            // Without write buffers it is in memory already, as far as others are concerned.
            nodes.written_back(request.line, request.cpu);
        }
        self.order.post(request);
    }

    /// Time of the next grant; `u64::MAX` without requests.
    #[inline]
    pub fn next_grant(&self) -> u64 {
        match &self.messages {
            None => self.order.next_grant(),
            Some(messages) => messages.next(),
        }
    }

    /// No request posted from now on for a line of `home`, or for any line without one, is granted before
    /// this time. The present kinds have one order point, so it is the same for all homes.
    #[inline]
    pub fn earliest_grant(&self, _home: Option<Home>) -> u64 {
        self.order.free_at()
    }

    /// Grants the request chosen. To be followed by [`Interconnect::carry`], unless there is nothing to
    /// perform, and [`Interconnect::end_grant`].
    pub fn grant(&mut self) -> Option<Grant> {
        if let Some(messages) = &mut self.messages {
            return messages.step();
        }
        let (time, request) = self.order.grant()?;
        let home = self.home_of(&request);
        Some(Grant { time, request, home })
    }

    /// Whether requests have to be sent before they are performed.
    #[inline]
    pub fn sends_first(&self) -> bool {
        self.nodes.is_some()
    }

    /// With nodes that keep coherent by messages: whether the unit of the asking node drives the shared line of its bus for
    /// a granted request. `None` without such nodes.
    #[inline]
    pub fn by_messages(&self, grant: &Grant) -> Option<bool> {
        self.messages.as_ref().map(|messages| messages.drives_shared(grant))
    }

    /// Judges a granted request that needs `op` by now, if anything, where nodes keep coherent by messages; `held` says
    /// whether a cache of its node has a valid copy. Whether it may be performed. If not, it is granted once more when
    /// its home orders it, and only [`Interconnect::end_grant`] is to follow.
    pub fn decide(&mut self, grant: &Grant, op: Option<BusOp>, held: bool) -> bool {
        self.messages.as_mut().is_none_or(|messages| messages.decide(grant, op, held))
    }

    /// What was carried out last is complete later; the access of `request` is done then, or has to ask again.
    pub fn defer(&mut self, request: &BusRequest, done: bool) {
        if let Some(messages) = &mut self.messages {
            messages.defer(request, done);
        }
    }

    /// A request that is complete now, and was not when it was performed.
    pub fn completed(&mut self) -> Option<Completed> {
        self.messages.as_mut()?.completed.pop()
    }

    /// What a line has in it at the node of `cpu`, with [`MessageSpec::values`]: for tests.
    pub fn words(&mut self, line: LineAddr, cpu: CpuId) -> Option<&mut Words> {
        self.messages.as_mut()?.words(line, cpu)
    }

    /// The tables that nodes and homes go by, with coherence by messages: for tests, which break them.
    pub fn tables(&mut self) -> Option<(&mut NodeTable, &mut HomeTable)> {
        Some(self.messages.as_mut()?.tables())
    }

    /// Sends a granted request that needs `op` by now, if anything; whether it may be performed. If not, it is
    /// asked for again, and only [`Interconnect::end_grant`] is to follow.
    pub fn send(&mut self, grant: &Grant, op: Option<BusOp>, within_group: bool) -> bool {
        let Some(nodes) = &mut self.nodes else { return true };
        if within_group {
            return true;
        }
        let again = nodes.send_request(grant.time, &grant.request, NodeId(grant.home.0), op);
        if let Some(ready) = again {
            self.order.occupy(grant.time, &grant.request, self.order_time, None);
            self.order.post(BusRequest { ready, ..grant.request });
        }
        again.is_none()
    }

    /// A cache of `cpu` holds `line` from the beginning.
    pub fn found(&mut self, line: LineAddr, cpu: CpuId, dirty: bool) {
        if let Some(nodes) = &mut self.nodes {
            nodes.found(line, cpu, dirty);
        }
        if let Some(messages) = &mut self.messages {
            messages.found(line, cpu, dirty);
        }
    }

    /// Carries out what was performed at a grant and asks for the write-back of its victim; when it is
    /// complete, or [`LATER`] if that is not known yet.
    pub fn carry(&mut self, grant: &Grant, transaction: &Transaction) -> u64 {
        let Grant { time: now, request, home } = *grant;
        if self.messages.is_some() {
            return self.carry_by_messages(grant, transaction);
        }
        let Some(op) = transaction.op else { return now };
        let supplier = self.snoop_write_buffers(request.line, op, transaction.supplier);
        let (mut latency, occupancy) = self.latency.of(op, supplier);
        if op.is_fetch() {
            latency = self.delayed(latency);
        }
        if !transaction.within_group
            && op != BusOp::WriteBack
            && !(op.is_fetch() && supplier == Supplier::Memory)
        {
            latency = latency + self.latency.crossing;
        }
        let (complete, occupancy) = match &mut self.nodes {
            _ if transaction.within_group => (now + latency, Cycles(0)),
            None => {
                let carried = Carried { now, cpu: request.cpu, home, op, latency, occupancy };
                let (latency, occupancy) = self.paths.carry(&carried, supplier);
                (now + latency, occupancy)
            }
            Some(nodes) => {
                if let Some(monitor) = &mut self.monitor {
                    monitor.see(&Traffic::of(grant, op, supplier, nodes.of_processor()));
                }
                let complete = nodes.carry(now, &request, NodeId(home.0), op, latency, supplier);
                if op == BusOp::WriteBack && self.write_buffers {
                    nodes.written_back(request.line, request.cpu);
                }
                (complete, occupancy.min(self.order_time))
            }
        };
        self.order.occupy(now, &request, occupancy, op.is_fetch().then_some(complete));
        if let Some(line) = transaction.victim {
            let (class, origin) = (Class::WriteBack, Origin::Processor);
            self.post(BusRequest { cpu: request.cpu, ready: now, line, class, origin });
        }
        complete
    }

    fn carry_by_messages(&mut self, grant: &Grant, transaction: &Transaction) -> u64 {
        let Some(messages) = &mut self.messages else { return grant.time };
        let complete = messages.carry(grant, transaction);
        for traffic in messages.seen.drain(..) {
            self.monitor.iter_mut().for_each(|monitor| monitor.see(&traffic));
        }
        if let Some(line) = transaction.victim {
            let (class, origin) = (Class::WriteBack, Origin::Processor);
            messages.post(BusRequest { cpu: grant.request.cpu, ready: grant.time, line, class, origin });
        }
        complete.unwrap_or(LATER)
    }

    /// Nobody else is granted anything before `until`: who was granted last has more to carry then.
    pub fn keep_order(&mut self, until: u64) {
        self.order.keep(until);
    }

    /// Chooses the next request; to be called after every grant.
    pub fn end_grant(&mut self) {
        match &mut self.messages {
            None => self.order.choose(),
            Some(messages) => messages.end_grant(),
        }
    }

    /// Cycles that the order point, or the buses of nodes, were taken so far.
    pub fn busy(&self) -> u64 {
        self.messages.as_ref().map_or(self.order.busy, |messages| messages.buses_busy())
    }

    /// Cycles that each port or link was taken so far; empty for a bus.
    pub fn ways_busy(&self) -> &[u64] {
        match (&self.messages, &self.nodes) {
            (Some(messages), _) => messages.busy(),
            (None, Some(nodes)) => nodes.busy(),
            (None, None) => &self.paths.busy,
        }
    }

    /// What the nodes counted so far, if there are any.
    pub fn node_counts(&self) -> Option<NodeCounts> {
        self.messages
            .as_ref()
            .map(|messages| messages.counts())
            .or_else(|| self.nodes.as_ref().map(|nodes| nodes.counts()))
    }

    /// What became of requests between nodes so far.
    pub fn requests(&self) -> RequestCounters {
        match (&self.messages, &self.nodes) {
            (Some(messages), _) => messages.request_counts(),
            (None, nodes) => nodes.as_ref().map(|nodes| nodes.request_counts()).unwrap_or_default(),
        }
    }

    /// Cycles that fetches waited for a bank so far.
    pub fn bank_wait(&self) -> u64 {
        self.paths.bank_wait
    }

    /// What the write buffers counted so far.
    pub fn write_buffers(&self) -> WriteBufferCounters {
        self.order.buffers
    }

    /// A write buffer that holds the line supplies it, unless a cache does; who takes it to write needs no
    /// write-back of it any more.
    fn snoop_write_buffers(&mut self, line: LineAddr, op: BusOp, supplier: Supplier) -> Supplier {
        let holder = if op.is_fetch() { self.order.buffered(line) } else { None };
        if matches!(op, BusOp::ReadExclusive | BusOp::Invalidate) {
            self.order.cancel_buffered(line);
        }
        let Some(cpu) = holder else { return supplier };
        if matches!(supplier, Supplier::Processor(_)) {
            return supplier;
        }
        self.order.buffers.supplied += 1;
        Supplier::Processor(cpu)
    }

    /// The latency with its random delay.
    fn delayed(&mut self, latency: Cycles) -> Cycles {
        match self.delay {
            Cycles(0) => latency,
            Cycles(width) => latency - Cycles(width / 2) + Cycles(self.random.below(width + 1)),
        }
    }
}

#[cfg(test)]
mod tests;
