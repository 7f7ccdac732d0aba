//! Machines of every shape, read from folders, and threads dealt over them.

use crate::support::{folder, machine, put};
use servsim_rset::{ResourceSet, RsetError, ThreadOrder, Topology};

/// Four nodes of four processors, the last without memory; and one of memory alone.
const SHAPES: [(&str, u64); 5] = [("0-3", 1024), ("4-7", 1024), ("8-11", 1024), ("12-15", 0), ("", 4096)];

#[test]
fn nodes_without_processors_or_memory_are_nodes() {
    let machine = machine("0-15\n", &SHAPES);
    assert_eq!(machine.nodes().count(), 5);
    assert_eq!(machine.with_memory().to_string(), "0-2,4");
    assert_eq!(machine.online().processors.len(), 16);
    assert_eq!(machine.node(3).unwrap().memory, 0);
    assert_eq!(machine.node(4).unwrap().memory, 4096 << 20);
    assert!(machine.node(4).unwrap().processors.is_empty());
    assert_eq!(machine.node_of(9).unwrap().id, 2);
    assert_eq!(machine.node(0).unwrap().distances[&4], 20);
}

#[test]
fn processors_that_are_offline_are_not_there() {
    let machine = machine("0-1,4-5\n", &[("0-3", 64), ("4-7", 64)]);
    assert_eq!(machine.online().processors.to_string(), "0-1,4-5");
    assert!(matches!(machine.node_of(7), Err(RsetError::Outside { .. })));
}

#[test]
fn a_kernel_without_nodes_is_a_machine_of_one() {
    let folder = folder("0-1\n", &[("0-1", 64)]);
    std::fs::remove_dir_all(folder.path().join("sys/devices/system/node")).unwrap();
    std::fs::create_dir_all(folder.path().join("proc")).unwrap();
    put(folder.path(), "proc/meminfo", "MemTotal:        2048 kB\nMemFree: 3 kB\n");
    let machine = Topology::read(folder.path()).unwrap();
    assert_eq!(machine.nodes().count(), 1);
    assert_eq!(machine.node(0).unwrap().memory, 2 << 20);
    assert_eq!(machine.node_of(1).unwrap().id, 0);
}

#[test]
fn emulated_nodes_share_their_processors_and_are_told_apart() {
    let machine = machine("0-1\n", &[("0-1", 64), ("0-1", 64)]);
    assert!(matches!(machine.node_of(0), Err(RsetError::Overlapping)));
    let all = machine.online();
    assert!(matches!(ThreadOrder::Fill.processors(&machine, &all, 2), Err(RsetError::Overlapping)));
}

#[test]
fn files_that_say_nothing_are_named() {
    for (path, text, named) in [
        ("sys/devices/system/node/node1/distance", "10\n", "list of distances"),
        ("sys/devices/system/node/node1/distance", "10 x\n", "list of distances"),
        ("sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 3 kB\n", "account of memory"),
        (
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 99999999999999999999 kB\n",
            "account of memory",
        ),
        ("sys/devices/system/cpu/online", "0-\n", "list of processors"),
        ("sys/devices/system/node/node1/cpulist", "none\n", "list of processors"),
        ("sys/devices/system/node/online", "0-9\n", "list of distances"),
    ] {
        let folder = folder("0-3\n", &[("0-1", 64), ("2-3", 64)]);
        put(folder.path(), path, text);
        let fault = Topology::read(folder.path()).unwrap_err().to_string();
        assert!(fault.contains(named), "{path}: {fault}");
    }
}

fn dealt(order: ThreadOrder, set: &ResourceSet, threads: usize) -> Vec<u32> {
    order.processors(&machine("0-15\n", &SHAPES), set, threads).unwrap()
}

#[test]
fn fill_takes_a_node_whole_and_round_robin_takes_them_in_turn() {
    let all = machine("0-15\n", &SHAPES).online();
    assert_eq!(dealt(ThreadOrder::Fill, &all, 6), [0, 1, 2, 3, 4, 5]);
    assert_eq!(dealt(ThreadOrder::RoundRobin, &all, 6), [0, 4, 8, 12, 1, 5]);
    assert_eq!(dealt(ThreadOrder::Fill, &all, 18)[16..], [0, 1]);
    let part = ResourceSet { processors: "3,4-6".parse().unwrap(), ..ResourceSet::empty() };
    assert_eq!(dealt(ThreadOrder::Fill, &part, 5), [3, 4, 5, 6, 3]);
    assert_eq!(dealt(ThreadOrder::RoundRobin, &part, 4), [3, 4, 5, 6]);
    let memory = ResourceSet { nodes: "4".parse().unwrap(), ..ResourceSet::empty() };
    let fault = ThreadOrder::Fill.processors(&machine("0-15\n", &SHAPES), &memory, 1).unwrap_err();
    assert!(matches!(fault, RsetError::NoProcessor));
}

#[test]
fn the_nearest_node_is_the_closest_and_the_lowest_of_equals() {
    let folder = folder("0-5\n", &[("0-1", 64), ("2-3", 64), ("4-5", 64)]);
    put(folder.path(), "sys/devices/system/node/node0/distance", "10 30 20\n");
    let machine = Topology::read(folder.path()).unwrap();
    assert_eq!(machine.nearest(0, &"1-2".parse().unwrap()), Some(2));
    assert_eq!(machine.nearest(1, &"0,2".parse().unwrap()), Some(0));
    assert_eq!(machine.nearest(0, &"".parse().unwrap()), None);
}
