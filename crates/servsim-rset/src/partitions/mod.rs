//! Partitions of a machine that runs: whole nodes set apart for some processes, and moved from one to another.
//!
//! A partition is a group of processes (cgroup v2) with the processors of its nodes to itself, and with its memory in
//! them; what no partition holds is the *rest*, where the kernel and everything else stays (Brock et al. 2001, section
//! 5). The rest keeps the machine's first node, as in the paper. When a node leaves a partition, the kernel moves the
//! memory of the partition's processes out of it while they run.
//!
//! What is done is planned first, as [`Step`]s that can be looked at, and each is noted in a journal before it is
//! done. So [`Partitions::undo`] takes back what was done here and nothing else, also after a crash.

mod groups;
mod journal;
mod step;

pub use journal::Journal;
pub use step::Step;

use crate::error::RsetError;
use crate::ids::{Nodes, Processors};
use crate::set::ResourceSet;
use crate::topology::Topology;
use groups::Groups;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is in no partition.
pub const REST: &str = "rest";

/// How often processes of a group are returned that is to be empty: one may begin another at any time.
const ATTEMPTS: u32 = 100;

/// The partitions of this machine, as they are and as they are to be.
#[derive(Debug)]
pub struct Partitions {
    machine: Topology,
    groups: Groups,
    journal: Journal,
}

/// A partition as the kernel has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// What it may use.
    pub set: ResourceSet,
    /// Its processes.
    pub processes: Vec<i32>,
    /// Processor time that its processes used since it was made, those that ended included.
    pub processor_time: Duration,
}

impl Partitions {
    /// Looks at this machine; `journal` is where steps are noted.
    ///
    /// # Errors
    /// [`RsetError::NoPartitions`] where the kernel does not offer them; as [`Topology::discover`].
    pub fn open(journal: Journal) -> Result<Self, RsetError> {
        Ok(Self { machine: Topology::discover()?, groups: Groups::find()?, journal })
    }

    /// The partitions that are there, by name.
    ///
    /// # Errors
    /// [`RsetError::File`] and [`RsetError::Unreadable`] for what the kernel does not tell.
    pub fn present(&self) -> Result<BTreeMap<String, Partition>, RsetError> {
        self.groups.names()?.into_iter().map(|name| Ok((name.clone(), self.groups.read(&name)?))).collect()
    }

    /// The steps that set nodes apart under new names.
    ///
    /// # Errors
    /// [`RsetError::Partition`] for names that exist or are none, for nodes that are taken, the first one, without
    /// processors or memory, or unknown.
    pub fn plan(&self, wanted: &BTreeMap<String, Nodes>) -> Result<Vec<Step>, RsetError> {
        let present = self.present()?;
        let mut free = self.rest(&present);
        let mut steps = self.groups.enable()?;
        for (name, nodes) in wanted {
            let wrong = |why: String| RsetError::Partition { name: name.clone(), why };
            if name == REST || !groups::is_name(name) {
                return Err(wrong(
                    "a name is up to 32 small letters, digits and '-', and not \"rest\"".into(),
                ));
            }
            if present.contains_key(name) {
                return Err(wrong("it exists: move nodes to it, or undo first".into()));
            }
            if nodes.is_empty() {
                return Err(wrong("it has no node".into()));
            }
            for node in nodes.iter() {
                self.may_leave(name, node, &free)?;
            }
            free = free.difference(nodes);
            steps.extend(self.groups.make(name, &self.set(nodes)));
        }
        Ok(steps)
    }

    /// The steps that move a node from one partition to another; either may be the [`REST`].
    ///
    /// # Errors
    /// [`RsetError::Partition`] for partitions that are not there, a node that is not in the first, its last one, or
    /// the machine's first one.
    pub fn plan_move(&self, node: u32, from: &str, to: &str) -> Result<Vec<Step>, RsetError> {
        let present = self.present()?;
        let one = Nodes::one(node);
        let mut steps = Vec::new();
        if from == to {
            return Err(RsetError::Partition {
                name: to.to_owned(),
                why: "it is moved to where it is".into(),
            });
        }
        if from == REST {
            self.may_leave(to, node, &self.rest(&present))?;
        } else {
            let held = &present.get(from).ok_or_else(|| missing(from, &present))?.set.nodes;
            if !held.contains(node) {
                let why = format!("it holds nodes {held}, not node {node}");
                return Err(RsetError::Partition { name: from.to_owned(), why });
            }
            let left = held.difference(&one);
            if left.is_empty() {
                let why = format!("node {node} is its last: undo the partitions instead");
                return Err(RsetError::Partition { name: from.to_owned(), why });
            }
            steps.extend(self.groups.shrink(from, &self.set(&left)));
        }
        if to != REST {
            let held = &present.get(to).ok_or_else(|| missing(to, &present))?.set.nodes;
            steps.extend(self.groups.grow(to, &self.set(&held.union(&one))));
        }
        Ok(steps)
    }

