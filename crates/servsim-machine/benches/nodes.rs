//! What a reference costs on machines that differ in the number of their nodes alone.
//!
//! `cargo bench -p servsim-machine --bench nodes` runs 64 processors in 1 to 64 nodes, each kind of coherence, with pages
//! striped over the nodes: every processor walks through memory of its own, a new line with every tenth reference, so
//! that the miss rate is the same everywhere. `-- KIND COUNT LENGTH` runs one machine only, so many references each, and
//! `-- KIND trace` the kind beside the bus on `SERVSIM_BENCH_TRACE`: 16 processors in four nodes; to be run under
//! `valgrind --tool=callgrind`, as `benches/node_cost.py` does (docs/parts/nodes.md has the instructions).

use servsim_config::Machine;
use servsim_core::{Batch, Op, Record, TaskInfo, TaskKind, TaskSource};
use servsim_import::captured::CapturedTasks;
use servsim_import::InMemory;
use servsim_machine::timing::{run, Model};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

mod support;
use support::{figure, print_figures};

#[path = "../tests/it/support/setup.rs"]
mod setup;
use setup::setup;

const PROCESSORS: u32 = 64;
const COUNTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const KINDS: [&str; 3] = ["snooping", "directory", "messages"];

/// Nine references to a line, and one to the next, of memory that only this task uses; every hundredth is to a line that
/// all share.
fn walks(length: u64) -> InMemory {
    let stream = |task: u32| {
        let mut batch = Batch::default();
        for step in 0..length {
            let own = (u64::from(task + 1) << 32) + step / 10 * 64 + step % 10 * 4;
            let (op, address) = match step % 100 {
                99 => {
                    ([Op::Load, Op::Store][(step / 100) as usize % 2], (1 << 24) + u64::from(task) % 8 * 4096)
                }
                at if at % 4 == 0 => (Op::Store, own),
                _ => (Op::Load, own),
            };
            let mut record = Record::new(task, op, address, 4);
            record.cpu = 1;
            batch.records.push(record);
        }
        batch
    };
    let info = |task| TaskInfo { name: format!("{task}"), pid: task, kind: TaskKind::User, client: false };
    let streams = (0..PROCESSORS).map(stream).collect();
    InMemory::from_streams((0..PROCESSORS).map(info).collect(), Vec::new(), streams)
}

/// Nodes of that kind; with one, everything is on a bus.
fn nodes(kind: &str, count: usize) -> Vec<String> {
    let mut settings = vec!["cache.line=64 B".to_owned()];
    if kind == "directory" {
        settings.push("protocol.name=mosi".to_owned());
    }
    if count > 1 {
        settings.extend(["interconnect.kind=network".to_owned(), format!("node.count={count}")]);
        settings.extend([format!("node.coherence={kind}"), "node.placement=striped".to_owned()]);
    }
    settings
}

/// Nanoseconds a reference and share of references that missed.
fn measure(source: &dyn TaskSource, processors: u32, settings: &[String]) -> (f64, f64) {
    let mut settings = settings.to_vec();
    settings.push(format!("processors={processors}"));
    let machine = Machine::from_toml("", "bench", &settings).expect("valid");
    let transactions = (!source.transaction_kinds().is_empty()).then_some(2);
    let model = Model::new(&machine, &setup(&machine), transactions, 0);
    let begin = Instant::now();
    let result = run(source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).expect("runs");
    let (nanos, references) = (begin.elapsed().as_nanos() as f64, result.counters.total_references() as f64);
    (nanos / references, result.counters.total_misses() as f64 / references)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let report = |name: String, (nanos, missed): (f64, f64)| {
        figure(&format!("{name} ({:.2} % misses)", missed * 100.0), nanos, "ns/reference");
    };
    if let [kind, of] = words.as_slice() {
        assert_eq!(of, "trace", "give KIND trace, or KIND COUNT LENGTH");
        let path = std::env::var_os("SERVSIM_BENCH_TRACE").expect("SERVSIM_BENCH_TRACE is set");
        let source = CapturedTasks::open(Path::new(&path), 128, true).expect("a captured trace");
        let count = if kind == "bus" { 1 } else { 4 };
        report(kind.clone(), measure(&source, 16, &nodes(kind, count)));
    } else if let [kind, count, length] = words.as_slice() {
        let count = count.parse().expect("a number of nodes");
        let source = walks(length.parse().expect("references of each processor"));
        report(format!("{kind}, {count} nodes"), measure(&source, PROCESSORS, &nodes(kind, count)));
    } else {
        let source = walks(20_000);
        for (kind, count) in KINDS.iter().flat_map(|kind| COUNTS.map(|count| (kind, count))) {
            report(format!("{kind}, {count} nodes"), measure(&source, PROCESSORS, &nodes(kind, count)));
        }
    }
    print_figures();
}
