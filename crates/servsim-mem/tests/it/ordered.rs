//! Snooping, directory and BASH: latencies from their parts, and every message against an independent count.

use crate::support::{by_switch, network};
use servsim_core::{CacheId, CpuId, Cycles, LineAddr, NodeId, RandomStream};
use servsim_mem::interconnect::PagePolicy;
use servsim_mem::protocol::{by_name, BusOp, Options};
use servsim_mem::{
    Access, Adaptive, BusRequest, BusTimes, Class, CoherenceSpec, CoherentSystem, Geometry, Interconnect,
    InterconnectSpec, NodeMemory, NodeSpec, Origin, RequestCounters, Supplier, Transaction,
};
use servsim_oracle::ordered::{Messages, Ordered, Travel, Verdict};

/// The machine of Martin et al. 2002 in nanoseconds: 50 across the network, 80 for memory or directory, 25 for a
/// cache. Every node, even the asker's own, is a traversal away.
fn spec(nodes: usize, policy: &str, request_time: u64, data_time: u64) -> InterconnectSpec {
    let bus = BusTimes {
        invalidate: Cycles(0),
        write: Cycles(0),
        memory_read: Cycles(80),
        cache_read: Cycles(25),
        write_back: Cycles(0),
        transfer: Cycles(0),
        memory_hold: Cycles(0),
    };
    let nodes = NodeSpec {
        of_processor: NodeId::all(nodes).collect(),
        distances: vec![vec![Cycles(50); nodes]; nodes],
        links: 2 * nodes,
        routes: by_switch(nodes),
        request_time: Cycles(request_time),
        data_time: Cycles(data_time),
        memories: vec![NodeMemory { pages: u64::MAX, latency: Cycles(0), line_time: Cycles(0) }; nodes],
        policy: PagePolicy::Striped,
        stride: 1,
        page_shift: 0,
        migration: None,
        coherence: CoherenceSpec {
            policy: policy.into(),
            directory: Cycles(80),
            // The counter stays in the middle: half of the requests are broadcast.
            adaptive: Adaptive { threshold: 50, dead_band: 50, ..Adaptive::default() },
        },
    };
    network(bus, 0, nodes)
}

fn request(cpu: usize, ready: u64, line: u64) -> BusRequest {
    BusRequest {
        cpu: CpuId(cpu),
        ready,
        line: LineAddr(line),
        class: Class::Fetch,
        origin: Origin::Processor,
    }
}

/// Cycles from the first grant of a transaction of processor `cpu` on line 5, whose home is node 1, to its end; how
/// often it was asked again.
fn took(joined: &mut Interconnect, cpu: usize, ready: u64, op: BusOp, supplier: Supplier) -> (u64, u64) {
    joined.post(request(cpu, ready, 5));
    let (mut begun, before) = (None, joined.requests().retries);
    loop {
        let grant = joined.grant().unwrap();
        assert_eq!(grant.home.0, 1);
        let start = *begun.get_or_insert(grant.time);
        let complete = joined.send(&grant, Some(op), false).then(|| {
            joined.carry(&grant, &Transaction { op: Some(op), supplier, ..Transaction::WRITE_BACK })
        });
        joined.end_grant();
        if let Some(complete) = complete {
            return (complete - start, joined.requests().retries - before);
        }
    }
}

/// A read from memory, an upgrade, a read that this owner supplies, and a write by a third with one sharer and one
/// owner beside it.
fn times(policy: &str, seed: u64) -> (Vec<(u64, u64)>, RequestCounters) {
    let mut joined = Interconnect::new(4, &spec(4, policy, 0, 0), seed);
    let found = vec![
        took(&mut joined, 0, 0, BusOp::Read, Supplier::Memory),
        took(&mut joined, 0, 1000, BusOp::Invalidate, Supplier::Memory),
        took(&mut joined, 2, 2000, BusOp::Read, Supplier::Processor(CpuId(0))),
        took(&mut joined, 3, 3000, BusOp::ReadExclusive, Supplier::Processor(CpuId(0))),
    ];
    (found, joined.requests())
}

#[test]
fn latencies_are_the_sums_of_their_parts() {
    let (snooping, counts) = times("snooping", 1);
    assert_eq!(snooping, [(50 + 80 + 50, 0), (50, 0), (50 + 25 + 50, 0), (125, 0)]);
    assert_eq!((counts.broadcasts, counts.unicasts), (4, 0));

    let (directory, counts) = times("directory", 1);
    assert_eq!(directory, [(180, 0), (50 + 80 + 50, 0), (50 + 80 + 50 + 25 + 50, 0), (255, 0)]);
    assert_eq!((counts.broadcasts, counts.unicasts), (0, 4));
    assert_eq!((counts.forwards, counts.invalidations), (2, 1));
}

#[test]
fn bash_takes_the_time_of_snooping_or_of_a_directory() {
    let mut seen = [false; 2];
    for seed in 0..40 {
        let (bash, counts) = times("bash", seed);
        assert_eq!(&bash[..2], [(180, 0), (50, 0)], "nobody else is concerned");
        for &(time, retries) in &bash[2..] {
            assert_eq!(time, if retries == 0 { 125 } else { 50 + 80 + 125 });
            seen[retries as usize] = true;
        }
        assert_eq!(counts.broadcasts + counts.unicasts, 4);
        assert_eq!(counts.retries, bash.iter().map(|(_, retries)| retries).sum::<u64>());
    }
    assert_eq!(seen, [true; 2]);
}

