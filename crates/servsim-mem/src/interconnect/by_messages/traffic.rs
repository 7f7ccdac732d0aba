//! Messages on their way: three virtual networks over the same links, and room where they arrive.
//!
//! A home has room for so many requests, those that wait there among them; others wait where they come from. A home
//! orders a request only when there is room for every forward that it leads to. Responses are always taken in. Forwards
//! from one home to one node arrive in the order in which they left, and one that has to wait keeps those behind it.
//! Left out: the way of the credit that room is free again.

use super::super::links::Packet as Size;
use super::super::node_set::NodeSet;
use super::{ByMessages, MessageSpec, Words};
use crate::messages::controller::Packet;
use crate::messages::{Message, Network};
use servsim_core::{LineAddr, NodeId};
use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;
use std::fmt;

/// A message on its way, or waiting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub packet: Packet,
    pub line: LineAddr,
    /// What is in the line that it carries, if anybody looks.
    pub words: Option<Words>,
    /// The request of the home's own processor that waits at the home, in place of a message.
    pub own: Option<super::BusRequest>,
}

/// Something that happens at a known time.
#[derive(Debug)]
pub(super) struct Event {
    pub time: u64,
    number: u64,
    pub what: What,
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// A message reaches a node.
    Arrives(Flight),
    /// The request of a node for a line is complete.
    Complete(NodeId, LineAddr),
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.number) == (other.time, other.number)
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

/// Something that happened, for who looks into a fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Happens {
    pub time: u64,
    pub line: LineAddr,
    pub packet: Packet,
}

impl fmt::Display for Happens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet { message, from, to, asker, .. } = self.packet;
        write!(f, "{}: {} of node {} from {} at {}", self.time, message.name(), asker.0, from.0, to.0)
    }
}

/// Steps that are kept.
const KEPT: usize = 4096;

/// Room for messages, and those that wait for it.
#[derive(Debug)]
pub(super) struct Rooms {
    /// Requests that each home has room for now.
    requests: Vec<usize>,
    /// Forwards that each node has room for now.
    pub forwards: Vec<usize>,
    /// Requests that wait for room at each home.
    waiting: Vec<VecDeque<Flight>>,
    /// By home and node, when the last forward arrives.
    last: Vec<u64>,
    /// By home and node, forwards that arrived.
    pub queues: Vec<VecDeque<Flight>>,
    /// By node, the homes whose first forward there waits for its line.
    pub stalled: Vec<NodeSet>,
}

impl Rooms {
    pub fn new(nodes: usize, spec: &MessageSpec) -> Self {
        Self {
            requests: vec![spec.requests; nodes],
            forwards: vec![spec.forwards; nodes],
            waiting: vec![VecDeque::new(); nodes],
            last: vec![0; nodes * nodes],
            queues: vec![VecDeque::new(); nodes * nodes],
            stalled: vec![NodeSet::NONE; nodes],
        }
    }
}

impl ByMessages {
    /// Sends a message at `at`, when there is room for it.
    pub(super) fn send(&mut self, packet: Packet, line: LineAddr, at: u64) {
        let home = self.home_known(line, packet.from);
        let words = match &mut self.values {
            Some(values) if packet.message.has_line() => Some(*values.of(packet.from, home, line)),
            _ => None,
        };
        let flight = Flight { packet, line, words, own: None };
        match packet.message.network() {
            Network::Request => {
                self.counts.requests += 1;
                if self.traffic.requests[packet.to.0] == 0 {
                    self.counts.waits_for_room += 1;
                    self.traffic.waiting[packet.to.0].push_back(flight);
                    return;
                }
                self.traffic.requests[packet.to.0] -= 1;
            }
            Network::Forward => {
                self.counts.forwards += 1;
                self.traffic.forwards[packet.to.0] -= 1;
                if packet.message != Message::PutAck {
                    *self.coming.entry((packet.to, line)).or_default() += 1;
                }
            }
            Network::Response => self.counts.responses += 1,
        }
        self.depart(flight, at);
    }

    fn depart(&mut self, flight: Flight, at: u64) {
        let Packet { message, from, to, .. } = flight.packet;
        let size = if message.has_line() { Size::Data } else { Size::Request };
        let mut time = self.links.send(self.now, (from, to), at.max(self.now), size);
        if self.more.jitter > 0 {
            time += self.random.below(self.more.jitter + 1);
        }
        if message.network() == Network::Forward {
            let last = &mut self.traffic.last[from.0 * self.memory.len() + to.0];
            time = time.max(*last);
            *last = time;
        }
        self.plan_event(time, What::Arrives(flight));
    }

    pub(super) fn plan_event(&mut self, time: u64, what: What) {
        self.made += 1;
        self.events.push(Reverse(Event { time, number: self.made, what }));
    }

    /// A home is done with a request: there is room for another.
    pub(super) fn free_request(&mut self, home: NodeId) {
        match self.traffic.waiting[home.0].pop_front() {
            Some(flight) => self.depart(flight, self.now),
            None => self.traffic.requests[home.0] += 1,
        }
    }

    /// A node is done with a forward: there is room for another, and a request at a home may have waited for that.
    pub(super) fn free_forward(&mut self, node: NodeId) {
        self.traffic.forwards[node.0] += 1;
        for flight in std::mem::take(&mut self.waiting_for_room) {
            self.bring_back(flight);
        }
    }

    /// Keeps what happened.
    pub(super) fn note(&mut self, packet: &Packet, line: LineAddr) {
        if self.log.len() == KEPT {
            self.log.pop_front();
        }
        self.log.push_back(Happens { time: self.now, line, packet: *packet });
    }
}
