//! What a drive's cache holds, by a law found in a trace: so many read streams, each with what was
//! read, if the drive keeps it, and so many sectors read ahead.
//!
//! Trees learn from a trace which requests were quick, but only for layouts like the trace's own:
//! after a move, reads fall a little ahead of one another, or again where one has just been, in ways
//! the trace hardly holds. A law says of every layout which of them the cache answers.

use crate::features::Command;
use crate::order::Served;
use crate::request::Op;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Streams a law may remember.
const STREAMS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// More than any drive remembers.
const MOST_STREAMS: u32 = 4096;
/// Sectors a law may read ahead.
const AHEAD: [u32; 17] = [0, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 640, 768, 896, 1024];
/// What a law answers takes at most this share of the time of other reads (as a geometric mean).
const QUICK: f64 = 0.5;
/// What takes up to this many times the median answer of the cache to reads as long is quick,
const ABOVE_HITS: f64 = 2.5;
/// unless that is more than this share of the median of others.
const BELOW_OTHERS: f64 = 0.3;
/// Answers that have a median.
const FEW: usize = 5;
/// A law explains the trace at least by this much: difference of log likelihood from no cache.
const MUST_GAIN: f64 = 10.0;
/// Services looked at.
const LOOKED_AT: usize = 32_768;

/// How a drive's cache works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Law {
    /// Streams remembered, the latest used.
    pub streams: u32,
    /// Sectors read ahead of a stream.
    pub ahead_sectors: u32,
    /// Whether what was read is kept.
    pub keeps_read: bool,
    /// Whether what was written is kept, as a stream that nothing is read ahead of.
    pub keeps_written: bool,
}

impl Law {
    /// Whether a drive could have such a cache.
    pub fn is_sound(&self) -> bool {
        (1..=MOST_STREAMS).contains(&self.streams)
    }
}

/// Sectors of a stream: from `begin`, read up to `end`.
#[derive(Debug, Clone, Copy)]
struct Stream {
    begin: u64,
    end: u64,
    /// Sectors known beyond `end`, or about to be.
    ahead: u64,
}

/// A cache at work.
#[derive(Debug, Clone)]
pub struct Cache {
    law: Law,
    /// The latest used last.
    streams: VecDeque<Stream>,
}

impl Cache {
    /// An empty cache.
    pub fn new(law: Law) -> Self {
        Cache { law, streams: VecDeque::with_capacity(law.streams as usize + 1) }
    }

    fn find(&self, command: &Command) -> Option<usize> {
        if command.op == Op::Write {
            return None;
        }
        let end = command.lba + u64::from(command.sectors);
        self.streams
            .iter()
            .rposition(|stream| stream.begin <= command.lba && end <= stream.end + stream.ahead)
    }

    /// Whether the cache answers `command`.
    pub fn holds(&self, command: &Command) -> bool {
        self.find(command).is_some()
    }

    /// Notes that `command` was served.
    pub fn advance(&mut self, command: &Command) {
        let (lba, end) = (command.lba, command.lba + u64::from(command.sectors));
        if command.op == Op::Write {
            self.streams.retain(|stream| end <= stream.begin || stream.end + stream.ahead <= lba);
            if !self.law.keeps_written {
                return;
            }
            self.streams.push_back(Stream { begin: lba, end, ahead: 0 });
        } else {
            let found = self.find(command).and_then(|at| self.streams.remove(at));
            let begin = if self.law.keeps_read { found.map_or(lba, |stream| stream.begin) } else { end };
            let end = found.map_or(end, |stream| stream.end.max(end));
            let ahead = match found {
                Some(stream) if stream.ahead == 0 => 0,
                _ => u64::from(self.law.ahead_sectors),
            };
            self.streams.push_back(Stream { begin, end, ahead });
        }
        if self.streams.len() > self.law.streams as usize {
            self.streams.pop_front();
        }
    }
}

/// A read: its time in us and its sectors.
type Read = (f64, u32);

/// Reads that a law says the cache answers, and others.
struct Parted {
    hits: Vec<Read>,
    others: Vec<Read>,
}

