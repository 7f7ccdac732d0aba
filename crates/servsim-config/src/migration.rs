//! Pages that move from node to node: when, and what that costs.

use crate::read::Given;
use crate::storage::Fault;
use crate::values::{differs, Values};
use servsim_units::Cycles;

/// When pages move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Registered policy.
    pub policy: String,
    /// Cycles between marks, or between runs of who moves pages.
    pub interval: Cycles,
    /// Kernel work of a move that a processor waits for.
    pub work: Cycles,
    /// What a move takes from every processor that runs something.
    pub shootdown: Cycles,
    /// Tiering and draining: most pages moved in one interval.
    pub pages: usize,
    /// Tiering: one of so many requests is sampled.
    pub sample_period: u64,
    /// Tiering: samples of a hot page. Replication: requests of a node before it gets a copy.
    pub hot_threshold: u64,
    /// Draining: the node that gives up its pages.
    pub drained: Option<usize>,
}

/// What a description says, if pages move.
pub(crate) fn migration(values: &Values<'_>) -> Option<Migration> {
    let policy = values.text("node.migration");
    (policy != "none").then(|| Migration {
        policy,
        interval: Cycles(values.number("node.migration_interval")),
        work: Cycles(values.number("node.migration_work")),
        shootdown: Cycles(values.number("node.shootdown")),
        pages: values.number("node.migration_pages") as usize,
        sample_period: values.number("node.sample_period"),
        hot_threshold: values.number("node.hot_threshold"),
        drained: drained(values),
    })
}

/// The node that is to be emptied, from 0, if one is.
fn drained(values: &Values<'_>) -> Option<usize> {
    values.number("node.drained").checked_sub(1).map(|node| node as usize)
}

/// Checks what moving pages demands of the rest of a machine.
pub(crate) fn check_migration(given: &Given, fault: &mut Fault<'_>) {
    let values = Values(given);
    let policy = values.text("node.migration");
    let policy = policy.as_str();
    for key in given.keys().filter(|key| differs(given, key)) {
        let (is_theirs, of) = match *key {
            "node.shootdown" => (policy != "none", "`drain`, `next-touch`, `replicate` or `tiering`"),
            "node.migration_interval" => {
                (!["none", "replicate"].contains(&policy), "`drain`, `next-touch` or `tiering`")
            }
            "node.migration_work" => (
                ["next-touch", "replicate"].contains(&policy),
                "`next-touch` or `replicate`, which processors wait for",
            ),
            "node.migration_pages" => (["drain", "tiering"].contains(&policy), "`drain` or `tiering`"),
            "node.sample_period" => (policy == "tiering", "`tiering`"),
            "node.hot_threshold" => (["replicate", "tiering"].contains(&policy), "`replicate` or `tiering`"),
            "node.drained" => (policy == "drain", "`drain`"),
            _ => continue,
        };
        if !is_theirs {
            fault(key, format!("is for node.migration {of}, and this machine has `{policy}`"));
        }
    }
    if policy == "none" {
        return;
    }
    if values.text("node.coherence") == "messages" {
        let what = "with node.coherence `messages` the directory of a page stays at its home; choose `none`, or another \
                    node.coherence";
        fault("node.migration", what.into());
    } else if policy == "tiering" && !has_two_tiers(&values) {
        // Only here: what it advises is refused too where nodes keep coherent by messages.
        let what = "`tiering` moves pages between nodes with processors and nodes without, and this machine lacks one or \
                    the other with memory; give them in node.processors and node.memory, or choose `next-touch`";
        fault("node.migration", what.into());
    }
    if policy == "drain" {
        check_drained(&values, fault);
    }
}

/// Checks which node is to be emptied: one that is there, but not the first, which has what the kernel cannot move.
fn check_drained(values: &Values<'_>, fault: &mut Fault<'_>) {
    let count = values.number("node.count") as usize;
    let what = match drained(values) {
        None => {
            format!("`drain` empties a node, and none is named; say which of 2 to {count} with node.drained")
        }
        Some(0) => format!("the first node has memory that the kernel cannot move; name one of 2 to {count}"),
        Some(node) if node >= count => format!("there is no node {}; name one of 2 to {count}", node + 1),
        Some(_) => return,
    };
    fault("node.drained", what);
}

/// Whether a node with processors and one without have memory.
fn has_two_tiers(values: &Values<'_>) -> bool {
    let each = |key: &str| -> Vec<String> {
        values.text(key).split(',').map(|word| word.trim().to_owned()).collect()
    };
    let (processors, memory) = (each("node.processors"), each("node.memory"));
    let has_memory = |node: usize| memory.get(node).or(memory.first()).is_some_and(|size| size != "none");
    [true, false].into_iter().all(|wanted| {
        let is_wanted = |(node, count): (usize, &String)| (count != "0") == wanted && has_memory(node);
        processors.iter().enumerate().any(is_wanted)
    })
}
