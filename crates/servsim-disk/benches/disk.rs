//! Speed of the disk part on one core: `cargo bench -p servsim-disk --bench disk [-- REQUESTS]`.
//!
//! The trace is synthetic (a million requests by default, generated here from a fixed seed) so that
//! the figures do not depend on files; the last line is the size of the 1997 paper's longer trace.
//! Times are processor time of the one thread.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use servsim_disk::importers::{stream, write_native, ImportOptions};
use servsim_disk::models::fit::{FitOptions, Fitter};
use servsim_disk::models::{file, DeviceModel};
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::server::Discipline;
use servsim_disk::simulate::{closed_loop, open_loop};
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

/// Requests of the paper's CSL-29 trace (Table 1).
const PAPER_REQUESTS: usize = 23_650_000;
/// Requests generated, fitted and simulated at a time in the large run.
const CHUNK: usize = 1 << 20;

/// A disk that serves in order of arrival, with seeks, modes and writes, at about 60 % load.
struct Source {
    rng: Pcg64Mcg,
    now_ns: u64,
    free_ns: u64,
    lba: u64,
}

impl Source {
    fn new() -> Self {
        Source { rng: Pcg64Mcg::seed_from_u64(42), now_ns: 0, free_ns: 0, lba: 0 }
    }

    fn chunk(&mut self, count: usize) -> Vec<Request> {
        (0..count).map(|_| self.request()).collect()
    }

    fn request(&mut self) -> Request {
        let rng = &mut self.rng;
        self.now_ns += (-(1.0 - rng.random::<f64>()).ln() * 9e6) as u64;
        let op = if rng.random_bool(0.3) { Op::Read } else { Op::Write };
        let sectors = if op == Op::Read { 8 } else { rng.random_range(1..=8) };
        let previous = self.lba;
        self.lba = if rng.random_bool(0.5) { previous } else { rng.random_range(0..8_000_000) };
        let seek_ms = (self.lba.abs_diff(previous) as f64).sqrt() * 0.003;
        let service_ms = 1.0 + seek_ms + rng.random::<f64>() * if seek_ms > 0.0 { 8.3 } else { 0.4 };
        self.free_ns = self.free_ns.max(self.now_ns) + (service_ms * 1e6) as u64;
        let lba = self.lba;
        self.lba += u64::from(sectors);
        let (arrival_ns, completion_ns) = (self.now_ns, self.free_ns);
        Request {
            arrival_ns,
            start_ns: NO_START,
            completion_ns,
            lba,
            sectors,
            device: 0,
            op,
            by_tracer: false,
        }
    }
}

/// Processor time of this thread in seconds where Linux tells it, else wall clock: other people's
/// work on the machine is not counted, though it still costs caches.
fn seconds_used(begin: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = text.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begin.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}

/// Seconds that `work` uses, and its result.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = Instant::now();
    let before = seconds_used(begin);
    let result = work();
    (seconds_used(begin) - before, result)
}

/// The best of three, as requests a second.
fn rate(count: usize, mut work: impl FnMut()) -> f64 {
    let best = (0..3).map(|_| timed(&mut work).0).fold(f64::INFINITY, f64::min);
    count as f64 / best
}

/// Figures measured, and printed as JSON at the end for `make bench`.
#[derive(Default)]
struct Figures(Vec<serde_json::Value>);

impl Figures {
    fn line(&mut self, what: &str, rate: f64, wanted: f64) {
        let verdict = if rate >= wanted { "" } else { "   BELOW TARGET" };
        println!("{what:<44}{:>9.2} M requests/s   (target {:.0}){verdict}", rate * 1e-6, wanted * 1e-6);
        self.add(what, rate, "requests/s");
    }

    fn add(&mut self, name: &str, value: f64, unit: &str) {
        self.0.push(serde_json::json!({"name": name, "value": value, "unit": unit}));
    }
}

/// Peers on the same kind of work, requests a second: measured with their own tools elsewhere.
const PEERS: [(&str, f64); 3] =
    [("DiskSim 4.0, slowest", 20e3), ("DiskSim 4.0, fastest", 55e3), ("MQSim", 79e3)];

