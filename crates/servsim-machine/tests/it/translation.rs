//! Address translation and prefetchers: the functional engine agrees with the oracle to the unit on
//! random traces and on the shipped captured one.

use crate::support::counts::by_oracle_names;

use servsim_core::reference::{CONTINUATION, PER_CPU};
use servsim_core::{
    Batch, GlobalSource, Op, Privacy, RandomStream, Record, SourceError, TaskInfo, TaskKind, ANY_CPU,
};
use servsim_import::captured::CapturedOrder;
use servsim_machine::functional::{run_on, Counted};
use servsim_machine::Setup;
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec, PrefetchSpec, TlbCounters, TlbSpec};
use servsim_oracle::{Ahead, Buffers, Counts, Facts, Keeps, Layout, Oracle, Outer, Protocol, Shape};
use std::collections::BTreeSet;
use std::path::Path;

/// Task 3 is an interrupt handler; tasks 0 and 1 are threads of one process.
const SPACES: [Option<u32>; 4] = [Some(0), Some(0), Some(1), None];

#[derive(Debug, Clone)]
struct Case {
    records: Vec<(Record, u64)>,
    buffers: Option<Buffers>,
    /// What is prefetched, how far ahead, and whether the second level takes it.
    ahead: Option<(Ahead, u64, bool)>,
    levels: Option<Layout>,
    processors: usize,
}

/// A trace in a list, with its pages.
struct Listed(Vec<TaskInfo>, Privacy, Option<Batch>);

impl GlobalSource for Listed {
    fn tasks(&self) -> &[TaskInfo] {
        &self.0
    }
    fn transaction_kinds(&self) -> Vec<String> {
        Vec::new()
    }
    fn privacy(&self) -> &Privacy {
        &self.1
    }
    fn spaces(&self) -> Vec<Option<u32>> {
        SPACES.to_vec()
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        *batch = self.2.take().unwrap_or_default();
        Ok(!batch.records.is_empty())
    }
}

/// A few pages of users and kernel, near one another and far apart, that now and then become others;
/// accesses that cross pages.
fn random_case(seed: u64) -> Case {
    let mut r = RandomStream::new(seed, "translation");
    let processors = 1 + r.below(3) as usize;
    let mut frames: Vec<u64> = (0..24).collect();
    let mut records = Vec::new();
    for _ in 0..(4 + r.below(200)) {
        if r.below(40) == 0 {
            let which = r.below(24) as usize;
            frames[which] += 32;
        }
        let which = r.below(12) as usize;
        let task = r.below(4) as u32;
        // Pages of one process are not those of another; 8 to 11 are the kernel's.
        let frame = if which < 8 && task == 2 { frames[which + 12] } else { frames[which] };
        let far = [0, 1 << 9, 1 << 18, 1 << 27][which % 4];
        let page = if which < 8 { which as u64 + far } else { 0xF_FFF8_8800_0000 + which as u64 + far };
        let op = [Op::Fetch, Op::Load, Op::Store][r.below(3) as usize];
        let offset = if r.below(6) == 0 { 4092 } else { r.below(4) * 64 };
        let mut record = Record::new(task, op, frame << 12 | offset, [4, 8, 16][r.below(3) as usize]);
        record.cpu = r.below(processors as u64) as u8;
        record.flags = r.below(2) as u8 | [2, 4][usize::from(r.below(4) != 0)];
        records.push((record, page));
    }
    let mut shape = || {
        let ways = [1, 2, 4][r.below(3) as usize];
        (ways * [1, 2][r.below(2) as usize], ways)
    };
    let (first, second) = (shape(), shape());
    let coin = |r: &mut RandomStream| r.below(2) == 0;
    let buffers = Buffers {
        first,
        second: coin(&mut r).then_some((second.0 * 2, second.1)),
        split: coin(&mut r),
        tagged: coin(&mut r),
        walk_entries: [0, 1, 3, 16][r.below(4) as usize],
    };
    let outer = || Outer {
        shape: Shape { size: 2048, ways: 4, line: 64 },
        policy: "lru",
        keeps: Keeps::All,
        around: false,
    };
    let (split, policy) = (coin(&mut r), "lru");
    let private = if coin(&mut r) { vec![outer()] } else { Vec::new() };
    let layout = Layout {
        split,
        policy,
        around: false,
        private,
        shared: vec![outer()],
        groups: 1,
        clean_supplies: false,
        seed,
    };
    let levels = coin(&mut r).then_some(layout);
    let has_second = levels.as_ref().is_some_and(|layout| !layout.private.is_empty());
    let what = [Ahead::NextLine, Ahead::Stride(4)][r.below(2) as usize];
    let ahead = (r.below(3) != 0).then(|| (what, 1 + r.below(3), has_second && coin(&mut r)));
    Case { records, buffers: (r.below(3) != 0).then_some(buffers), ahead, levels, processors }
}