/// Lengths by doubling.
const LENGTHS: usize = 12;

fn length((_, sectors): Read) -> usize {
    (sectors.max(1).ilog2() as usize).min(LENGTHS - 1)
}

/// Up to which time a read is quick, by its length: answers differ by what their sectors take over the
/// bus.
struct Quick([f64; LENGTHS]);

impl Quick {
    /// As the reads that `parted` says are hits.
    fn like(parted: &Parted) -> Quick {
        let median = |reads: &[Read], of: usize| {
            let any = |read: &&Read| length(**read) == of || of == LENGTHS;
            let mut times: Vec<f64> = reads.iter().filter(any).map(|read| read.0).collect();
            times.sort_unstable_by(f64::total_cmp);
            (times.len() >= FEW || of == LENGTHS).then(|| times[times.len() / 2])
        };
        let of = |reads: &[Read], of: usize| median(reads, of).or(median(reads, LENGTHS)).unwrap_or(0.0);
        Quick(std::array::from_fn(|at| {
            (ABOVE_HITS * of(&parted.hits, at)).min(BELOW_OTHERS * of(&parted.others, at))
        }))
    }

    /// How many of `reads` are quick, and how many are not.
    fn count(&self, reads: &[Read]) -> (f64, f64) {
        let quick = reads.iter().filter(|read| read.0 < self.0[length(**read)]).count() as f64;
        (quick, reads.len() as f64 - quick)
    }
}

impl Parted {
    fn by(law: Law, served: &[Served]) -> Parted {
        let mut cache = Cache::new(law);
        let mut parted = Parted { hits: Vec::new(), others: Vec::new() };
        for service in served {
            let command = Command::from(&service.request);
            if command.op == Op::Read {
                let us = service.service_ns().max(1) as f64 * 1e-3;
                let side = if cache.holds(&command) { &mut parted.hits } else { &mut parted.others };
                side.push((us, command.sectors));
            }
            cache.advance(&command);
        }
        parted
    }

    /// Log likelihood of two kinds of reads, each with normal log times; `None` where what the cache is
    /// said to answer is not quick.
    fn as_two_kinds(&self) -> Option<f64> {
        let mean_and_spread = |reads: &[Read]| {
            let n = reads.len() as f64;
            let (sum, squares) = reads.iter().fold((0.0, 0.0), |(sum, squares), (us, _)| {
                let log = us.ln();
                (sum + log, squares + log * log)
            });
            (sum / n, (squares / n - (sum / n).powi(2)).max(1e-4).ln())
        };
        if self.hits.is_empty() || self.others.is_empty() {
            return None;
        }
        let (hits, others) = (mean_and_spread(&self.hits), mean_and_spread(&self.others));
        let likelihood = self.hits.len() as f64 * hits.1 + self.others.len() as f64 * others.1;
        (hits.0 < others.0 + QUICK.ln()).then_some(-0.5 * likelihood)
    }

    /// Log likelihood of who is quick, if all reads are of one kind.
    fn as_one(&self, quick: &Quick) -> f64 {
        bits(quick.count(&[self.hits.as_slice(), &self.others].concat()))
    }

    /// Log likelihood of who is quick; none where most of what the cache is said to answer is not.
    fn as_quick(&self, quick: &Quick) -> f64 {
        let hits = quick.count(&self.hits);
        if hits.0 <= hits.1 {
            return f64::NEG_INFINITY;
        }
        bits(hits) + bits(quick.count(&self.others))
    }
}

/// Log likelihood of so many of one sort and so many of another, at their own shares.
fn bits((yes, no): (f64, f64)) -> f64 {
    let part = |n: f64| if n > 0.0 { n * (n / (yes + no)).ln() } else { 0.0 };
    part(yes) + part(no)
}

/// Laws with a few lengths of read-ahead.
fn laws() -> impl Iterator<Item = Law> {
    let kept = [(false, false), (true, false), (true, true)];
    kept.into_iter().flat_map(|(keeps_read, keeps_written)| {
        STREAMS.into_iter().flat_map(move |streams| {
            [0, 32, 128, 512].map(|ahead_sectors| Law { streams, ahead_sectors, keeps_read, keeps_written })
        })
    })
}

