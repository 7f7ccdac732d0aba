//! What goes wrong with the kernel's policies alone, and does not with the library's.

use crate::checks::{machine, on, stripes};
use crate::kernel::{self, set, Plain};
use serde_json::{json, Value};
use servsim_rset::{Block, MemoryPolicy, RsetError, ThreadOrder, Topology};
use std::time::{Duration, Instant};

/// Interleaving is balanced, but begins with a node that depends on the address.
pub fn phase() -> Value {
    let plain = Plain::map(256 * 4096, 1 << 21, 4096);
    plain.interleave();
    plain.touch();
    let misplaced = plain.nodes().iter().zip(0i32..).filter(|(node, page)| **node != page % 4).count();
    assert_eq!(
        misplaced, 256,
        "the kernel's phase goes by the address no more: is the alignment still right?"
    );
    let (machine, all) = machine();
    let mut block = Block::allocate(&machine, &all, stripes(1), 256 * 4096).unwrap();
    block.fill(1);
    assert!(block.verify().unwrap().is_as_wished());
    json!({"misplaced by the kernel alone": misplaced})
}

/// A huge page is one page to the kernel: 512 in a row from one node.
pub fn huge_pages() -> Value {
    const BYTES: usize = 16 << 20;
    set("/sys/kernel/mm/transparent_hugepage/enabled", "always");
    let plain = Plain::map(BYTES, 1 << 21, 0);
    plain.interleave();
    plain.touch();
    let in_a_row = plain.nodes().windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(in_a_row > 1000, "no huge pages here: {in_a_row}");
    let (machine, all) = machine();
    let mut block = Block::allocate(&machine, &all, stripes(1), BYTES).unwrap();
    block.fill(1);
    let found = block.verify().unwrap();
    assert!(found.is_as_wished(), "{} elsewhere", found.elsewhere.len());
    json!({"neighbours in one node by the kernel alone": in_a_row})
}

/// Balancing moves what only a thread's policy placed.
pub fn balancing() -> Value {
    const BYTES: usize = 4 << 20;
    set("/proc/sys/kernel/numa_balancing", "0");
    for (name, value) in [
        ("scan_delay_ms", "50"),
        ("scan_period_min_ms", "50"),
        ("scan_period_max_ms", "100"),
        ("scan_size_mb", "64"),
    ] {
        set(&format!("/sys/kernel/debug/sched/numa_balancing/{name}"), value);
    }
    let (machine, all) = machine();
    let plain = Plain::map(BYTES, 1 << 21, 0);
    kernel::thread_policy(Some(0));
    plain.touch();
    kernel::thread_policy(None);
    let mut block = on(0, || Block::allocate(&machine, &all, MemoryPolicy::Local, BYTES).unwrap());
    let mut striped = Block::allocate(&machine, &all, stripes(16), BYTES).unwrap();
    block.fill(1);
    assert!(plain.nodes().iter().all(|&node| node == 0));
    set("/proc/sys/kernel/numa_balancing", "1");
    let begin = Instant::now();
    let moved = || plain.nodes().iter().filter(|&&node| node == 1).count();
    on(1, || {
        // Long enough for a busy host: it ends as soon as the kernel has moved them.
        while moved() < 512 && begin.elapsed() < Duration::from_secs(200) {
            for _ in 0..20 {
                plain.touch();
                block.iter_mut().step_by(4096).for_each(|byte| *byte += 1);
                striped.iter_mut().step_by(4096).for_each(|byte| *byte += 1);
            }
        }
    });
    set("/proc/sys/kernel/numa_balancing", "0");
    assert!(moved() >= 512, "balancing moved {} pages: it does not work here", moved());
    for block in [&block, &striped] {
        let found = block.verify().unwrap();
        assert!(found.is_as_wished(), "{} pages moved away", found.elsewhere.len());
    }
    json!({"moved of a thread's policy": moved(), "seconds": begin.elapsed().as_secs()})
}

/// What a cpuset takes away is no longer global, and sets that hold it are refused by name.
pub fn cpuset() -> Value {
    let (machine, all) = machine();
    set("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset");
    std::fs::create_dir_all("/sys/fs/cgroup/part").unwrap();
    set("/sys/fs/cgroup/part/cpuset.cpus", "4-7");
    set("/sys/fs/cgroup/part/cpuset.mems", "1,3");
    set("/sys/fs/cgroup/part/cgroup.procs", "1");
    let part = machine.global().unwrap();
    let inherited = machine.inherited().unwrap();
    let fault = machine.validate(&all);
    let refused = Block::allocate(&machine, &all, stripes(1), 1 << 20);
    let mut block = Block::allocate(&machine, &part, stripes(1), 1 << 20).unwrap();
    block.fill(1);
    let found = block.verify().unwrap();
    let touched = Block::allocate(&machine, &machine.node_set(1).unwrap(), MemoryPolicy::Touch, 1 << 20);
    set("/sys/fs/cgroup/cgroup.procs", "1");
    assert_eq!((part.processors.to_string(), part.nodes.to_string()), ("4-7".into(), "1,3".into()));
    assert!(inherited.is_subset(&part), "{inherited}");
    let fault = fault.unwrap_err();
    assert!(fault.to_string().contains("processors 0-3,8-15 and memory of nodes 0,2"), "{fault}");
    assert!(matches!(refused, Err(RsetError::Outside { .. })));
    assert!(found.is_as_wished() && touched.is_ok());
    assert_eq!(machine.global().unwrap(), all);
    json!({"refusal": fault.to_string()})
}

/// A processor that goes away is missed at the next look.
pub fn hot_plug() -> Value {
    let (_, all) = machine();
    set("/sys/devices/system/cpu/cpu15/online", "0");
    let now = Topology::discover().unwrap();
    let fault = now.validate(&all).unwrap_err();
    let dealt = ThreadOrder::RoundRobin.processors(&now, &now.global().unwrap(), 16).unwrap();
    set("/sys/devices/system/cpu/cpu15/online", "1");
    assert!(fault.to_string().contains("processors 15"), "{fault}");
    assert!(!dealt.contains(&15));
    assert!(Topology::discover().unwrap().validate(&all).is_ok());
    json!({"refusal": fault.to_string()})
}
