//! The buses of nodes, and which of them grants first.

use super::Arbiter;
use servsim_core::earliest::Earliest;
use servsim_core::NodeId;
use std::ops::{Index, IndexMut};

/// One for each node.
#[derive(Debug)]
pub(super) struct Buses {
    all: Vec<Arbiter>,
    earliest: Earliest,
    /// Those that may grant at another time than `earliest` has.
    touched: Vec<NodeId>,
}

impl Buses {
    pub fn new(all: Vec<Arbiter>) -> Self {
        Self { earliest: Earliest::new(all.len()), touched: Vec::new(), all }
    }

    /// The one that grants first, and when; `u64::MAX` if none does.
    pub fn first(&mut self) -> (NodeId, u64) {
        for node in self.touched.drain(..) {
            self.earliest.set(node.0, self.all[node].next_grant());
        }
        let (node, time) = self.earliest.nth(0).unwrap_or((0, u64::MAX));
        (NodeId(node), time)
    }

    /// Cycles that they were taken, on average.
    pub fn busy(&self) -> u64 {
        self.all.iter().map(|bus| bus.busy).sum::<u64>() / self.all.len() as u64
    }
}

impl Index<NodeId> for Buses {
    type Output = Arbiter;
    fn index(&self, node: NodeId) -> &Arbiter {
        &self.all[node]
    }
}

impl IndexMut<NodeId> for Buses {
    fn index_mut(&mut self, node: NodeId) -> &mut Arbiter {
        if self.touched.last() != Some(&node) {
            self.touched.push(node);
        }
        &mut self.all[node]
    }
}
