//! The checks: every policy page by page, threads where they were dealt to, processes bound and moved.

use crate::{kernel, lacking, leaving, parting, ruled, staying, traps};
use serde_json::{json, Value};
use servsim_rset::{
    bind_process, bind_thread, migrate_process, Block, MemoryPolicy, Nodes, ResourceSet, RsetError,
    ThreadOrder, Topology,
};
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A check, with its name: what it found, or a panic with what was wrong.
pub type Check = (&'static str, fn() -> Value);

/// Every check.
pub const ALL: [Check; 22] = [
    ("topology", topology),
    ("orders", orders),
    ("local", local),
    ("touch", touch),
    ("remote", remote),
    ("striped", striped),
    ("mappings", mappings),
    ("process", process),
    ("preload", preload),
    ("rules", ruled::rules),
    ("pinned", staying::pinned),
    ("contiguous", staying::contiguous),
    ("team", staying::team),
    ("interface for C", staying::interface_for_c),
    ("phase of interleaving", traps::phase),
    ("huge pages", traps::huge_pages),
    ("balancing", traps::balancing),
    ("partitions", parting::partitions),
    ("partitions undone", parting::undone),
    ("node that goes", leaving::node),
    ("cpuset", traps::cpuset),
    ("hot-plug", traps::hot_plug),
];

/// Checks that take minutes, or another guest.
pub const BY_NAME: [Check; 2] =
    [("a hundred moves", parting::hundred_moves), ("nodes that lack something", lacking::nodes)];

const BYTES: usize = 1 << 20;

/// The machine, and all of it.
pub fn machine() -> (Topology, ResourceSet) {
    let machine = Topology::discover().unwrap();
    let all = machine.global().unwrap();
    (machine, all)
}

/// How many nodes it has: four, or two on Arm64.
fn nodes() -> u32 {
    Topology::discover().unwrap().nodes().count() as u32
}

/// Runs something on a node.
pub fn on<T: Send>(node: u32, run: impl FnOnce() -> T + Send) -> T {
    let set = Topology::discover().unwrap().node_set(node).unwrap();
    std::thread::scope(|scope| {
        let inside = scope.spawn(move || {
            bind_thread(0, &set).unwrap();
            run()
        });
        inside.join().unwrap_or_else(|reason| std::panic::resume_unwind(reason))
    })
}

/// Striping of so many pages in a row.
pub fn stripes(pages: usize) -> MemoryPolicy {
    MemoryPolicy::Striped { stride: NonZeroUsize::new(pages).unwrap() }
}

fn topology() -> Value {
    let (machine, all) = machine();
    let shape: Vec<String> = machine.nodes().map(|node| node.processors.to_string()).collect();
    let expected: Vec<String> =
        (0..shape.len()).map(|node| format!("{}-{}", 4 * node, 4 * node + 3)).collect();
    assert_eq!(shape, expected);
    assert_eq!(all.nodes.to_string(), format!("0-{}", shape.len() - 1));
    assert!(machine.nodes().all(|node| node.distances.values().all(|&d| d == 10 || d == 30)));
    json!({"memory": machine.nodes().map(|node| node.memory).collect::<Vec<_>>()})
}

fn orders() -> Value {
    let (machine, all) = machine();
    for order in [ThreadOrder::Fill, ThreadOrder::RoundRobin] {
        let nodes = machine.nodes().count();
        let dealt = order.processors(&machine, &all, 4 * nodes).unwrap();
        for (index, &processor) in dealt.iter().enumerate() {
            let node = if order == ThreadOrder::Fill { index / 4 } else { index % nodes };
            assert_eq!(machine.node_of(processor).unwrap().id as usize, node);
            let set = ResourceSet { processors: [processor].into_iter().collect(), ..ResourceSet::empty() };
            let seen = std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    bind_thread(0, &set).unwrap();
                    // SAFETY: asks for a number.
                    unsafe { libc::sched_getcpu() }
                });
                thread.join().unwrap()
            });
            assert_eq!(seen as u32, processor);
        }
    }
    json!({})
}

/// Allocates on `from`, writes from `toucher`, and expects every page in the node that `wished` names.
fn everywhere(policy: MemoryPolicy, wished: impl Fn(u32, u32) -> u32) -> Value {
    let (machine, all) = machine();
    for from in 0..nodes() {
        let toucher = (from + 1) % nodes();
        let mut block = on(from, || Block::allocate(&machine, &all, policy, BYTES).unwrap());
        on(toucher, || block.fill(1));
        let found = block.verify().unwrap();
        assert!(found.is_as_wished(), "{found:?}");
        let node = wished(from, toucher);
        assert_eq!(found.per_node.into_iter().collect::<Vec<_>>(), [(node, block.pages())]);
    }
    json!({})
}

