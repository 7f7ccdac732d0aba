//! Memory tests: a chase of pointers for latency; copying, reading and writing for bandwidth.
//!
//! Every thread has regions of its own, whole pages, so that each can lie where its thread runs. The
//! chase goes through the lines of a region along one random cycle (Sattolo 1986), so that no
//! prefetcher foresees it and no line is left out; each load needs the one before. The others go
//! through their regions word by word in order. Bytes are counted as read plus written: a copy
//! counts twice its region. What `lat_mem_rd` and `bw_mem` of lmbench measure.

use std::sync::Mutex;
use std::time::Instant;

use serde_json::{json, Value};
use servsim_driver::rng::{Purpose, Stream};

use crate::array::{Array, Structures};
use crate::kernel::{Check, Kernel, Outcome, RunOptions, Setting, Spec};
use crate::team::{Member, Team};
use crate::{Error, Result};

/// The registry's entry.
pub static SPEC: Spec = Spec {
    name: "membench",
    summary: "pointer chase, read, write and copy bandwidth",
    size: "bytes of each region of each thread, with a unit",
    default_size: "16 MiB",
    paper: None,
    iterations: 3,
    settings: &[Setting {
        name: "test",
        default: "all",
        help: "Which test: chase, read, write, copy or all",
    }],
    make: |request, structures| Ok(Box::new(Membench::new(request, structures)?)),
};

/// Words of a line of 64 bytes, the unit of the chase.
const LINE: usize = 8;
/// Regions are whole pages of this many bytes.
const PAGE: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Chase,
    Read,
    Write,
    Copy,
}

impl Test {
    const ALL: [Test; 4] = [Test::Chase, Test::Read, Test::Write, Test::Copy];

    fn name(self) -> &'static str {
        match self {
            Test::Chase => "chase",
            Test::Read => "read",
            Test::Write => "write",
            Test::Copy => "copy",
        }
    }

    /// Bytes read plus bytes written per byte of a region.
    fn traffic(self) -> usize {
        if self == Test::Copy {
            2
        } else {
            1
        }
    }
}

struct Membench {
    tests: Vec<Test>,
    threads: usize,
    /// Words of a region.
    words: usize,
    seed: u64,
    /// The first word of each line: the line that follows it in the cycle.
    chain: Array<u64>,
    source: Array<u64>,
    target: Array<u64>,
    /// What each thread read last: the line at which its chase ended, and its sum.
    ends: Array<u64>,
    sums: Array<u64>,
    /// Wall-clock seconds of each pass, by test.
    seconds: Mutex<Vec<(Test, f64)>>,
}

impl Membench {
    fn new(request: &RunOptions, structures: &mut Structures) -> Result<Self> {
        let size = request.bytes()?.0;
        if size == 0 || size % PAGE != 0 {
            return Err(Error::Usage(format!(
                "membench needs whole pages of 4 KiB as --size, not {size} B: give a multiple of 4 KiB"
            )));
        }
        let wanted = request.settings["test"].as_str();
        let tests: Vec<Test> =
            Test::ALL.into_iter().filter(|test| wanted == "all" || test.name() == wanted).collect();
        if tests.is_empty() {
            return Err(Error::Usage(format!(
                "there is no memory test '{wanted}': give --test chase, read, write, copy or all"
            )));
        }
        let threads = request.threads as u64;
        let words = (size / 8).saturating_mul(threads);
        let needs = |some: &[Test]| if tests.iter().any(|test| some.contains(test)) { words } else { 0 };
        Ok(Membench {
            threads: request.threads,
            words: (size / 8) as usize,
            seed: request.seed,
            chain: structures.array("membench.chain", needs(&[Test::Chase]))?,
            source: structures.array("membench.source", needs(&[Test::Read, Test::Copy]))?,
            target: structures.array("membench.target", needs(&[Test::Write, Test::Copy]))?,
            ends: structures.array("membench.ends", threads * LINE as u64)?,
            sums: structures.array("membench.sums", threads * LINE as u64)?,
            tests,
            seconds: Mutex::new(Vec::new()),
        })
    }

    fn lines(&self) -> usize {
        self.words / LINE
    }

    fn region(&self, thread: usize) -> std::ops::Range<usize> {
        thread * self.words..(thread + 1) * self.words
    }

    /// Lays one random cycle through all lines of a thread's region.
    fn lay_cycle(&self, thread: usize) {
        let base = thread * self.words;
        let line = |index: usize| base + index * LINE;
        for index in 0..self.lines() {
            self.chain.set(line(index), index as u64);
        }
        let mut stream = Stream::new(self.seed, Purpose::Load, thread as u64);
        for last in (1..self.lines()).rev() {
            let other = stream.below(last as u64) as usize;
            let (a, b) = (self.chain.get(line(last)), self.chain.get(line(other)));
            self.chain.set(line(last), b);
            self.chain.set(line(other), a);
        }
    }

    fn pass(&self, test: Test, thread: usize) {
        let region = self.region(thread);
        match test {
            Test::Chase => {
                let mut line = 0;
                for _ in 0..self.lines() {
                    line = self.chain.get(region.start + line * LINE) as usize;
                }
                self.ends.set(thread * LINE, line as u64);
            }
            Test::Read => {
                let sum = region.fold(0u64, |sum, at| sum.wrapping_add(self.source.get(at)));
                self.sums.set(thread * LINE, sum);
            }
            Test::Write => region.for_each(|at| self.target.set(at, !(at as u64))),
            Test::Copy => region.for_each(|at| self.target.set(at, self.source.get(at))),
        }
    }

