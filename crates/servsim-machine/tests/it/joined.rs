//! Fetches of one line that a source joins count as if each came by itself, to the unit, in every way that a functional
//! run takes.

use servsim_core::{Batch, GlobalSource, Op, Privacy, SourceError, TaskInfo};
use servsim_import::captured::CapturedOrder;
use servsim_machine::functional::{self, Counted};
use servsim_machine::{multi_config, sharded, Setup};
use servsim_mem::protocol::{by_name, Options, Rules, PROTOCOLS};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};
use servsim_trace::{cut, Selection, TraceReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of the shipped trace so many references.
const REFERENCES: u64 = 200_000;
const LINE: u64 = 64;

/// The trace, whose fetches come one by one.
struct Apart(CapturedOrder);

impl GlobalSource for Apart {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }
    fn transaction_kinds(&self) -> Vec<String> {
        self.0.transaction_kinds()
    }
    fn privacy(&self) -> &Privacy {
        self.0.privacy()
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.0.next_batch(batch)
    }
}

fn short(folder: &Path) -> PathBuf {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let output = folder.join("short.svt");
    let selection = Selection { references: Some(REFERENCES), ..Selection::default() };
    cut(&Arc::new(TraceReader::open(&shipped).unwrap()), &output, &selection).unwrap();
    output
}

fn setup(protocol: &str, size: u64, shadow: bool, rules: Rules) -> Setup {
    let options = Options { rules, ..Options::default() };
    let protocol = by_name(protocol, &options).unwrap();
    Setup { processors: 4, geometry: Geometry { size, ways: 2, line: LINE }, protocol, shadow }
}

fn hierarchies() -> Vec<HierarchySpec> {
    let level = |size, inclusion| LevelSpec {
        geometry: Geometry { size, ways: 4, line: LINE },
        replacement: "lru".into(),
        inclusion,
        write_around: false,
    };
    let policy = |name: &str| HierarchySpec { replacement: name.into(), ..HierarchySpec::default() };
    let mut all: Vec<_> = ["lru", "fifo", "tree-plru", "random", "srrip"].map(policy).into();
    for inclusion in [Inclusion::Inclusive, Inclusion::Exclusive, Inclusion::Neither] {
        let (two, three) = (level(16 << 10, inclusion), level(32 << 10, inclusion));
        let shared = HierarchySpec { split: true, shared: vec![two.clone()], ..HierarchySpec::default() };
        all.extend([shared, HierarchySpec { private: vec![two], shared: vec![three], ..policy("lru") }]);
    }
    all
}

/// Everything counted in a run, of the joined trace and of the trace apart.
fn both(path: &Path, mut run: impl FnMut(&mut dyn GlobalSource) -> Counted) -> Counted {
    let joined = run(&mut CapturedOrder::open(path).unwrap());
    let apart = run(&mut Apart(CapturedOrder::open(path).unwrap()));
    assert_eq!(joined, apart);
    joined
}

#[test]
fn joined_fetches_count_as_those_apart_on_every_hierarchy_and_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let path = short(folder.path());
    let at_miss = Rules { judge_at_miss: true, ..Rules::default() };
    let flushed = Rules { flush_private: true, ..Rules::default() };
    let run = |setup: &Setup, spec: &HierarchySpec| {
        both(&path, |source| functional::run_on(source, setup, spec, &mut |_| true).unwrap())
    };
    for spec in hierarchies() {
        let total = run(&setup("mesi", 8 << 10, false, Rules::default()), &spec).total();
        assert!(total.total_misses() > 5000 && total.total_references() >= REFERENCES, "{spec:?}");
    }
    for (name, _) in PROTOCOLS {
        for (shadow, rules) in [(true, Rules::default()), (false, at_miss), (false, flushed)] {
            run(&setup(name, 8 << 10, shadow, rules), &HierarchySpec::default());
        }
    }
}

#[test]
fn joined_fetches_count_as_those_apart_on_several_threads_and_machines() {
    let folder = tempfile::tempdir().unwrap();
    let path = short(folder.path());
    for spec in hierarchies() {
        let setup = setup("moesi", 8 << 10, false, Rules::default());
        let count = sharded::shards(&setup, &spec, 4);
        both(&path, |source| sharded::run(source, &setup, &spec, count, &mut |_| true).unwrap());
    }
    for shadow in [false, true] {
        let sizes = [4_u64, 8, 64]
            .map(|kib| (setup("mesi", kib << 10, shadow, Rules::default()), HierarchySpec::default()));
        for machine in 0..sizes.len() {
            both(&path, |source| {
                multi_config::run(source, &sizes, 1, &mut |_| true).unwrap().swap_remove(machine)
            });
        }
    }
}

#[test]
fn a_captured_trace_joins_fetches_and_tells_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = short(folder.path());
    let read = |source: &mut dyn GlobalSource| {
        let (mut batch, mut records, mut references, mut events) = (Batch::default(), 0, 0, 0);
        while source.next_batch(&mut batch).unwrap() {
            records += batch.records.len() as u64;
            references += batch.len_apart();
            events += batch.records.iter().filter(|record| record.op == Op::Event).count();
        }
        (records, references, events)
    };
    let apart = read(&mut CapturedOrder::open(&path).unwrap());
    let mut source = CapturedOrder::open(&path).unwrap();
    assert!(source.join_fetches(LINE));
    let joined = read(&mut source);
    assert_eq!((joined.1, joined.2), (apart.1, apart.2));
    assert_eq!(apart.0, apart.1);
    assert!(joined.0 * 10 < apart.0 * 8, "{joined:?} {apart:?}");
    // Progress is told in references.
    let setup = setup("mesi", 8 << 10, false, Rules::default());
    let mut done = 0;
    let mut told = |so_far| {
        done = so_far;
        true
    };
    functional::run(&mut CapturedOrder::open(&path).unwrap(), &setup, &mut told).unwrap();
    assert_eq!(done, apart.1);
}
