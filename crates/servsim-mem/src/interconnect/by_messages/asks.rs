//! Requests of processors, from the address phase on their bus to their completion.

use super::super::{BusRequest, Supplier, Transaction};
use super::traffic::{Flight, What};
use super::{ByMessages, Completed};
use crate::interconnect::monitor::Traffic;
use crate::interconnect::Grant;
use crate::messages::controller::{Applied, Packet};
use crate::messages::{HomeEvent, Message, NodeEvent, NodeLine, NodeState};
use crate::protocol::BusOp;
use servsim_core::{CpuId, LineAddr, NodeId};

/// A request under way beyond its bus.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub request: BusRequest,
    /// Since when.
    pub since: u64,
    /// When its home ordered it, if it did.
    pub ordered: Option<u64>,
    /// The node whose memory or caches have the line, if it is fetched.
    pub served_by: Option<NodeId>,
    /// Whether its access is done then.
    pub done: bool,
    /// Whether an invalidation overtook the line, which is used once.
    pub used_once: bool,
}

/// What the request that was granted last leads to when it is performed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plan {
    /// The state found needs nothing.
    Nothing,
    /// The node settles it alone; if so, its dirty line goes to memory too.
    InNode { downgrade: bool },
    /// The home is the asker's own, and nobody else is concerned.
    AtHome,
    /// The home orders it: a message, or an access of its own processors.
    Ordered(Flight, HomeEvent),
}

impl ByMessages {
    /// Judges a request that was granted and needs `op`, if anything; `held` says whether a cache of its node has a
    /// valid copy. Whether it is to be performed now.
    pub fn decide(&mut self, grant: &Grant, op: Option<BusOp>, held: bool) -> bool {
        if matches!(self.plan, Plan::Ordered(..)) {
            return true;
        }
        let (request, home) = (grant.request, NodeId(grant.home.0));
        let node = self.node_of(request.cpu);
        let Some(op) = op else { return true };
        let performed = if node == home {
            self.at_own_home(request, home, op)
        } else {
            self.at_node(request, (node, home), op, held)
        };
        if !performed {
            // The address phase alone: the unit defers the answer.
            self.buses[node].occupy(grant.time, &request, self.latency.bus.invalidate, None);
        }
        performed
    }

    /// A processor of the home asks.
    fn at_own_home(&mut self, request: BusRequest, home: NodeId, op: BusOp) -> bool {
        let event = if op == BusOp::Read { HomeEvent::Load } else { HomeEvent::Store };
        let message = if op == BusOp::Read { Message::GetS } else { Message::GetM };
        let packet = Packet { message, from: home, to: home, asker: home, acks: None };
        let flight = Flight { packet, line: request.line, words: None, own: Some(request) };
        if self.asks.contains_key(&(home, request.line)) {
            self.wait_at_home(flight);
            return false;
        }
        let mut line = self.home_lines.get(&request.line).copied().unwrap_or_default();
        let mut sent = Vec::new();
        match self.must(line.apply(&self.homes, event, &packet, &mut sent), request.line) {
            Applied::Waits => {
                self.wait_at_home(flight);
                return false;
            }
            Applied::Done { performed: true } => {
                self.plan = Plan::AtHome;
                return true;
            }
            Applied::Done { performed: false } => {}
        }
        if !self.has_room(&sent) {
            self.waiting_for_room.push_back(flight);
            return false;
        }
        self.begin(home, request);
        self.plan = Plan::Ordered(flight, event);
        true
    }

    /// A processor of another node asks.
    fn at_node(
        &mut self,
        request: BusRequest,
        (node, home): (NodeId, NodeId),
        op: BusOp,
        held: bool,
    ) -> bool {
        let key = (node, request.line);
        let known = self.node_lines.get(&key).copied();
        // A clean copy answers its own processor's upgrade and supplies nobody: memory does, as on a bus. The home cannot tell a
        // node that asks for what it has from one that gave it up unsaid.
        let answers = !op.is_fetch();
        let mut line = known.unwrap_or(NodeLine {
            state: if held && answers { NodeState::S } else { NodeState::I },
            ..NodeLine::default()
        });
        let upgrading = matches!(line.state, NodeState::SM_AD | NodeState::SM_A);
        // What the home has taken from the node's caches is used no more, though the message is still on its way; nor does a
        // copy supply others that is about to be the writer's.
        let taken = self.coming.contains_key(&key)
            || (self.asks.contains_key(&key) && line.state.is_stable())
            || (known.is_some() && !held && line.state.is_readable())
            || (upgrading && !answers);
        let event = if op == BusOp::Read { NodeEvent::Load } else { NodeEvent::Store };
        let (packet, mut sent) = (own_packet(node, home), Vec::new());
        let before = line.state;
        let applied = if taken {
            Applied::Waits
        } else {
            self.must(line.apply(&self.nodes, event, &packet, home, &mut sent), request.line)
        };
        match applied {
            Applied::Waits => {
                self.counts.waits_at_node += 1;
                self.waiting.entry(key).or_default().push(request);
                false
            }
            Applied::Done { performed: true } => {
                self.plan = Plan::InNode { downgrade: before == NodeState::M && event == NodeEvent::Load };
                true
            }
            Applied::Done { performed: false } => {
                self.set_node_line(node, request.line, line);
                self.begin(node, request);
                sent.into_iter().for_each(|packet| self.send(packet, request.line, self.now));
                false
            }
        }
    }

    /// A request goes beyond its bus.
    fn begin(&mut self, node: NodeId, request: BusRequest) {
        self.counts.transactions += 1;
        let ask =
            Ask { request, since: self.now, ordered: None, served_by: None, done: false, used_once: false };
        self.asks.insert((node, request.line), ask);
        self.oldest.push_back((self.now, node, request.line));
    }

