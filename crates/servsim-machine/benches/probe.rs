//! What a bare loop takes: tags and a directory over records at hand, and nothing else. It is the bound that the whole
//! command is held to, in one run of `benches/peers.py`.
//!
//! `probe write FILE REFERENCES [PROCESSORS]` writes the OLTP-like trace, of four processors, as raw16. `probe FILE` reads such a file
//! into memory, and then, timed alone, simulates a split first level of 32 KiB, 8 ways and 64 B for each processor (LRU,
//! MESI) inside one level of 8 MiB and 16 ways that all share and that holds what they hold. No classes of misses,
//! tasks, modes, words or checks. It prints references, misses and seconds of processor time as one line of JSON.

mod support;

use std::path::Path;
use support::{trace, write_raw16, CpuTime, OLTP};

const PROCESSORS: usize = 4;
const LINE_SHIFT: u32 = 6;
const INNER_WAYS: usize = 8;
const INNER_SETS: usize = (32 << 10) / 64 / INNER_WAYS;
const OUTER_WAYS: usize = 16;
const OUTER_SETS: usize = (8 << 20) / 64 / OUTER_WAYS;
/// Bytes of a record, and where its kind (bit 7: kernel mode) and its processor stand.
const RECORD: usize = 16;
const KIND: usize = 8;
const CPU: usize = 12;
/// A copy that its cache may write; lines are shifted by one for it.
const WRITABLE: u64 = 1;
const NOTHING: u64 = u64::MAX;

/// Each set in the order of use, the last one first.
struct Probe {
    inner: Vec<[u64; INNER_WAYS]>,
    outer: Vec<[u64; OUTER_WAYS]>,
    /// Which first-level caches hold the line of each frame.
    sharers: Vec<[u8; OUTER_WAYS]>,
    misses: u64,
}

impl Probe {
    fn new() -> Self {
        Self {
            inner: vec![[NOTHING; INNER_WAYS]; 2 * PROCESSORS * INNER_SETS],
            outer: vec![[NOTHING; OUTER_WAYS]; OUTER_SETS],
            sharers: vec![[0; OUTER_WAYS]; OUTER_SETS],
            misses: 0,
        }
    }

    fn set(&mut self, cache: usize, line: u64) -> &mut [u64; INNER_WAYS] {
        &mut self.inner[cache * INNER_SETS + line as usize % INNER_SETS]
    }

    #[inline]
    fn access(&mut self, cache: usize, line: u64, store: bool) {
        let set = self.set(cache, line);
        if let Some(way) = set.iter().position(|&copy| copy >> 1 == line) {
            let mut copy = set[way];
            set.copy_within(..way, 1);
            let upgrade = store && copy & WRITABLE == 0;
            copy |= u64::from(store);
            set[0] = copy;
            if upgrade {
                let (at, way) = self.frame(line).expect("the outer level holds what the inner ones do");
                self.take_from(self.sharers[at][way] & !(1 << cache), line);
                self.sharers[at][way] = 1 << cache;
            }
        } else {
            self.misses += 1;
            self.fetch(cache, line, store);
        }
    }

    fn frame(&self, line: u64) -> Option<(usize, usize)> {
        let at = line as usize % OUTER_SETS;
        self.outer[at].iter().position(|&held| held == line).map(|way| (at, way))
    }

    fn fetch(&mut self, cache: usize, line: u64, store: bool) {
        let (at, way) = self.frame(line).unwrap_or_else(|| {
            let (at, last) = (line as usize % OUTER_SETS, OUTER_WAYS - 1);
            let (gone, held) = (self.outer[at][last], self.sharers[at][last]);
            self.take_from(held, gone);
            (self.outer[at][last], self.sharers[at][last]) = (line, 0);
            (at, last)
        });
        let others = self.sharers[at][way];
        if store {
            self.take_from(others, line);
        } else {
            for other in bits(others) {
                self.set(other, line)
                    .iter_mut()
                    .filter(|copy| **copy >> 1 == line)
                    .for_each(|copy| *copy &= !WRITABLE);
            }
        }
        let holders = 1 << cache | if store { 0 } else { others };
        self.outer[at].copy_within(..way, 1);
        self.sharers[at].copy_within(..way, 1);
        (self.outer[at][0], self.sharers[at][0]) = (line, holders);
        let set = self.set(cache, line);
        let gone = set[INNER_WAYS - 1];
        set.copy_within(..INNER_WAYS - 1, 1);
        set[0] = line << 1 | u64::from(store || others == 0);
        if gone != NOTHING {
            let (at, way) = self.frame(gone >> 1).expect("the outer level holds what the inner ones do");
            self.sharers[at][way] &= !(1 << cache);
        }
    }

    /// Takes the line from these caches.
    fn take_from(&mut self, caches: u8, line: u64) {
        for cache in bits(caches) {
            let set = self.set(cache, line);
            if let Some(way) = set.iter().position(|&copy| copy >> 1 == line) {
                set.copy_within(way + 1.., way);
                set[INNER_WAYS - 1] = NOTHING;
            }
        }
    }
}

fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 8).then_some(bit)
    })
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", path, references, ref more @ ..] => {
            let number = |text: &str| text.parse().expect("a number");
            let processors = more.first().map_or(PROCESSORS as u64, |text| number(text));
            write_raw16(&trace(&OLTP, processors, number(references)), Path::new(path));
        }
        [path] => {
            let bytes = std::fs::read(path).expect("a raw16 file");
            let (mut probe, start) = (Probe::new(), CpuTime::now());
            for record in bytes.chunks_exact(RECORD) {
                let address = u64::from_le_bytes(record[..8].try_into().expect("eight bytes"));
                let kind = record[KIND] & 0x7f;
                let cache = usize::from(record[CPU]) % PROCESSORS * 2 + usize::from(kind != 2);
                probe.access(cache, address >> LINE_SHIFT, kind == 1);
            }
            let (seconds, references) = (start.elapsed_seconds(), bytes.len() / RECORD);
            println!(
                "{}",
                serde_json::json!({"references": references, "misses": probe.misses, "seconds": seconds})
            );
        }
        _ => println!("{}", serde_json::json!({"figures": []})),
    }
}
