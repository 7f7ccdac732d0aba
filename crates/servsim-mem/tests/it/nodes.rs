//! Nodes against an independent recount: what each pair of nodes did, what links carried, and how long it took when
//! nothing was in the way.

use crate::support::{by_switch, network, BUS};
use servsim_core::{CpuId, Cycles, LineAddr, NodeId, RandomStream};
use servsim_mem::interconnect::{MonitorSpec, PagePolicy, RegionFilter, Traffic};
use servsim_mem::protocol::BusOp;
use servsim_mem::{
    BusRequest, Class, CoherenceSpec, Interconnect, InterconnectSpec, NodeMemory, NodeSpec, Origin, Supplier,
    Transaction,
};
use std::collections::{BTreeMap, HashMap};

const NODES: usize = 4;
const PER_NODE: usize = 2;
const REQUEST: u64 = 4;
const DATA: u64 = 12;
const HOP: u64 = 50;

/// Nodes at a switch.
fn spec(policy: PagePolicy, line_time: u64) -> InterconnectSpec {
    let distance = |from: usize, to: usize| Cycles(if from == to { 0 } else { 2 * HOP });
    let square = |of: &dyn Fn(usize, usize) -> Cycles| -> Vec<Vec<Cycles>> {
        (0..NODES).map(|from| (0..NODES).map(|to| of(from, to)).collect()).collect()
    };
    let nodes = NodeSpec {
        of_processor: (0..NODES * PER_NODE).map(|cpu| NodeId(cpu / PER_NODE)).collect(),
        distances: square(&distance),
        links: 2 * NODES,
        routes: by_switch(NODES),
        request_time: Cycles(REQUEST),
        data_time: Cycles(DATA),
        memories: vec![
            NodeMemory { pages: u64::MAX, latency: Cycles(7), line_time: Cycles(line_time) };
            NODES
        ],
        policy,
        stride: 1,
        page_shift: 6,
        coherence: CoherenceSpec::default(),
        migration: None,
    };
    network(BUS, 16, nodes)
}

/// One granted transaction, as the test asked for it.
#[derive(Clone, Copy)]
struct Done {
    cpu: usize,
    line: u64,
    op: BusOp,
    supplier: Supplier,
    took: u64,
}

/// Performs random transactions, `apart` cycles from one another; what was done, and the interconnect.
fn perform(spec: &InterconnectSpec, count: u64, apart: u64) -> (Vec<Done>, Interconnect, u64) {
    perform_watched(spec, count, apart, None)
}

/// The same with a monitor, if one is given.
fn perform_watched(
    spec: &InterconnectSpec,
    count: u64,
    apart: u64,
    monitor: Option<&MonitorSpec>,
) -> (Vec<Done>, Interconnect, u64) {
    let mut r = RandomStream::new(count + apart, "nodes");
    let mut joined = Interconnect::new(NODES * PER_NODE, spec, 1);
    monitor.into_iter().for_each(|monitor| joined.watch(monitor));
    let (mut all, mut last) = (Vec::new(), 0);
    for number in 0..count {
        let op = [BusOp::Read, BusOp::Read, BusOp::ReadExclusive, BusOp::Invalidate, BusOp::WriteBack];
        let op = op[r.below(5) as usize];
        let class = if op == BusOp::WriteBack { Class::WriteBack } else { Class::Fetch };
        let (cpu, line) = (r.below(8) as usize, r.below(40) << 6 | r.below(64));
        let supplier =
            if r.below(2) == 0 { Supplier::Memory } else { Supplier::Processor(CpuId(r.below(8) as usize)) };
        let (ready, origin) = (number * apart, Origin::Processor);
        joined.post(BusRequest { cpu: CpuId(cpu), ready, line: LineAddr(line), class, origin });
        let grant = joined.grant().unwrap();
        if op != BusOp::WriteBack {
            assert!(joined.send(&grant, Some(op), false));
        }
        let complete =
            joined.carry(&grant, &Transaction { op: Some(op), supplier, ..Transaction::WRITE_BACK });
        joined.end_grant();
        last = last.max(complete);
        all.push(Done { cpu, line, op, supplier, took: complete - grant.time });
    }
    (all, joined, last)
}