/// Finds the law of a cache, if there is one, in `served`.
///
/// A first law parts the reads by their times, which tells what is quick; the law is then the one that
/// best says which reads are.
pub fn infer(served: &[Served]) -> Option<Law> {
    let served = &served[..served.len().min(LOOKED_AT)];
    let best = |score: &dyn Fn(Law) -> f64| {
        let scored = laws().map(|law| (score(law), law));
        // The first of equals.
        let better = |a: (f64, Law), b: (f64, Law)| if b.0 > a.0 { b } else { a };
        scored.reduce(better).filter(|best| best.0.is_finite()).map(|best| best.1)
    };
    let rough = best(&|law| Parted::by(law, served).as_two_kinds().unwrap_or(f64::NEG_INFINITY))?;
    let quick = Quick::like(&Parted::by(rough, served));
    let coarse = best(&|law| Parted::by(law, served).as_quick(&quick))?;
    let law = Law { ahead_sectors: middle_ahead(served, coarse, &quick), ..coarse };
    let parted = Parted::by(law, served);
    (parted.as_quick(&quick) > parted.as_one(&quick) + MUST_GAIN).then_some(law)
}

/// The median of what the trace leaves open, every length of `AHEAD` being as likely beforehand.
fn middle_ahead(served: &[Served], law: Law, quick: &Quick) -> u32 {
    let scores = AHEAD.map(|ahead_sectors| Parted::by(Law { ahead_sectors, ..law }, served).as_quick(quick));
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = scores.map(|score| (score - most).exp());
    let half = weights.iter().sum::<f64>() / 2.0;
    let mut below = 0.0;
    let at = weights.iter().position(|weight| {
        below += weight;
        below >= half
    });
    AHEAD[at.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(op: Op, lba: u64, sectors: u32) -> Command {
        Command { lba, sectors, op }
    }

    #[test]
    fn a_cache_holds_what_its_law_says() {
        let law = Law { streams: 2, ahead_sectors: 32, keeps_read: true, keeps_written: false };
        let mut cache = Cache::new(law);
        cache.advance(&at(Op::Read, 1000, 8));
        assert!(cache.holds(&at(Op::Read, 1000, 8)) && cache.holds(&at(Op::Read, 1032, 8)));
        assert!(!cache.holds(&at(Op::Read, 1033, 8)) && !cache.holds(&at(Op::Read, 999, 8)));
        assert!(!cache.holds(&at(Op::Write, 1000, 8)));
        let forgets = Law { keeps_read: false, ..law };
        let mut other = Cache::new(forgets);
        other.advance(&at(Op::Read, 1000, 8));
        assert!(!other.holds(&at(Op::Read, 1000, 8)) && other.holds(&at(Op::Read, 1008, 8)));
        // The stream goes on, and reads ahead from where it is now.
        cache.advance(&at(Op::Read, 1032, 8));
        assert!(cache.holds(&at(Op::Read, 1064, 8)) && cache.holds(&at(Op::Read, 1000, 8)));
        cache.advance(&at(Op::Read, 5000, 8));
        cache.advance(&at(Op::Write, 1000, 8));
        assert!(!cache.holds(&at(Op::Read, 1000, 8)) && cache.holds(&at(Op::Read, 5000, 8)));
    }

    #[test]
    fn the_stream_used_longest_ago_makes_room_and_writes_take_room_where_they_are_kept() {
        let law = Law { streams: 2, ahead_sectors: 0, keeps_read: true, keeps_written: false };
        for keeps_written in [false, true] {
            let mut cache = Cache::new(Law { keeps_written, ..law });
            cache.advance(&at(Op::Read, 100, 8));
            cache.advance(&at(Op::Read, 200, 8));
            cache.advance(&at(Op::Read, 100, 8));
            cache.advance(&at(Op::Write, 300, 8));
            let holds = |lba| cache.holds(&at(Op::Read, lba, 8));
            assert_eq!([holds(100), holds(200), holds(300)], [true, !keeps_written, keeps_written]);
        }
    }
}
