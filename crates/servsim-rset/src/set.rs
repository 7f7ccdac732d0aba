//! The set itself: processors and memory nodes together, and what can be made of two of them.

use crate::error::RsetError;
use crate::ids::{Nodes, Processors};
use std::fmt;

/// Processors on which something may run, and nodes in which its memory may lie.
///
/// Either may be empty: memory behind a link has no processors, and a set of processors alone binds threads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResourceSet {
    /// Where threads may run.
    pub processors: Processors,
    /// Where memory may lie.
    pub nodes: Nodes,
}

impl ResourceSet {
    /// Nothing at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.processors.is_empty() && self.nodes.is_empty()
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self { processors: self.processors.union(&other.processors), nodes: self.nodes.union(&other.nodes) }
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            processors: self.processors.intersection(&other.processors),
            nodes: self.nodes.intersection(&other.nodes),
        }
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            processors: self.processors.difference(&other.processors),
            nodes: self.nodes.difference(&other.nodes),
        }
    }

    /// Whether all of this is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// `wanted` as a child of this set.
    ///
    /// # Errors
    /// [`RsetError::OutsideParent`], with what this set does not have.
    pub fn child(&self, wanted: Self) -> Result<Self, RsetError> {
        let outside = wanted.difference(self);
        if outside.is_empty() {
            Ok(wanted)
        } else {
            Err(RsetError::OutsideParent { what: outside.to_string() })
        }
    }
}

impl fmt::Display for ResourceSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.processors.is_empty(), self.nodes.is_empty()) {
            (true, true) => out.write_str("nothing"),
            (false, true) => write!(out, "processors {}", self.processors),
            (true, false) => write!(out, "memory of nodes {}", self.nodes),
            (false, false) => {
                write!(out, "processors {} and memory of nodes {}", self.processors, self.nodes)
            }
        }
    }
}
