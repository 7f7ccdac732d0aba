//! Pages that move, against a recount from the list of requests, and what a move costs with nothing in its way.

use crate::support::{by_switch, network, BUS};
use servsim_core::{CpuId, Cycles, LineAddr, NodeId, RandomStream};
use servsim_mem::interconnect::{Change, PagePlan, PagePolicy, PageRule};
use servsim_mem::protocol::BusOp;
use servsim_mem::{
    BusRequest, Class, CoherenceSpec, Interconnect, InterconnectSpec, MigrationCounters, MigrationSpec,
    NodeMemory, NodeSpec, Origin, PageMove, Supplier, Transaction,
};
use servsim_oracle::migration::{drain, next_touch, replicate, tiering, Asked, Copied, Moved, Tiers};

const REQUEST: u64 = 4;
const DATA: u64 = 12;
const HOP: u64 = 50;
const WORK: u64 = 300;
const SHOOTDOWN: u64 = 200;
const INTERVAL: u64 = 40_000;
const LINES: u64 = 64;

/// Nodes at a switch; of `processors`, the node of each, and `pages`, the room of each node.
fn spec(policy: &str, processors: &[usize], pages: &[u64], coherence: &str) -> InterconnectSpec {
    let nodes = pages.len();
    let distance = |from: usize, to: usize| Cycles(if from == to { 0 } else { 2 * HOP });
    let memory = |pages: &u64| NodeMemory { pages: *pages, latency: Cycles(7), line_time: Cycles(0) };
    let nodes = NodeSpec {
        of_processor: processors.iter().copied().map(NodeId).collect(),
        distances: (0..nodes).map(|from| (0..nodes).map(|to| distance(from, to)).collect()).collect(),
        links: 2 * nodes,
        routes: by_switch(nodes),
        request_time: Cycles(REQUEST),
        data_time: Cycles(DATA),
        memories: pages.iter().map(memory).collect(),
        policy: PagePolicy::FirstTouch,
        stride: 1,
        page_shift: LINES.trailing_zeros(),
        coherence: CoherenceSpec { policy: coherence.into(), ..CoherenceSpec::default() },
        migration: Some(MigrationSpec {
            policy: policy.into(),
            interval: Cycles(INTERVAL),
            work: Cycles(WORK),
            shootdown: Cycles(SHOOTDOWN),
            pages: 5,
            sample_period: 3,
            hot_threshold: 2,
            drained: (policy == "drain").then_some(NodeId(2)),
        }),
    };
    network(BUS, 16, nodes)
}

/// Machines driven by single reads.
struct Driven {
    joined: Interconnect,
    of_processor: Vec<usize>,
    all: Vec<Asked>,
    moves: Vec<Moved>,
    copies: Vec<Copied>,
}