    /// The steps that put a process, with all its threads, into a partition.
    ///
    /// # Errors
    /// [`RsetError::Partition`] for a partition that is not there.
    pub fn plan_adopt(&self, process: i32, name: &str) -> Result<Vec<Step>, RsetError> {
        let present = self.present()?;
        let mut steps = vec![self.groups.adopt(process, name)];
        if name != REST {
            let part = present.get(name).ok_or_else(|| missing(name, &present))?;
            steps.push(self.groups.gather(name, &part.set));
        }
        Ok(steps)
    }

    /// Does what was planned, each step noted before it is done; returns how many pages would not move.
    ///
    /// # Errors
    /// [`RsetError::Step`] for the first that the kernel refuses or does not follow; those before it stay done.
    pub fn execute(&self, steps: &[Step]) -> Result<u64, RsetError> {
        let _alone = self.journal.lock()?;
        steps.iter().map(|step| self.take(step)).sum()
    }

    /// Takes back everything that the journal says was done here: processes return to the rest, groups go.
    ///
    /// Returns the steps that were needed: none where nothing was left.
    ///
    /// # Errors
    /// As [`Partitions::execute`].
    pub fn undo(&self) -> Result<Vec<Step>, RsetError> {
        let _alone = self.journal.lock()?;
        let mut undone = Vec::new();
        for done in self.journal.standing()?.into_iter().rev() {
            for attempt in 0.. {
                let steps = self.groups.inverse(&done)?;
                match steps.iter().try_for_each(|step| self.take(step).map(drop)) {
                    // A process came or ended meanwhile: another look.
                    Err(RsetError::Step { .. }) if attempt < ATTEMPTS && !steps.is_empty() => {}
                    outcome => {
                        outcome?;
                        undone.extend(steps);
                        break;
                    }
                }
            }
        }
        self.journal.close()?;
        Ok(undone)
    }

    fn take(&self, step: &Step) -> Result<u64, RsetError> {
        self.journal.note(step)?;
        step.execute().or_else(|error| {
            self.journal.failed()?;
            Err(error)
        })
    }

    /// Nodes of the machine that are in no partition.
    fn rest(&self, present: &BTreeMap<String, Partition>) -> Nodes {
        let taken = present.values().fold(Nodes::default(), |all, one| all.union(&one.set.nodes));
        self.machine.with_memory().difference(&taken)
    }

    /// Refuses a node that cannot leave the rest.
    fn may_leave(&self, name: &str, node: u32, rest: &Nodes) -> Result<(), RsetError> {
        let wrong = |why: String| Err(RsetError::Partition { name: name.to_owned(), why });
        let Some(described) = self.machine.node(node) else {
            let nodes: Nodes = self.machine.nodes().map(|node| node.id).collect();
            return wrong(format!("there is no node {node}; this machine has {nodes}"));
        };
        if self.machine.nodes().next().is_some_and(|first| first.id == node) {
            return wrong(format!(
                "node {node} is the machine's first: the kernel lives there, and it stays"
            ));
        }
        if !rest.contains(node) {
            return wrong(format!("node {node} belongs to another partition; free are nodes {rest}"));
        }
        if described.processors.is_empty() || described.memory == 0 {
            return wrong(format!("node {node} has no processors, or no memory"));
        }
        Ok(())
    }

    fn set(&self, nodes: &Nodes) -> ResourceSet {
        let processors = nodes
            .iter()
            .filter_map(|node| self.machine.node(node))
            .fold(Processors::default(), |all, node| all.union(&node.processors));
        ResourceSet { processors, nodes: nodes.clone() }
    }
}

fn missing(name: &str, present: &BTreeMap<String, Partition>) -> RsetError {
    let names: Vec<&str> = present.keys().map(String::as_str).chain([REST]).collect();
    let why = format!("there is no such partition; there is: {}", names.join(", "));
    RsetError::Partition { name: name.to_owned(), why }
}
