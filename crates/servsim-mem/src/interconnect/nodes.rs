//! Nodes joined by links, below one ordered network: packets between them, the memory of each, and what each pair
//! of nodes had to do with one another.
//!
//! The order point is that of every interconnect here (docs/adr/0332). A granted request goes to all nodes, because
//! everybody snoops; the block comes from where it is: a cache of some node, or the memory of the line's home. So a
//! fetch takes the way from the asker to the supplier, the supplier's time, and the way back; an invalidation is over
//! when the farthest node has it. A packet keeps every link on its way for its bytes; what finds a link taken waits.
//! Left out: that a packet reaches the later links of its way later.

use super::monitor::{Monitor, MonitorSpec, Traffic};
use super::pages::{PagePlan, PagePolicy, Pages};
use super::{Grant, Supplier};
use crate::protocol::BusOp;
use servsim_core::{CpuId, LineAddr, NodeId};

/// Memory of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeMemory {
    /// Pages that it has room for.
    pub pages: u64,
    /// Time of a read beyond that of the table of latencies.
    pub latency: u64,
    /// Time that a line keeps it busy.
    pub line_time: u64,
}

/// Shape and times of nodes, in processor cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// The node of each processor.
    pub of_processor: Vec<NodeId>,
    /// One-way time of a packet without its bytes, by sender and receiver.
    pub distances: Vec<Vec<u64>>,
    /// Number of directed links.
    pub links: usize,
    /// The links of the way from one node to another.
    pub routes: Vec<Vec<Vec<usize>>>,
    /// Time that a packet without a line keeps a link.
    pub request_time: u64,
    /// Time that a packet with a line keeps a link.
    pub data_time: u64,
    /// Memory of each node; one without any has room for no page.
    pub memories: Vec<NodeMemory>,
    /// How pages get their nodes.
    pub policy: PagePolicy,
    /// Pages in one stripe.
    pub stride: u64,
    /// log2 of the lines of a page.
    pub page_shift: u32,
}

servsim_core::counters! {
    /// What one node had to do with another, or with itself.
    pub struct PairCounters {
        memory_reads: u64 = "memory_reads" [], "lines", Parts, [],
            "Lines that processors of a node fetched from the memory of another, or of its own";
        cache_reads: u64 = "cache_reads" [], "lines", Parts, [],
            "Lines that processors of a node fetched from the caches of another, or of its own";
        write_backs: u64 = "write_backs" [], "lines", Parts, [],
            "Lines that processors of a node wrote back to the memory of another, or of its own";
        read_cycles: u64 = "read_cycles" [], "cycles", Parts, [],
            "Cycles from the grants of these fetches to their data";
    }
}

servsim_core::counters! {
    /// What the links between nodes carried.
    pub struct LinkCounters {
        request_packets: u64 = "nodes.request_packets" [], "packets", Parts, [summary],
            "Packets without a line that links between nodes carried, each link for itself";
        data_packets: u64 = "nodes.data_packets" [], "packets", Parts, [summary],
            "Packets with a line that links between nodes carried, each link for itself";
        waits: u64 = "nodes.link_wait_cycles" [], "cycles", Parts, [summary],
            "Cycles that packets waited for links between nodes";
        memory_waits: u64 = "nodes.memory_wait_cycles" [], "cycles", Parts, [summary],
            "Cycles that fetches waited for the memory of a node";
        without_room: u64 = "nodes.pages_without_room" [], "pages", Parts, [summary most],
            "Pages since the beginning of the run that no node's memory had room for";
    }
}

/// What the nodes counted so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCounts {
    /// Of all links together.
    pub links: LinkCounters,
    /// By the asking node and the node asked, rows of as many as there are nodes.
    pub pairs: Vec<PairCounters>,
}

impl NodeCounts {
    /// Share of the lines fetched from memory that came from another node's; 0 without any.
    pub fn remote_share(&self) -> f64 {
        let nodes = self.pairs.len().isqrt();
        let reads =
            |pairs: &mut dyn Iterator<Item = &PairCounters>| pairs.map(|pair| pair.memory_reads).sum::<u64>();
        let local = reads(&mut self.pairs.iter().step_by(nodes + 1));
        let all = reads(&mut self.pairs.iter());
        (all - local) as f64 / all.max(1) as f64
    }

    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        self.pairs.iter_mut().zip(&earlier.pairs).for_each(|(pair, before)| *pair = pair.since(before));
        Self { links: self.links.since(&earlier.links), ..self }
    }
}

/// Nodes at work.
#[derive(Debug)]
pub(super) struct Nodes {
    spec: NodeSpec,
    /// The links over which a packet comes from one node to all others.
    to_all: Vec<Vec<usize>>,
    pages: Pages,
    /// Per link: free from then on.
    free: Vec<u64>,
    /// Per node: its memory is free from then on.
    memory_free: Vec<u64>,
    /// Cycles that each link was taken.
    pub busy: Vec<u64>,
    pub counts: NodeCounts,
}

