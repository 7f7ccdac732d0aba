//! What reaches the home of a line: requests, which it orders, and the data and acknowledgements that it waits for.

use super::super::{BusRequest, Class, Origin, Supplier, Transaction};
use super::asks::Plan;
use super::traffic::{Flight, What};
use super::ByMessages;
use crate::interconnect::{Grant, Home};
use crate::messages::controller::{Applied, MissingPair, Packet};
use crate::messages::{HomeEvent, HomeLine, HomeState, Message, Network, NodeLine, NodeState};
use crate::protocol::BusOp;
use servsim_core::{CpuId, Cycles, LineAddr, NodeId};
use std::cmp::Reverse;

impl ByMessages {
    /// The next event happens.
    pub(super) fn happens(&mut self) {
        let Some(Reverse(event)) = self.events.pop() else { return };
        self.now = self.now.max(event.time);
        match event.what {
            What::Complete(node, line) => self.finish(node, line, self.now),
            What::Arrives(flight) => self.arrives(flight),
        }
    }

    /// A message reaches the unit of a node, which asks for its bus where it needs it.
    fn arrives(&mut self, flight: Flight) {
        self.counts.received += 1;
        let Packet { message, from, to, .. } = flight.packet;
        self.note(&flight.packet, flight.line);
        match message.network() {
            Network::Request => self.ask_for_bus(flight),
            Network::Forward => {
                let queue = &mut self.traffic.queues[from.0 * self.memory.len() + to.0];
                queue.push_back(flight);
                if queue.len() == 1 {
                    self.begin_forward(from, to);
                }
            }
            Network::Response if message == Message::Data => self.ask_for_bus(flight),
            Network::Response if to == self.home_known(flight.line, to) => self.respond_home(&flight),
            Network::Response => self.respond_node(&flight),
        }
    }

    /// The unit of the node that `flight` reached takes its turn at the bus.
    pub(super) fn ask_for_bus(&mut self, flight: Flight) {
        let node = flight.packet.to;
        self.made += 1;
        self.at_buses.insert(self.made, flight);
        let cpu = CpuId(self.spec.of_processor.len() + node.0);
        let origin = Origin::Prefetch(self.made);
        let request = BusRequest { cpu, ready: self.now, line: flight.line, class: Class::Fetch, origin };
        self.buses[node].post(request);
    }

    /// The bus was granted to a unit; a request that the home orders by it is the caller's to perform.
    pub(super) fn unit_granted(
        &mut self,
        node: NodeId,
        time: u64,
        request: &BusRequest,
        flight: Flight,
    ) -> Option<Grant> {
        self.now = self.now.max(time);
        let bus = self.latency.bus;
        match flight.packet.message.network() {
            Network::Request => return self.request_reaches_home(node, time, request, flight),
            Network::Forward => {
                let occupancy = if flight.packet.message == Message::Inv {
                    bus.invalidate
                } else {
                    bus.of(BusOp::Read, true).1
                };
                self.buses[node].occupy(time, request, occupancy, None);
                self.forwarded(flight, time + occupancy);
            }
            Network::Response => {
                self.buses[node].occupy(time, request, bus.transfer, None);
                if node == self.home_known(flight.line, node) {
                    self.respond_home(&flight);
                } else {
                    self.respond_node(&flight);
                }
            }
        }
        None
    }

    /// A request has the bus of the home: it is ordered, unless it has to wait.
    fn request_reaches_home(
        &mut self,
        home: NodeId,
        time: u64,
        request: &BusRequest,
        flight: Flight,
    ) -> Option<Grant> {
        let mut line = self.home_lines.get(&flight.line).copied().unwrap_or_default();
        let event = line.event_of(&flight.packet);
        let takes_line = line.takes_line(&self.homes, event);
        let mut sent = Vec::new();
        let applied = self.must(line.apply(&self.homes, event, &flight.packet, &mut sent), flight.line);
        let occupied = |machine: &mut Self, cycles| machine.buses[home].occupy(time, request, cycles, None);
        if applied == Applied::Waits {
            occupied(self, self.latency.bus.invalidate);
            self.wait_at_home(flight);
            return None;
        }
        if !self.has_room(&sent) {
            occupied(self, self.latency.bus.invalidate);
            self.counts.waits_for_room += 1;
            self.waiting_for_room.push_back(flight);
            return None;
        }
        if flight.packet.message.has_line() {
            let (latency, occupancy) = self.latency.of(BusOp::WriteBack, Supplier::Memory);
            occupied(self, occupancy);
            self.put(home, takes_line, &flight, (line, sent), time + latency);
            return None;
        }
        occupied(self, self.latency.bus.of(BusOp::Read, false).1);
        let Some(ask) = self.asks.get(&(flight.packet.asker, flight.line)) else {
            unreachable!("whoever sent a request waits for it")
        };
        self.plan = Plan::Ordered(flight, event);
        Some(Grant { time, request: ask.request, home: Home(home.0) })
    }

