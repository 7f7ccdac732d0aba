//! Nodes that keep coherent by messages: a bus and a coherence unit in each, and the tables of `crate::messages`.
//!
//! A request waits for its node's bus. What the node may do alone is performed there. Anything else goes through the
//! unit to the home, whose bus and directory order it: that is where the engine performs the transaction on its caches
//! (docs/adr/0341), and where the messages to others leave. The request is over when the line and all acknowledgements
//! are back. Units take turns at their buses with processors; of the time in a unit, that of a look-up in the
//! directory stands in its own setting, and the rest in the distance.
//!
//! * `asks.rs`: requests from a bus to their completion.
//! * `buses.rs`: the buses, and which grants first.
//! * `homes.rs`: what reaches a home. `at_nodes.rs`: what reaches another node.
//! * `traffic.rs`: messages on their way, and room for them.
//! * `counts.rs`: what is counted.
//! * `values.rs`: the data in them, which only tests look at.
//! * `spec.rs`: what is chosen. `stuck.rs`: a request that is never complete.

mod asks;
mod at_nodes;
mod buses;
mod counts;
mod homes;
mod spec;
mod stuck;
mod traffic;
mod values;

pub use counts::MessageCounters;
pub use spec::{Completed, MessageSpec};
pub use values::Words;

use super::arbiter::Arbiter;
use super::calendar::Calendar;
use super::latency::LatencyTable;
use super::links::Links;
use super::monitor::{Monitor, MonitorSpec, Traffic};
use super::node_counts::{LinkCounters, NodeCounts, PairCounters};
use super::nodes::NodeSpec;
use super::pages::{PagePlan, Pages};
use super::{BusRequest, Class, Grant, InterconnectSpec, Origin, RequestCounters};
use crate::messages::{HomeLine, HomeTable, NodeLine, NodeTable};
use asks::{Ask, Plan};
use buses::Buses;
use servsim_core::source::PageHash;
use servsim_core::{CpuId, Cycles, LineAddr, NodeId, RandomStream};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use traffic::{Event, Flight, Happens};
use values::Values;

/// Nodes at work.
#[derive(Debug)]
pub(super) struct ByMessages {
    spec: NodeSpec,
    more: MessageSpec,
    latency: LatencyTable,
    nodes: NodeTable,
    homes: HomeTable,
    pages: Pages,
    links: Links,
    /// Per node.
    memory: Vec<Calendar>,
    /// Per node; processors and units have numbers there, units those behind all processors.
    buses: Buses,
    /// Lines that somebody beside their home has, or had.
    home_lines: HashMap<LineAddr, HomeLine, LineHash>,
    /// Lines of other nodes' memory, where the state is neither invalid nor shared: that is for the caches to say.
    node_lines: HashMap<(NodeId, LineAddr), NodeLine, LineHash>,
    /// Requests under way beyond their bus, by node and line.
    asks: HashMap<(NodeId, LineAddr), Ask, LineHash>,
    /// The same in the order in which they began.
    oldest: VecDeque<(u64, NodeId, LineAddr)>,
    /// Requests that wait until something changes for the line at their node.
    waiting: HashMap<(NodeId, LineAddr), Vec<BusRequest>, LineHash>,
    /// What waits until the home is done with another request for the line.
    waiting_at_home: HashMap<LineAddr, Vec<Flight>, LineHash>,
    /// Requests that wait for room for the forwards that they lead to.
    waiting_for_room: VecDeque<Flight>,
    /// Invalidations and forwards on their way to a node, by line.
    coming: HashMap<(NodeId, LineAddr), u32, LineHash>,
    /// Lines given up before they arrived: they are given back when they have.
    give_back: HashSet<(NodeId, LineAddr)>,
    /// Lines given up, until their data leave over the bus.
    leaving: HashMap<(NodeId, LineAddr), Flight, LineHash>,
    /// What units do with their buses next, by number.
    at_buses: HashMap<u64, Flight>,
    /// Dirty lines, and lines with other copies, that caches held from the beginning: until their home is known.
    found: HashMap<LineAddr, HomeLine, LineHash>,
    events: BinaryHeap<Reverse<Event>>,
    /// Events so far: those at one time happen in the order in which they were made.
    made: u64,
    traffic: traffic::Rooms,
    /// What the request that a bus granted last leads to.
    plan: Plan,
    /// The bus that granted last.
    granting: NodeId,
    /// What the last transaction was to a monitor; a read that makes its node's line clean writes it back too.
    pub seen: Vec<Traffic>,
    /// Requests that were completed and not yet taken.
    pub completed: Vec<Completed>,
    counts: MessageCounters,
    requests: RequestCounters,
    pairs: Vec<PairCounters>,
    memory_waits: u64,
    values: Option<Box<Values>>,
    /// Width of the random delay of a read of memory.
    delay: Cycles,
    random: RandomStream,
    now: u64,
    /// When something happens next.
    next: u64,
    /// The last things that happened, for who looks into a fault.
    log: VecDeque<Happens>,
}