    /// Carries out what was performed at a grant; when it is complete, if that is known by now.
    pub fn carry(&mut self, grant: &Grant, transaction: &Transaction) -> Option<u64> {
        let Grant { time: now, request, home } = *grant;
        let (node, home) = (self.node_of(request.cpu), NodeId(home.0));
        let plan = std::mem::replace(&mut self.plan, Plan::Nothing);
        let ordered = matches!(plan, Plan::Ordered(..));
        let served = match plan {
            Plan::Ordered(flight, event) => self.order(&flight, event, transaction),
            _ => (home, false),
        };
        let Some(op) = transaction.op else { return (!ordered).then_some(now) };
        let (cpu, line) = (request.cpu, request.line);
        let traffic = Traffic {
            time: now,
            cpu,
            asker: node,
            home,
            served_by: served.0,
            by_cache: served.1,
            within: false,
            op,
            line,
        };
        if ordered || op == BusOp::WriteBack {
            self.seen.push(traffic);
            return (!ordered).then(|| self.write_back(now, &request, (node, home)));
        }
        let in_memory =
            op.is_fetch() && matches!(plan, Plan::AtHome) && transaction.supplier == Supplier::Memory;
        let supplier = if in_memory { Supplier::Memory } else { Supplier::Processor(request.cpu) };
        let (latency, occupancy) = self.latency.of(op, supplier);
        let complete = if in_memory { self.read_memory(now, home) + latency } else { now + latency };
        self.buses[node].occupy(now, &request, occupancy, op.is_fetch().then_some(complete));
        if op.is_fetch() {
            let pair = self.pair(node, node);
            *(if in_memory { &mut pair.memory_reads } else { &mut pair.cache_reads }) += 1;
            pair.read_cycles += complete - now;
        }
        // Another home hears nothing of what the node has itself.
        self.seen.push(Traffic {
            served_by: node,
            by_cache: op.is_fetch() && !in_memory,
            within: true,
            ..traffic
        });
        if let Plan::InNode { downgrade: true } = plan {
            self.own_event(node, request.line, NodeEvent::Downgrade, complete);
            self.pair(node, home).write_backs += 1;
            self.seen.push(Traffic { op: BusOp::WriteBack, ..traffic });
        }
        Some(complete)
    }

    /// The access that was ordered last is done, or not.
    pub fn defer(&mut self, request: &BusRequest, done: bool) {
        let key = (self.node_of(request.cpu), request.line);
        if let Some(ask) = self.asks.get_mut(&key) {
            (ask.ordered, ask.done) = (Some(self.now), done);
        }
    }

    /// A request is complete at `at`.
    pub(super) fn finish(&mut self, node: NodeId, line: LineAddr, at: u64) {
        if at > self.now {
            return self.plan_event(at, What::Complete(node, line));
        }
        let Some(ask) = self.asks.remove(&(node, line)) else { unreachable!("nobody asked") };
        self.counts.completions += 1;
        if let Some(other) = ask.served_by {
            self.pair(node, other).read_cycles += at - ask.since;
        }
        let BusRequest { cpu, origin, .. } = ask.request;
        let (done, used_once) = (ask.done, ask.used_once);
        self.completed.push(Completed {
            cpu,
            origin,
            granted: ask.ordered.unwrap_or(ask.since),
            time: at,
            done,
            used_once,
        });
        if node == self.home_known(line, node) {
            self.changed_at_home(line);
        } else {
            self.changed_at_node(node, line);
        }
    }

    /// A cache of `node` gives a dirty line up, whose data will leave over its bus.
    pub(super) fn give_up(&mut self, node: NodeId, line: LineAddr, cpu: CpuId, at: u64) {
        let home = self.home(line, cpu);
        if node == home {
            return;
        }
        match self.node_lines.get(&(node, line)).map(|line| line.state) {
            Some(NodeState::M) => {
                let mut state = self.node_lines[&(node, line)];
                let mut sent = Vec::new();
                let packet = own_packet(node, home);
                let applied = state.apply(&self.nodes, NodeEvent::Evict, &packet, home, &mut sent);
                self.must(applied, line);
                self.set_node_line(node, line, state);
                for packet in sent {
                    let flight = Flight { packet, line, words: None, own: None };
                    self.leaving.insert((node, line), flight);
                }
            }
            Some(state) if !state.is_stable() && self.asks.contains_key(&(node, line)) => {
                self.give_back.insert((node, line));
            }
            state => panic!(
                "node {} gives line {:#x} up in {state:?} at {at}, which it does not own:\n{}",
                node.0,
                line.0,
                self.log_of(line)
            ),
        }
    }

    /// The data of a line that was given up leave their cache; when they are on their way.
    fn write_back(&mut self, now: u64, request: &BusRequest, (node, home): (NodeId, NodeId)) -> u64 {
        let (latency, occupancy) = self.latency.of(BusOp::WriteBack, Supplier::Memory);
        self.buses[node].occupy(now, request, occupancy, None);
        self.pair(node, home).write_backs += 1;
        if node == home {
            self.write_memory(now + latency, home);
        } else if let Some(flight) = self.leaving.remove(&(node, request.line)) {
            self.send(flight.packet, request.line, now + latency);
        }
        now + latency
    }
}

/// An event of a node's own, as a message from it to the home.
pub(super) fn own_packet(node: NodeId, home: NodeId) -> Packet {
    Packet { message: Message::GetS, from: node, to: home, asker: node, acks: None }
}
