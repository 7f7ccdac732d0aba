//! Speed of the timing engine alone, in references per second of processor time of one host core.
//!
//! `cargo bench -p servsim-machine --bench timing` runs a synthetic trace in which every fetch is a
//! record of its own (the hardest case for the run loop) on 1 to 16 processors;
//! `SERVSIM_BENCH_TRACE` adds a captured trace. The opening of the trace is not counted: the
//! replications of a simulation share it.

use servsim_config::Machine;
use servsim_core::{Batch, Op, RandomStream, Record, TaskInfo, TaskKind, TaskSource};
use servsim_import::captured::CapturedTasks;
use servsim_import::InMemory;
use servsim_machine::timing::{run, run_from, Model};
use servsim_machine::warm::{warm_up, Amount};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

mod support;
use support::{figure, print_figures, CpuTime};

#[path = "../tests/it/support/setup.rs"]
mod setup;
use setup::setup;

/// `tasks` streams of `length` references: runs of fetches, own data, one reference in a hundred
/// to data that all share.
fn synthetic(tasks: u32, length: u64) -> InMemory {
    let stream = |task: u32| {
        let mut random = RandomStream::new(u64::from(task), "benchmark");
        let (mut batch, mut code) = (Batch::default(), 0);
        for _ in 0..length {
            let (op, address) = match random.below(100) {
                0 => ([Op::Load, Op::Store][random.below(2) as usize], 1 << 30 | random.below(1 << 16)),
                1..=24 => {
                    let own = u64::from(task + 1) << 32 | random.below(1 << 15);
                    ([Op::Load, Op::Load, Op::Store][random.below(3) as usize], own)
                }
                25..=29 => {
                    code = 1 << 31 | random.below(1 << 15);
                    (Op::Fetch, code)
                }
                _ => {
                    code += 4;
                    (Op::Fetch, code)
                }
            };
            let mut record = Record::new(task, op, address & !3, 4);
            record.cpu = 1;
            batch.records.push(record);
        }
        batch
    };
    let info = |task| TaskInfo { name: format!("{task}"), pid: task, kind: TaskKind::User, client: false };
    InMemory::from_streams((0..tasks).map(info).collect(), Vec::new(), (0..tasks).map(stream).collect())
}

fn rate(source: &dyn TaskSource, overrides: &[String]) -> f64 {
    let machine = Machine::from_toml("", "bench", overrides).expect("valid");
    let setup = setup(&machine);
    let model = Model::new(&machine, &setup, None, 0);
    let start = CpuTime::now();
    let result = run(source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).expect("runs");
    result.counters.total_references() as f64 / 1e6 / start.elapsed_seconds()
}

/// What warming without time is worth: the first 20 million references by functional warming, by the
/// timing engine, and what it costs to begin where they end.
fn worth(source: &dyn TaskSource) {
    let machine = Machine::from_toml("", "bench", &["processors=4".to_owned()]).expect("valid");
    let model = Model::new(&machine, &setup(&machine), Some(1), 0);
    let begin = CpuTime::now();
    let start =
        warm_up(source, &model.shape(), Amount::References(20_000_000), &mut |_| true).expect("warms");
    figure("warming of 20 M references, functional", begin.elapsed_seconds(), "s");
    let timed_model = Model::new(&machine, &setup(&machine), Some(1), start.transactions);
    let begin = CpuTime::now();
    run(source, &timed_model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).expect("runs");
    figure("a transaction after as many that are timed", begin.elapsed_seconds(), "s");
    let begin = CpuTime::now();
    run_from(source, &model, Some(&start), 1, &AtomicBool::new(false), &AtomicU64::new(0)).expect("runs");
    figure("a transaction from a warm start", begin.elapsed_seconds(), "s");
}

fn main() {
    let report = |name: &str, source: &dyn TaskSource, processors: usize| {
        let value = rate(source, &[format!("processors={processors}")]);
        figure(&format!("{name}, {processors} processors"), value, "M references/s/core");
    };
    let source = synthetic(32, 500_000);
    for processors in [1, 4, 8, 16] {
        report("timing, synthetic", &source, processors);
    }
    drop(source);
    if let Some(path) = std::env::var_os("SERVSIM_BENCH_TRACE") {
        let source = CapturedTasks::open(Path::new(&path), 128, true).expect("a captured trace");
        for processors in [1, 4, 8, 16] {
            report("timing, captured", &source, processors);
        }
        worth(&source);
    }
    print_figures();
}
