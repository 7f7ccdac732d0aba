//! Sets of nodes, of which a machine has at most 64.

use servsim_core::NodeId;

/// A set of nodes, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NodeSet(u64);

impl NodeSet {
    /// No node.
    pub const NONE: Self = Self(0);

    /// The first `count` nodes.
    pub fn first(count: usize) -> Self {
        Self(if count >= 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// One node.
    pub fn of(node: NodeId) -> Self {
        Self(1 << node.0)
    }

    /// The set with `node`.
    #[must_use]
    pub fn with(self, node: NodeId) -> Self {
        Self(self.0 | 1 << node.0)
    }

    /// The set without `node`.
    #[must_use]
    pub fn without(self, node: NodeId) -> Self {
        Self(self.0 & !(1 << node.0))
    }

    /// Its nodes before `node`.
    #[must_use]
    pub fn before(self, node: NodeId) -> Self {
        Self(self.0 & ((1 << node.0) - 1))
    }

    /// Whether `node` is in it.
    pub fn has(self, node: NodeId) -> bool {
        self.0 >> node.0 & 1 != 0
    }

    /// Whether every node of it is in `other`.
    pub fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether there is none in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are in it.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Its nodes, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let node = (left != 0).then(|| NodeId(left.trailing_zeros() as usize))?;
            left &= left - 1;
            Some(node)
        })
    }
}
