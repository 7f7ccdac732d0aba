//! Speed of the engines in references per second of processor time of one host core, beside a memory bound taken in
//! the same run: dependent random accesses to a table that does not fit the host's caches.
//!
//! `cargo bench -p servsim-machine --bench engine` prints a table; `SERVSIM_BENCH_REFERENCES` sets
//! the length of the synthetic trace (24 million by default), `SERVSIM_BENCH_TRACE` adds a captured
//! trace. The synthetic trace resembles OLTP: three quarters fetches in runs, private and shared
//! data, 4 processors.

use servsim_config::Machine;
use servsim_core::{Batch, Op, RandomStream, Record, TaskInfo, TaskKind, TaskSource};
use servsim_import::captured::{CapturedOrder, CapturedTasks};
use servsim_import::raw16::Raw16;
use servsim_import::InMemory;
use servsim_machine::timing::{run, Model};
use servsim_machine::{functional, Setup};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::Geometry;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Mutex;

/// Processor time of this process, from the kernel's accounting: other load on the host does not
/// count as ours.
#[derive(Clone, Copy)]
struct CpuTime(u64);

impl CpuTime {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux host");
        let nanos = text.split_whitespace().next().and_then(|field| field.parse().ok());
        Self(nanos.expect("nanoseconds on a processor"))
    }

    fn elapsed_seconds(self) -> f64 {
        (Self::now().0 - self.0) as f64 / 1e9
    }
}

/// What the synthetic trace touches.
struct Shape {
    code_bytes: u64,
    data_bytes: u64,
    shared_percent: u64,
}

const OLTP: Shape = Shape { code_bytes: 2 << 20, data_bytes: 8 << 20, shared_percent: 12 };
const LOW_MISS: Shape = Shape { code_bytes: 16 << 10, data_bytes: 8 << 10, shared_percent: 0 };

fn trace(shape: &Shape, processors: u64, length: u64) -> Vec<Record> {
    let mut r = RandomStream::new(1, "benchmark");
    let mut code = vec![0_u64; processors as usize];
    let mut records = Vec::with_capacity(length as usize);
    let skewed = |r: &mut RandomStream, bytes: u64| {
        // Nine tenths of the accesses go to a tenth of the bytes, again and again.
        let mut span = bytes;
        while span > 2048 && r.below(10) != 0 {
            span /= 10;
        }
        r.below(span) & !7
    };
    while (records.len() as u64) < length {
        let cpu = r.below(processors);
        for _ in 0..64 {
            if r.below(12) == 0 {
                code[cpu as usize] = skewed(&mut r, shape.code_bytes);
            }
            let at = &mut code[cpu as usize];
            for _ in 0..3 {
                *at = (*at + 4) % shape.code_bytes;
                records.push(record(cpu, Op::Fetch, 0x10_0000_0000 + *at, 4));
            }
            let shared = r.below(100) < shape.shared_percent;
            let base = if shared { 0x20_0000_0000 } else { 0x30_0000_0000 + (cpu << 32) };
            let op = if r.below(3) == 0 { Op::Store } else { Op::Load };
            records.push(record(cpu, op, base + skewed(&mut r, shape.data_bytes), 8));
        }
    }
    records.truncate(length as usize);
    records
}

fn record(cpu: u64, op: Op, address: u64, size: u8) -> Record {
    let mut record = Record::new(cpu as u32, op, address, size);
    record.cpu = cpu as u8;
    record
}

fn write_raw16(records: &[Record], path: &Path) {
    let file = std::fs::File::create(path).expect("temporary file");
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    for r in records {
        let kind = [2_u8, 0, 1][r.op as usize];
        let mut bytes = [0_u8; 16];
        bytes[..8].copy_from_slice(&r.address.to_le_bytes());
        (bytes[8], bytes[9]) = (kind, r.size);
        bytes[12] = r.cpu;
        bytes[14..].copy_from_slice(&(r.task as u16 + 100).to_le_bytes());
        out.write_all(&bytes).expect("temporary file");
    }
    out.flush().expect("temporary file");
}

fn setup(processors: usize, geometry: Geometry, shadow: bool) -> Setup {
    let protocol = by_name("mesi", &Options::default()).expect("registered");
    Setup { processors, geometry, protocol, shadow }
}

/// What was measured, for the last line: one JSON object, which `make bench` reads.
static FIGURES: Mutex<Vec<serde_json::Value>> = Mutex::new(Vec::new());

fn report(name: &str, references: u64, start: CpuTime) {
    let rate = references as f64 / start.elapsed_seconds() / 1e6;
    println!("{name:58} {rate:8.1} M refs/s");
    let figure = serde_json::json!({"name": name, "value": rate, "unit": "M references/s/core"});
    FIGURES.lock().expect("one thread").push(figure);
}

fn print_figures() {
    println!("{}", serde_json::json!({"figures": *FIGURES.lock().expect("one thread")}));
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

fn functional_raw16(name: &str, path: &Path, processors: usize, geometry: Geometry, shadow: bool) {
    let start = CpuTime::now();
    let mut source = Raw16::open(path, processors).expect("a well-formed file");
    let setup = setup(processors, geometry, shadow);
    let counted = functional::run(&mut source, &setup, &mut |_| true).expect("runs");
    let total = counted.total();
    let rate = total.total_misses() as f64 * 100.0 / total.total_references() as f64;
    report(&format!("{name} ({rate:.2} % misses)"), total.total_references(), start);
}

fn timing(name: &str, source: &dyn TaskSource, processors: usize) {
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

fn main() {
    if std::env::var_os("SERVSIM_BENCH_ONLY_CAPTURED").is_some() {
        let trace = std::env::var_os("SERVSIM_BENCH_TRACE").expect("SERVSIM_BENCH_TRACE");
        captured(Path::new(&trace));
        return print_figures();
    }
    let length = std::env::var("SERVSIM_BENCH_REFERENCES").ok().and_then(|n| n.parse().ok());
    let length = length.unwrap_or(24_000_000);
    memory_bound();
    let folder = std::env::temp_dir().join(format!("servsim-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder");
    let path: PathBuf = folder.join("oltp.raw16");
    let records = trace(&OLTP, 4, length);
    write_raw16(&records, &path);
    let cache = |size, ways, line| Geometry { size, ways, line };
    functional_raw16("functional, 32 KiB 8-way 64 B, exact", &path, 4, cache(32 << 10, 8, 64), true);
    functional_raw16("functional, 32 KiB 8-way 64 B, merged", &path, 4, cache(32 << 10, 8, 64), false);
    functional_raw16("functional, 2 MiB 2-way 128 B, exact", &path, 4, cache(2 << 20, 2, 128), true);
    functional_raw16("functional, 2 MiB 2-way 128 B, merged", &path, 4, cache(2 << 20, 2, 128), false);
    functional_raw16("functional, 64 processors, 2 MiB, merged", &path, 64, cache(2 << 20, 2, 128), false);
    let source = by_task(&records, 4);
    timing("timing, 2 MiB 2-way 128 B, MESI", &source, 1);
    timing("timing, 2 MiB 2-way 128 B, MESI", &source, 4);
    drop((records, source));
    write_raw16(&trace(&LOW_MISS, 4, length), &path);
    functional_raw16("functional, low-miss, 32 KiB, merged", &path, 4, cache(32 << 10, 8, 64), false);
    if let Some(trace) = std::env::var_os("SERVSIM_BENCH_TRACE") {
        captured(Path::new(&trace));
    }
    let _ = std::fs::remove_dir_all(&folder);
    print_figures();
}
