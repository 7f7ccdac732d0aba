//! Who is told of a request on the ordered network of nodes: one policy per file, one line each in [`COHERENCE`].
//!
//! All three keep the same table of states (docs/adr/0333): a transition is made at once, where a request that reaches
//! everybody who has to see it is ordered. They differ in whom a request goes to first, and in what the home does when
//! that was not enough.

pub mod bash;
mod directory;
pub mod homes;
mod snooping;

pub use bash::Adaptive;

use servsim_core::{Cycles, NodeId};
use std::fmt::Debug;

/// Whom a request goes to when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All nodes.
    Everybody,
    /// The home of its line; and back to the asker, if the policy does so.
    Home,
}

/// What the home does with a request that came to it alone and concerns others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtHome {
    /// Nothing: all requests go to everybody, and no home keeps track.
    Nothing,
    /// It forwards to the owner and invalidates sharers; the request was ordered when it was made.
    Forwards,
    /// It sends the request once more, to be ordered anew, to all whom it knows to be concerned.
    AsksAgain,
}

/// Decides whom requests go to.
pub(super) trait Policy: Debug {
    /// What a home does.
    fn at_home(&self) -> AtHome;
    /// Whom a request that node `asker` makes at `now` goes to.
    fn reach(&mut self, asker: NodeId, now: u64) -> Reach;
    /// Whether it goes by how long links are taken.
    fn watches_links(&self) -> bool {
        false
    }
    /// A link into `node` is taken for `span` from `start`.
    fn link_taken(&mut self, node: NodeId, start: u64, span: Cycles) {
        let _ = (node, start, span);
    }
}

/// How the nodes of a machine keep coherent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoherenceSpec {
    /// By name.
    pub policy: String,
    /// Time of a look-up in a home's directory.
    pub directory: Cycles,
    /// How [`bash`] decides.
    pub adaptive: Adaptive,
}

impl Default for CoherenceSpec {
    fn default() -> Self {
        Self { policy: "snooping".to_owned(), directory: Cycles(0), adaptive: Adaptive::default() }
    }
}

/// What a policy is made for.
#[derive(Debug)]
pub(super) struct Made<'a> {
    pub spec: &'a CoherenceSpec,
    /// Links into each node.
    pub incoming: &'a [usize],
    pub seed: u64,
}

/// A registered policy: its name and what makes it.
type Entry = (&'static str, fn(&Made<'_>) -> Box<dyn Policy>);

/// Every policy by the name that descriptions use.
pub(super) const COHERENCE: &[Entry] =
    &[("snooping", snooping::policy), ("directory", directory::policy), ("bash", bash::policy)];

/// The names of the policies.
pub fn coherence_names() -> impl Iterator<Item = &'static str> {
    COHERENCE.iter().map(|(name, _)| *name)
}

servsim_core::counters! {
    /// What became of requests between nodes.
    pub struct RequestCounters {
        broadcasts: u64 = "nodes.broadcasts" [], "requests", Parts, [summary windows],
            "Requests that went to all nodes when they were made";
        unicasts: u64 = "nodes.unicasts" [], "requests", Parts, [summary windows],
            "Requests that went to the home of their line alone when they were made";
        retries: u64 = "nodes.retries" [], "requests", Parts, [summary windows],
            "Requests that a home sent again, because not all whom they concerned had seen them";
        retries_to_all: u64 = "nodes.retries_to_all" [], "requests", Parts, [summary],
            "Requests that a home sent to all nodes, because they had failed twice before";
        superseded: u64 = "nodes.superseded" [], "requests", Parts, [summary],
            "Requests that a home sent again for nothing: their processor needed no transaction any more";
        forwards: u64 = "nodes.forwards" [], "packets", Parts, [summary],
            "Requests that a home forwarded to the owner of their line";
        invalidations: u64 = "nodes.invalidations" [], "packets", Parts, [summary],
            "Invalidations that a home sent to nodes that might share a line";
        link_busy: u64 = "nodes.link_busy_cycles" [], "cycles", Parts, [summary windows],
            "Cycles that links between nodes were taken, all together";
    }
}
