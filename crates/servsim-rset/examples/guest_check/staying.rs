//! Memory that stays where it is, threads as a package deals them, and the interface for C.

use crate::checks::{machine, on};
use crate::kernel;
use serde_json::{json, Value};
use servsim_rset::{Block, MemoryPolicy, RsetError, Team, ThreadOrder};
use std::process::Command;

const HUGE: usize = 2 << 20;

fn reserve(node: u32, pages: usize) {
    let folder = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
    kernel::set(&format!("{folder}/nr_hugepages"), &pages.to_string());
}

/// One piece of physical memory on every node; where none is in reserve, a refusal and no signal.
pub fn contiguous() -> Value {
    let (machine, all) = machine();
    let local = |from: u32, bytes| {
        on(from, || Block::allocate_contiguous(&machine, &all, MemoryPolicy::Local, bytes))
    };
    (0..4).for_each(|node| reserve(node, usize::from(node != 3)));
    for node in 0..3 {
        let mut block = local(node, HUGE - 5000).unwrap();
        block.fill(1);
        assert_eq!(block.is_contiguous().unwrap(), Some(true));
        let found = block.verify().unwrap();
        assert!(found.is_as_wished(), "{found:?}");
        assert_eq!(found.per_node.into_iter().collect::<Vec<_>>(), [(node, HUGE / 4096)]);
        assert!(matches!(local(node, HUGE), Err(RsetError::Contiguous { .. })), "the only one is taken");
        drop(block);
        drop(local(node, HUGE).unwrap());
    }
    // Node 3 has none, the others have: the kernel's own check when memory is mapped cannot see that.
    let none = local(3, HUGE).unwrap_err().to_string();
    assert!(none.contains("of nodes 3"), "{none}");
    (0..4).for_each(|node| reserve(node, 0));
    let mut ordinary =
        Block::allocate(&machine, &all, MemoryPolicy::Striped { stride: 1.try_into().unwrap() }, HUGE);
    ordinary.as_mut().unwrap().fill(1);
    assert_eq!(ordinary.unwrap().is_contiguous().unwrap(), Some(false));
    json!({"where none is in reserve": none})
}

/// Pinned memory exists, where the policy of whoever pins it says.
pub fn pinned() -> Value {
    let (machine, all) = machine();
    for (policy, from, node) in
        [(MemoryPolicy::Local, 2, 2), (MemoryPolicy::Touch, 1, 1), (MemoryPolicy::On(3), 0, 3)]
    {
        let block = on(from, || {
            let mut block = Block::allocate(&machine, &all, policy, 1 << 20).unwrap();
            assert_eq!(block.verify().unwrap().absent, block.pages());
            block.pin().unwrap();
            block
        });
        assert!(block.is_pinned().unwrap());
        assert_eq!(block.verify().unwrap().per_node.into_iter().collect::<Vec<_>>(), [(node, block.pages())]);
    }
    json!({})
}

/// Sixteen threads by both orders, each with local memory.
pub fn team() -> Value {
    for order in [ThreadOrder::Fill, ThreadOrder::RoundRobin] {
        let nodes = Team::new(16.try_into().unwrap()).order(order).run(|member| {
            let mut own = member.allocate(1 << 18).unwrap();
            own.fill(1);
            let found = own.verify().unwrap();
            assert_eq!(found.per_node.keys().copied().collect::<Vec<_>>(), [member.node().unwrap()]);
            member.node().unwrap() as usize
        });
        let wished = |index: usize| if order == ThreadOrder::Fill { index / 4 } else { index % 4 };
        assert_eq!(nodes.unwrap(), (0..16).map(wished).collect::<Vec<_>>());
    }
    json!({})
}

/// A program in C, linked with the shared library.
pub fn interface_for_c() -> Value {
    let ended = Command::new("/resource_sets").output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    json!({})
}
