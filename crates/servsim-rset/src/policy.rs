//! Where memory is to lie: the policies of Brock et al. 2001 (section 4), and what each means on this machine now.
//!
//! *Local* is the node of the thread that allocates, as in the paper; the kernel's own notion of local, the node of
//! the thread that touches a page first, is *Touch*.

use crate::error::RsetError;
use crate::ids::Nodes;
use crate::set::ResourceSet;
use crate::system;
use crate::topology::Topology;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// A policy of allocation, within a set's nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPolicy {
    /// No affinity: what the kernel does by itself.
    Float,
    /// The node where the allocating thread runs; the set's nearest to it when the set lacks that node.
    Local,
    /// For each page the node of the thread that touches it first; the set's nearest to it when the set lacks it.
    Touch,
    /// A node of the set other than where the allocating thread runs: the next by number.
    Remote,
    /// `stride` pages from the set's first node, the next from its second, and so on in turn.
    Striped {
        /// Pages in a row from one node.
        stride: NonZeroUsize,
    },
    /// The node of this number.
    On(u32),
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float => out.write_str("float"),
            Self::Local => out.write_str("local"),
            Self::Touch => out.write_str("touch"),
            Self::Remote => out.write_str("remote"),
            Self::Striped { stride } => write!(out, "striped({stride})"),
            Self::On(node) => write!(out, "node({node})"),
        }
    }
}

impl FromStr for MemoryPolicy {
    type Err = RsetError;

    /// Reads what is printed; `striped` alone has a stride of one page.
    fn from_str(text: &str) -> Result<Self, RsetError> {
        let fault = || RsetError::Unreadable {
            what: "policy of memory (float, local, touch, remote, striped(PAGES), node(NUMBER))".into(),
            text: text.to_owned(),
        };
        let (name, argument) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((name, argument)) => (name, Some(argument.trim())),
            None => (text, None),
        };
        match (name.trim(), argument) {
            ("float", None) => Ok(Self::Float),
            ("local", None) => Ok(Self::Local),
            ("touch", None) => Ok(Self::Touch),
            ("remote", None) => Ok(Self::Remote),
            ("striped", stride) => {
                stride.unwrap_or("1").parse().map(|stride| Self::Striped { stride }).map_err(|_| fault())
            }
            ("node", Some(node)) => node.parse().map(Self::On).map_err(|_| fault()),
            _ => Err(fault()),
        }
    }
}

/// What a policy comes to for one allocation: where each page may lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Anywhere.
    Anywhere,
    /// In one of these nodes.
    In(Nodes),
    /// In these nodes in turn, `stride` pages each.
    InTurn {
        /// The nodes.
        nodes: Nodes,
        /// Pages in a row from one node.
        stride: usize,
    },
}

impl Wish {
    /// The node wished for a page of the allocation, where it is one.
    pub fn node(&self, page: usize) -> Option<u32> {
        match self {
            Self::InTurn { nodes, stride } => nodes.iter().nth(page / stride % nodes.len()),
            Self::In(nodes) if nodes.len() == 1 => nodes.first(),
            _ => None,
        }
    }

    /// Whether a page of the allocation may lie in `node`.
    pub fn allows(&self, page: usize, node: u32) -> bool {
        match self {
            Self::Anywhere => true,
            Self::In(nodes) => nodes.contains(node),
            Self::InTurn { .. } => self.node(page) == Some(node),
        }
    }
}

impl MemoryPolicy {
    /// What this policy means for an allocation of this thread in `set`, now.
    ///
    /// # Errors
    /// [`RsetError::NoMemory`] for a set without memory, [`RsetError::NothingRemote`] for a remote policy where
    /// there is one node, [`RsetError::Outside`] for a node that is not in the set, and [`RsetError::Overlapping`]
    /// where the thread's own node cannot be said.
    pub fn wish(self, machine: &Topology, set: &ResourceSet) -> Result<Wish, RsetError> {
        let with_memory = machine.with_memory();
        let nodes = set.nodes.intersection(&with_memory);
        if nodes.is_empty() && self != Self::Float {
            return Err(RsetError::NoMemory { with_memory });
        }
        let own = || Ok::<u32, RsetError>(machine.node_of(system::processor()?)?.id);
        let one = |node: u32| Wish::In(Nodes::one(node));
        Ok(match self {
            Self::Float => Wish::Anywhere,
            Self::Touch => Wish::In(nodes),
            Self::Local => {
                let own = own()?;
                one(machine.nearest(own, &nodes).unwrap_or(own))
            }
            Self::Remote => {
                let own = own()?;
                let others = nodes.difference(&Nodes::one(own));
                one(others.after(own).ok_or(RsetError::NothingRemote { own })?)
            }
            Self::Striped { stride } => Wish::InTurn { nodes, stride: stride.get() },
            Self::On(node) if nodes.contains(node) => one(node),
            Self::On(node) => {
                return Err(RsetError::Outside {
                    what: ResourceSet { nodes: Nodes::one(node), ..ResourceSet::empty() }.to_string(),
                    processors: set.processors.clone(),
                    nodes,
                })
            }
        })
    }
}