const SHAPE: Shape = Shape { size: 512, ways: 2, line: 64 };

fn setup(processors: usize, protocol: &str) -> Setup {
    Setup {
        processors,
        geometry: Geometry { size: SHAPE.size, ways: SHAPE.ways as u32, line: SHAPE.line },
        protocol: by_name(protocol, &Options::default()).unwrap(),
        shadow: true,
    }
}

fn spec_of(buffers: &Buffers) -> TlbSpec {
    let number = |n: u64| n as usize;
    TlbSpec {
        entries: number(buffers.first.0),
        ways: number(buffers.first.1),
        split: buffers.split,
        second: buffers.second.map(|(entries, ways)| (number(entries), number(ways))),
        tagged: buffers.tagged,
        walk_entries: buffers.walk_entries,
    }
}

fn hierarchy_of(case: &Case) -> HierarchySpec {
    let tlb = case.buffers.as_ref().map(spec_of);
    let prefetch = case.ahead.map(|(what, degree, outside)| PrefetchSpec {
        policy: if what == Ahead::NextLine { "next-line" } else { "stride" }.into(),
        degree,
        level: 1 + usize::from(outside),
        entries: if let Ahead::Stride(entries) = what { entries as usize } else { 1 },
    });
    let Some(layout) = &case.levels else {
        return HierarchySpec { prefetch, tlb, ..HierarchySpec::default() };
    };
    let level = |outer: &Outer| LevelSpec {
        geometry: Geometry { size: outer.shape.size, ways: outer.shape.ways as u32, line: outer.shape.line },
        replacement: outer.policy.into(),
        inclusion: Inclusion::Inclusive,
        write_around: false,
    };
    HierarchySpec {
        split: layout.split,
        private: layout.private.iter().map(level).collect(),
        shared: layout.shared.iter().map(level).collect(),
        seed: layout.seed,
        prefetch,
        tlb,
        ..HierarchySpec::default()
    }
}

fn named(counted: &Counted) -> Counts {
    let mut counts = by_oracle_names(&counted.total());
    if let Some(p) = counted.prefetches {
        let values = [("issued", p.issued), ("useful", p.useful), ("useless", p.useless)];
        let moved = values.into_iter().filter(|(_, count)| *count > 0);
        counts.extend(moved.map(|(name, count)| (format!("prefetch.{name}"), [count, 0])));
    }
    let tlb = counted.tlb.unwrap_or_default();
    for (counter, values) in tlb.registered() {
        if values != [0, 0] {
            counts.insert(counter.path.to_owned(), [values[0], values[1]]);
        }
    }
    counts
}

fn engine(case: &Case, protocol: &str) -> Counts {
    let kind = |task: u32| if task == 3 { TaskKind::Interrupt } else { TaskKind::User };
    let info = |task: u32| TaskInfo { name: task.to_string(), pid: task, kind: kind(task), client: false };
    let privacy = Privacy::default().with_user_pages((1..512).step_by(2));
    let (records, pages) = case.records.iter().copied().unzip();
    let batch = Batch { records, pages, ..Batch::default() };
    let mut source = Listed((0..4).map(info).collect(), privacy, Some(batch));
    let setup = setup(case.processors, protocol);
    named(&run_on(&mut source, &setup, &hierarchy_of(case), &mut |_| true).unwrap())
}

fn oracle(case: &Case, protocol: Protocol) -> Counts {
    let mut oracle = Oracle::new(case.processors, SHAPE, protocol).with(false, false, BTreeSet::from([3]));
    if let Some(buffers) = case.buffers {
        oracle = oracle.translating(buffers);
    }
    if let Some((what, degree, outside)) = case.ahead {
        oracle = oracle.prefetching(what, degree, outside);
    }
    if let Some(layout) = &case.levels {
        oracle = oracle.with_levels(layout.clone());
    }
    for (record, page) in &case.records {
        let private = record.flags & 2 != 0;
        let facts = |address: u64| Facts { private, kernel: address >> 12 & 1 == 0 };
        let place = (*page, SPACES[record.task as usize]);
        let cpu = usize::from(record.cpu);
        if case.buffers.is_some() {
            oracle.translated_reference(cpu, record, true, place, &facts);
        } else {
            oracle.reference(cpu, record, true, &facts);
        }
    }
    // Levels are compared elsewhere.
    oracle.finish().into_iter().filter(|(name, _)| !is_of_levels(name)).collect()
}

fn is_of_levels(name: &str) -> bool {
    name.starts_with("level.") || name.starts_with("memory.")
}