const NODES: usize = 5;

/// Caches of a set or two at nodes, requests on their way, and the other count of it all.
struct Bench {
    system: CoherentSystem<u16>,
    joined: Interconnect,
    oracle: Ordered,
    waiting: [Option<Access<u16, CacheId>>; NODES],
    races: u64,
    last: u64,
}

impl Bench {
    fn new(policy: &str, travel: Travel, seed: u64) -> Self {
        let table = by_name("mosi", &Options::default()).unwrap();
        let geometry = Geometry { size: 256, ways: 2, line: 32 };
        Self {
            system: CoherentSystem::new(NODES, geometry, table, false),
            joined: Interconnect::new(NODES, &spec(NODES, policy, 4, 9), seed),
            oracle: Ordered::new(travel, NODES),
            waiting: [None; NODES],
            races: 0,
            last: 0,
        }
    }

    fn make(&mut self, now: u64, access: Access<u16, CacheId>) {
        if !self.system.try_hit(&access) {
            self.waiting[access.at.0] = Some(access);
            self.joined.post(request(access.at.0, now, access.line.0));
        }
    }

    /// Performs the next request, if it may be; the time.
    fn grant(&mut self) -> Option<u64> {
        let grant = self.joined.grant()?;
        assert!(grant.time >= self.last, "{} before {}", grant.time, self.last);
        self.last = grant.time;
        if grant.request.class == Class::WriteBack {
            self.joined.carry(&grant, &Transaction::WRITE_BACK);
            self.joined.end_grant();
            return Some(grant.time);
        }
        let cpu = grant.request.cpu.0;
        let access = self.waiting[cpu].expect("it waits");
        let needed = self.system.needed(&access);
        let before = self.joined.requests();
        let sent = self.joined.send(&grant, needed, false);
        let alone = self.joined.requests().unicasts > before.unicasts;
        let expected = self.oracle.ask(cpu, (access.line.0, grant.home.0), access.write, alone);
        assert_eq!(sent, expected != Verdict::Again, "{access:?}");
        if !sent {
            self.races += 1;
            self.joined.end_grant();
            return Some(grant.time);
        }
        let outcome = self.system.transact(&access, false);
        let from_cache = outcome.op.filter(|op| op.is_fetch()).map(|_| outcome.from_cache);
        match expected {
            Verdict::Performed(expected) => assert_eq!(from_cache, expected, "{access:?}"),
            _ => assert_eq!(outcome.op, None),
        }
        outcome
            .write_back
            .iter()
            .chain(&outcome.dropped_clean)
            .for_each(|line| self.oracle.evict(cpu, line.0));
        let supplier =
            outcome.supplied_by.map_or(Supplier::Memory, |cache| Supplier::Processor(CpuId(cache.0)));
        self.joined.carry(&grant, &Transaction::of(&outcome, supplier));
        self.joined.end_grant();
        self.waiting[cpu] = None;
        Some(grant.time)
    }
}

fn compare(policy: &str, travel: Travel, seed: u64) -> (Messages, u64) {
    let (mut bench, mut r) = (Bench::new(policy, travel, seed), RandomStream::new(seed, "ordered"));
    let mut now = 0;
    for _ in 0..6000 {
        let cpu = r.below(NODES as u64) as usize;
        if bench.waiting[cpu].is_some() || r.below(3) == 0 {
            now = bench.grant().map_or(now, |time| now.max(time));
            continue;
        }
        now += r.below(20);
        let (line, write) = (r.below(14), r.below(3) == 0);
        bench.make(
            now,
            Access {
                at: CacheId(cpu),
                line: LineAddr(line),
                words: 1,
                write,
                kernel: false,
                task: cpu as u32,
                slot: 1,
            },
        );
    }
    while bench.grant().is_some() {}
    assert_eq!(bench.waiting.iter().flatten().count(), 0, "every request has been performed");
    for (cpu, line) in (0..NODES).flat_map(|cpu| (0..14).map(move |line| (cpu, line))) {
        assert_eq!(
            bench.system.state_of(CacheId(cpu), LineAddr(line)),
            bench.oracle.state(cpu, line).to_string()
        );
    }
    let found = bench.joined.requests();
    let expected = bench.oracle.messages;
    let messages = Messages {
        broadcasts: found.broadcasts,
        unicasts: found.unicasts,
        retries: found.retries,
        retries_to_all: found.retries_to_all,
        forwards: found.forwards,
        invalidations: found.invalidations,
    };
    assert_eq!(messages, expected, "{policy}, seed {seed}");
    (messages, bench.races)
}

#[test]
fn every_message_agrees_with_another_count() {
    let mut to_all = 0;
    for seed in 0..10 {
        let (snooping, _) = compare("snooping", Travel::Snooping, seed);
        assert_eq!((snooping.unicasts, snooping.retries, snooping.forwards), (0, 0, 0));
        let (directory, _) = compare("directory", Travel::Directory, seed);
        assert!(directory.forwards > 500 && directory.invalidations > 500, "{directory:?}");
        let (bash, retried) = compare("bash", Travel::Bash, seed);
        assert!(bash.broadcasts > 300 && bash.unicasts > 300 && retried > 100, "{bash:?}");
        to_all += bash.retries_to_all;
    }
    assert!(to_all > 0, "some request fails three times");
}
