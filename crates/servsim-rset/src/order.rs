//! In which order threads are dealt to the processors of a set (Brock et al. 2001, section 4).

use crate::error::RsetError;
use crate::set::ResourceSet;
use crate::topology::Topology;
use std::fmt;
use std::str::FromStr;

/// An order of threads over nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadOrder {
    /// As many threads on a node as it has processors, then the next node.
    Fill,
    /// The first thread on the first node, the second on the second, and so on in turn.
    RoundRobin,
}

impl fmt::Display for ThreadOrder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Fill => "fill",
            Self::RoundRobin => "round-robin",
        })
    }
}

impl FromStr for ThreadOrder {
    type Err = RsetError;

    fn from_str(text: &str) -> Result<Self, RsetError> {
        match text {
            "fill" => Ok(Self::Fill),
            "round-robin" => Ok(Self::RoundRobin),
            _ => Err(RsetError::Unreadable {
                what: "order of threads (fill, round-robin)".into(),
                text: text.to_owned(),
            }),
        }
    }
}

impl ThreadOrder {
    /// The processor of each of `threads` threads in `set`; with more threads than processors it begins anew.
    ///
    /// # Errors
    /// [`RsetError::NoProcessor`] for a set without processors, [`RsetError::Overlapping`] where processors are in
    /// several nodes.
    pub fn processors(
        self,
        machine: &Topology,
        set: &ResourceSet,
        threads: usize,
    ) -> Result<Vec<u32>, RsetError> {
        let mut nodes: Vec<Vec<u32>> = Vec::new();
        for node in machine.nodes() {
            let own = node.processors.intersection(&set.processors);
            own.iter().try_for_each(|processor| machine.node_of(processor).map(drop))?;
            nodes.extend((!own.is_empty()).then(|| own.iter().collect()));
        }
        let once: Vec<u32> = match self {
            Self::Fill => nodes.concat(),
            Self::RoundRobin => {
                let longest = nodes.iter().map(Vec::len).max().unwrap_or(0);
                let round = |index: usize| nodes.iter().filter_map(move |node| node.get(index).copied());
                (0..longest).flat_map(round).collect()
            }
        };
        if once.is_empty() {
            return Err(RsetError::NoProcessor);
        }
        Ok(once.into_iter().cycle().take(threads).collect())
    }
}