#[test]
fn translation_and_prefetching_agree_with_the_oracle_to_the_unit() {
    let cases = std::env::var("SERVSIM_DIFFERENTIAL_CASES").ok().and_then(|text| text.parse().ok());
    let mut moved = BTreeSet::new();
    for (name, protocol) in Protocol::ALL {
        for seed in 0..cases.unwrap_or(1000) {
            let mut case = random_case(seed);
            if oracle(&case, protocol) != engine(&case, name) {
                let mut index = 0;
                while index < case.records.len() {
                    let mut smaller = case.clone();
                    smaller.records.remove(index);
                    if oracle(&smaller, protocol) == engine(&smaller, name) {
                        index += 1;
                    } else {
                        (case, index) = (smaller, 0);
                    }
                }
                let (oracle, engine) = (oracle(&case, protocol), engine(&case, name));
                panic!("{name}, seed {seed}: {case:#x?}\noracle {oracle:?}\nengine {engine:?}");
            }
            moved.extend(oracle(&case, protocol).into_keys());
        }
    }
    let names = TlbCounters::REGISTRY.iter().map(|counter| counter.path.to_owned());
    for name in names.chain(["issued", "useful", "useless"].map(|name| format!("prefetch.{name}"))) {
        assert!(moved.contains(&name), "no trace moves {name}");
    }
}

const CAPTURED: usize = 4;

/// Parts of the shipped trace, on processors by task.
struct Sampled(CapturedOrder, usize);

impl GlobalSource for Sampled {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }
    fn transaction_kinds(&self) -> Vec<String> {
        self.0.transaction_kinds()
    }
    fn privacy(&self) -> &Privacy {
        self.0.privacy()
    }
    fn spaces(&self) -> Vec<Option<u32>> {
        self.0.spaces()
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        for _ in 1..self.1 {
            self.0.next_batch(batch)?;
        }
        let more = self.0.next_batch(batch)?;
        for record in batch.records.iter_mut().filter(|record| record.op != Op::Event) {
            assert_eq!(record.cpu, ANY_CPU);
            record.cpu = (record.task as usize % CAPTURED) as u8;
        }
        Ok(more)
    }
}

fn captured(every: usize) -> Sampled {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let mut order = CapturedOrder::open(&path).unwrap();
    assert!(order.record_pages());
    Sampled(order, every)
}

#[test]
fn a_captured_trace_is_translated_as_the_oracle_does() {
    let buffers =
        Buffers { first: (16, 4), split: true, second: Some((64, 4)), tagged: false, walk_entries: 16 };
    let mut source = captured(50);
    let handlers = (0_u32..).zip(source.tasks()).filter(|(_, t)| t.kind == TaskKind::Interrupt);
    let handlers = handlers.map(|(task, _)| task).collect();
    let mut oracle =
        Oracle::new(CAPTURED, SHAPE, Protocol::Mesi).with(false, false, handlers).translating(buffers);
    let (spaces, mut batch) = (source.spaces(), Batch::default());
    while source.next_batch(&mut batch).unwrap() {
        assert_eq!(batch.pages.len(), batch.records.len());
        for (record, &page) in batch.records.iter().zip(&batch.pages).filter(|(r, _)| r.op != Op::Event) {
            let (cpu, privacy) = (usize::from(record.cpu), source.privacy());
            let facts = |address: u64| {
                let at = Record { address, ..*record };
                Facts { private: privacy.is_private(&at), kernel: privacy.is_kernels(&at).unwrap() }
            };
            let counted = record.flags & CONTINUATION == 0;
            let (mut record, mut page) = (*record, page);
            if record.flags & PER_CPU != 0 {
                // The processor's own area lies at addresses of its own.
                page = (0xFFFF_8000_0000_0000 + ((cpu as u64) << 21) + record.address) >> 12;
                record.address += (cpu as u64 + 1) << 52;
            }
            let place = (page, spaces[record.task as usize]);
            oracle.translated_reference(cpu, &record, counted, place, &facts);
        }
    }
    let spec = HierarchySpec { tlb: Some(spec_of(&buffers)), ..HierarchySpec::default() };
    let counted = run_on(&mut captured(50), &setup(CAPTURED, "mesi"), &spec, &mut |_| true).unwrap();
    let counts = named(&counted);
    assert!(counts["tlb.flushes"][1] > 8 && counts["tlb.second_hits"][0] > 100, "{counts:?}");
    assert_eq!(oracle.finish(), counts);
}

#[test]
fn captured_virtual_pages_are_those_of_the_kernels_direct_map() {
    // Linux maps all physical memory from here on (mm.rst), if the guest does not move it.
    let map = 0xF_FFF8_8800_0000;
    let (mut source, mut batch, mut seen) = (captured(25), Batch::default(), 0);
    while source.next_batch(&mut batch).unwrap() {
        for (record, &page) in batch.records.iter().zip(&batch.pages).filter(|(r, _)| r.op != Op::Event) {
            if record.op == Op::Fetch {
                assert_eq!(page >> 51 == 1, record.is_kernel(), "{page:x}");
            }
            if (map..map + (1 << 24)).contains(&page) && record.flags & PER_CPU == 0 {
                assert_eq!(page - map, record.address >> 12);
                seen += 1;
            }
        }
    }
    assert!(seen > 10_000, "{seen}");
}