fn local() -> Value {
    everywhere(MemoryPolicy::Local, |from, _| from)
}

fn touch() -> Value {
    everywhere(MemoryPolicy::Touch, |_, toucher| toucher)
}

fn remote() -> Value {
    everywhere(MemoryPolicy::Remote, |from, _| (from + 1) % nodes())
}

fn striped() -> Value {
    let (machine, all) = machine();
    let odd = ResourceSet { nodes: all.nodes.iter().filter(|node| node % 2 == 1).collect(), ..all.clone() };
    let three = ResourceSet { nodes: all.nodes.difference(&Nodes::one(1)), ..all.clone() };
    for set in [&all, &odd, &three] {
        for stride in [1, 4, 16, 1000] {
            let mut block = Block::allocate(&machine, set, stripes(stride), BYTES + 4096).unwrap();
            block.fill(1);
            let found = kernel::nodes_of(block.as_ptr() as usize, block.pages());
            let nodes: Vec<u32> = set.nodes.iter().collect();
            for (page, node) in found.into_iter().enumerate() {
                assert_eq!(node, nodes[page / stride % nodes.len()] as i32, "page {page}, stride {stride}");
            }
            assert!(block.verify().unwrap().is_as_wished());
        }
    }
    json!({})
}

/// No policy may use up mappings, and each allocation's time is told.
fn mappings() -> Value {
    let (machine, all) = machine();
    let mut milliseconds = serde_json::Map::new();
    for policy in [MemoryPolicy::Local, MemoryPolicy::Touch, stripes(1), stripes(4), stripes(16)] {
        let before = kernel::mappings();
        let begin = Instant::now();
        let mut block = Block::allocate(&machine, &all, policy, 64 << 20).unwrap();
        block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        milliseconds.insert(policy.to_string(), json!(begin.elapsed().as_millis() as u64));
        assert!(kernel::mappings() <= before + 2, "{policy} takes {} mappings", kernel::mappings() - before);
        assert!(block.verify().unwrap().is_as_wished());
    }
    json!({"milliseconds of 64 MiB": milliseconds})
}

fn process() -> Value {
    let (machine, _) = machine();
    let zero = machine.node_set(0).unwrap();
    let mut holding = on(0, || {
        let held =
            Command::new("/init").arg("hold").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        bind_process(held.id() as i32, &zero).unwrap();
        held
    });
    let mut line = String::new();
    BufReader::new(holding.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let id = holding.id();
    assert!(kernel::pages_per_node(id)[0] > 1000, "{:?}", kernel::pages_per_node(id));
    let other = 2.min(nodes() - 1);
    let two = machine.node_set(other).unwrap();
    bind_process(id as i32, &two).unwrap();
    let left = migrate_process(id as i32, &machine.with_memory(), &two).unwrap();
    let pages = kernel::pages_per_node(id);
    assert!(pages[other as usize] > 1000 && pages[0] < 100, "{pages:?}");
    drop(holding.stdin.take());
    assert!(holding.wait().unwrap().success());
    assert!(matches!(bind_process(id as i32, &two), Err(RsetError::NoProcess { .. })));
    let none = ResourceSet { nodes: Nodes::default(), ..two };
    assert!(matches!(migrate_process(1, &machine.with_memory(), &none), Err(RsetError::NoMemory { .. })));
    json!({"pages that would not move": left, "pages": pages})
}

/// An unmodified program, linked dynamically: its allocations by one node, its writes by another.
fn preload() -> Value {
    let mut pages = serde_json::Map::new();
    for (policy, node) in [
        ("local", Some("1")),
        ("touch", Some("2")),
        ("remote", Some("2")),
        ("node(3)", Some("3")),
        ("striped(1)", None),
        ("striped(4)", None),
    ] {
        let report = format!("/report-{policy}");
        // Processor 5 is of node 1, and 10 of node 2.
        let ended = Command::new("/elsewhere")
            .args(["5", "10"])
            .env("LD_PRELOAD", "/preload.so")
            .env("SERVSIM_RSET_POLICY", policy)
            .env("SERVSIM_RSET_REPORT", &report)
            .output()
            .unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{policy}: {ended:?}");
        let told: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
        assert_eq!(
            (&told["pages_elsewhere"], &told["ranges_refused"]),
            (&json!(0), &json!(0)),
            "{policy}: {told}"
        );
        // 4 MiB at once and 4,000 pieces of a kilobyte.
        let of = |node: &str| told["pages_per_node"][node].as_u64().unwrap_or(0);
        match node {
            Some(node) => assert!(of(node) > 1900, "{policy}: {told}"),
            None => assert!(["0", "1", "2", "3"].iter().all(|node| of(node) > 450), "{policy}: {told}"),
        }
        pages.insert(policy.to_owned(), told["pages_per_node"].clone());
    }
    json!(pages)
}
