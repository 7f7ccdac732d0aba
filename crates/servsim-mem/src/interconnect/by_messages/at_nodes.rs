//! What reaches a node that is not the home of the line: forwards, one after the other, and responses.

use super::asks::own_packet;
use super::traffic::Flight;
use super::ByMessages;
use crate::messages::controller::{Applied, Packet};
use crate::messages::{Message, NodeEvent, NodeLine, NodeState};
use servsim_core::{Cycles, LineAddr, NodeId};

impl ByMessages {
    /// The first forward in the queue from `home` asks for the bus of its node; a receipt needs none.
    pub(super) fn begin_forward(&mut self, home: NodeId, node: NodeId) {
        let stalled = &mut self.traffic.stalled[node];
        *stalled = stalled.without(home);
        let Some(&flight) = self.traffic.queues[home.0 * self.memory.len() + node.0].front() else { return };
        if flight.packet.message == Message::PutAck {
            self.forwarded(flight, self.now);
        } else {
            self.ask_for_bus(flight);
        }
    }

    /// A forward is carried out, or stays the first of its queue; its answers leave at `at`.
    pub(super) fn forwarded(&mut self, flight: Flight, at: u64) {
        let Packet { from: home, to: node, message, .. } = flight.packet;
        let place = home.0 * self.memory.len() + node.0;
        let event = NodeEvent::of(message, false);
        let Some(before) = self.apply_at_node(&flight, event, at) else {
            let stalled = &mut self.traffic.stalled[node];
            *stalled = stalled.with(home);
            return;
        };
        debug_assert!(before != NodeState::I || message == Message::Inv);
        self.traffic.queues[place].pop_front();
        if message != Message::PutAck {
            let key = (node, flight.line);
            match self.coming.get_mut(&key) {
                Some(coming) if *coming > 1 => *coming -= 1,
                _ => drop(self.coming.remove(&key)),
            }
        }
        self.free_forward(node);
        self.begin_forward(home, node);
        self.changed_at_node(node, flight.line);
    }

    /// Data, a grant or an acknowledgement reach the node that asked.
    pub(super) fn respond_node(&mut self, flight: &Flight) {
        let Packet { message, to: node, acks, .. } = flight.packet;
        let line = flight.line;
        let event = NodeEvent::of(message, acks.is_some());
        if let (Some(values), Some(words)) = (&mut self.values, flight.words) {
            values.nodes.insert((node, line), words);
        }
        let waited = self.node_lines.get(&(node, line)).map(|line| line.state);
        if self.apply_at_node(flight, event, self.now).is_none() {
            unreachable!("responses never wait");
        }
        let state = self.node_lines.get(&(node, line)).map_or(NodeState::I, |line| line.state);
        if waited == Some(NodeState::IS_D_I) && state == NodeState::I {
            self.counts.used_once += 1;
            self.asks.get_mut(&(node, line)).into_iter().for_each(|ask| ask.used_once = true);
        }
        // It leaves the transient states when the last of what it waits for is there.
        if matches!(state, NodeState::I | NodeState::M) {
            let bytes = if message == Message::Data { self.latency.bus.transfer } else { Cycles(0) };
            self.finish(node, line, self.now + bytes);
            if state == NodeState::M && self.give_back.remove(&(node, line)) {
                self.own_event(node, line, NodeEvent::Evict, self.now + bytes);
            }
        }
        self.changed_at_node(node, line);
    }

    /// Something that the node itself does to a line that it owns; what it sends leaves at `at`.
    pub(super) fn own_event(&mut self, node: NodeId, line: LineAddr, event: NodeEvent, at: u64) {
        let home = self.home_known(line, node);
        let flight = Flight { packet: own_packet(node, home), line, words: None, own: None };
        let mut state = self.node_lines.get(&(node, line)).copied().unwrap_or_default();
        let mut sent = Vec::new();
        self.must(state.apply(&self.nodes, event, &flight.packet, home, &mut sent), line);
        self.set_node_line(node, line, state);
        sent.into_iter().for_each(|packet| self.send(packet, line, at));
    }

    /// Moves a line by a message; its state before, or none if the message has to wait.
    fn apply_at_node(&mut self, flight: &Flight, event: NodeEvent, at: u64) -> Option<NodeState> {
        let (node, line) = (flight.packet.to, flight.line);
        let home = self.home_known(line, node);
        let mut state = self.node_lines.get(&(node, line)).copied().unwrap_or_default();
        let (before, mut sent) = (state.state, Vec::new());
        let applied = state.apply(&self.nodes, event, &flight.packet, home, &mut sent);
        if self.must(applied, line) == Applied::Waits {
            return None;
        }
        self.set_node_line(node, line, state);
        sent.into_iter().for_each(|packet| self.send(packet, line, at));
        Some(before)
    }

    /// Keeps the state of a line, unless it is one that the caches know.
    pub(super) fn set_node_line(&mut self, node: NodeId, number: LineAddr, line: NodeLine) {
        if matches!(line.state, NodeState::I | NodeState::S) {
            self.node_lines.remove(&(node, number));
        } else {
            self.node_lines.insert((node, number), line);
        }
    }

    /// Something changed for a line at a node: what waited for that goes on.
    pub(super) fn changed_at_node(&mut self, node: NodeId, line: LineAddr) {
        if !self.asks.contains_key(&(node, line)) {
            for request in self.waiting.remove(&(node, line)).into_iter().flatten() {
                let ready = self.now.max(request.ready);
                self.buses[node].post(super::BusRequest { ready, ..request });
            }
        }
        for home in self.traffic.stalled[node].iter() {
            let first = self.traffic.queues[home.0 * self.memory.len() + node.0].front();
            if self.traffic.stalled[node].has(home) && first.is_some_and(|flight| flight.line == line) {
                self.begin_forward(home, node);
            }
        }
    }
}