    /// What the source holds at an index.
    fn value(at: usize) -> u64 {
        (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Lines of all regions that their cycle, begun at the first, does not visit exactly once.
    fn lines_off_the_cycle(&self) -> usize {
        (0..self.threads)
            .map(|thread| {
                let mut visits = vec![0u32; self.lines()];
                let mut line = 0;
                for _ in 0..self.lines() {
                    line = self.chain.get(thread * self.words + line * LINE) as usize;
                    visits[line] += 1;
                }
                visits.iter().filter(|visits| **visits != 1).count()
            })
            .sum()
    }

    fn check_of(&self, test: Test) -> Check {
        let words = 0..self.threads * self.words;
        let sum = |thread| self.region(thread).fold(0u64, |sum, at| sum.wrapping_add(Self::value(at)));
        let (what, wrong) = match test {
            Test::Chase => ("lines that the chase does not visit exactly once", self.lines_off_the_cycle()),
            Test::Read => (
                "threads that read a wrong sum",
                (0..self.threads).filter(|thread| self.sums.get(thread * LINE) != sum(*thread)).count(),
            ),
            Test::Write => {
                ("words not written", words.filter(|at| self.target.get(*at) != !(*at as u64)).count())
            }
            Test::Copy => {
                ("words not copied", words.filter(|at| self.target.get(*at) != Self::value(*at)).count())
            }
        };
        Check::at_most(what, wrong as f64, 0.0)
    }

    fn figures_of(&self, test: Test, seconds: f64) -> Value {
        let bytes = self.threads * self.words * 8 * test.traffic();
        match test {
            Test::Chase => {
                json!({ "loads": self.lines(), "ns_per_load": 1e9 * seconds / self.lines() as f64 })
            }
            _ => json!({ "bytes": bytes, "gigabytes_per_second": bytes as f64 / seconds / 1e9 }),
        }
    }
}

impl Kernel for Membench {
    fn init(&self, me: &Member<'_>) {
        for thread in me.init_share(self.threads) {
            if !self.chain.is_empty() {
                self.lay_cycle(thread);
            }
            if !self.source.is_empty() {
                self.region(thread).for_each(|at| self.source.set(at, Self::value(at)));
            }
            if !self.target.is_empty() {
                self.target.fill(self.region(thread), 0);
            }
        }
    }

    fn iterate(&self, me: &Member<'_>) {
        for &test in &self.tests {
            let start = Instant::now();
            self.pass(test, me.id);
            me.barrier();
            if me.id == 0 {
                let seconds = start.elapsed().as_secs_f64();
                self.seconds.lock().expect("one thread measures").push((test, seconds));
            }
        }
    }

    fn outcome(&self) -> Outcome {
        let names: Vec<&str> = self.tests.iter().map(|test| test.name()).collect();
        let digest = [&self.chain, &self.sums, &self.target]
            .iter()
            .fold(0u64, |mixed, array| mixed.rotate_left(21) ^ array.digest());
        Outcome { figures: json!({ "tests": names, "region_bytes": self.words * 8 }), digest }
    }

    fn check(&self, team: &Team, _iterations: u64) -> Result<Vec<Check>> {
        // One after another, because writing and copying have the same target.
        let mut checks = Vec::new();
        for &test in &self.tests {
            team.run(|me| self.pass(test, me.id))?;
            checks.push(self.check_of(test));
        }
        Ok(checks)
    }

    fn measured(&self) -> Value {
        let seconds = self.seconds.lock().expect("threads have ended");
        let mut figures = serde_json::Map::new();
        for &test in &self.tests {
            // The quickest pass: interference only ever slows one down.
            let quickest = seconds.iter().filter(|(of, _)| *of == test).map(|(_, seconds)| *seconds);
            figures.insert(
                test.name().to_owned(),
                self.figures_of(test, quickest.fold(f64::INFINITY, f64::min)),
            );
        }
        // SAFETY: sysconf only reads its argument.
        figures.insert("page_bytes".to_owned(), json!(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }));
        figures.insert("transparent_huge_pages".to_owned(), json!(huge_pages()));
        Value::Object(figures)
    }
}

/// The kernel's policy of huge pages: the word in brackets.
fn huge_pages() -> String {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or_else(|| "unknown".to_owned(), |(word, _)| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failures, request, run};

    #[test]
    fn checks_notice_two_cycles_and_words_that_differ() {
        let (request, mut structures) = request(&SPEC, "8 KiB");
        let bench = Membench::new(&request, &mut structures).unwrap();
        let team = run(&bench);
        assert_eq!(failures(&bench, &team), Vec::<&str>::new());

        // Exchanging two links cuts the cycle into two.
        let (first, second) = (bench.chain.get(0), bench.chain.get(LINE));
        bench.chain.set(0, second);
        bench.chain.set(LINE, first);
        assert_eq!(failures(&bench, &team), ["lines that the chase does not visit exactly once"]);
        bench.chain.set(0, first);
        bench.chain.set(LINE, second);

        bench.source.set(1500, 0);
        assert_eq!(failures(&bench, &team), ["threads that read a wrong sum", "words not copied"]);
    }
}
