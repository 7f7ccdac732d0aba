//! The functional engine agrees with the oracle to the unit on a captured trace too: real addresses,
//! accesses that cross lines and pages, per-CPU data, interrupt handlers, private pages.
//! Of the shipped trace one run of 8192 references in 100 is compared, so that every task has
//! its turn, and tasks move to the next processor now and then; `SERVSIM_ORACLE_EVERY=1` compares the whole trace.

use crate::support::counts::by_oracle_names;

use servsim_core::reference::{CONTINUATION, PER_CPU};
use servsim_core::{Batch, GlobalSource, Op, Privacy, Record, SourceError, TaskInfo, TaskKind};
use servsim_import::captured::CapturedOrder;
use servsim_machine::{functional, Setup};
use servsim_mem::protocol::{by_name, Options, Rules};
use servsim_mem::Geometry;
use servsim_oracle::{Facts, Oracle, Protocol, Shape};
use std::collections::BTreeSet;
use std::path::Path;

/// One batch in so many is compared without the variable: the whole test takes some seconds.
const DEFAULT_EVERY: usize = 100;
/// Batches after which every task moves to the next processor.
const BATCHES_PER_STAY: usize = 5;
const PROCESSORS: usize = 4;
const SHAPE: Shape = Shape { size: 64 << 10, ways: 2, line: 64 };

/// One batch in every so many of a source.
struct Sampled {
    inner: CapturedOrder,
    every: usize,
    batches: usize,
}

impl GlobalSource for Sampled {
    fn tasks(&self) -> &[TaskInfo] {
        self.inner.tasks()
    }

    fn transaction_kinds(&self) -> Vec<String> {
        self.inner.transaction_kinds()
    }

    fn privacy(&self) -> &Privacy {
        self.inner.privacy()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        for _ in 1..self.every {
            self.inner.next_batch(batch)?;
        }
        let more = self.inner.next_batch(batch)?;
        self.batches += 1;
        for record in &mut batch.records {
            record.cpu = ((record.task as usize + self.batches / BATCHES_PER_STAY) % PROCESSORS) as u8;
        }
        Ok(more)
    }
}

fn open(every: usize) -> Sampled {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    Sampled { inner: CapturedOrder::open(&path).unwrap().with_private_kernel(true), every, batches: 0 }
}

/// The oracle's own idea of a processor's area: far from all memory, apart from one another.
fn relocated(record: &Record, cpu: usize) -> Record {
    let base = if record.flags & PER_CPU == 0 { 0 } else { (cpu as u64 + 1) << 52 };
    Record { address: base + record.address, ..*record }
}

fn oracle(every: usize, protocol: Protocol, rules: Rules) -> servsim_oracle::Counts {
    let mut source = open(every);
    let handlers: BTreeSet<u32> = (0_u32..)
        .zip(source.tasks())
        .filter(|(_, t)| t.kind == TaskKind::Interrupt)
        .map(|(n, _)| n)
        .collect();
    let mut oracle = Oracle::new(PROCESSORS, SHAPE, protocol);
    oracle = oracle.with(rules.flush_private, rules.judge_at_miss, handlers);
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        for record in batch.records.iter().filter(|r| r.op != Op::Event) {
            let cpu = usize::from(record.cpu);
            let privacy = source.privacy();
            let facts = |address: u64| {
                let page = Record { address, ..*record };
                Facts { private: privacy.is_private(&page), kernel: privacy.is_kernels(&page).unwrap() }
            };
            oracle.reference(cpu, &relocated(record, cpu), record.flags & CONTINUATION == 0, &facts);
        }
    }
    oracle.finish()
}

fn engine(every: usize, name: &str, rules: Rules) -> servsim_oracle::Counts {
    let setup = Setup {
        processors: PROCESSORS,
        geometry: Geometry { size: SHAPE.size, ways: SHAPE.ways as u32, line: SHAPE.line },
        protocol: by_name(name, &Options { rules, ..Options::default() }).unwrap(),
        shadow: true,
    };
    let counted = functional::run(&mut open(every), &setup, &mut |_| true).unwrap();
    by_oracle_names(&counted.total())
}

#[test]
fn the_engine_agrees_with_the_oracle_on_a_captured_trace() {
    let given = std::env::var("SERVSIM_ORACLE_EVERY").ok().and_then(|text| text.parse().ok());
    let every = given.unwrap_or(DEFAULT_EVERY).max(1);
    let flushing = Rules { flush_private: true, judge_at_miss: true };
    let mut cases: Vec<_> = Protocol::ALL.map(|(name, protocol)| (name, protocol, Rules::default())).into();
    cases.push(("pscr", Protocol::Pscr, flushing));
    for (name, protocol, rules) in cases {
        let (oracle, engine) = (oracle(every, protocol, rules), engine(every, name, rules));
        assert!(oracle.len() > 15, "{name}: the trace moves too little: {oracle:?}");
        println!("{name}, {rules:?}: {oracle:?}");
        assert_eq!(oracle, engine, "{name}, {rules:?}");
    }
}