impl Nodes {
    pub fn new(spec: NodeSpec) -> Self {
        let nodes = spec.distances.len();
        let to_all = |from: usize| {
            let mut links: Vec<usize> = spec.routes[from].iter().flatten().copied().collect();
            links.sort_unstable();
            links.dedup();
            links
        };
        let room = spec.memories.iter().map(|memory| memory.pages).collect();
        Self {
            to_all: (0..nodes).map(to_all).collect(),
            pages: Pages::new(spec.policy, spec.stride, room, &spec.distances),
            free: vec![0; spec.links],
            memory_free: vec![0; nodes],
            busy: vec![0; spec.links],
            counts: NodeCounts {
                pairs: vec![PairCounters::default(); nodes * nodes],
                ..NodeCounts::default()
            },
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

    /// A granted transaction as a monitor sees it.
    pub fn traffic(&self, grant: &Grant, op: BusOp, supplier: Supplier) -> Traffic {
        let Grant { time, request, home } = *grant;
        let home = NodeId(home.0);
        let served_by = match supplier {
            Supplier::Processor(other) if op.is_fetch() => self.spec.of_processor[other],
            _ => home,
        };
        let (cpu, line, asker) = (request.cpu, request.line, self.spec.of_processor[request.cpu]);
        Traffic { time, cpu, asker, home, served_by, op, line }
    }

    /// The node whose memory `line` lies in, which `cpu` asks for.
    pub fn home(&mut self, line: LineAddr, cpu: CpuId) -> NodeId {
        let home = self.pages.home(line.0 >> self.spec.page_shift, self.spec.of_processor[cpu]);
        self.counts.links.without_room = self.pages.without_room;
        home
    }

    /// Carries out what `cpu` was granted at `now`: `latency` is without nodes. When it is complete.
    pub fn carry(
        &mut self,
        now: u64,
        cpu: CpuId,
        home: NodeId,
        op: BusOp,
        latency: u64,
        supplier: Supplier,
    ) -> u64 {
        let asker = self.spec.of_processor[cpu];
        let nodes = self.spec.distances.len();
        match op {
            BusOp::WriteBack => {
                let arrives = self.send(asker, home, now + latency, true);
                self.take_memory(home, arrives);
                self.counts.pairs[asker.0 * nodes + home.0].write_backs += 1;
                arrives
            }
            BusOp::Invalidate | BusOp::Write => self.send_to_all(asker, now) + latency,
            BusOp::Read | BusOp::ReadExclusive => {
                self.send_to_all(asker, now);
                let (node, in_memory) = match supplier {
                    Supplier::Processor(other) => (self.spec.of_processor[other], false),
                    Supplier::Memory | Supplier::Shared(_) => (home, true),
                };
                // The packet to the supplier is one of those to all, whose links are taken already.
                let mut ready = now + self.way(asker, node, self.spec.request_time);
                if in_memory {
                    let start = self.take_memory(node, ready);
                    self.counts.links.memory_waits += start - ready;
                    ready = start + self.spec.memories[node].latency;
                }
                let complete = self.send(node, asker, ready + latency, true);
                let pair = &mut self.counts.pairs[asker.0 * nodes + node.0];
                *(if in_memory { &mut pair.memory_reads } else { &mut pair.cache_reads }) += 1;
                pair.read_cycles += complete - now;
                complete
            }
        }
    }

    /// Time of a packet that nothing is in the way of; one within a node has no bytes to move over a link.
    fn way(&self, from: NodeId, to: NodeId, bytes: u64) -> u64 {
        self.spec.distances[from][to] + if from == to { 0 } else { bytes }
    }

    /// Takes the memory of `node` for a line at `at` or when it is free; when that is.
    fn take_memory(&mut self, node: NodeId, at: u64) -> u64 {
        let start = at.max(self.memory_free[node]);
        self.memory_free[node] = start + self.spec.memories[node].line_time;
        start
    }

    /// Sends a packet at `at`; when its last byte arrives.
    fn send(&mut self, from: NodeId, to: NodeId, at: u64, data: bool) -> u64 {
        let time = if data { self.spec.data_time } else { self.spec.request_time };
        let mut start = at;
        for place in 0..self.spec.routes[from][to].len() {
            start = self.take_link(self.spec.routes[from][to][place], start, data);
        }
        start + self.way(from, to, time)
    }

    /// Sends a packet without a line to every other node at `at`; when the last has it.
    fn send_to_all(&mut self, from: NodeId, at: u64) -> u64 {
        let mut start = at;
        for place in 0..self.to_all[from].len() {
            start = start.max(self.take_link(self.to_all[from][place], at, false));
        }
        let farthest =
            NodeId::all(self.spec.distances.len()).map(|to| self.way(from, to, self.spec.request_time)).max();
        start + farthest.unwrap_or(0)
    }

    /// Takes a link for a packet at `at` or when it is free; when that is.
    fn take_link(&mut self, link: usize, at: u64, data: bool) -> u64 {
        let counts = &mut self.counts.links;
        let time = if data {
            counts.data_packets += 1;
            self.spec.data_time
        } else {
            counts.request_packets += 1;
            self.spec.request_time
        };
        let start = at.max(self.free[link]);
        counts.waits += start - at;
        self.free[link] = start + time;
        self.busy[link] += time;
        start
    }
}
