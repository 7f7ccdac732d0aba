//! What the machine has, and what this process may use of it.
//!
//! The machine is read from `/sys`; what is allowed is asked of the kernel, because the affinity that a process
//! inherited (`numactl --physcpubind`) is narrower than what it may give itself. The two are kept apart:
//! [`Topology::global`] and [`Topology::inherited`].

use crate::error::RsetError;
use crate::ids::{Nodes, Processors};
use crate::set::ResourceSet;
use crate::system;
use std::collections::BTreeMap;
use std::path::Path;

/// Processors and memory that are close to one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The kernel's number of it.
    pub id: u32,
    /// Its processors that are online; none for memory behind a link.
    pub processors: Processors,
    /// Bytes of its memory; 0 for a node that has only processors.
    pub memory: u64,
    /// How far each node's memory is, in the firmware's units: 10 is the node's own.
    pub distances: BTreeMap<u32, u32>,
}

/// A machine's nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    nodes: BTreeMap<u32, Node>,
}

impl Topology {
    /// Reads this machine.
    ///
    /// # Errors
    /// [`RsetError::File`] or [`RsetError::Unreadable`] when `/sys` does not say.
    pub fn discover() -> Result<Self, RsetError> {
        Self::read(Path::new("/"))
    }

    /// Reads the machine whose `/sys` and `/proc` are below `root`.
    ///
    /// A kernel without nodes is a machine of one.
    ///
    /// # Errors
    /// As [`Topology::discover`].
    pub fn read(root: &Path) -> Result<Self, RsetError> {
        let online: Processors = text(&root.join("sys/devices/system/cpu/online"))?.parse()?;
        let folder = root.join("sys/devices/system/node");
        if !folder.is_dir() {
            let memory = memory(&root.join("proc/meminfo"))?;
            let node = Node { id: 0, processors: online, memory, distances: [(0, 10)].into() };
            return Ok(Self { nodes: [(0, node)].into() });
        }
        let ids: Nodes = text(&folder.join("online"))?.parse()?;
        let node = |id: u32| -> Result<(u32, Node), RsetError> {
            let folder = folder.join(format!("node{id}"));
            let processors: Processors = text(&folder.join("cpulist"))?.parse()?;
            let distances = distances(&folder.join("distance"), &ids)?;
            let memory = memory(&folder.join("meminfo"))?;
            Ok((id, Node { id, processors: processors.intersection(&online), memory, distances }))
        };
        Ok(Self { nodes: ids.iter().map(node).collect::<Result<_, _>>()? })
    }

    /// The nodes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// A node by its number.
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Everything that the machine has, whether or not this process may use it.
    pub fn online(&self) -> ResourceSet {
        let processors = self.nodes().flat_map(|node| node.processors.iter()).collect();
        ResourceSet { processors, nodes: self.with_memory() }
    }

    /// Nodes that have memory.
    pub fn with_memory(&self) -> Nodes {
        self.nodes().filter(|node| node.memory > 0).map(|node| node.id).collect()
    }

    /// Everything that is online and that this process's cpuset allows: the root of all other sets.
    ///
    /// # Errors
    /// [`RsetError::Refused`] when the kernel does not tell.
    pub fn global(&self) -> Result<ResourceSet, RsetError> {
        let allowed =
            ResourceSet { processors: system::allowed_processors()?, nodes: system::allowed_nodes()? };
        Ok(self.online().intersection(&allowed))
    }

    /// Where this thread runs and takes its memory from now: what it inherited, within the global set.
    ///
    /// # Errors
    /// As [`Topology::global`].
    pub fn inherited(&self) -> Result<ResourceSet, RsetError> {
        let global = self.global()?;
        let bound = system::bound_nodes()?.unwrap_or_else(|| global.nodes.clone());
        Ok(global.intersection(&ResourceSet { processors: system::affinity(0)?, nodes: bound }))
    }

    /// The processors and the memory of one node, as far as this process may use them.
    ///
    /// # Errors
    /// [`RsetError::Outside`] for a node that is not there; as [`Topology::global`].
    pub fn node_set(&self, id: u32) -> Result<ResourceSet, RsetError> {
        let global = self.global()?;
        let Some(node) = self.node(id) else {
            let wanted = ResourceSet { nodes: Nodes::one(id), ..ResourceSet::empty() };
            return Err(outside(&wanted, &global));
        };
        Ok(global.intersection(&ResourceSet { processors: node.processors.clone(), nodes: Nodes::one(id) }))
    }

    /// Checks a set against what is online and allowed now: after hot-plug, or after a cpuset was changed.
    ///
    /// # Errors
    /// [`RsetError::Outside`], with what was lost; as [`Topology::global`].
    pub fn validate(&self, set: &ResourceSet) -> Result<(), RsetError> {
        let global = self.global()?;
        if set.is_subset(&global) {
            Ok(())
        } else {
            Err(outside(set, &global))
        }
    }

    /// The node that a processor is in.
    ///
    /// # Errors
    /// [`RsetError::Overlapping`] when it is in several; [`RsetError::Outside`] when in none.
    pub fn node_of(&self, processor: u32) -> Result<&Node, RsetError> {
        let mut of = self.nodes().filter(|node| node.processors.contains(processor));
        match (of.next(), of.next()) {
            (Some(node), None) => Ok(node),
            (Some(_), Some(_)) => Err(RsetError::Overlapping),
            (None, _) => {
                let wanted = ResourceSet { processors: Processors::one(processor), ..ResourceSet::empty() };
                Err(outside(&wanted, &self.online()))
            }
        }
    }

    /// Of `nodes`, the one whose memory is closest to `from`; the lowest of equals.
    pub fn nearest(&self, from: u32, nodes: &Nodes) -> Option<u32> {
        let far =
            |id: u32| self.node(from).and_then(|node| node.distances.get(&id)).copied().unwrap_or(u32::MAX);
        nodes.iter().min_by_key(|&id| (far(id), id))
    }
}

fn outside(set: &ResourceSet, allowed: &ResourceSet) -> RsetError {
    RsetError::Outside {
        what: set.difference(allowed).to_string(),
        processors: allowed.processors.clone(),
        nodes: allowed.nodes.clone(),
    }
}

fn text(path: &Path) -> Result<String, RsetError> {
    std::fs::read_to_string(path)
        .map_err(|source| RsetError::File { path: path.display().to_string(), source })
}

fn unreadable(what: &str, path: &Path, text: &str) -> RsetError {
    let line = text.lines().next().unwrap_or("").trim();
    RsetError::Unreadable { what: format!("{what} ({})", path.display()), text: line.to_owned() }
}

/// Bytes of `MemTotal`, which is in KiB (proc(5); a node's file puts `Node N` before it).
fn memory(path: &Path) -> Result<u64, RsetError> {
    let text = text(path)?;
    let line = text.lines().find_map(|line| line.split_once("MemTotal:"));
    line.and_then(|(_, rest)| rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024))
        .ok_or_else(|| unreadable("account of memory", path, &text))
}

/// A line of distances, one for each node that is online, in order.
fn distances(path: &Path, nodes: &Nodes) -> Result<BTreeMap<u32, u32>, RsetError> {
    let text = text(path)?;
    let numbers: Option<Vec<u32>> = text.split_ascii_whitespace().map(|field| field.parse().ok()).collect();
    numbers
        .filter(|numbers| numbers.len() == nodes.len())
        .map(|numbers| nodes.iter().zip(numbers).collect())
        .ok_or_else(|| unreadable("list of distances, one for each node online", path, &text))
}