/// Hashes what has a line's number: one multiplication.
type LineHash = PageHash;

impl ByMessages {
    /// Idle nodes of the machine of `joined`.
    pub fn new(spec: &NodeSpec, more: MessageSpec, joined: &InterconnectSpec, seed: u64) -> Self {
        let nodes = spec.distances.len();
        let askers = spec.of_processor.len() + nodes;
        let room = spec.memories.iter().map(|memory| memory.pages).collect();
        Self {
            nodes: NodeTable::new(more.options),
            homes: HomeTable::new(more.options),
            pages: Pages::new(spec.policy, spec.stride, room, &spec.distances),
            links: Links::new(spec),
            memory: vec![Calendar::default(); nodes],
            buses: Buses::new(vec![Arbiter::new(askers, joined.fifo, joined.most_fetches); nodes]),
            home_lines: HashMap::default(),
            node_lines: HashMap::default(),
            asks: HashMap::default(),
            oldest: VecDeque::new(),
            waiting: HashMap::default(),
            waiting_at_home: HashMap::default(),
            waiting_for_room: VecDeque::new(),
            coming: HashMap::default(),
            give_back: HashSet::new(),
            leaving: HashMap::default(),
            at_buses: HashMap::new(),
            found: HashMap::default(),
            events: BinaryHeap::new(),
            made: 0,
            traffic: traffic::Rooms::new(nodes, &more),
            plan: Plan::Nothing,
            granting: NodeId(0),
            seen: Vec::new(),
            completed: Vec::new(),
            counts: MessageCounters::default(),
            requests: RequestCounters::default(),
            pairs: vec![PairCounters::default(); nodes * nodes],
            memory_waits: 0,
            values: more.values.then(Box::default),
            random: RandomStream::new(seed, "messages"),
            now: 0,
            next: u64::MAX,
            log: VecDeque::new(),
            latency: joined.latency.clone(),
            delay: joined.delay,
            spec: spec.clone(),
            more,
        }
    }

    /// Pages get their nodes by `plan` from now on.
    pub fn follow(&mut self, plan: Arc<PagePlan>) {
        self.pages.follow(plan);
    }

    /// A cache of `cpu` was found to hold `line`, before anything was asked for.
    pub fn found(&mut self, line: LineAddr, cpu: CpuId, dirty: bool) {
        let node = self.spec.of_processor[cpu];
        let entry = self.found.entry(line).or_default();
        if dirty {
            entry.owner = Some(node);
        } else {
            entry.sharers = entry.sharers.with(node);
        }
    }

    /// A monitor of these nodes.
    pub fn monitor(&self, spec: MonitorSpec) -> Monitor {
        Monitor::new(spec, self.spec.of_processor.len(), self.spec.distances.len())
    }

    /// The node whose memory `line` lies in, which `cpu` asks for.
    pub fn home(&mut self, line: LineAddr, cpu: CpuId) -> NodeId {
        let home = self.pages.home(line.0 >> self.spec.page_shift, self.spec.of_processor[cpu]);
        if !self.found.is_empty() {
            self.know(line, home);
        }
        home
    }

    /// What nodes and homes go by.
    pub fn tables(&mut self) -> (&mut NodeTable, &mut HomeTable) {
        (&mut self.nodes, &mut self.homes)
    }

    /// When something happens next; `u64::MAX` if nothing does.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether nobody may own the line of a granted request by reading it: it is of another node's memory, or the
    /// directory says that others have it. These may have given it up unsaid and yet have an upgrade under way, which
    /// is granted without the line: a silent write meanwhile would be lost.
    pub fn drives_shared(&self, grant: &Grant) -> bool {
        self.node_of(grant.request.cpu).0 != grant.home.0
            || self.home_lines.get(&grant.request.line).is_some_and(|line| !line.sharers.is_empty())
    }

