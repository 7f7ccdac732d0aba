//! Nodes joined by links, below one ordered network: packets between them, the memory of each, and what each pair
//! of nodes had to do with one another.
//!
//! The order point is that of every interconnect here (docs/adr/0332). Whom a request goes to is the policy's to say
//! (`coherence`); the block comes from where it is: a cache of some node, or the memory of the line's home. So a fetch
//! takes the way from the asker to the supplier, by the home if that forwards, the supplier's time, and the way back;
//! an invalidation is over when the farthest node that it goes to has it.

mod moving;

use super::calendar::Calendar;
use super::coherence::homes::Entry;
use super::coherence::{AtHome, CoherenceSpec, Made, Policy, Reach, RequestCounters, COHERENCE};
use super::links::{Arrivals, Links, Packet};
use super::migration::{Migration, MigrationSpec};
use super::monitor::{Monitor, MonitorSpec};
use super::node_counts::{LinkCounters, NodeCounts, PairCounters};
use super::node_set::NodeSet;
use super::pages::{PagePlan, PagePolicy, Pages};
use super::{BusRequest, Origin, Supplier};
use crate::protocol::BusOp;
use servsim_core::{CpuId, Cycles, LineAddr, NodeId};
use std::collections::HashMap;

/// Memory of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeMemory {
    /// Pages that it has room for.
    pub pages: u64,
    /// Time of a read beyond that of the table of latencies.
    pub latency: Cycles,
    /// Time that a line keeps it busy.
    pub line_time: Cycles,
}

/// Shape and times of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// The node of each processor.
    pub of_processor: Vec<NodeId>,
    /// One-way time of a packet without its bytes, by sender and receiver.
    pub distances: Vec<Vec<Cycles>>,
    /// Number of directed links.
    pub links: usize,
    /// The links of the way from one node to another.
    pub routes: Vec<Vec<Vec<usize>>>,
    /// Time that a packet without a line keeps a link.
    pub request_time: Cycles,
    /// Time that a packet with a line keeps a link.
    pub data_time: Cycles,
    /// Memory of each node; one without any has room for no page.
    pub memories: Vec<NodeMemory>,
    /// How pages get their nodes.
    pub policy: PagePolicy,
    /// Pages in one stripe.
    pub stride: u64,
    /// log2 of the lines of a page.
    pub page_shift: u32,
    /// How they keep coherent.
    pub coherence: CoherenceSpec,
    /// When pages move, if they do.
    pub migration: Option<MigrationSpec>,
}

/// A request that is being performed, as it was sent.
#[derive(Debug, Clone)]
struct Sent {
    /// When its packets arrive.
    arrivals: Arrivals,
    /// With a home that forwards: the nodes that it forwards to and invalidates.
    concerned: NodeSet,
    /// Who owned the line before, as its home knows it, if homes keep track; none is memory.
    owner: Option<NodeId>,
}

/// A request that its home sends again.
#[derive(Debug, Clone, Copy)]
struct Retry {
    times: u32,
    to: NodeSet,
}

/// Retries after which a request goes to all nodes.
const LAST_RETRY: u32 = 3;

/// Nodes at work.
#[derive(Debug)]
pub(super) struct Nodes {
    spec: NodeSpec,
    all: NodeSet,
    /// The nodes that have more than one processor.
    with_several: NodeSet,
    policy: Box<dyn Policy>,
    at_home: AtHome,
    pages: Pages,
    migration: Option<Box<Migration>>,
    links: Links,
    /// Per node.
    memory: Vec<Calendar>,
    /// By line, where homes keep track.
    entries: HashMap<LineAddr, Entry>,
    /// By processor and what of it asks.
    retries: HashMap<(CpuId, Origin), Retry>,
    sent: Option<Sent>,
    pairs: Vec<PairCounters>,
    requests: RequestCounters,
    memory_waits: u64,
}

impl Nodes {
    pub fn new(spec: NodeSpec, seed: u64) -> Self {
        let nodes = spec.distances.len();
        let mut links = Links::new(&spec);
        let made = Made { spec: &spec.coherence, incoming: &links.incoming(nodes), seed };
        let (_, policy) = COHERENCE
            .iter()
            .find(|(name, _)| *name == spec.coherence.policy)
            .unwrap_or_else(|| panic!("policy `{}` is not registered", spec.coherence.policy));
        let policy = policy(&made);
        if policy.watches_links() {
            links.tell();
        }
        let room = spec.memories.iter().map(|memory| memory.pages).collect();
        Self {
            all: NodeSet::first(nodes),
            with_several: NodeId::all(nodes)
                .filter(|node| spec.of_processor.iter().filter(|other| *other == node).count() > 1)
                .fold(NodeSet::NONE, NodeSet::with),
            at_home: policy.at_home(),
            policy,
            pages: Pages::new(spec.policy, spec.stride, room, &spec.distances),
            migration: spec
                .migration
                .clone()
                .map(|migration| Box::new(Migration::new(migration, nodes, &spec.of_processor))),
            links,
            memory: vec![Calendar::default(); nodes],
            entries: HashMap::new(),
            retries: HashMap::new(),
            sent: None,
            pairs: vec![PairCounters::default(); nodes * nodes],
            requests: RequestCounters::default(),
            memory_waits: 0,
            spec,
        }
    }