    /// A line is given back.
    fn put(
        &mut self,
        home: NodeId,
        takes_line: bool,
        flight: &Flight,
        (line, sent): (HomeLine, Vec<Packet>),
        at: u64,
    ) {
        if takes_line {
            self.write_memory(at, home);
            self.take_line(flight, home);
        }
        self.set_home_line(flight.line, line);
        sent.into_iter().for_each(|packet| self.send(packet, flight.line, self.now));
        self.free_request(home);
        self.changed_at_home(flight.line);
    }

    /// A request that was performed on the caches is ordered: its messages leave. Who serves it, and whether a cache does.
    pub(super) fn order(
        &mut self,
        flight: &Flight,
        event: HomeEvent,
        performed: &Transaction,
    ) -> (NodeId, bool) {
        let (home, asker, supplier) = (flight.packet.to, flight.packet.asker, performed.supplier);
        let mut line = self.home_lines.get(&flight.line).copied().unwrap_or_default();
        let mut sent = Vec::new();
        self.must(line.apply(&self.homes, event, &flight.packet, &mut sent), flight.line);
        let from_cache = matches!(supplier, Supplier::Processor(other) if self.node_of(other) == home);
        let directory = self.now + self.spec.coherence.directory;
        let is_forward = |packet: &&Packet| matches!(packet.message, Message::FwdGetS | Message::FwdGetM);
        let owner = sent.iter().find(is_forward).map(|packet| packet.to);
        for packet in sent {
            let at = match packet.message {
                Message::Data if from_cache => self.now + self.latency.bus.of(BusOp::Read, true).0,
                Message::Data => self.read_memory(self.now, home) + self.latency.bus.of(BusOp::Read, false).0,
                _ => directory,
            };
            match packet.message {
                Message::FwdGetS | Message::FwdGetM => self.requests.forwards += 1,
                Message::Inv => self.requests.invalidations += 1,
                _ => {}
            }
            self.send(packet, flight.line, at);
        }
        let mut served = (home, false);
        if performed.op.is_some_and(BusOp::is_fetch) {
            let served_by = owner.unwrap_or(home);
            served = (served_by, owner.is_some() || from_cache);
            let pair = self.pair(asker, served_by);
            *(if served.1 { &mut pair.cache_reads } else { &mut pair.memory_reads }) += 1;
            if let Some(ask) = self.asks.get_mut(&(asker, flight.line)) {
                ask.served_by = Some(served_by);
            }
        }
        self.set_home_line(flight.line, line);
        match flight.own {
            Some(request) => {
                let (_, occupancy) = self.latency.of(BusOp::Invalidate, supplier);
                self.buses[home].occupy(self.now, &request, occupancy, None);
            }
            None => self.free_request(home),
        }
        self.changed_at_home(flight.line);
        served
    }

    /// Data or an acknowledgement reach the home that waits for them.
    fn respond_home(&mut self, flight: &Flight) {
        let (home, now) = (flight.packet.to, self.now);
        let Some(mut line) = self.home_lines.get(&flight.line).copied() else {
            unreachable!("a home that waits knows the line")
        };
        let event = line.event_of(&flight.packet);
        let data = event == HomeEvent::Data;
        if line.takes_line(&self.homes, event) {
            self.write_memory(now, home);
            self.take_line(flight, home);
        }
        let mut sent = Vec::new();
        let applied = self.must(line.apply(&self.homes, event, &flight.packet, &mut sent), flight.line);
        self.set_home_line(flight.line, line);
        if applied == (Applied::Done { performed: true }) {
            self.finish(home, flight.line, if data { now + self.latency.bus.transfer } else { now });
        }
        self.changed_at_home(flight.line);
    }

