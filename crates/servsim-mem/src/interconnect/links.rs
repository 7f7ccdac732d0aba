//! The links between nodes: packets to one node or to several, what they wait for, and how long each link was taken.
//!
//! A packet keeps every link on its way for its bytes, from the same time on; one to several nodes takes each link
//! that leads to any of them once. Where all ways of a node pass a switch, a packet to itself takes its two links, as
//! requests do that must be ordered among those of others. Left out: that a packet reaches later links later.

use super::calendar::Calendar;
use super::node_counts::LinkCounters;
use super::node_set::NodeSet;
use super::nodes::NodeSpec;
use servsim_core::{Cycles, NodeId};

/// Links at work.
#[derive(Debug)]
pub(super) struct Links {
    distances: Vec<Vec<Cycles>>,
    routes: Vec<Vec<Vec<usize>>>,
    /// By node, the way of a packet to itself that has to be ordered.
    to_itself: Vec<Vec<usize>>,
    /// By link, the node that it leads into; none for one into a switch.
    into: Vec<Option<NodeId>>,
    calendars: Vec<Calendar>,
    request_time: Cycles,
    data_time: Cycles,
    /// By link, when it begins to carry the packet that is being sent, if it does.
    carrying: Vec<Option<u64>>,
    /// The links that do.
    carry_it: Vec<usize>,
    /// Spans that links into nodes were taken for and nobody was told of: node, start, length.
    pub taken: Vec<(NodeId, u64, Cycles)>,
    /// Cycles that each link was taken.
    pub busy: Vec<u64>,
    pub counts: LinkCounters,
}

/// Whether a packet has a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packet {
    Request,
    Data,
}

/// When a packet arrives at the nodes that it was sent to.
#[derive(Debug, Clone)]
pub(super) struct Arrivals(Vec<(NodeId, u64)>);

impl Arrivals {
    /// At `node`, which it was sent to.
    pub fn at(&self, node: NodeId) -> u64 {
        self.0
            .iter()
            .find(|(other, _)| *other == node)
            .map_or_else(|| unreachable!("not sent there"), |a| a.1)
    }

    /// At the last of them.
    pub fn last(&self) -> u64 {
        self.0.iter().map(|(_, time)| *time).max().unwrap_or(0)
    }
}

impl Links {
    pub fn new(spec: &NodeSpec) -> Self {
        let nodes = spec.distances.len();
        let mut into = vec![None; spec.links];
        for (from, to) in NodeId::all(nodes).flat_map(|from| NodeId::all(nodes).map(move |to| (from, to))) {
            if let Some(&last) = spec.routes[from][to].last() {
                into[last] = Some(to);
            }
        }
        Self {
            distances: spec.distances.clone(),
            to_itself: NodeId::all(nodes).map(|node| through_a_switch(&spec.routes, node)).collect(),
            routes: spec.routes.clone(),
            into,
            calendars: vec![Calendar::default(); spec.links],
            request_time: spec.request_time,
            data_time: spec.data_time,
            carrying: vec![None; spec.links],
            carry_it: Vec::new(),
            taken: Vec::new(),
            busy: vec![0; spec.links],
            counts: LinkCounters::default(),
        }
    }

    /// Links into each node.
    pub fn incoming(&self, nodes: usize) -> Vec<usize> {
        NodeId::all(nodes).map(|node| self.into.iter().filter(|&&into| into == Some(node)).count()).collect()
    }

    /// Sends a packet at `at`; when its last byte arrives. One within a node takes no link.
    pub fn send(&mut self, now: u64, (from, to): (NodeId, NodeId), at: u64, packet: Packet) -> u64 {
        if from == to {
            return at + self.distances[from][to];
        }
        self.send_to_all(now, from, NodeSet::of(to), at, packet).at(to)
    }

    /// Sends a packet to several nodes at `at`; when its last byte arrives at each.
    pub fn send_to_all(&mut self, now: u64, from: NodeId, to: NodeSet, at: u64, packet: Packet) -> Arrivals {
        let time = match packet {
            Packet::Request => self.request_time,
            Packet::Data => self.data_time,
        };
        let mut arrivals = Vec::with_capacity(to.len());
        for to in to.iter() {
            let links = if from == to { self.to_itself[from].len() } else { self.routes[from][to].len() };
            let mut start = at;
            for place in 0..links {
                let link =
                    if from == to { self.to_itself[from][place] } else { self.routes[from][to][place] };
                start = self.carrying[link].unwrap_or_else(|| self.take(now, link, start, time, packet));
                if self.carrying[link].replace(start).is_none() {
                    self.carry_it.push(link);
                }
            }
            let bytes = if from == to { Cycles(0) } else { time };
            arrivals.push((to, start + self.distances[from][to] + bytes));
        }
        self.carry_it.drain(..).for_each(|link| self.carrying[link] = None);
        Arrivals(arrivals)
    }

    /// Takes a link for a packet at `at` or when it is free; when that is.
    fn take(&mut self, now: u64, link: usize, at: u64, time: Cycles, packet: Packet) -> u64 {
        let start = self.calendars[link].take(now, at, time);
        *(if packet == Packet::Data {
            &mut self.counts.data_packets
        } else {
            &mut self.counts.request_packets
        }) += 1;
        self.counts.waits += start - at;
        self.busy[link] += time;
        if let Some(node) = self.into[link] {
            self.taken.push((node, start, time));
        }
        start
    }
}

/// The links out of `node` and back into it, if all its ways to and from others begin and end with these and pass
/// something between.
fn through_a_switch(routes: &[Vec<Vec<usize>>], node: NodeId) -> Vec<usize> {
    let others = || NodeId::all(routes.len()).filter(move |&other| other != node);
    let mut ends = others().map(|other| {
        let (there, back) = (&routes[node.0][other], &routes[other.0][node]);
        (there.len() > 1).then(|| (there.first().copied(), back.last().copied()))
    });
    match ends.next() {
        Some(Some((Some(out), Some(back)))) if ends.all(|end| end == Some((Some(out), Some(back)))) => {
            vec![out, back]
        }
        _ => Vec::new(),
    }
}