    /// Pages get their nodes by `plan` from now on.
    pub fn follow(&mut self, plan: std::sync::Arc<PagePlan>) {
        self.pages.follow(plan);
    }

    /// A monitor of these nodes.
    pub fn monitor(&self, spec: MonitorSpec) -> Monitor {
        Monitor::new(spec, self.spec.of_processor.len(), self.spec.distances.len())
    }

    /// The node of each processor.
    pub fn of_processor(&self) -> &[NodeId] {
        &self.spec.of_processor
    }

    /// The node whose memory `line` lies in, which `cpu` asks for.
    pub fn home(&mut self, line: LineAddr, cpu: CpuId) -> NodeId {
        self.pages.home(line.0 >> self.spec.page_shift, self.spec.of_processor[cpu])
    }

    /// Cycles that each link was taken.
    pub fn busy(&self) -> &[u64] {
        &self.links.busy
    }

    /// What was counted so far.
    pub fn counts(&self) -> NodeCounts {
        let links = LinkCounters {
            memory_waits: self.memory_waits,
            without_room: self.pages.without_room,
            ..self.links.counts
        };
        let migration = self.migration.as_ref().map(|migration| migration.counts);
        NodeCounts {
            links,
            requests: self.request_counts(),
            pairs: self.pairs.clone(),
            messages: None,
            migration,
        }
    }

    /// What became of requests so far.
    pub fn request_counts(&self) -> RequestCounters {
        RequestCounters { link_busy: self.links.busy.iter().sum(), ..self.requests }
    }

    /// Whether homes keep track of who holds which line.
    pub fn keeps_track(&self) -> bool {
        self.at_home != AtHome::Nothing
    }

    /// A cache of `cpu` was found to hold `line`, before anything was asked for.
    pub fn found(&mut self, line: LineAddr, cpu: CpuId, dirty: bool) {
        if self.keeps_track() {
            self.entries.entry(line).or_default().found(self.spec.of_processor[cpu], dirty);
        }
    }

    /// The line that `cpu` gave up is its owner's no more.
    pub fn written_back(&mut self, line: LineAddr, cpu: CpuId) {
        let node = self.spec.of_processor[cpu];
        if let Some(entry) = self.entries.get_mut(&line) {
            entry.written_back(node, self.with_several.has(node));
        }
    }

    /// Sends a request granted at `now` that needs `op`, if anything. When not all whom it concerns see it, nothing may be
    /// performed: its home sends it again at the returned time.
    pub fn send_request(
        &mut self,
        now: u64,
        request: &BusRequest,
        home: NodeId,
        op: Option<BusOp>,
    ) -> Option<u64> {
        let retry = self.retries.remove(&(request.cpu, request.origin));
        let Some(op) = op else {
            self.requests.superseded += u64::from(retry.is_some());
            return None;
        };
        let (asker, write) = (self.spec.of_processor[request.cpu], op != BusOp::Read);
        let entry = self.entries.get(&request.line).copied().unwrap_or_default();
        let (from, to) = match retry {
            Some(retry) => (home, retry.to),
            None => (asker, self.first_destinations(asker, home, now)),
        };
        let arrivals = self.links.send_to_several(now, from, to, now, Packet::Request);
        self.note_taken();
        match self.at_home {
            AtHome::Nothing => self.sent = Some(Sent { arrivals, concerned: NodeSet::NONE, owner: None }),
            AtHome::AsksAgain if !entry.suffices(write, asker, to.with(home).with(asker)) => {
                let times = retry.map_or(0, |retry| retry.times) + 1;
                self.requests.retries += 1;
                let concerned = entry.needed(write, asker).with(asker).with(home);
                let to = if times == LAST_RETRY { self.all } else { concerned };
                self.requests.retries_to_all += u64::from(times == LAST_RETRY);
                self.retries.insert((request.cpu, request.origin), Retry { times, to });
                return Some(arrivals.at(home) + self.spec.coherence.directory);
            }
            AtHome::AsksAgain | AtHome::Forwards => {
                let concerned = entry.needed(write, asker);
                self.entries.entry(request.line).or_default().performed(write, asker);
                self.sent = Some(Sent { arrivals, concerned, owner: entry.owner });
            }
        }
        None
    }

