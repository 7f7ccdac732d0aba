//! What is wished, from the environment, and what each arena of the heap does for it.
//!
//! | variable | meaning |
//! |---|---|
//! | `SERVSIM_RSET_POLICY` | a policy of memory: `local`, `touch`, `remote`, `striped(PAGES)`, `node(NUMBER)`, `float` |
//! | `SERVSIM_RSET_NODES` | nodes to take memory from, such as `0-3`; all that this process may use when it is not set |
//! | `SERVSIM_RSET_REPORT` | a file for the report at the end, `-` for standard error |

use crate::heap::HEAP;
use crate::placing::{Placing, MOST_NODES, MOST_PROCESSORS};
use servsim_rset::{MemoryPolicy, Nodes, RsetError, Topology};
use std::env::var;

/// Reads the variables and tells the heap.
pub fn apply() {
    let Ok(policy) = var("SERVSIM_RSET_POLICY") else { return };
    if let Err(error) = wish(&policy) {
        eprintln!("servsim rset: {error}; memory is placed as the kernel does by default");
    }
}

fn wish(policy: &str) -> Result<(), RsetError> {
    let policy: MemoryPolicy = policy.trim().parse()?;
    let machine = Topology::discover()?;
    let mut set = machine.global()?;
    if let Ok(nodes) = var("SERVSIM_RSET_NODES") {
        set.nodes = nodes.parse()?;
        machine.validate(&set)?;
    }
    // Says what this machine cannot do before anything depends on it.
    policy.wish(&machine, &set)?;
    let nodes = set.nodes.intersection(&machine.with_memory());
    HEAP.place(Box::leak(Box::new(placing(policy, &machine, &nodes)?)));
    Ok(())
}

/// What the heap does: for policies that go by the thread's own node, an answer for each node.
fn placing(policy: MemoryPolicy, machine: &Topology, nodes: &Nodes) -> Result<Placing, RsetError> {
    let mut own = [None; MOST_NODES];
    let mut node_of = [0; MOST_PROCESSORS];
    for node in machine.nodes().filter(|node| (node.id as usize) < MOST_NODES) {
        let target = match policy {
            MemoryPolicy::Local => machine.nearest(node.id, nodes),
            MemoryPolicy::Remote => nodes.difference(&Nodes::one(node.id)).after(node.id),
            MemoryPolicy::On(number) => Some(number),
            _ => None,
        };
        own[node.id as usize] = target;
        for processor in node.processors.iter() {
            if let Some(of) = node_of.get_mut(processor as usize) {
                *of = node.id as u16;
            }
        }
    }
    if let Some(far) = nodes.iter().find(|&node| node as usize >= MOST_NODES) {
        return Err(RsetError::Unreadable {
            what: format!("node that the preloaded library can place memory in (up to {})", MOST_NODES - 1),
            text: far.to_string(),
        });
    }
    Ok(match policy {
        MemoryPolicy::Float => Placing::Nowhere,
        MemoryPolicy::Touch => Placing::Among(mask(nodes)),
        MemoryPolicy::Striped { stride } => {
            let mut list = [0; MOST_NODES];
            nodes.iter().zip(&mut list).for_each(|(node, slot)| *slot = node as u16);
            Placing::Striped { list, nodes: nodes.len(), stride: stride.get(), mask: mask(nodes) }
        }
        MemoryPolicy::Local | MemoryPolicy::Remote | MemoryPolicy::On(_) => Placing::ByNode { own, node_of },
    })
}

fn mask(nodes: &Nodes) -> u64 {
    nodes.iter().fold(0, |mask, node| mask | 1 << node)
}
