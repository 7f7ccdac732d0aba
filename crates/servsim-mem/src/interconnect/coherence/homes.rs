//! What the home of a line knows of its copies: the node that owns it, and nodes that may share it. The home sees
//! every request in the one order, so the owner is exact; sharers that dropped their copy silently stay listed.
//!
//! Plain functions of one entry, which the simulator keeps for each line and the exploration of BASH walks
//! (`protocol/agreement.rs`). An owner that tracks the sharers added since it became one holds the same entry, so
//! that both judge a request alike without a message.

use super::super::node_set::NodeSet;
use servsim_core::NodeId;

/// What is known of one line; the default is a line that memory owns and nobody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Entry {
    /// The node whose copy is dirty; memory without one.
    pub owner: Option<NodeId>,
    /// Nodes that may have further copies.
    pub sharers: NodeSet,
}

impl Entry {
    /// The nodes beside the home and the asker's that have to see a request: the owner, and for a write every sharer.
    pub fn needed(&self, write: bool, asker: NodeId) -> NodeSet {
        let sharers = if write { self.sharers } else { NodeSet::NONE };
        self.owner.map_or(sharers, |owner| sharers.with(owner)).without(asker)
    }

    /// Whether a request to `destinations` reaches all that have to see it.
    pub fn suffices(&self, write: bool, asker: NodeId, destinations: NodeSet) -> bool {
        self.needed(write, asker).within(destinations)
    }

    /// A request was performed.
    pub fn performed(&mut self, write: bool, asker: NodeId) {
        if write {
            *self = Self { owner: Some(asker), sharers: NodeSet::NONE };
        } else {
            self.sharers = self.sharers.with(asker);
        }
    }

    /// The line comes back from `node`, whose other caches may keep copies if it has `others`. A write-back that
    /// comes after another took the line changes nothing.
    pub fn written_back(&mut self, node: NodeId, others: bool) {
        if self.owner == Some(node) {
            self.owner = None;
            if others {
                self.sharers = self.sharers.with(node);
            }
        }
    }

    /// `node` was found with a copy, dirty if it owns the line.
    pub fn found(&mut self, node: NodeId, dirty: bool) {
        if dirty {
            self.owner = Some(node);
        } else {
            self.sharers = self.sharers.with(node);
        }
    }
}