fn fit_from(bytes: &[u8]) -> DeviceModel {
    let mut fitter = Fitter::new("disk0", FitOptions::default());
    let mut input = bytes;
    stream(&mut input, None, &ImportOptions::default(), &mut |request| {
        fitter.push(request);
        Ok(())
    })
    .expect("a good trace");
    fitter.finish().expect("a long trace")
}

fn csv_of(requests: &[Request]) -> String {
    let mut text = "arrival_us,op,lba,sectors,completion_us\n".to_owned();
    for r in requests {
        let (arrival_us, completion_us) = (r.arrival_ns / 1000, r.completion_ns / 1000);
        writeln!(text, "{arrival_us},{},{},{},{completion_us}", r.op as u8, r.lba, r.sectors)
            .expect("memory");
    }
    text
}

fn main() {
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let count: usize = asked.unwrap_or(4_000_000);
    let requests = Source::new().chunk(count);
    let mut binary = Vec::new();
    write_native(&mut binary, &["disk0".to_owned()], &requests).expect("memory");
    let csv = csv_of(&requests);

    let mut figures = Figures::default();
    figures.line("fit from binary", rate(count, || drop(black_box(fit_from(&binary)))), 15e6);
    figures.line("fit from CSV", rate(count, || drop(black_box(fit_from(csv.as_bytes())))), 5e6);
    let mut model = fit_from(&binary);
    let open = rate(count, || drop(black_box(open_loop(&model, &requests, 1))));
    figures.line("simulate, open loop", open, 30e6);
    let closed = |model: &DeviceModel| rate(count, || drop(black_box(closed_loop(model, &requests, 1.0, 1))));
    figures.line("simulate, FCFS", closed(&model), 8e6);
    model.server.discipline = Discipline::Sstf;
    figures.line("simulate, SSTF", closed(&model), 2e6);
    model.server.discipline = Discipline::CScan;
    figures.line("simulate, C-SCAN", closed(&model), 2e6);
    for (name, rate) in PEERS {
        println!("{name:<44}{:>9.3} M requests/s   (a peer, measured elsewhere)", rate * 1e-6);
        figures.add(&format!("{name} (peer, measured elsewhere)"), rate, "requests/s");
    }
    let megabytes = file::to_bytes(&[model]).len() as f64 * 1e-6;
    println!("model file {megabytes:.2} MB (target at most 8)");
    figures.add("model file", megabytes, "MB");
    drop((requests, binary, csv));
    figures.add("23.65 M requests, fitted and simulated", large_run(), "s");
    println!("{}", serde_json::json!({"schema": "servsim.bench.disk/1", "figures": figures.0}));
}

/// Fits and simulates as many requests as the paper's longer trace has, chunk by chunk; making the
/// requests is not counted. Returns the seconds of both.
fn large_run() -> f64 {
    let (mut fit_seconds, mut simulate_seconds) = (0.0, 0.0);
    let mut fitter = Fitter::new("disk0", FitOptions::default());
    let mut source = Source::new();
    let sizes = || (0..PAPER_REQUESTS.div_ceil(CHUNK)).map(|k| CHUNK.min(PAPER_REQUESTS - k * CHUNK));
    for size in sizes() {
        let chunk = source.chunk(size);
        fit_seconds += timed(|| chunk.into_iter().for_each(|request| fitter.push(request))).0;
    }
    let (seconds, model) = timed(|| fitter.finish().expect("a long trace"));
    fit_seconds += seconds;
    let mut source = Source::new();
    for size in sizes() {
        let chunk = source.chunk(size);
        simulate_seconds += timed(|| drop(black_box(open_loop(&model, &chunk, 1)))).0;
    }
    println!(
        "{PAPER_REQUESTS} requests: fitted in {fit_seconds:.2} s, simulated in {simulate_seconds:.2} s, together {:.2} s (target 3)",
        fit_seconds + simulate_seconds
    );
    fit_seconds + simulate_seconds
}
