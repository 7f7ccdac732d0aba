//! Exhaustive exploration of BASH for one block: what the home decides, what the owner decides without asking, and
//! what is true, for every order in which requests to any sets of nodes can come.
//!
//! It runs the functions that the simulator runs (`interconnect/coherence/homes.rs`) and the table of the protocol.
//! Each node has one cache, and at most one request and one write-back under way; a home apart from them keeps the
//! block. A request is made to all or to the home alone, at any time, and ordered at any later time; those whom it is
//! sent to see it then. In every reachable state
//!
//! * an owner that sees a request comes to the verdict of the home;
//! * a request that is found to suffice reaches everybody who has the block, and finds it where it is expected;
//! * there is a single writer or there are readers, and every copy is fresh, as in `checker.rs`;
//! * no request fails more than three times, and ordering what is under way ends with nothing under way.

use super::table::{BusOp, OnAccess, OnSnoop, Snoop, State, Table, INVALID};
use crate::interconnect::coherence::homes::Entry;
use crate::interconnect::node_set::NodeSet;
use servsim_core::NodeId;
use std::collections::{HashSet, VecDeque};

/// The rules around the table, to be broken by tests; the default is BASH.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Whether a request of `asker` to `destinations` suffices, by what is known.
    pub suffices: fn(&Entry, bool, NodeId, NodeSet) -> bool,
    /// What is known after a request that was performed.
    pub performed: fn(&mut Entry, bool, NodeId),
    /// What is known after a write-back.
    pub written_back: fn(&mut Entry, NodeId),
    /// Whether the home asks again; otherwise the request is forgotten.
    pub asks_again: bool,
    /// Retries after which a request goes to all.
    pub last_retry: u8,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            suffices: Entry::suffices,
            performed: Entry::performed,
            written_back: |entry, node| entry.written_back(node, false),
            asks_again: true,
            last_retry: 3,
        }
    }
}

/// A request that waits to be ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    write: bool,
    to: NodeSet,
    failed: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Node {
    state: State,
    fresh: bool,
    /// It gave up its dirty copy, which it answers for until the write-back is ordered.
    leaving: bool,
    /// The sharers that were added since it became the owner.
    added: NodeSet,
    asked: Option<Asked>,
    /// It asked and was forgotten.
    forgotten: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    nodes: Vec<Node>,
    home: Entry,
    memory_fresh: bool,
}

/// What can happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    Ask { node: NodeId, write: bool, to_all: bool },
    Order(NodeId),
    Evict(NodeId),
    WriteBack(NodeId),
}

/// Explores `table` under `rules` with `nodes` nodes; distinct states.
///
/// # Errors
/// What is wrong in the first state that is, and how it was reached.
pub fn explore(table: &Table, rules: &Rules, nodes: usize) -> Result<usize, String> {
    let start = World { nodes: vec![Node::default(); nodes], home: Entry::default(), memory_fresh: true };
    let mut seen = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([(start, Vec::new())]);
    let explorer = Explorer { table, rules };
    while let Some((world, path)) = queue.pop_front() {
        explorer.drain(&world).map_err(|what| format!("{what}, after {path:?}"))?;
        for event in events(nodes) {
            let mut next = world.clone();
            let happened = explorer.apply(&mut next, event);
            if happened.map_err(|what| format!("{what}, after {path:?} and {event:?}"))?
                && seen.insert(next.clone())
            {
                let longer = path.iter().copied().chain([event]).collect();
                queue.push_back((next, longer));
            }
        }
    }
    Ok(seen.len())
}

fn events(nodes: usize) -> Vec<Event> {
    let of = |node: NodeId| {
        let ask = |(write, to_all)| Event::Ask { node, write, to_all };
        [(false, false), (false, true), (true, false), (true, true)].map(ask).into_iter().chain([
            Event::Order(node),
            Event::Evict(node),
            Event::WriteBack(node),
        ])
    };
    NodeId::all(nodes).flat_map(of).collect()
}

struct Explorer<'a> {
    table: &'a Table,
    rules: &'a Rules,
}

