//! What one pass over a trace is worth: many machines at once against one, and one machine on several
//! host threads against one thread.
//!
//! `cargo bench -p servsim-machine --bench passes`; words after `--` select lines by name, `SERVSIM_BENCH_REFERENCES` sets the
//! length of the synthetic trace (8 million by default), `SERVSIM_BENCH_TRACE` adds a captured trace. Costs of several machines are processor times, so that other
//! load on the host does not count; threads are compared by the clock, each with one thread run just
//! before.

mod support;

use servsim_core::{GlobalSource, SourceError};
use servsim_import::captured::CapturedOrder;
use servsim_import::raw16::Raw16;
use servsim_machine::{functional, multi_config, sharded, Setup};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{Geometry, HierarchySpec};
use std::path::{Path, PathBuf};
use std::time::Instant;
use support::{figure, print_figures, trace, wanted, write_raw16, CpuTime, OLTP};

/// A functional run.
type Run = fn(
    &mut dyn GlobalSource,
    &Setup,
    &HierarchySpec,
    &mut dyn FnMut(u64) -> bool,
) -> Result<functional::Counted, SourceError>;

const PROCESSORS: usize = 4;
const REPEATS: u32 = 3;

fn setup(protocol: &str, size: u64, ways: u32, shadow: bool) -> Setup {
    let protocol = by_name(protocol, &Options::default()).expect("registered");
    Setup { processors: PROCESSORS, geometry: Geometry { size, ways, line: 64 }, protocol, shadow }
}

/// The least of some measurements.
fn least(mut once: impl FnMut() -> f64) -> f64 {
    (0..REPEATS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Opens the trace again for each run; as one machine needs it, or several.
type Open<'a> = &'a dyn Fn(usize) -> Box<dyn GlobalSource>;

fn one(open: Open, setup: &Setup, spec: &HierarchySpec) -> f64 {
    least(|| {
        let start = CpuTime::now();
        functional::run_on(open(1).as_mut(), setup, spec, &mut |_| true).expect("runs");
        start.elapsed_seconds()
    })
}

fn many(open: Open, machines: &[(Setup, HierarchySpec)]) -> f64 {
    least(|| {
        let start = CpuTime::now();
        multi_config::run(open(machines.len()).as_mut(), machines, 1, &mut |_| true).expect("runs");
        start.elapsed_seconds()
    })
}

/// Sixteen machines in one pass, in runs of the first and of the mean of all.
fn sizes(of: &str, open: Open) {
    for (kind, shadow, split) in
        [("merged", false, false), ("merged, split", false, true), ("exact", true, false)]
    {
        let name = format!("{of}{kind}");
        if !wanted(&format!("sixteen sizes, {name}")) {
            continue;
        }
        let spec = HierarchySpec { split, ..HierarchySpec::default() };
        // 8 and 12 ways in turn, so that the sizes are half a power of two apart.
        let machine = |n: u32| {
            let (ways, sets) = ([8, 12][n as usize % 2], 32_u64 << (n / 2));
            (setup("mesi", sets * u64::from(ways) * 64, ways, shadow), spec.clone())
        };
        let machines: Vec<_> = (0..16).map(machine).collect();
        let first = one(open, &setup("mesi", 32 << 10, 8, shadow), &spec);
        let sum: f64 = machines.iter().map(|(setup, spec)| one(open, setup, spec)).sum();
        let pass = many(open, &machines);
        for (what, cost) in [("runs of 32 KiB", pass / first), ("runs of the mean size", pass / sum * 16.0)] {
            figure(&format!("sixteen sizes, {name}, in {what}"), cost, "runs");
        }
    }
}

fn threads(path: &Path) {
    let (setup, spec) = (setup("mesi", 32 << 10, 8, false), HierarchySpec::default());
    let timed = |count: usize| {
        let start = Instant::now();
        let mut source = Raw16::unsurveyed(path, PROCESSORS).expect("a well-formed file");
        sharded::run(&mut source, &setup, &spec, count, &mut |_| true).expect("runs");
        start.elapsed().as_secs_f64()
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for count in [1, 2, 4, 8].into_iter().filter(|count| *count <= cores) {
        let name = format!("one run on {count} threads");
        if !wanted(&name) {
            continue;
        }
        let mut ratios: Vec<f64> = (0..REPEATS).map(|_| timed(1) / timed(count)).collect();
        ratios.sort_by(f64::total_cmp);
        figure(&name, ratios[ratios.len() / 2], "times as fast");
    }
}

/// A captured trace on two threads, one of which reads, against one: what `simulate` does with two.
fn read_ahead(path: &Path) {
    let (setup, spec) = (setup("mesi", 2 << 20, 2, true), HierarchySpec::default());
    let timed = |run: Run| {
        let mut source = CapturedOrder::open(path).expect("a captured trace");
        let start = Instant::now();
        run(&mut source, &setup, &spec, &mut |_| true).expect("runs");
        start.elapsed().as_secs_f64()
    };
    let ratio = || timed(functional::run_on) / timed(functional::run_ahead);
    let mut ratios: Vec<f64> = (0..REPEATS).map(|_| ratio()).collect();
    ratios.sort_by(f64::total_cmp);
    figure("a captured trace on 2 threads", ratios[ratios.len() / 2], "times as fast");
}

fn main() {
    let length = std::env::var("SERVSIM_BENCH_REFERENCES").ok().and_then(|n| n.parse().ok());
    let folder = std::env::temp_dir().join(format!("servsim-passes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder");
    let path = folder.join("trace.raw16");
    write_raw16(&trace(&OLTP, PROCESSORS as u64, length.unwrap_or(8_000_000)), &path);
    threads(&path);
    let captured = std::env::var_os("SERVSIM_BENCH_TRACE").map(PathBuf::from);
    if let Some(captured) = captured.as_deref().filter(|_| wanted("a captured trace")) {
        read_ahead(captured);
    }
    let raw16 = |machines: usize| -> Box<dyn GlobalSource> {
        let open = if machines == 1 { Raw16::unsurveyed } else { Raw16::open };
        Box::new(open(&path, PROCESSORS).expect("a well-formed file"))
    };
    sizes("", &raw16);
    if let Some(captured) = captured {
        sizes("captured, ", &|_| Box::new(CapturedOrder::open(&captured).expect("a captured trace")));
    }
    let _ = std::fs::remove_dir_all(&folder);
    print_figures();
}