/// The node of each page by the policy, from the first transaction on each.
fn homes(all: &[Done], policy: PagePolicy) -> HashMap<u64, usize> {
    let mut homes = HashMap::new();
    for done in all {
        let (page, own) = (done.line / 64, done.cpu / PER_NODE);
        homes.entry(page).or_insert(match policy {
            PagePolicy::FirstTouch => own,
            PagePolicy::Remote => [1, 2, 3, 0][own],
            PagePolicy::Striped => page as usize % 4,
            PagePolicy::Fill => 0,
        });
    }
    homes
}

#[test]
fn pairs_packets_and_idle_times_agree_with_a_recount() {
    for policy in [PagePolicy::FirstTouch, PagePolicy::Remote, PagePolicy::Striped, PagePolicy::Fill] {
        let (all, joined, last) = perform(&spec(policy, 0), 3000, 1000);
        let homes = homes(&all, policy);
        let mut pairs: BTreeMap<(usize, usize), [u64; 4]> = BTreeMap::new();
        let (mut requests, mut data) = (0, 0);
        for done in &all {
            let (own, home) = (done.cpu / PER_NODE, homes[&(done.line / 64)]);
            let away = |other: usize, bytes: u64| if other == own { 0 } else { 2 * HOP + bytes };
            // To all over the switch: out once, and into each of the four, the asker's included.
            requests += if done.op == BusOp::WriteBack { 0 } else { 1 + 4 };
            let (other, column, expected) = match (done.op, done.supplier) {
                (BusOp::WriteBack, _) => (home, 2, 20 + away(home, DATA)),
                (BusOp::Invalidate | BusOp::Write, _) => {
                    assert_eq!(done.took, 5 + 2 * HOP + REQUEST);
                    continue;
                }
                (_, Supplier::Processor(CpuId(cpu))) => {
                    let other = cpu / PER_NODE;
                    (other, 1, away(other, REQUEST) + 24 + away(other, DATA))
                }
                (_, _) => (home, 0, away(home, REQUEST) + 7 + 80 + away(home, DATA)),
            };
            assert_eq!(
                done.took, expected,
                "{:?} {:?} of node {own} from node {other}",
                done.op, done.supplier
            );
            data += if other == own { 0 } else { 2 };
            let pair = pairs.entry((own, other)).or_default();
            pair[column] += 1;
            pair[3] += if column == 2 { 0 } else { expected };
        }
        let counts = joined.node_counts().unwrap();
        for (place, pair) in counts.pairs.iter().enumerate() {
            let expected = pairs.remove(&(place / NODES, place % NODES)).unwrap_or_default();
            assert_eq!([pair.memory_reads, pair.cache_reads, pair.write_backs, pair.read_cycles], expected);
        }
        let links = counts.links;
        assert_eq!((links.request_packets, links.data_packets, links.waits), (requests, data, 0));
        assert_eq!(joined.ways_busy().iter().sum::<u64>(), requests * REQUEST + data * DATA);
        assert!(joined.ways_busy().iter().all(|&busy| busy <= last));
    }
}

#[test]
fn what_comes_too_soon_waits_for_links_and_memories() {
    let (all, joined, last) = perform(&spec(PagePolicy::Fill, 40), 3000, 2);
    let links = joined.node_counts().unwrap().links;
    assert!(links.waits > 0 && links.memory_waits > 0);
    assert!(joined.ways_busy().iter().all(|&busy| busy <= last), "no link is busier than time has passed");
    // One memory that takes 40 cycles a line serves no more than that.
    let lines = all.iter().filter(|done| done.op == BusOp::WriteBack || done.supplier == Supplier::Memory);
    let lines = lines.filter(|done| !matches!(done.op, BusOp::Invalidate | BusOp::Write)).count() as u64;
    assert!(last >= (lines - 1) * 40, "{lines} lines in {last} cycles");
}

