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
use std::ops::Range;

/// Links at work.
#[derive(Debug)]
pub(super) struct Links {
    nodes: usize,
    /// By sender and receiver, one after the other: a request to several nodes looks at all of a sender's.
    distances: Vec<Cycles>,
    /// Where the way from a node to another, or to itself if that has to be ordered, is in `hops`.
    ways: Vec<Range<usize>>,
    /// Links of all ways.
    hops: Vec<usize>,
    /// By sender, how a packet to all nodes spreads.
    trees: Vec<Tree>,
    /// When what is sent to all leaves its sender, and when each link of its tree begins to carry it.
    starts: Vec<u64>,
    /// By link, the node that it leads into; none for one into a switch.
    into: Vec<Option<NodeId>>,
    calendars: Vec<Calendar>,
    request_time: Cycles,
    data_time: Cycles,
    /// By link, when it begins to carry the packet that is being sent, if it does.
    carrying: Vec<Option<u64>>,
    /// The links that do.
    carry_it: Vec<usize>,
    /// Whether anybody wants to know when links into nodes are taken.
    told: bool,
    /// Spans that they were taken for and nobody was told of: node, start, length.
    pub taken: Vec<(NodeId, u64, Cycles)>,
    /// Cycles that each link was taken.
    pub busy: Vec<u64>,
    pub counts: LinkCounters,
}

/// How a packet from one node spreads to all.
#[derive(Debug, Default)]
struct Tree {
    /// The links that it takes, each once and behind that before it, with the place of that; 0 is the sender.
    links: Vec<(usize, usize)>,
    /// By node, the place of the last link to it.
    ends: Vec<usize>,
}

impl Tree {
    fn new<'a>(ways: impl Iterator<Item = &'a [usize]>, links: usize) -> Self {
        let (mut tree, mut places) = (Self::default(), vec![None; links]);
        for way in ways {
            let mut place = 0;
            for &link in way {
                place = *places[link].get_or_insert_with(|| {
                    tree.links.push((link, place));
                    tree.links.len()
                });
            }
            tree.ends.push(place);
        }
        tree
    }
}

/// Whether a packet has a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packet {
    Request,
    Data,
}

/// When a packet arrives at the nodes that it was sent to.
#[derive(Debug, Clone)]
pub(super) struct Arrivals {
    to: NodeSet,
    /// In the order of the nodes.
    times: Vec<u64>,
}

impl Arrivals {
    /// At `node`, which it was sent to.
    pub fn at(&self, node: NodeId) -> u64 {
        debug_assert!(self.to.has(node), "not sent there");
        self.times[self.to.before(node).len()]
    }

    /// At the last of them.
    pub fn last(&self) -> u64 {
        self.times.iter().copied().max().unwrap_or(0)
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
        let (mut ways, mut hops) = (Vec::new(), Vec::new());
        for (from, to) in NodeId::all(nodes).flat_map(|from| NodeId::all(nodes).map(move |to| (from, to))) {
            let begin = hops.len();
            if from == to {
                hops.extend(through_a_switch(&spec.routes, from));
            } else {
                hops.extend(&spec.routes[from][to]);
            }
            ways.push(begin..hops.len());
        }
        let way = |from: NodeId, to: NodeId| &hops[ways[from.0 * nodes + to.0].clone()];
        let tree = |from| Tree::new(NodeId::all(nodes).map(|to| way(from, to)), spec.links);
        Self {
            nodes,
            trees: NodeId::all(nodes).map(tree).collect(),
            starts: Vec::new(),
            distances: spec.distances.concat(),
            ways,
            hops,
            into,
            calendars: vec![Calendar::default(); spec.links],
            request_time: spec.request_time,
            data_time: spec.data_time,
            carrying: vec![None; spec.links],
            carry_it: Vec::new(),
            told: false,
            taken: Vec::new(),
            busy: vec![0; spec.links],
            counts: LinkCounters::default(),
        }
    }

    /// From now on `taken` says when links into nodes are taken.
    pub fn tell(&mut self) {
        self.told = true;
    }

