//! Speed of the engines in references per second of processor time of one host core, beside a memory bound taken in
//! the same run: dependent random accesses to a table that does not fit the host's caches. What is aimed at stands in
//! `benches/engine.toml`.
//!
//! `cargo bench -p servsim-machine --bench engine` prints a table; words after `--` select lines by
//! name. `SERVSIM_BENCH_REFERENCES` sets the length of the synthetic traces (24 million by
//! default), `SERVSIM_BENCH_TRACE` adds a captured trace. Functional runs are measured, three times or
//! `SERVSIM_BENCH_REPEATS`, from the raw16 file to the counts, all passes over the file included; the fastest counts.
//!
//! The OLTP-like trace has the mix and the miss rates of the OLTP trace that is shipped (68 %
//! fetches, 19 % loads, 13 % stores; 3.3 % of references miss in 32 KiB of 8 ways and 64 B), with
//! more sharing and with tasks that migrate. Its bytes are the same for any number of processors.
//! The hostile trace misses three times as often, the low-miss trace hardly at all.

mod support;

use servsim_config::Machine;
use servsim_core::{Batch, RandomStream, Record, TaskInfo, TaskKind, TaskSource};
use servsim_import::captured::{CapturedOrder, CapturedTasks};
use servsim_import::raw16::Raw16;
use servsim_import::InMemory;
use servsim_machine::timing::{run, Model};
use servsim_machine::{functional, Setup};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use support::{figure, print_figures, trace, wanted, write_raw16, CpuTime, HOSTILE, LOW_MISS, OLTP};

fn setup(processors: usize, geometry: Geometry, shadow: bool) -> Setup {
    let protocol = by_name("mesi", &Options::default()).expect("registered");
    Setup { processors, geometry, protocol, shadow }
}

/// Functional runs per line of the table, without `SERVSIM_BENCH_REPEATS`.
const REPEATS: u32 = 3;

fn report(name: &str, references: u64, start: CpuTime) {
    rated(name, references, start.elapsed_seconds());
}

fn rated(name: &str, references: u64, seconds: f64) -> f64 {
    let rate = references as f64 / seconds / 1e6;
    figure(name, rate, "M references/s/core");
    rate
}

/// Dependent random accesses per second over 256 MiB: what one miss of the host costs.
fn memory_bound() {
    let mask = (1_usize << 25) - 1;
    let mut table = vec![0_u64; mask + 1];
    let mut r = RandomStream::new(5, "bound");
    table.iter_mut().for_each(|slot| *slot = r.next_u64());
    let (start, mut at) = (CpuTime::now(), 0_u64);
    let steps = 5_000_000;
    for _ in 0..steps {
        at = table[(at as usize) & mask].wrapping_add(at >> 7);
    }
    black_box(at);
    report("bound: dependent random memory accesses", steps, start);
}

/// Measures one functional run from the file to the counts; its rate, and the bytes of host memory
/// per distinct line and processor.
fn functional_raw16(name: &str, path: &Path, setup: &Setup) -> Option<(f64, f64)> {
    functional_on(name, path, setup, &HierarchySpec::default())
}

fn functional_on(name: &str, path: &Path, setup: &Setup, spec: &HierarchySpec) -> Option<(f64, f64)> {
    if !wanted(name) {
        return None;
    }
    let once = || {
        let start = CpuTime::now();
        // As the command opens it.
        let first_pass = functional::needs_first_pass(setup, spec);
        let open = if first_pass { Raw16::open } else { Raw16::unsurveyed };
        let mut source = open(path, setup.processors).expect("a well-formed file");
        let counted = functional::run_on(&mut source, setup, spec, &mut |_| true).expect("runs");
        (start.elapsed_seconds(), counted)
    };
    // Other programs slow even processor time by what they do to shared caches: the fastest counts.
    let repeats = std::env::var("SERVSIM_BENCH_REPEATS").ok().and_then(|n| n.parse().ok()).unwrap_or(REPEATS);
    let (seconds, counted) =
        (0..repeats).map(|_| once()).min_by(|a, b| a.0.total_cmp(&b.0)).expect("some repeats");
    let total = counted.total();
    let misses = total.total_misses() as f64 * 100.0 / total.total_references() as f64;
    let rate = rated(&format!("{name} ({misses:.2} % misses)"), total.total_references(), seconds);
    let lines = (counted.distinct_lines * setup.processors as u64) as f64;
    Some((rate, counted.host_bytes as f64 / lines))
}

fn timing(name: &str, source: &dyn TaskSource, processors: usize) {
    if !wanted(name) {
        return;
    }
    let overrides = [format!("processors={processors}"), "cache.size=2 MiB".into()];
    let machine = Machine::from_toml("", "bench", &overrides).expect("valid");
    let geometry = Geometry { size: 2 << 20, ways: 2, line: 128 };
    let model = Model::new(&machine, &setup(processors, geometry, true), None, 0);
    let start = CpuTime::now();
    let result = run(source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).expect("runs");
    report(&format!("{name}, {processors} processors"), result.counters.total_references(), start);
}

fn by_task(records: &[Record], tasks: usize) -> InMemory {
    let mut streams: Vec<Batch> = (0..tasks).map(|_| Batch::default()).collect();
    for r in records {
        streams[r.task as usize].records.push(Record { cpu: 1, ..*r });
    }
    let info = |task| TaskInfo { name: format!("{task}"), pid: task, kind: TaskKind::User, client: false };
    InMemory::from_streams((0..tasks as u32).map(info).collect(), Vec::new(), streams)
}

