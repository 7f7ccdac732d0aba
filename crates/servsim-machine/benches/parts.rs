//! One part of a run on a captured trace, to be counted from outside: `parts STEP TRACE FOLDER`.
//!
//! Each step does what the ones before it do and more, so that the differences are the parts
//! (`benches/host_cost.py` runs them under cachegrind). `FOLDER` keeps what the first pass found.
//! Prints the references of the trace where the step knows them. Without arguments, as `cargo bench`
//! calls it, it does nothing.

use servsim_config::Machine;
use servsim_core::{Batch, GlobalSource};
use servsim_import::captured::{CapturedOrder, CapturedTasks, Findings};
use servsim_machine::timing::{run, Model};
use servsim_machine::{functional, Setup};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::Geometry;
use servsim_trace::{Event, GlobalCursor, Ref, ShapeId, Sink, TaskId, TraceReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

const PROCESSORS: usize = 4;
const GEOMETRY: Geometry = Geometry { size: 2 << 20, ways: 2, line: 128 };

fn setup() -> Setup {
    let protocol = by_name("mesi", &Options::default()).expect("registered");
    Setup { processors: PROCESSORS, geometry: GEOMETRY, protocol, shadow: false }
}

/// Looks at all that a walk tells, and no more.
#[derive(Default)]
struct Walked {
    items: u64,
    sum: u64,
}

impl Sink for Walked {
    fn block(&mut self, _: TaskId, _: ShapeId) {}

    fn reference(&mut self, _: usize, reference: Ref) {
        self.sum = self.sum.wrapping_add(reference.vaddr ^ reference.paddr);
    }

    fn end_block(&mut self) -> bool {
        self.items += 1;
        true
    }

    fn event(&mut self, _: TaskId, _: Event) -> bool {
        self.items += 1;
        true
    }
}

fn timed(source: &CapturedTasks) -> u64 {
    let overrides = [format!("processors={PROCESSORS}"), "cache.size=2 MiB".into()];
    let machine = Machine::from_toml("", "bench", &overrides).expect("valid");
    let model = Model::new(&machine, &setup(), None, 0);
    let result = run(source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).expect("runs");
    result.counters.total_references()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [step, trace, folder] = words.as_slice() else { return };
    let trace = Path::new(trace);
    let findings = Some(Findings { folder: Path::new(folder), trace_hash: "sha256:0" });
    let order = |findings| CapturedOrder::open_with(trace, findings, None).expect("a captured trace");
    let tasks =
        || CapturedTasks::open_with(trace, GEOMETRY.line, true, findings, None).expect("a captured trace");
    let reader = || Arc::new(TraceReader::open(trace).expect("a captured trace"));
    let references = match step.as_str() {
        "open" => reader().epoch_count() as u64,
        "walk" => {
            let (mut cursor, mut walked) = (GlobalCursor::unchecked(reader()), Walked::default());
            while cursor.run(&mut walked).expect("whole") {}
            std::hint::black_box(walked.sum);
            walked.items
        }
        "pass" => order(None).tasks().len() as u64,
        "keep" => order(findings).tasks().len() as u64,
        "records" => {
            let (mut source, mut batch, mut references) = (order(findings), Batch::default(), 0);
            // As the functional engine reads it.
            source.join_fetches(GEOMETRY.line);
            while source.next_batch(&mut batch).expect("whole") {
                references += batch.len_apart();
            }
            references
        }
        "functional" => {
            let counted = functional::run(&mut order(findings), &setup(), &mut |_| true).expect("runs");
            counted.total().total_references()
        }
        "tasks" => servsim_core::TaskSource::interrupts(&tasks()).len() as u64,
        "timing" => timed(&tasks()),
        other => panic!("no step {other}"),
    };
    println!("{references}");
}