/// Every counter of a monitor, recounted from the log of transactions.
fn recount(all: &[(Traffic, u64)], spec: &MonitorSpec, processors: usize) -> BTreeMap<(usize, u64), u64> {
    let mut counts = BTreeMap::new();
    for (traffic, _) in all {
        for node in 0..NODES {
            let own = traffic.asker == NodeId(node);
            let is_asked = traffic.home == NodeId(node) || traffic.served_by == NodeId(node);
            let is_remote = traffic.home != traffic.asker || traffic.served_by != traffic.asker;
            let (owner, direction) = match (own, spec.simulator) {
                (true, true) => (traffic.cpu.0, 1),
                (true, false) if is_remote => (node, 1),
                (false, true) if is_asked => (processors + node, 2),
                (false, false) if is_asked => (node, 2),
                _ => continue,
            };
            for filter in &spec.filters {
                let kind =
                    [BusOp::Read, BusOp::ReadExclusive, BusOp::Invalidate, BusOp::Write, BusOp::WriteBack];
                let types = (0..5).filter(|bit| filter.types >> bit & 1 == 1).map(|bit| kind[bit]);
                let lines = filter.first..filter.first + filter.lines;
                if types.into_iter().any(|op| op == traffic.op)
                    && lines.contains(&traffic.line.0)
                    && (filter.directions == 3 || filter.directions == direction)
                    && (filter.served == 3 || filter.served == if traffic.by_cache { 2 } else { 1 })
                {
                    let counter = filter.base + (traffic.line.0 - filter.first) / (1 << filter.shift);
                    *counts.entry((owner, counter)).or_insert(0) += 1;
                }
            }
        }
    }
    counts
}

#[test]
fn a_monitor_counts_what_the_log_of_transactions_holds() {
    let filter = |first, lines, shift, types, directions, base| RegionFilter {
        first,
        lines,
        shift,
        types,
        directions,
        served: 3,
        base,
        threshold: (types == 31).then_some(5),
    };
    let by_cache = RegionFilter { served: 2, ..filter(0, 40 << 6, 6, 0b00011, 3, 2000) };
    let filters = vec![
        filter(0, 40 << 6, 6, 31, 1, 0),
        filter(0, 40 << 6, 4, 0b00011, 3, 100),
        filter(5 << 6, 64, 0, 0b10100, 2, 1000),
        by_cache.clone(),
        RegionFilter { served: 1, base: 3000, ..by_cache },
    ];
    for (simulator, policy) in
        [(false, PagePolicy::FirstTouch), (false, PagePolicy::Remote), (true, PagePolicy::Striped)]
    {
        let program = MonitorSpec {
            simulator,
            filters: filters.clone(),
            secondary: vec![(vec![1, 2], 0b00001)],
            ..MonitorSpec::default()
        };
        let (all, joined, _) = perform_watched(&spec(policy, 0), 4000, 7, Some(&program));
        let homes = homes(&all, policy);
        let log: Vec<(Traffic, u64)> = all
            .iter()
            .map(|done| {
                let (asker, home) = (NodeId(done.cpu / PER_NODE), NodeId(homes[&(done.line / 64)]));
                let (served_by, by_cache) = match done.supplier {
                    Supplier::Processor(CpuId(other)) if done.op.is_fetch() => {
                        (NodeId(other / PER_NODE), true)
                    }
                    _ => (home, false),
                };
                let (cpu, line) = (CpuId(done.cpu), LineAddr(done.line));
                let (time, within, op) = (0, false, done.op);
                (Traffic { time, cpu, asker, home, served_by, by_cache, within, op, line }, done.took)
            })
            .collect();
        let counts = joined.monitor_counts().unwrap();
        let expected = recount(&log, &program, NODES * PER_NODE);
        assert!(expected.len() > 100 && expected.values().any(|&count| count >= 5));
        assert_eq!(counts.counters, expected);
        let reached = expected.iter().filter(|((_, counter), count)| *counter < 100 && **count >= 5).count();
        assert_eq!((counts.events_in_all, counts.events.len()), (reached as u64, reached.min(1000)));
        // Filters 2 and 3 do not count the same types, so a read counts once where filter 2 takes it.
        let reads: u64 = counts.secondary.iter().map(|owner| owner[0]).sum();
        let one = MonitorSpec { filters: vec![filter(0, 40 << 6, 6, 0b00001, 3, 0)], ..program.clone() };
        assert_eq!(reads, recount(&log, &one, NODES * PER_NODE).values().sum::<u64>());
    }
}

#[test]
fn a_monitor_changes_nothing() {
    let filters = vec![RegionFilter {
        first: 0,
        lines: 4096,
        shift: 0,
        types: 31,
        directions: 3,
        served: 3,
        base: 0,
        threshold: None,
    }];
    let program = MonitorSpec { filters, ..MonitorSpec::default() };
    let spec = spec(PagePolicy::FirstTouch, 8);
    let ((_, bare, last), (_, watched, end)) =
        (perform(&spec, 2000, 3), perform_watched(&spec, 2000, 3, Some(&program)));
    assert_eq!(
        (bare.node_counts(), bare.ways_busy(), last),
        (watched.node_counts(), watched.ways_busy(), end)
    );
}
