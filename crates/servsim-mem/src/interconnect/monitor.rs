//! The monitor of traffic between nodes (Opium; Brock et al. 2001, section 5): a card in each node with filters of
//! addresses, each with a counter for every granule, counters of whole filters, and thresholds. It looks on and
//! changes nothing.
//!
//! A card sees what leaves or enters its node: fetches that another node's memory or caches serve, and write-backs,
//! invalidations and writes of lines whose home is another node. It knows no processors, and no transactions inside
//! its node; the mode of the simulator knows both. The broadcast by which an ordered network tells a request to all
//! nodes is part of the order point here, and is not counted.

use super::{Grant, Supplier};
use crate::protocol::BusOp;
use servsim_core::{CpuId, LineAddr, NodeId};
use std::collections::BTreeMap;

/// What a counter of 36 bits holds at most.
const MOST_COUNT: u64 = (1 << 36) - 1;
/// Thresholds that are told, the first; all are counted.
const MOST_EVENTS: usize = 1000;

/// A range of addresses, and what of its traffic is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionFilter {
    /// First line.
    pub first: u64,
    /// Lines.
    pub lines: u64,
    /// log2 of the lines of a counter.
    pub shift: u32,
    /// Mask of types, by [`type_of`].
    pub types: u8,
    /// Mask: 1 for what the node asks for, 2 for what others ask of it.
    pub directions: u8,
    /// Mask of who serves: 1 a memory, 2 a cache.
    pub served: u8,
    /// Its first counter.
    pub base: u64,
    /// Count at which a counter tells.
    pub threshold: Option<u64>,
}

/// What a monitor counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonitorSpec {
    /// Local transactions and processors are seen as well.
    pub simulator: bool,
    /// The filters.
    pub filters: Vec<RegionFilter>,
    /// Filters and types of each counter of whole filters.
    pub secondary: Vec<(Vec<usize>, u8)>,
    /// Parts of the measured transactions that are counted apart; as one of none.
    pub parts: u64,
}

/// Number of the type of a transaction.
pub fn type_of(op: BusOp) -> u8 {
    match op {
        BusOp::Read => 0,
        BusOp::ReadExclusive => 1,
        BusOp::Invalidate => 2,
        BusOp::Write => 3,
        BusOp::WriteBack => 4,
    }
}

/// A transaction as the network saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// When it was granted.
    pub time: u64,
    /// Who asked.
    pub cpu: CpuId,
    /// The processor's node.
    pub asker: NodeId,
    /// The home of the line.
    pub home: NodeId,
    /// The node whose memory or cache served a fetch; the home of others.
    pub served_by: NodeId,
    /// Whether a cache served it.
    pub by_cache: bool,
    /// Settled on the bus of the asker's node: nothing leaves it, wherever the home is.
    pub within: bool,
    /// What was asked for.
    pub op: BusOp,
    /// The line.
    pub line: LineAddr,
}

impl Traffic {
    /// A performed transaction of a machine whose processors are in these nodes.
    pub fn of(grant: &Grant, op: BusOp, supplier: Supplier, of_processor: &[NodeId]) -> Self {
        let Grant { time, request, home } = *grant;
        let (cpu, line, asker, home) =
            (request.cpu, request.line, of_processor[request.cpu.0], NodeId(home.0));
        let (served_by, by_cache) = match supplier {
            Supplier::Processor(other) | Supplier::Group(other) if op.is_fetch() => {
                (of_processor[other.0], true)
            }
            // Shared by a core group of the asker's node.
            Supplier::Shared(_) => (asker, true),
            _ => (home, false),
        };
        Self { time, cpu, asker, home, served_by, by_cache, within: false, op, line }
    }
}

/// A counter reached its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThresholdEvent {
    /// When.
    pub time: u64,
    /// Whose counter.
    pub owner: usize,
    /// The counter.
    pub counter: u64,
}

/// What a monitor counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonitorCounts {
    /// By owner and counter. The owner is a node, or a processor for what it asks in the mode of the simulator,
    /// where nodes follow processors.
    pub counters: BTreeMap<(usize, u64), u64>,
    /// What they were at the end of each part of the run but the last.
    pub at_part_ends: Vec<BTreeMap<(usize, u64), u64>>,
    /// By owner, the counters of whole filters.
    pub secondary: Vec<Vec<u64>>,
    /// Thresholds reached, the first of them.
    pub events: Vec<ThresholdEvent>,
    /// How many there were.
    pub events_in_all: u64,
    /// Transactions that a monitor saw, those of no filter with them.
    pub seen: u64,
}

impl MonitorCounts {
    /// By part of the run, what its counters counted there.
    pub fn by_part(&self) -> Vec<BTreeMap<(usize, u64), u64>> {
        let ends = self.at_part_ends.iter().chain([&self.counters]);
        let begins = [None].into_iter().chain(self.at_part_ends.iter().map(Some));
        let counted = |(end, begin): (&BTreeMap<_, u64>, Option<&BTreeMap<_, u64>>)| {
            let before = |key| begin.and_then(|begin| begin.get(key)).copied().unwrap_or(0);
            let grown = end.iter().map(|(key, count)| (*key, count.wrapping_sub(before(key)) & MOST_COUNT));
            grown.filter(|(_, count)| *count > 0).collect()
        };
        ends.zip(begins).map(counted).collect()
    }
}

/// The monitors of all nodes.
#[derive(Debug)]
pub(super) struct Monitor {
    spec: MonitorSpec,
    processors: usize,
    pub counts: MonitorCounts,
}

