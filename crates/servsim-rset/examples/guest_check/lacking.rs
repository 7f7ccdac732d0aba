//! Nodes that lack something: one of memory alone, as behind a link, and one of processors alone.

use crate::checks::{machine, on, stripes};
use serde_json::{json, Value};
use servsim_rset::{bind_thread, Block, MemoryPolicy, ResourceSet, RsetError, ThreadOrder};

/// The guest's node of memory alone, and that of processors alone: the kernel numbers those with processors first.
const MEMORY: u32 = 3;
const PROCESSORS: u32 = 2;
const BYTES: usize = 1 << 20;

/// Every policy and order among such nodes, and what each refuses.
pub fn nodes() -> Value {
    let (machine, all) = machine();
    assert_eq!((all.processors.to_string(), all.nodes.to_string()), ("0-15".into(), "0-1,3".into()));
    let (memory, processors) = (machine.node_set(MEMORY).unwrap(), machine.node_set(PROCESSORS).unwrap());
    assert_eq!(memory.to_string(), "memory of nodes 3");
    assert_eq!(processors.to_string(), "processors 8-15");

    let in_turn = ThreadOrder::RoundRobin.processors(&machine, &all, 4).unwrap();
    assert_eq!(in_turn, [0, 4, 8, 1], "a node without processors has no turn");
    let nobody = ThreadOrder::Fill.processors(&machine, &memory, 1);
    assert!(matches!(nobody, Err(RsetError::NoProcessor)), "{nobody:?}");
    assert!(matches!(bind_thread(0, &memory), Err(RsetError::NoProcessor)));
    let nowhere = Block::allocate(&machine, &processors, stripes(1), BYTES);
    assert!(matches!(nowhere, Err(RsetError::NoMemory { .. })), "{nowhere:?}");
    let refused = Block::allocate(&machine, &all, MemoryPolicy::On(PROCESSORS), BYTES);
    assert!(matches!(refused, Err(RsetError::Outside { .. })), "{refused:?}");

    let mut found = serde_json::Map::new();
    for policy in [
        MemoryPolicy::Local,
        MemoryPolicy::Touch,
        MemoryPolicy::Remote,
        MemoryPolicy::On(MEMORY),
        stripes(1),
        stripes(4),
    ] {
        let block = on(PROCESSORS, || {
            let mut block = Block::allocate(&machine, &all, policy, BYTES).unwrap();
            block.fill(1);
            block
        });
        let told = block.verify().unwrap();
        assert!(told.is_as_wished(), "{policy}: {told:?}");
        let pages = |node: u32| told.per_node.get(&node).copied().unwrap_or(0);
        match policy {
            // All others are equally far from a node without memory; remote is the next by number.
            MemoryPolicy::Local => assert_eq!(pages(0), block.pages(), "{told:?}"),
            MemoryPolicy::Remote => assert_eq!(pages(MEMORY), block.pages(), "{told:?}"),
            MemoryPolicy::On(node) => assert_eq!(pages(node), block.pages()),
            MemoryPolicy::Touch => assert_eq!(pages(PROCESSORS), 0),
            _ => assert!(all.nodes.iter().all(|node| pages(node) >= 84), "{policy}: {told:?}"),
        }
        found.insert(policy.to_string(), json!(told.per_node));
    }
    let beyond = ResourceSet { nodes: memory.nodes, ..processors };
    let mut block = Block::allocate(&machine, &beyond, MemoryPolicy::Local, BYTES).unwrap();
    block.fill(1);
    assert_eq!(block.verify().unwrap().per_node.get(&MEMORY), Some(&block.pages()));
    json!({"pages per node, from a thread of the node without memory": found})
}