    /// Links into each node.
    pub fn incoming(&self, nodes: usize) -> Vec<usize> {
        NodeId::all(nodes).map(|node| self.into.iter().filter(|&&into| into == Some(node)).count()).collect()
    }

    /// Sends a packet at `at`; when its last byte arrives. One within a node takes no link.
    pub fn send(&mut self, now: u64, (from, to): (NodeId, NodeId), at: u64, packet: Packet) -> u64 {
        let way = from.0 * self.nodes + to.0;
        if from == to {
            return at + self.distances[way];
        }
        let (mut start, time) = (at, self.time_of(packet));
        self.count(packet, self.ways[way].len());
        for place in self.ways[way].clone() {
            start = self.take(now, self.hops[place], start, time);
        }
        start + self.distances[way] + time
    }

    /// Sends a packet to several nodes at `at`; when its last byte arrives at each.
    pub fn send_to_several(
        &mut self,
        now: u64,
        from: NodeId,
        to: NodeSet,
        at: u64,
        packet: Packet,
    ) -> Arrivals {
        if to.len() == self.nodes {
            return self.send_to_all(now, from, to, at, packet);
        }
        let time = self.time_of(packet);
        let mut times = Vec::with_capacity(to.len());
        for to in to.iter() {
            let way = from.0 * self.nodes + to.0;
            let mut start = at;
            for place in self.ways[way].clone() {
                let link = self.hops[place];
                start = self.carrying[link].unwrap_or_else(|| self.take(now, link, start, time));
                if self.carrying[link].replace(start).is_none() {
                    self.carry_it.push(link);
                }
            }
            let bytes = if from == to { Cycles(0) } else { time };
            times.push(start + self.distances[way] + bytes);
        }
        self.count(packet, self.carry_it.len());
        self.carry_it.drain(..).for_each(|link| self.carrying[link] = None);
        Arrivals { to, times }
    }

    /// The same to all nodes, which is what most requests of a snooping machine do: without a look at who is among them.
    fn send_to_all(&mut self, now: u64, from: NodeId, to: NodeSet, at: u64, packet: Packet) -> Arrivals {
        let time = self.time_of(packet);
        let Self { calendars, busy, counts, starts, .. } = self;
        let tree = &self.trees[from];
        starts.resize(tree.links.len() + 1, 0);
        starts[0] = at;
        for (place, &(link, before)) in tree.links.iter().enumerate() {
            let asked = starts[before];
            let start = calendars[link].take(now, asked, time);
            counts.waits += start - asked;
            busy[link] += time;
            starts[place + 1] = start;
        }
        if self.told {
            for (&(link, _), &start) in tree.links.iter().zip(&starts[1..]) {
                self.taken.extend(self.into[link].map(|node| (node, start, time)));
            }
        }
        let distances = &self.distances[from.0 * self.nodes..][..self.nodes];
        let mut times: Vec<u64> =
            tree.ends.iter().zip(distances).map(|(&end, &way)| starts[end] + way + time).collect();
        times[from.0] -= time.0;
        let links = tree.links.len();
        self.count(packet, links);
        Arrivals { to, times }
    }

    /// Counts a packet on so many links.
    fn count(&mut self, packet: Packet, links: usize) {
        let (counts, links) = (&mut self.counts, links as u64);
        match packet {
            Packet::Request => counts.request_packets += links,
            Packet::Data => counts.data_packets += links,
        }
    }

    fn time_of(&self, packet: Packet) -> Cycles {
        match packet {
            Packet::Request => self.request_time,
            Packet::Data => self.data_time,
        }
    }

    /// Takes a link for a packet at `at` or when it is free; when that is.
    #[inline]
    fn take(&mut self, now: u64, link: usize, at: u64, time: Cycles) -> u64 {
        let start = self.calendars[link].take(now, at, time);
        self.counts.waits += start - at;
        self.busy[link] += time;
        if let (true, Some(node)) = (self.told, self.into[link]) {
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
