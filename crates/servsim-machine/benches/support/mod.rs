//! Synthetic traces, the processor time of the benches, and what they print.

#![allow(dead_code)] // each bench uses its share

use servsim_core::reference::KERNEL;
use servsim_core::{Op, RandomStream, Record};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// What was measured, for the last line.
static FIGURES: Mutex<Vec<serde_json::Value>> = Mutex::new(Vec::new());

/// Prints a figure, and keeps it for the last line.
pub fn figure(name: &str, value: f64, unit: &str) {
    println!("{name:84} {value:10.4} {unit}");
    let figure = serde_json::json!({"name": name, "value": value, "unit": unit});
    FIGURES.lock().expect("one thread").push(figure);
}

/// The last line: one JSON object with all figures, which `make bench` reads.
pub fn print_figures() {
    println!("{}", serde_json::json!({"figures": *FIGURES.lock().expect("one thread")}));
}

/// Whether the words after `--` select this line; without any, all are.
pub fn wanted(name: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

/// Processor time of this process, from the kernel's accounting: other load on the host does not
/// count as ours.
#[derive(Clone, Copy)]
pub struct CpuTime(u64);

impl CpuTime {
    /// Now. The kernel brings the account of who is running up to date when it is asked for another to run, and else
    /// every few milliseconds.
    pub fn now() -> Self {
        std::thread::yield_now();
        let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux host");
        let nanos = text.split_whitespace().next().and_then(|field| field.parse().ok());
        Self(nanos.expect("nanoseconds on a processor"))
    }

    /// Seconds since then.
    pub fn elapsed_seconds(self) -> f64 {
        (Self::now().0 - self.0) as f64 / 1e9
    }
}

/// What a synthetic trace touches.
pub struct Shape {
    code_bytes: u64,
    /// Private data of all tasks together; shared data take a quarter of it.
    data_bytes: u64,
    shared_percent: u64,
    /// One in so many accesses leaves the hot tenth of the bytes, at every size.
    locality: u64,
}

pub const OLTP: Shape = Shape { code_bytes: 2 << 20, data_bytes: 32 << 20, shared_percent: 5, locality: 70 };
pub const HOSTILE: Shape = Shape { locality: 12, ..OLTP };
pub const LOW_MISS: Shape =
    Shape { code_bytes: 16 << 10, data_bytes: 32 << 10, shared_percent: 0, locality: 34 };

/// Processors take turns of 192 references; a processor changes its task every 50 turns or so, and
/// an eighth of the turns are in kernel mode.
pub fn trace(shape: &Shape, processors: u64, length: u64) -> Vec<Record> {
    let mut r = RandomStream::new(1, "benchmark");
    let tasks = processors * 2;
    let mut code = vec![0_u64; tasks as usize];
    let mut running: Vec<u64> = (0..processors).collect();
    let private_bytes = shape.data_bytes / tasks;
    let mut records = Vec::with_capacity(length as usize);
    let skewed = |r: &mut RandomStream, bytes: u64, locality: u64| {
        let mut span = bytes;
        while span > 2048 && r.below(locality) != 0 {
            span /= 10;
        }
        r.below(span) & !7
    };
    while (records.len() as u64) < length {
        let cpu = r.below(processors);
        if shape.shared_percent > 0 && r.below(50) == 0 {
            // Two tasks change places, so that no task runs twice at once.
            let other = r.below(tasks);
            match running.iter().position(|&task| task == other) {
                Some(place) => running.swap(place, cpu as usize),
                None => running[cpu as usize] = other,
            }
        }
        let task = running[cpu as usize];
        let flags = if r.below(8) == 0 { KERNEL } else { 0 };
        let mut put = |op, address, size| {
            let mut record = Record::new(task as u32, op, address, size);
            (record.cpu, record.flags) = (cpu as u8, flags);
            records.push(record);
        };
        for _ in 0..64 {
            let at = &mut code[task as usize];
            if r.below(12) == 0 {
                *at = skewed(&mut r, shape.code_bytes, shape.locality / 3 + 1);
            }
            for _ in 0..2 {
                *at = (*at + 4) % shape.code_bytes;
                put(Op::Fetch, 0x10_0000_0000 + *at, 4);
            }
            let shared = r.below(100) < shape.shared_percent;
            let (base, bytes) = if shared {
                (0x20_0000_0000, shape.data_bytes / 4)
            } else {
                (0x30_0000_0000 + (task << 32), private_bytes)
            };
            // Shared data are read more often than written, and their hot part is larger.
            let op = if r.below(if shared { 12 } else { 5 }) < 2 { Op::Store } else { Op::Load };
            let spread = if shared { r.below(16) * 2048 } else { 0 };
            put(op, base + (skewed(&mut r, bytes, shape.locality) ^ spread), 8);
        }
    }
    records.truncate(length as usize);
    records
}

/// Writes `records` as raw16.
pub fn write_raw16(records: &[Record], path: &Path) {
    let file = std::fs::File::create(path).expect("temporary file");
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    for r in records {
        let kind = [2_u8, 0, 1][r.op as usize];
        let mut bytes = [0_u8; 16];
        bytes[..8].copy_from_slice(&r.address.to_le_bytes());
        (bytes[8], bytes[9]) = (kind | (r.flags & KERNEL) << 7, r.size);
        bytes[12] = r.cpu;
        bytes[14..].copy_from_slice(&(r.task as u16 + 100).to_le_bytes());
        out.write_all(&bytes).expect("temporary file");
    }
    out.flush().expect("temporary file");
}
