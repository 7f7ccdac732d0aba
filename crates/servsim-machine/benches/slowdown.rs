//! Simulated slowdown: host time per simulated time, the figure that Alameldeen et al. 2003 give as about
//! 24,000 for a 16-processor system with their detailed timing model.
//!
//! `cargo bench -p servsim-machine --bench slowdown` runs the 16-processor machine of that paper with the
//! models `fixed` and `ooo` on the trace that is shipped, or on `SERVSIM_BENCH_TRACE`: on one host core,
//! in processor time, and as one replication on each host core, in elapsed time. Idle simulated
//! processors cost next to nothing, so the busy ones are stated, and the slowdown scaled to all of them busy.
//! The opening of the trace is not counted: the replications of a simulation share it.

mod support;

use servsim_config::Machine;
use servsim_core::TaskSource;
use servsim_import::captured::{CapturedTasks, CodeDetail};
use servsim_machine::result::Replication;
use servsim_machine::timing::{run, Model};
use servsim_machine::Setup;
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;
use support::{figure, print_figures, CpuTime};

const MACHINE: &str = include_str!("../../../python/servsim/machines/alameldeen-2003-16p.toml");
const MODELS: [&str; 2] = ["fixed", "ooo"];

fn model(machine: &Machine) -> Model {
    let geometry = |size, ways| Geometry { size, ways, line: machine.cache.line.0 };
    let setup = Setup {
        processors: machine.processors,
        geometry: geometry(machine.cache.size.0, machine.cache.associativity),
        protocol: by_name(&machine.protocol.name, &Options::default()).expect("a known protocol"),
        shadow: machine.exact_replacement,
    };
    let level = |l: &servsim_config::OuterLevel| LevelSpec {
        geometry: geometry(l.size.0, l.associativity),
        replacement: l.replacement.clone(),
        inclusion: Inclusion::Inclusive,
        write_around: false,
    };
    let levels = HierarchySpec {
        split: machine.split,
        replacement: machine.replacement.clone(),
        private: machine.levels.iter().map(level).collect(),
        ..HierarchySpec::default()
    };
    Model::new(machine, &setup, None, 0).with_hierarchy(levels)
}

fn simulate(source: &dyn TaskSource, model: &Model, seed: u64) -> Replication {
    run(source, model, seed, &AtomicBool::new(false), &AtomicU64::new(0)).expect("runs")
}

/// Simulated seconds, and processors that were not idle, on average.
fn simulated(result: &Replication, machine: &Machine) -> (f64, f64) {
    let timing = result.timing.as_ref().expect("a timing run");
    let idle: u64 = timing.processors.iter().map(|p| p.idle).sum();
    let cycles = timing.cycles as f64;
    (cycles / machine.clock.0 as f64, machine.processors as f64 - idle as f64 / cycles)
}

fn main() {
    let shipped =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/servsim/data/quickstart.svt"));
    let path = std::env::var_os("SERVSIM_BENCH_TRACE").map_or(shipped, PathBuf::from);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    for name in MODELS.into_iter().filter(|name| is_wanted(name)) {
        let overrides = [format!("processor.model={name}")];
        let machine =
            Machine::from_toml(MACHINE, "alameldeen-2003-16p", &overrides).expect("a valid machine");
        let detail = if name == "fixed" { CodeDetail::None } else { CodeDetail::Instructions };
        let source = CapturedTasks::open(&path, machine.cache.line.0, true)
            .and_then(|source| source.with_code(detail, None))
            .expect("a captured trace");
        let model = model(&machine);
        let start = CpuTime::now();
        let result = simulate(&source, &model, 1);
        let host = start.elapsed_seconds();
        let (seconds, busy) = simulated(&result, &machine);
        let slowdown = host / seconds;
        figure(&format!("{name}, one core: slowdown"), slowdown, "host s/simulated s");
        figure(&format!("{name}: busy processors"), busy, "of 16");
        let full = slowdown * machine.processors as f64 / busy;
        figure(&format!("{name}, one core: slowdown, all busy"), full, "host s/simulated s");
        let instructions = result.counters.instructions() as f64;
        figure(&format!("{name}, one core: instructions"), instructions / host / 1e6, "M/s");
        let start = Instant::now();
        let total: f64 = std::thread::scope(|scope| {
            let (source, model) = (&source, &model);
            let seeds = 1..=cores as u64;
            let runs: Vec<_> = seeds.map(|seed| scope.spawn(move || simulate(source, model, seed))).collect();
            runs.into_iter().map(|run| simulated(&run.join().expect("no panic"), &machine).0).sum()
        });
        let elapsed = start.elapsed().as_secs_f64();
        figure(&format!("{name}, {cores} cores: slowdown"), elapsed / total, "host s/simulated s");
    }
    print_figures();
}
