//! What policies say of pages, on machines that need not exist.

use crate::support::machine;
use servsim_rset::{MemoryPolicy, ResourceSet, RsetError};

#[test]
fn policies_are_read_as_they_are_printed() {
    for text in ["float", "local", "touch", "remote", "striped(4)", "node(3)"] {
        assert_eq!(text.parse::<MemoryPolicy>().unwrap().to_string(), text);
    }
    assert_eq!("striped".parse::<MemoryPolicy>().unwrap().to_string(), "striped(1)");
    for wrong in ["", "near", "striped(0)", "striped(x)", "node", "node(-1)", "local(3)", "striped(4"] {
        let fault = wrong.parse::<MemoryPolicy>().unwrap_err().to_string();
        assert!(fault.contains("policy of memory"), "{wrong}: {fault}");
    }
}

#[test]
fn striping_begins_with_the_sets_first_node_and_skips_nodes_without_memory() {
    let machine = machine("0-1\n", &[("0-1", 64), ("", 0), ("", 64), ("", 64)]);
    let set = ResourceSet { nodes: "1-3".parse().unwrap(), ..ResourceSet::empty() };
    let wish = "striped(3)".parse::<MemoryPolicy>().unwrap().wish(&machine, &set).unwrap();
    let nodes: Vec<u32> = (0..8).filter_map(|page| wish.node(page)).collect();
    assert_eq!(nodes, [2, 2, 2, 3, 3, 3, 2, 2]);
    assert!(wish.allows(3, 3) && !wish.allows(3, 2));
}

#[test]
fn what_cannot_be_wished_is_named() {
    let machine = machine("0-1\n", &[("0-1", 64), ("", 0)]);
    let one = ResourceSet { nodes: "1".parse().unwrap(), ..ResourceSet::empty() };
    let wish = |policy: MemoryPolicy, set: &ResourceSet| policy.wish(&machine, set);
    assert!(matches!(wish(MemoryPolicy::Touch, &one), Err(RsetError::NoMemory { .. })));
    assert!(matches!(wish(MemoryPolicy::Float, &one), Ok(servsim_rset::Wish::Anywhere)));
    let fault = wish(MemoryPolicy::On(7), &machine.online()).unwrap_err().to_string();
    assert!(fault.contains("memory of nodes 7"), "{fault}");
}