impl Explorer<'_> {
    /// Whether the event could happen.
    fn apply(&self, world: &mut World, event: Event) -> Result<bool, String> {
        let all = NodeSet::first(world.nodes.len());
        match event {
            Event::Ask { node, write, to_all } => {
                let Node { state, leaving, asked, forgotten, .. } = world.nodes[node];
                if asked.is_some() || leaving || forgotten || self.needs(state, write).is_none() {
                    return Ok(false);
                }
                let to = if to_all { all } else { NodeSet::of(node) };
                world.nodes[node].asked = Some(Asked { write, to, failed: 0 });
            }
            Event::Order(node) => {
                let Some(asked) = world.nodes[node].asked.take() else { return Ok(false) };
                self.order(world, node, asked, all)?;
            }
            Event::Evict(node) => {
                let Node { state, leaving, asked, .. } = world.nodes[node];
                if state == INVALID || leaving || asked.is_some() {
                    return Ok(false);
                }
                if self.dirty(state) {
                    world.nodes[node].leaving = true;
                } else {
                    world.nodes[node] = Node::default();
                }
            }
            Event::WriteBack(node) => {
                if !world.nodes[node].leaving {
                    return Ok(false);
                }
                let Node { state, fresh, .. } = std::mem::take(&mut world.nodes[node]);
                if self.dirty(state) {
                    world.memory_fresh = fresh;
                }
                (self.rules.written_back)(&mut world.home, node);
            }
        }
        self.check(world)?;
        Ok(true)
    }

    fn dirty(&self, state: State) -> bool {
        self.table.rows[usize::from(state)].info.dirty
    }

    /// The transaction that an access needs, and the state after it.
    fn needs(&self, state: State, write: bool) -> Option<(BusOp, State)> {
        let row = &self.table.rows[usize::from(state)];
        match if write { &row.write } else { &row.read } {
            OnAccess::Local(_) => None,
            OnAccess::Bus { op, branches, .. } => Some((*op, branches[0].next)),
        }
    }

    /// The request of `asker` comes to its turn.
    fn order(&self, world: &mut World, asker: NodeId, asked: Asked, all: NodeSet) -> Result<(), String> {
        let Asked { write, to, failed } = asked;
        let to = to.with(asker);
        let Some((op, next)) = self.needs(world.nodes[asker].state, write) else { return Ok(()) };
        let suffices = (self.rules.suffices)(&world.home, write, asker, to);
        for node in to.iter() {
            let Node { state, added, .. } = world.nodes[node];
            let known = Entry { owner: Some(node), sharers: added };
            if self.dirty(state) && (self.rules.suffices)(&known, write, asker, to) != suffices {
                return Err(format!("owner {node} and the home judge a request of node {asker} differently"));
            }
        }
        if !suffices {
            return self.ask_again(world, asker, asked, all, failed + 1);
        }
        let column = Snoop::of(op, false);
        let mut fresh = None;
        for node in to.without(asker).iter() {
            let state = world.nodes[node].state;
            let OnSnoop::Act { supply, next, .. } =
                self.table.rows[usize::from(state)].snoop[column as usize]
            else {
                return Err(format!("node {node} has no answer in {}", self.table.state_name(state)));
            };
            let copy = &mut world.nodes[node];
            if supply {
                fresh = Some(copy.fresh);
            }
            copy.state = next;
            if next == INVALID {
                (copy.fresh, copy.added) = (false, NodeSet::NONE);
            } else if self.dirty(next) && !write {
                copy.added = copy.added.with(asker);
            }
        }
        if op.is_fetch() {
            if fresh.is_none() && world.home.owner.is_some_and(|owner| owner != asker) {
                return Err("nobody supplies a block that memory does not own".into());
            }
            world.nodes[asker].fresh = fresh.unwrap_or(world.memory_fresh);
        }
        let copy = &mut world.nodes[asker];
        (copy.state, copy.added, copy.leaving) = (next, NodeSet::NONE, false);
        (self.rules.performed)(&mut world.home, write, asker);
        if write {
            world.nodes.iter_mut().enumerate().for_each(|(node, copy)| copy.fresh = node == asker.0);
            world.memory_fresh = false;
        }
        Ok(())
    }

    fn ask_again(
        &self,
        world: &mut World,
        asker: NodeId,
        asked: Asked,
        all: NodeSet,
        failed: u8,
    ) -> Result<(), String> {
        if failed > self.rules.last_retry {
            return Err(format!("a request of node {asker} failed {failed} times"));
        }
        if !self.rules.asks_again {
            world.nodes[asker].forgotten = true;
            return Ok(());
        }
        let to = if failed == self.rules.last_retry { all } else { world.home.needed(asked.write, asker) };
        world.nodes[asker].asked = Some(Asked { to, failed, ..asked });
        Ok(())
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let info = |node: &Node| self.table.rows[usize::from(node.state)].info;
        let held: Vec<&Node> = world.nodes.iter().filter(|node| node.state != INVALID).collect();
        if held.len() > 1 && held.iter().any(|node| info(node).exclusive) {
            return Err("an exclusive copy beside another".into());
        }
        if held.iter().any(|node| !node.fresh) {
            return Err("a copy is stale".into());
        }
        let owners = || world.nodes.iter().enumerate().filter(|(_, node)| info(node).dirty);
        if owners().map(|(node, _)| NodeId(node)).collect::<Vec<_>>() != Vec::from_iter(world.home.owner) {
            return Err(format!("the home takes {:?} for the owner", world.home.owner));
        }
        if owners().any(|(_, node)| node.added != world.home.sharers) {
            return Err("owner and home know different sharers".into());
        }
        if world.home.owner.is_none() && !world.memory_fresh {
            return Err("memory owns a block that it has not got".into());
        }
        Ok(())
    }

    /// Orders everything under way; nothing may be left.
    fn drain(&self, world: &World) -> Result<(), String> {
        let mut world = world.clone();
        for _ in 0..=self.rules.last_retry {
            for node in NodeId::all(world.nodes.len()) {
                self.apply(&mut world, Event::Order(node))?;
                self.apply(&mut world, Event::WriteBack(node))?;
            }
        }
        match world.nodes.iter().position(|node| node.asked.is_some() || node.forgotten) {
            Some(node) => Err(format!("the request of node {node} is never performed")),
            None => Ok(()),
        }
    }
}