impl Monitor {
    /// Nothing counted yet, for so many processors and nodes.
    pub fn new(spec: MonitorSpec, processors: usize, nodes: usize) -> Self {
        let owners = if spec.simulator { processors + nodes } else { nodes };
        let counts = MonitorCounts {
            secondary: vec![vec![0; spec.secondary.len()]; owners],
            ..MonitorCounts::default()
        };
        Self { spec, processors, counts }
    }

    /// Begins anew.
    pub fn restart(&mut self) {
        let owners = self.counts.secondary.len();
        let secondary = vec![vec![0; self.spec.secondary.len()]; owners];
        self.counts = MonitorCounts { secondary, ..MonitorCounts::default() };
    }

    /// So many transactions of the workload have been measured, of as many as are wanted: a part may be over.
    pub fn measured(&mut self, transactions: u64, wanted: u64) {
        let part = self.counts.at_part_ends.len() as u64 + 1;
        if part < self.spec.parts && transactions >= wanted * part / self.spec.parts {
            self.counts.at_part_ends.push(self.counts.counters.clone());
        }
    }

    /// Counts a transaction at every node that sees it.
    pub fn see(&mut self, traffic: &Traffic) {
        let Traffic { asker, home, served_by, .. } = *traffic;
        let leaves = !traffic.within && (home != asker || served_by != asker);
        if !leaves && !self.spec.simulator {
            return;
        }
        self.counts.seen += 1;
        let outbound = if self.spec.simulator { traffic.cpu.0 } else { asker.0 };
        self.count(traffic, outbound, 1);
        if traffic.within {
            return;
        }
        let first = if self.spec.simulator { self.processors } else { 0 };
        let others = [Some(home), (served_by != home).then_some(served_by)];
        for node in others.into_iter().flatten().filter(|&node| node != asker) {
            self.count(traffic, first + node.0, 2);
        }
    }

    fn count(&mut self, traffic: &Traffic, owner: usize, direction: u8) {
        let bit = 1_u8 << type_of(traffic.op);
        let served = 1 + u8::from(traffic.by_cache);
        let taken = |filter: &RegionFilter| {
            filter.directions & direction != 0
                && filter.served & served != 0
                && traffic.line.0.checked_sub(filter.first).is_some_and(|line| line < filter.lines)
        };
        for filter in self.spec.filters.iter().filter(|filter| filter.types & bit != 0 && taken(filter)) {
            let counter = filter.base + ((traffic.line.0 - filter.first) >> filter.shift);
            let count = self.counts.counters.entry((owner, counter)).or_default();
            *count = (*count + 1) & MOST_COUNT;
            if filter.threshold == Some(*count) {
                self.counts.events_in_all += 1;
                if self.counts.events.len() < MOST_EVENTS {
                    self.counts.events.push(ThresholdEvent { time: traffic.time, owner, counter });
                }
            }
        }
        for (place, (filters, types)) in self.spec.secondary.iter().enumerate() {
            if types & bit != 0 && filters.iter().any(|&filter| taken(&self.spec.filters[filter])) {
                self.counts.secondary[owner][place] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_36_bits_begins_again_at_zero() {
        let filter = RegionFilter {
            first: 0,
            lines: 4,
            shift: 2,
            types: 1,
            directions: 1,
            served: 3,
            base: 7,
            threshold: Some(1),
        };
        let spec =
            MonitorSpec { filters: vec![filter], secondary: vec![(vec![0], 1)], ..MonitorSpec::default() };
        let mut monitor = Monitor::new(spec, 2, 2);
        let remote = Traffic {
            time: 0,
            cpu: CpuId(0),
            asker: NodeId(0),
            home: NodeId(1),
            served_by: NodeId(1),
            by_cache: false,
            within: false,
            op: BusOp::Read,
            line: LineAddr(3),
        };
        let most = 68_719_476_735;
        monitor.counts.counters.insert((0, 7), most - 1);
        let mut seen = |time| {
            monitor.see(&Traffic { time, ..remote });
            (monitor.counts.counters[&(0, 7)], monitor.counts.events.len())
        };
        assert_eq!((seen(1), seen(2), seen(3)), ((most, 0), (0, 0), (1, 1)), "68,719,476,735 is the most");
        assert_eq!(monitor.counts.events[0].time, 3, "a threshold is told again after the turn");
        assert_eq!(monitor.counts.secondary[0], [3]);
    }

    #[test]
    fn parts_end_with_transactions_and_add_up_across_the_turn_of_a_counter() {
        let mut monitor = Monitor::new(MonitorSpec { parts: 3, ..MonitorSpec::default() }, 2, 2);
        let mut counted = |transactions, counters: &[(u64, u64)]| {
            monitor.counts.counters.extend(counters.iter().map(|(counter, count)| ((0, *counter), *count)));
            monitor.measured(transactions, 5);
            monitor.counts.at_part_ends.len()
        };
        let ended = [(0, 5), (1, MOST_COUNT), (3, 1)].map(|(ended, count)| counted(ended, &[(7, count)]));
        assert_eq!((ended, counted(5, &[(9, 2)])), ([0, 1, 2], 2), "the last part has no end");
        let parts = monitor.counts.by_part();
        let only =
            |counts: &[(u64, u64)]| counts.iter().map(|(counter, count)| ((0, *counter), *count)).collect();
        assert_eq!(parts, [only(&[(7, MOST_COUNT)]), only(&[(7, 2)]), only(&[(9, 2)])]);
        monitor.restart();
        assert_eq!(monitor.counts.by_part(), [BTreeMap::new()]);
    }
}
