//! Interconnects of machines with nodes.

use servsim_core::Cycles;
use servsim_mem::interconnect::InterconnectKind;
use servsim_mem::{BusTimes, InterconnectSpec, LatencyTable, NodeSpec, PathSpec};

/// The links between two nodes at a switch: link 2n goes out of node n, link 2n + 1 into it.
pub fn by_switch(nodes: usize) -> Vec<Vec<Vec<usize>>> {
    let route = |from: usize, to: usize| if from == to { vec![] } else { vec![2 * from, 2 * to + 1] };
    (0..nodes).map(|from| (0..nodes).map(|to| route(from, to)).collect()).collect()
}

/// What transactions take without nodes, in cycles.
pub const BUS: BusTimes = BusTimes {
    invalidate: Cycles(5),
    write: Cycles(5),
    memory_read: Cycles(64),
    cache_read: Cycles(8),
    write_back: Cycles(4),
    transfer: Cycles(16),
    memory_hold: Cycles(0),
};

/// A network of these nodes without anything else that takes time.
pub fn network(bus: BusTimes, transfer: u64, nodes: NodeSpec) -> InterconnectSpec {
    InterconnectSpec {
        latency: LatencyTable { bus, shared: Vec::new(), intervention: Cycles(0), crossing: Cycles(0) },
        paths: PathSpec {
            kind: InterconnectKind::Network,
            order: Cycles(1),
            hop: Cycles(0),
            transfer: Cycles(transfer),
            banks: 1,
            bank_time: Cycles(0),
        },
        nodes: Some(nodes),
        messages: None,
        fifo: true,
        most_fetches: 64,
        write_buffer: 0,
        delay: Cycles(0),
    }
}