    /// What a line has in it at the node of `cpu`.
    pub fn words(&mut self, line: LineAddr, cpu: CpuId) -> Option<&mut Words> {
        let node = self.node_of(cpu);
        let home = self.home(line, cpu);
        self.values.as_mut().map(|values| values.of(node, home, line))
    }

    /// The node of a processor or unit.
    fn node_of(&self, cpu: CpuId) -> NodeId {
        let processors = self.spec.of_processor.len();
        if cpu.0 < processors {
            self.spec.of_processor[cpu]
        } else {
            NodeId(cpu.0 - processors)
        }
    }

    /// Asks for a transaction.
    pub fn post(&mut self, request: BusRequest) {
        let node = self.node_of(request.cpu);
        if request.class == Class::WriteBack {
            self.give_up(node, request.line, request.cpu, request.ready);
        }
        self.buses[node].post(request);
        self.look_ahead();
    }

    /// Lets the next thing happen; a request that a bus granted, or a home orders, is the caller's to perform.
    pub fn step(&mut self) -> Option<Grant> {
        self.now = self.now.max(self.next);
        let event = self.events.peek().map_or(u64::MAX, |Reverse(event)| event.time);
        let (bus, granted) = self.buses.first();
        if event.min(granted) > self.now {
            self.give_in();
        }
        let grant = if event <= granted {
            self.happens();
            None
        } else {
            self.granted(bus)
        };
        if grant.is_none() {
            self.look_ahead();
        }
        grant
    }

    /// The bus of `node` has an address phase: a processor's request is the caller's to perform.
    fn granted(&mut self, node: NodeId) -> Option<Grant> {
        let (time, request) = self.buses[node].grant()?;
        (self.granting, self.now) = (node, self.now.max(time));
        if request.cpu.0 < self.spec.of_processor.len() {
            let home = self.home(request.line, request.cpu);
            self.plan = Plan::Nothing;
            return Some(Grant { time, request, home: super::Home(home.0) });
        }
        let Origin::Prefetch(number) = request.origin else { unreachable!("a unit numbers its work") };
        let Some(flight) = self.at_buses.remove(&number) else { unreachable!("its work is kept") };
        let grant = self.unit_granted(node, time, &request, flight);
        if grant.is_none() {
            self.buses[node].choose();
        }
        grant
    }

    /// Finds out when something happens next.
    pub fn look_ahead(&mut self) {
        let event = self.events.peek().map_or(u64::MAX, |Reverse(event)| event.time);
        let (_, bus) = self.buses.first();
        while let Some(&(since, node, line)) = self.oldest.front() {
            if self.asks.get(&(node, line)).is_some_and(|ask| ask.since == since) {
                break;
            }
            self.oldest.pop_front();
        }
        let stuck = self.oldest.front().map_or(u64::MAX, |&(since, ..)| since + self.more.oldest.0);
        self.next = event.min(bus).min(stuck).max(self.now);
        if event.min(bus).min(stuck) == u64::MAX {
            self.next = u64::MAX;
        }
        if stuck <= self.now {
            self.give_in();
        }
    }

    /// The next request is chosen, after one that the caller performed.
    pub fn end_grant(&mut self) {
        self.buses[self.granting].choose();
        self.look_ahead();
    }

    /// Cycles that each link was taken.
    pub fn busy(&self) -> &[u64] {
        &self.links.busy
    }

    /// Cycles that the buses of nodes were taken, on average.
    pub fn buses_busy(&self) -> u64 {
        self.buses.busy()
    }

    /// What was counted so far.
    pub fn counts(&self) -> NodeCounts {
        let links = LinkCounters {
            memory_waits: self.memory_waits,
            without_room: self.pages.without_room,
            ..self.links.counts
        };
        NodeCounts {
            links,
            requests: self.request_counts(),
            pairs: self.pairs.clone(),
            messages: Some(self.counts),
            migration: None,
        }
    }

    /// What became of requests so far.
    pub fn request_counts(&self) -> RequestCounters {
        RequestCounters { link_busy: self.links.busy.iter().sum(), ..self.requests }
    }
}