    fn take_line(&mut self, flight: &Flight, home: NodeId) {
        let Some(values) = &mut self.values else { return };
        let Packet { message, from, .. } = flight.packet;
        let words = match message {
            // It was sent when the node gave the line up, which may be before the write is done that it was fetched for.
            Message::PutM | Message::PutMS => Some(*values.of(from, home, flight.line)),
            _ => flight.words,
        };
        if let Some(words) = words {
            *values.of(home, home, flight.line) = words;
        }
    }

    /// It waits until the home is done with another request.
    pub(super) fn wait_at_home(&mut self, flight: Flight) {
        self.counts.waits_at_home += 1;
        self.waiting_at_home.entry(flight.line).or_default().push(flight);
    }

    /// Something that waited at a home asks for the bus again.
    pub(super) fn bring_back(&mut self, flight: Flight) {
        match flight.own {
            Some(request) => {
                let home = flight.packet.to;
                self.buses[home].post(BusRequest { ready: self.now.max(request.ready), ..request });
            }
            None => self.ask_for_bus(flight),
        }
    }

    /// The home may be done with a request: the next is looked at.
    pub(super) fn changed_at_home(&mut self, line: LineAddr) {
        let stable = self.home_lines.get(&line).is_none_or(|line| line.state.is_stable());
        if stable {
            for flight in self.waiting_at_home.remove(&line).into_iter().flatten() {
                self.bring_back(flight);
            }
        }
    }

    /// Whether there is room for every forward among `sent`, of which each node gets one at most.
    pub(super) fn has_room(&self, sent: &[Packet]) -> bool {
        let forward = |packet: &&Packet| packet.message.network() == Network::Forward;
        sent.iter().filter(forward).all(|packet| self.traffic.forwards[packet.to.0] > 0)
    }

    fn set_home_line(&mut self, number: LineAddr, line: HomeLine) {
        if line.state == HomeState::I {
            self.home_lines.remove(&number);
        } else {
            self.home_lines.insert(number, line);
        }
    }

    /// What caches held from the beginning is known to the home of the line, now that there is one.
    pub(super) fn know(&mut self, number: LineAddr, home: NodeId) {
        let Some(found) = self.found.remove(&number) else { return };
        let sharers = found.sharers.without(home);
        if let Some(owner) = found.owner.filter(|owner| *owner != home) {
            self.home_lines
                .insert(number, HomeLine { state: HomeState::M, owner: Some(owner), ..HomeLine::default() });
            self.node_lines.insert((owner, number), NodeLine { state: NodeState::M, ..NodeLine::default() });
        } else if found.owner.is_none() && !sharers.is_empty() {
            self.home_lines.insert(number, HomeLine { state: HomeState::S, sharers, ..HomeLine::default() });
        }
    }

    /// The home of a line that was asked for.
    pub(super) fn home_known(&mut self, line: LineAddr, node: NodeId) -> NodeId {
        self.pages.home(line.0 >> self.spec.page_shift, node)
    }

    /// Takes the memory of `node` to read a line at `at` or when it is free; when it would have begun if it took no
    /// longer than the table of latencies says.
    pub(super) fn read_memory(&mut self, at: u64, node: NodeId) -> u64 {
        let start = self.memory[node].take(self.now, at, self.spec.memories[node].line_time);
        self.memory_waits += start - at;
        let start = start + self.spec.memories[node].latency;
        match self.delay {
            Cycles(0) => start,
            Cycles(width) => (start + self.random.below(width + 1)).saturating_sub(width / 2).max(self.now),
        }
    }

    /// Takes the memory of `node` to write a line.
    pub(super) fn write_memory(&mut self, at: u64, node: NodeId) {
        self.memory[node].take(self.now, at, self.spec.memories[node].line_time);
    }

    pub(super) fn pair(&mut self, asker: NodeId, node: NodeId) -> &mut super::PairCounters {
        &mut self.pairs[asker.0 * self.memory.len() + node.0]
    }

    /// A pair without a cell ends the run, with what is known of the line.
    pub(super) fn must<T>(&self, applied: Result<T, MissingPair>, line: LineAddr) -> T {
        applied.unwrap_or_else(|missing| {
            panic!("{missing} (line {:#x}); what happened to it:\n{}", line.0, self.log_of(line))
        })
    }
}