    /// Whom a request goes to when it is made.
    fn first_destinations(&mut self, asker: NodeId, home: NodeId, now: u64) -> NodeSet {
        let reach = self.policy.reach(asker, now);
        *(if reach == Reach::Home { &mut self.requests.unicasts } else { &mut self.requests.broadcasts }) +=
            1;
        match (reach, self.at_home) {
            (Reach::Everybody, _) => self.all,
            // Where requests are ordered on the network, the asker sees its own come back.
            (Reach::Home, AtHome::AsksAgain) => NodeSet::of(home).with(asker),
            (Reach::Home, _) => NodeSet::of(home),
        }
    }

    /// Carries out the request that was granted at `now`: `latency` is without nodes. When it is complete.
    pub fn carry(
        &mut self,
        now: u64,
        request: &BusRequest,
        home: NodeId,
        op: BusOp,
        latency: Cycles,
        supplier: Supplier,
    ) -> u64 {
        let asker = self.spec.of_processor[request.cpu];
        let complete = match op {
            BusOp::WriteBack => {
                let arrives = self.links.send(now, (asker, home), now + latency, Packet::Data);
                self.take_memory(now, home, arrives);
                self.pair(asker, home).write_backs += 1;
                arrives
            }
            BusOp::Invalidate | BusOp::Write => {
                let sent = self.take_sent();
                let arrivals = match self.at_home {
                    AtHome::Forwards => self.forward(now, (asker, home), &sent, true),
                    AtHome::Nothing | AtHome::AsksAgain => sent.arrivals,
                };
                arrivals.last() + latency
            }
            BusOp::Read | BusOp::ReadExclusive => {
                let sent = self.take_sent();
                let (node, in_memory) = match supplier {
                    Supplier::Processor(other) | Supplier::Group(other) => {
                        (self.spec.of_processor[other], false)
                    }
                    // Shared by a core group, which lies in one node.
                    Supplier::Shared(_) => (asker, false),
                    Supplier::Memory => (home, true),
                };
                debug_assert!(
                    !self.keeps_track() || sent.owner == (!in_memory).then_some(node),
                    "the home knows {:?} as the owner, and {supplier:?} supplies",
                    sent.owner
                );
                let mut ready = self.reaches(now, (asker, home), node, &sent, op);
                if in_memory {
                    if let Some(migration) = &self.migration {
                        ready = ready.max(migration.until(request.line.0 >> self.spec.page_shift, node, now));
                    }
                    let start = self.take_memory(now, node, ready);
                    self.memory_waits += start - ready;
                    ready = start + self.spec.memories[node].latency;
                }
                let complete = self.links.send(now, (node, asker), ready + latency, Packet::Data);
                let pair = self.pair(asker, node);
                *(if in_memory { &mut pair.memory_reads } else { &mut pair.cache_reads }) += 1;
                pair.read_cycles += complete - now;
                complete
            }
        };
        self.note_taken();
        complete
    }

    fn take_sent(&mut self) -> Sent {
        self.sent.take().unwrap_or_else(|| unreachable!("a request is sent before it is carried out"))
    }

    fn pair(&mut self, asker: NodeId, node: NodeId) -> &mut PairCounters {
        &mut self.pairs[asker.0 * self.spec.distances.len() + node.0]
    }

    /// When a fetch reaches the node that supplies the block.
    fn reaches(
        &mut self,
        now: u64,
        (asker, home): (NodeId, NodeId),
        node: NodeId,
        sent: &Sent,
        op: BusOp,
    ) -> u64 {
        if self.at_home != AtHome::Forwards {
            return sent.arrivals.at(node);
        }
        let to_own = sent.owner == Some(asker);
        let write = op == BusOp::ReadExclusive;
        if sent.concerned.is_empty() && !to_own {
            return sent.arrivals.at(home);
        }
        let forwarded = self.forward(now, (asker, home), sent, write || to_own);
        match sent.owner {
            Some(owner) => forwarded.at(owner),
            // Memory has the block, which is read while the directory is.
            None => sent.arrivals.at(home),
        }
    }

    /// The home tells the owner and the sharers, and the asker if so, after its look-up.
    fn forward(&mut self, now: u64, (asker, home): (NodeId, NodeId), sent: &Sent, back: bool) -> Arrivals {
        let forwards = u64::from(sent.owner.is_some_and(|owner| sent.concerned.has(owner)));
        self.requests.forwards += forwards;
        self.requests.invalidations += sent.concerned.len() as u64 - forwards;
        let to = if back { sent.concerned.with(asker) } else { sent.concerned };
        let at = sent.arrivals.at(home) + self.spec.coherence.directory;
        self.links.send_to_several(now, home, to, at, Packet::Request)
    }

    /// Tells the policy which links were taken.
    fn note_taken(&mut self) {
        for (node, start, span) in self.links.taken.drain(..) {
            self.policy.link_taken(node, start, span);
        }
    }

    /// Takes the memory of `node` for a line at `at` or when it is free; when that is.
    fn take_memory(&mut self, now: u64, node: NodeId, at: u64) -> u64 {
        self.memory[node].take(now, at, self.spec.memories[node].line_time)
    }
}