impl Driven {
    fn new(policy: &str, processors: &[usize], pages: &[u64], coherence: &str) -> Self {
        let joined = Interconnect::new(processors.len(), &spec(policy, processors, pages, coherence), 1);
        Self {
            joined,
            of_processor: processors.to_vec(),
            all: Vec::new(),
            moves: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// `cpu` reads a line of `page` from memory at `time`; when it is complete. `dirty` has the lines of a page that
    /// moves which a processor's cache alone has.
    fn read(&mut self, time: u64, cpu: usize, page: u64, dirty: impl Fn(u64) -> Option<CpuId>) -> u64 {
        self.ask(time, cpu, page, BusOp::Read, dirty)
    }

    fn ask(
        &mut self,
        time: u64,
        cpu: usize,
        page: u64,
        op: BusOp,
        dirty: impl Fn(u64) -> Option<CpuId>,
    ) -> u64 {
        // Another line each time: a second request for one on its way waits.
        let line = LineAddr(page * LINES + self.all.len() as u64 % LINES);
        let (class, origin) = (Class::Fetch, Origin::Processor);
        self.joined.post(BusRequest { cpu: CpuId(cpu), ready: time, line, class, origin });
        let mut grant = self.joined.grant().expect("it was posted");
        let time = grant.time;
        self.joined.touch(&mut grant, Some(op));
        while let Some(moved) = self.joined.next_move() {
            self.carry_out(&moved, &dirty);
        }
        self.all.push(Asked { time, page, node: self.of_processor[cpu], write: op != BusOp::Read });
        assert!(self.joined.send(&grant, Some(op), false));
        let fetch = Transaction { op: Some(op), supplier: Supplier::Memory, ..Transaction::WRITE_BACK };
        let complete = self.joined.carry(&grant, &fetch);
        self.joined.end_grant();
        complete
    }

    fn carry_out(&mut self, moved: &PageMove, dirty: impl Fn(u64) -> Option<CpuId>) {
        let PageMove { change, page, from, to, .. } = *moved;
        let before = self.all.len();
        match change {
            Change::Moves => self.moves.push(Moved { before, page, from: from.0, to: to.0 }),
            Change::IsCopied => self.copies.push(Copied { before, page, to: Some(to.0) }),
            Change::LosesCopies => self.copies.push(Copied { before, page, to: None }),
        }
        let lines: Vec<_> =
            self.joined.lines_of(moved).iter().map(|line| (1, dirty(line.0 % LINES))).collect();
        assert_eq!(lines.len() as u64, LINES);
        let concerned =
            CpuId::all(self.of_processor.len()).filter(|&cpu| self.joined.is_concerned(moved, cpu));
        let others = concerned.filter(|&cpu| moved.by != Some(cpu)).count() as u64;
        assert_eq!(self.joined.carry_move(moved, &lines, others), Cycles(SHOOTDOWN));
    }

    fn counts(&self) -> MigrationCounters {
        self.joined.node_counts().and_then(|counts| counts.migration).expect("pages move")
    }
}

#[test]
fn next_touch_moves_the_pages_that_a_recount_says() {
    for coherence in ["snooping", "directory"] {
        let mut r = RandomStream::new(5, "next touch");
        let mut driven = Driven::new("next-touch", &[0, 0, 1, 1, 2, 2, 3, 3], &[u64::MAX; 4], coherence);
        let mut time = 0;
        for _ in 0..2000 {
            time += r.below(4000);
            driven.read(time, r.below(8) as usize, r.below(12), |_| None);
        }
        let expected = next_touch(&driven.all, INTERVAL);
        assert!(expected.len() > 300, "{}", expected.len());
        assert_eq!(driven.moves, expected);
        let counts = driven.counts();
        assert_eq!((counts.pages, counts.promoted, counts.demoted), (expected.len() as u64, 0, 0));
        assert_eq!(counts.cached_lines, counts.pages * LINES);
        assert_eq!(counts.shootdown_cycles, counts.pages * 7 * SHOOTDOWN);
    }
}

#[test]
fn tiering_moves_the_pages_that_a_recount_says() {
    let mut r = RandomStream::new(6, "tiering");
    let tiers = Tiers { room: 10, interval: INTERVAL, period: 3, threshold: 2, pages: 5 };
    let mut driven = Driven::new("tiering", &[0, 0], &[10, u64::MAX], "snooping");
    let mut time = 0;
    for step in 0..6000 {
        time += r.below(2000);
        // What is hot changes from time to time.
        let hot = step / 500 * 7 % 40;
        let page = if r.below(3) == 0 { r.below(40) } else { (hot + r.below(6)) % 40 };
        driven.read(time, r.below(2) as usize, page, |_| None);
    }
    let expected = tiering(&driven.all, tiers);
    assert_eq!(driven.moves, expected);
    let counts = driven.counts();
    assert!(counts.promoted > 50 && counts.demoted > 50, "{counts:?}");
    assert_eq!(counts.pages, counts.promoted + counts.demoted);
    assert!(counts.promoted - counts.demoted <= 10, "no more than there is room for");
}

/// Random reads and few writes of twelve pages.
fn read_mostly() -> Driven {
    let mut r = RandomStream::new(7, "replicate");
    let mut driven = Driven::new("replicate", &[0, 0, 1, 1, 2, 2, 3, 3], &[u64::MAX; 4], "snooping");
    let mut time = 0;
    for _ in 0..900 {
        time += r.below(4000);
        let page = r.below(60);
        // Some are never written.
        let op = if !page.is_multiple_of(3) && r.below(9) == 0 { BusOp::ReadExclusive } else { BusOp::Read };
        driven.ask(time, r.below(8) as usize, page, op, |_| None);
    }
    driven
}

#[test]
fn copies_come_and_go_as_a_recount_says_and_serve_their_node() {
    let driven = read_mostly();
    let expected = replicate(&driven.all, 2);
    assert_eq!(driven.copies, expected);
    let dropped = expected.iter().filter(|copied| copied.to.is_none()).count();
    assert!(dropped > 15 && expected.len() > 100, "{dropped} of {}", expected.len());
    let counts = driven.counts();
    assert_eq!((counts.copies, counts.pages), ((expected.len() - dropped) as u64, 0));
    assert_eq!(counts.copies_dropped, dropped_copies(&expected));
    // Each request is served by the own node if that has the page or a copy of it, else by the home.
    let mut served = [[0; 4]; 4];
    for (number, asked) in driven.all.iter().enumerate() {
        let home = driven.all.iter().find(|other| other.page == asked.page).map_or(0, |first| first.node);
        let known = expected.iter().filter(|copied| copied.before <= number && copied.page == asked.page);
        let copies = known.fold(Vec::new(), |mut copies, copied| {
            match copied.to {
                Some(node) => copies.push(node),
                None => copies.clear(),
            }
            copies
        });
        served[asked.node][if copies.contains(&asked.node) { asked.node } else { home }] += 1;
    }
    let pairs = driven.joined.node_counts().expect("nodes").pairs;
    assert_eq!(pairs.iter().map(|pair| pair.memory_reads).collect::<Vec<_>>(), served.concat());
}

/// How many copies were dropped.
fn dropped_copies(all: &[Copied]) -> u64 {
    let of = |page: u64| all.iter().filter(move |copied| copied.page == page);
    let is_dropped = |page: u64| of(page).any(|copied| copied.to.is_none());
    all.iter().filter(|copied| copied.to.is_some() && is_dropped(copied.page)).count() as u64
}

#[test]
fn a_copy_takes_the_own_processors_and_a_write_all_that_have_one() {
    let mut driven = Driven::new("replicate", &[0, 1, 2, 3, 1], &[u64::MAX; 4], "snooping");
    driven.read(0, 0, 9, |_| None);
    driven.read(10_000, 1, 9, |_| None);
    let at = 20_000;
    let took = driven.read(at, 1, 9, |_| None) - at;
    // The other processor of the node forgets its translation; no other node hears of it.
    let lines = WORK + SHOOTDOWN + 7 + 80 + 63 * DATA + 2 * HOP + DATA;
    assert_eq!(took, lines + 7 + 80, "then it reads its own memory");
    assert_eq!(driven.counts().shootdowns, 1);
    // Who reads the page itself meanwhile does not wait for the copy.
    let far = 2 * HOP + REQUEST + 7 + 80 + 2 * HOP + DATA;
    let mut meanwhile = Driven::new("replicate", &[0, 1, 2, 3], &[u64::MAX; 4], "snooping");
    meanwhile.read(0, 0, 9, |_| None);
    meanwhile.read(10_000, 1, 9, |_| None);
    meanwhile.read(at, 1, 9, |_| None);
    assert!(meanwhile.read(at + 2_000, 2, 9, |_| None) < at + 2_000 + 2 * far);
    // A write from a third node: two processors of the copy's node forget it, and its lines go.
    let at = 100_000;
    let took = driven.ask(at, 3, 9, BusOp::ReadExclusive, |_| None) - at;
    assert_eq!((driven.counts().shootdowns, driven.counts().copies_dropped), (3, 1));
    let there = 2 * HOP + REQUEST;
    assert_eq!(
        took,
        WORK + 2 * there + SHOOTDOWN + 7 + 80 + 2 * HOP + DATA,
        "for the interrupts, and for no lines"
    );
    let local = driven.joined.node_counts().expect("nodes").pairs[5].memory_reads;
    driven.read(200_000, 1, 9, |_| None);
    assert_eq!(
        driven.joined.node_counts().expect("nodes").pairs[5].memory_reads,
        local,
        "it lies in node 0 again"
    );
}

#[test]
fn copies_take_room_and_give_it_back() {
    let mut driven = Driven::new("replicate", &[0, 1, 2, 3], &[u64::MAX, 1, u64::MAX, u64::MAX], "snooping");
    for (number, (cpu, page, op)) in [
        (0, 9, BusOp::Read),
        (0, 10, BusOp::Read),
        (1, 9, BusOp::Read),
        (1, 9, BusOp::Read),
        (1, 10, BusOp::Read),
        (1, 10, BusOp::Read),
        (0, 9, BusOp::ReadExclusive),
        (0, 11, BusOp::Read),
        (1, 11, BusOp::Read),
        (1, 11, BusOp::Read),
    ]
    .into_iter()
    .enumerate()
    {
        driven.ask(number as u64 * INTERVAL, cpu, page, op, |_| None);
    }
    let copies: Vec<_> = driven.copies.iter().map(|copied| (copied.page, copied.to)).collect();
    assert_eq!(copies, [(9, Some(1)), (9, None), (11, Some(1))]);
    assert_eq!(driven.counts().without_room, 1);
}

#[test]
fn draining_empties_a_node_as_a_recount_says() {
    let mut r = RandomStream::new(8, "drain");
    let mut driven = Driven::new("drain", &[0, 0, 1, 1, 2, 2, 3, 3], &[u64::MAX; 4], "directory");
    let mut time = 0;
    for _ in 0..1500 {
        time += r.below(600);
        driven.read(time, r.below(8) as usize, r.below(400), |_| None);
    }
    let expected = drain(&driven.all, 2, INTERVAL, 5);
    assert!(expected.len() > 20, "{}", expected.len());
    assert_eq!(driven.moves, expected);
}

#[test]
fn a_node_that_is_drained_gives_up_bound_pages_too_and_gets_none() {
    let mut driven = Driven::new("drain", &[0, 1, 2, 3], &[1, 2, 9, 9], "snooping");
    let rule = PageRule { policy: PagePolicy::FirstTouch, stride: 1, nodes: vec![NodeId(2)] };
    let plan = PagePlan { rules: vec![rule], pages: [(9, 0)].into_iter().collect(), rest: None };
    driven.joined.follow(&std::sync::Arc::new(plan));
    for page in [9, 10, 11, 12] {
        driven.read(page, 2, page, |_| None);
    }
    for number in 1..4 {
        driven.read(number * INTERVAL, 2, 12 + number, |_| None);
    }
    let moved: Vec<_> = driven.moves.iter().map(|moved| (moved.page, moved.to)).collect();
    // The first run finds five pages there; nodes 0 and 1 have room for three.
    assert_eq!(moved, [(9, 0), (10, 1), (11, 1), (12, 3), (13, 3)]);
    let pairs = driven.joined.node_counts().expect("nodes").pairs;
    assert_eq!(pairs[2 * 4 + 3].memory_reads, 3, "13 moved there, 14 and 15 found no room nearer");
}

/// When the other three nodes have answered that they forgot the translation.
const KNOWN: u64 = {
    let there = 2 * HOP + REQUEST;
    // Their answers come one after the other over the link to who asked.
    WORK + there + SHOOTDOWN + 2 * REQUEST + there
};

#[test]
fn who_moves_a_page_waits_for_interrupts_and_lines() {
    let mut driven = Driven::new("next-touch", &[0, 1, 2, 3], &[u64::MAX; 4], "snooping");
    driven.read(0, 0, 9, |_| None);
    let before = driven.joined.node_counts().expect("nodes");
    let took = driven.read(INTERVAL, 1, 9, |_| None) - INTERVAL;
    // The lines follow one another over the link, the first after its read; then the processor reads its own memory.
    let lines = KNOWN + 7 + 80 + 63 * DATA + 2 * HOP + DATA;
    assert_eq!(took, lines + 7 + 80);
    assert_eq!(driven.counts().cycles, lines);
    let after = driven.joined.node_counts().expect("nodes").since(&before);
    // Out once and into three; answers over two links each; the request that all see.
    assert_eq!(after.links.request_packets, 4 + 3 * 2 + 5);
    assert_eq!(after.links.data_packets, LINES * 2);
    // Who asks meanwhile waits for the last line; later nobody does.
    let mut meanwhile = Driven::new("next-touch", &[0, 1, 2, 3], &[u64::MAX; 4], "snooping");
    meanwhile.read(0, 0, 9, |_| None);
    meanwhile.read(INTERVAL, 1, 9, |_| None);
    let far = 7 + 80 + 2 * HOP + DATA;
    assert_eq!(meanwhile.read(INTERVAL + 300, 2, 9, |_| None), INTERVAL + lines + far);
    let later = INTERVAL + lines + 1000;
    assert_eq!(meanwhile.read(later, 3, 9, |_| None), later + 2 * HOP + REQUEST + far);
}

#[test]
fn lines_that_memory_lacks_come_from_their_cache() {
    let mut driven = Driven::new("next-touch", &[0, 1, 2, 3], &[u64::MAX; 4], "snooping");
    driven.read(0, 0, 9, |_| None);
    driven.read(INTERVAL, 1, 9, |line| (line < 10).then_some(CpuId(3)));
    // Node 3 sends ten as soon as all know; those of memory, 63 cycles slower, hold the link of node 2 longer.
    let counts = driven.counts();
    assert_eq!(counts.dirty_lines, 10);
    let memory = KNOWN + 7 + 80 + 53 * DATA + 2 * HOP + DATA;
    // The link into the node is the one that both share: 120 cycles from 24 on, then nothing waits but for these.
    let shared = (24 + 10 * DATA).saturating_sub(7 + 80);
    assert_eq!(counts.cycles, memory + shared);
    let pairs = driven.joined.node_counts().expect("nodes").pairs;
    assert_eq!(pairs[3 * 4 + 1].write_backs, 10);
}

#[test]
fn pages_that_a_placement_file_holds_and_those_without_room_stay() {
    let mut driven = Driven::new("next-touch", &[0, 1, 2, 3], &[u64::MAX, 1, u64::MAX, 0], "snooping");
    let rule = PageRule { policy: PagePolicy::FirstTouch, stride: 1, nodes: (0..3).map(NodeId).collect() };
    let plan = PagePlan { rules: vec![rule], pages: [(9, 0)].into_iter().collect(), rest: None };
    driven.joined.follow(&std::sync::Arc::new(plan));
    for (number, (cpu, page)) in
        [(0, 9), (0, 10), (0, 11), (2, 9), (1, 10), (1, 11), (3, 10), (2, 10), (1, 11)]
            .into_iter()
            .enumerate()
    {
        driven.read(number as u64 * INTERVAL, cpu, page, |_| None);
    }
    // Page 10 fills node 1, so 11 finds no room there until 10 has left; node 3 has none at all.
    let moved: Vec<_> = driven.moves.iter().map(|moved| (moved.page, moved.from, moved.to)).collect();
    assert_eq!(moved, [(10, 0, 1), (10, 1, 2), (11, 0, 1)]);
    assert_eq!(driven.counts().without_room, 2);
}
