//! Speed of importers and exporters in references per second of processor time of one host core: the
//! first pass (checks, tasks, private pages), the pass that delivers references, and the export.
//!
//! `cargo bench -p servsim-import` prints a table, and JSON on its last line;
//! `SERVSIM_BENCH_REFERENCES` sets the length of the trace (4 million by default). The trace resembles
//! code that loads and stores: three fetches of 4 bytes to one access of 8 bytes, two tasks.

use servsim_core::{Batch, GlobalSource, Op, Privacy, RandomStream, Record, TaskInfo, TaskKind};
use servsim_import::export::{export, target_of, Only};
use servsim_import::{format_of, FirstPass, ListSource};
use std::path::Path;

/// Seconds of processor time of this thread so far, from the kernel's accounting: other load on the
/// host does not count as ours.
fn seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux host");
    let nanos: Option<f64> = text.split_whitespace().next().and_then(|field| field.parse().ok());
    nanos.expect("nanoseconds on a processor") / 1e9
}

fn records(length: u64) -> Vec<Record> {
    let mut random = RandomStream::new(1, "benchmark of formats");
    let mut at = 0x40_0000;
    (0..length)
        .map(|n| {
            let task = (n / 100_000 % 2) as u32;
            if n % 4 == 3 {
                let op = if random.below(3) == 0 { Op::Store } else { Op::Load };
                return Record::new(task, op, 0x7f00_0000_0000 + (random.below(1 << 22) & !7), 8);
            }
            at = if random.below(12) == 0 { 0x40_0000 + (random.below(1 << 20) & !3) } else { at + 4 };
            Record::new(task, Op::Fetch, at, 4)
        })
        .collect()
}

/// The records in the order of one drmemtrace file per thread.
fn drmemtrace(records: &[Record], folder: &Path) {
    let entry = |kind: u16, size: u16, address: u64| {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..].copy_from_slice(&address.to_le_bytes());
        bytes
    };
    for task in 0..2_u32 {
        let mut bytes = [entry(25, 0, 6), entry(22, 4, u64::from(task)), entry(24, 4, 1)].concat();
        for (index, r) in records.iter().enumerate().filter(|(_, r)| r.task == task) {
            if index % 4000 == 0 {
                bytes.extend(entry(28, 2, index as u64));
            }
            let kind = [10, 0, 1, 28][r.op as usize];
            bytes.extend(entry(kind, u16::from(r.size), r.address));
        }
        bytes.extend(entry(26, 0, 0));
        std::fs::write(folder.join(format!("{task}.memtrace")), bytes).expect("room for the trace");
    }
}

/// Seconds of the first pass, seconds of the delivering one, references delivered.
fn read(path: &Path, format: &str) -> (f64, f64, u64) {
    let start = seconds();
    let mut source =
        (format_of(path, Some(format)).expect("known").open)(path, 4, FirstPass::ALONE).expect("well-formed");
    let opened = seconds();
    let (mut batch, mut count) = (Batch::default(), 0);
    while source.next_batch(&mut batch).expect("well-formed") {
        count += batch.records.len() as u64;
    }
    (opened - start, seconds() - opened, count)
}

fn main() {
    let wished = std::env::var("SERVSIM_BENCH_REFERENCES").ok().and_then(|text| text.parse().ok());
    let records = records(wished.unwrap_or(4_000_000));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let task = |name: &str, pid| TaskInfo { name: name.into(), pid, kind: TaskKind::User, client: false };
    let mut figures = Vec::new();
    let mut report = |name: &str, (first, second, count): (f64, f64, u64)| {
        let [first, second] = [first, second].map(|time| count as f64 / time / 1e6);
        println!("{name:24} first pass {first:8.1}, delivery {second:8.1} M references/s");
        for (what, value) in [("first pass", first), ("delivery", second)] {
            figures.push(format!(
                "{{\"name\": \"{name}, {what}\", \"value\": {value:.2}, \"unit\": \"M references/s\"}}"
            ));
        }
    };
    let names =
        ["raw16", "text", "din", "din.gz", "lackey", "lackey.zst", "champsim", "champsim.gz", "champsim.xz"];
    for name in names {
        let path = folder.path().join(format!("t.{name}"));
        let format = name.split('.').next().unwrap_or(name);
        let items = records.iter().map(|r| (*r, None)).collect();
        let tasks = vec![task("1", 1), task("2", 2)];
        let mut source = ListSource::new(tasks, Vec::new(), Privacy::default(), items);
        let start = seconds();
        let target = target_of(format).expect("known");
        let done =
            export(&mut source as &mut dyn GlobalSource, target, Only::All, 2, &path).expect("written");
        let rate = done.references as f64 / (seconds() - start) / 1e6;
        println!("{name:24} export {rate:12.1} M references/s, {} bytes", done.bytes);
        report(name, read(&path, format));
    }
    let threads = folder.path().join("threads");
    std::fs::create_dir(&threads).expect("a folder");
    drmemtrace(&records, &threads);
    report("drmemtrace", read(&threads, "drmemtrace"));
    println!("{{\"figures\": [{}]}}", figures.join(", "));
}