fn captured(path: &Path) {
    let start = CpuTime::now();
    let mut source = CapturedOrder::open(path).expect("a captured trace");
    let geometry = Geometry { size: 2 << 20, ways: 2, line: 128 };
    let counted = functional::run(&mut source, &setup(4, geometry, true), &mut |_| true).expect("runs");
    report("captured, functional, 4 processors", counted.total().total_references(), start);
    let start = CpuTime::now();
    let source = CapturedTasks::open(path, 128, true).expect("a captured trace");
    report("captured, first pass (plan)", counted.total().total_references(), start);
    for processors in [1, 4, 8] {
        timing("captured, timing, 2 MiB 2-way 128 B, MESI", &source, processors);
    }
}

const KIB_32: Geometry = Geometry { size: 32 << 10, ways: 8, line: 64 };
const MIB_2: Geometry = Geometry { size: 2 << 20, ways: 2, line: 128 };

fn low_miss(path: &Path, length: u64) {
    write_raw16(&trace(&LOW_MISS, 4, length), path);
    for (class, shadow) in [("merged", false), ("exact", true)] {
        let name = format!("functional, low-miss, 32 KiB, {class}");
        functional_raw16(&name, path, &setup(4, KIB_32, shadow));
    }
}

fn oltp(path: &Path, length: u64) {
    write_raw16(&trace(&OLTP, 4, length), path);
    let lines = [
        ("functional, OLTP, 32 KiB 8-way 64 B, merged", KIB_32, false),
        ("functional, OLTP, 32 KiB 8-way 64 B, exact", KIB_32, true),
        ("functional, OLTP, 2 MiB 2-way 128 B, merged", MIB_2, false),
        ("functional, OLTP, 2 MiB 2-way 128 B, exact", MIB_2, true),
    ];
    for (name, geometry, shadow) in lines {
        if let Some((_, bytes)) = functional_raw16(name, path, &setup(4, geometry, shadow)) {
            figure(&format!("memory, {name}"), bytes, "B/line/processor");
        }
    }
    hierarchy(path);
}

/// The machine that the targets are about: split first level, shared second, no private one.
fn hierarchy(path: &Path) {
    let geometry = Geometry { size: 8 << 20, ways: 16, line: 64 };
    let level =
        |inclusion| vec![LevelSpec { geometry, replacement: "lru".into(), inclusion, write_around: false }];
    for (class, shadow) in [("merged", false), ("exact", true)] {
        let shared = level(Inclusion::Inclusive);
        let spec = HierarchySpec { split: true, shared, ..HierarchySpec::default() };
        let name = format!("functional, OLTP, 32 KiB 8-way split, 8 MiB 16-way shared, {class}");
        functional_on(&name, path, &setup(4, KIB_32, shadow), &spec);
    }
    let outer = Geometry { size: 1 << 20, ways: 8, line: 64 };
    let private = LevelSpec {
        geometry: outer,
        replacement: "lru".into(),
        inclusion: Inclusion::Inclusive,
        write_around: false,
    };
    let spec = HierarchySpec { split: true, private: vec![private], ..HierarchySpec::default() };
    functional_on("functional, OLTP, 32 KiB split, 1 MiB private", path, &setup(4, KIB_32, false), &spec);
}

fn scaling(path: &Path, length: u64) {
    let mut first = None;
    for processors in [1, 4, 16, 64] {
        let name = format!("functional, OLTP, 32 KiB, merged, {processors} processors");
        if !wanted(&name) {
            continue;
        }
        write_raw16(&trace(&OLTP, processors, length), path);
        let measured = functional_raw16(&name, path, &setup(processors as usize, KIB_32, false));
        let rate = measured.map_or(0.0, |(rate, _)| rate);
        match first {
            None => first = Some(rate),
            Some(one) => figure(&format!("lost, {name}, against 1"), (1.0 - rate / one) * 100.0, "%"),
        }
    }
}

fn main() {
    if std::env::var_os("SERVSIM_BENCH_ONLY_CAPTURED").is_some() {
        let trace = std::env::var_os("SERVSIM_BENCH_TRACE").expect("SERVSIM_BENCH_TRACE");
        captured(Path::new(&trace));
        return print_figures();
    }
    let length = std::env::var("SERVSIM_BENCH_REFERENCES").ok().and_then(|n| n.parse().ok());
    let length = length.unwrap_or(24_000_000);
    if wanted("bound") {
        memory_bound();
    }
    let folder = std::env::temp_dir().join(format!("servsim-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder");
    let path: PathBuf = folder.join("trace.raw16");
    low_miss(&path, length);
    oltp(&path, length);
    write_raw16(&trace(&HOSTILE, 4, length), &path);
    functional_raw16("functional, hostile, 32 KiB 8-way 64 B, merged", &path, &setup(4, KIB_32, false));
    scaling(&path, length);
    if wanted("timing") {
        let source = by_task(&trace(&OLTP, 4, length), 8);
        timing("timing, 2 MiB 2-way 128 B, MESI", &source, 1);
        timing("timing, 2 MiB 2-way 128 B, MESI", &source, 4);
    }
    if let Some(trace) = std::env::var_os("SERVSIM_BENCH_TRACE") {
        captured(Path::new(&trace));
    }
    let _ = std::fs::remove_dir_all(&folder);
    print_figures();
}
