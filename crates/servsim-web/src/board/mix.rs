//! The mix of requests: every user draws each request by itself, as in Alameldeen et al. (2003), and a run is held against the shares.

use std::collections::BTreeMap;

use serde_json::{json, Value};
use servsim_driver::rng::Stream;

use crate::{Error, Result};

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The ten newest stories.
    Front = 1,
    /// The ten newest stories of a section.
    Section,
    /// Ten older stories.
    Older,
    /// A story with its thread.
    Story,
    /// A comment with the replies to it.
    Comment,
    /// A member with its last comments.
    Member,
    /// A comment on a story or a reply to a comment.
    Reply,
    /// A new story.
    Submit,
    /// A new member.
    Register,
    /// A point more or less for a comment.
    Moderate,
}

use Request::{Comment, Front, Member, Moderate, Older, Register, Reply, Section, Story, Submit};

impl Request {
    /// All, by their numbers.
    pub const ALL: [Request; 10] =
        [Front, Section, Older, Story, Comment, Member, Reply, Submit, Register, Moderate];

    /// Its name in the table of shares, which is the last part of its address.
    pub fn name(self) -> &'static str {
        ["front", "section", "older", "story", "comment", "member", "reply", "submit", "register", "moderate"]
            [self as usize - 1]
    }

    /// Title of its page.
    pub fn title(self) -> &'static str {
        [
            "Front Page",
            "Section",
            "Older Stories",
            "Story",
            "Comment",
            "Member",
            "Reply",
            "Submission",
            "Registration",
            "Moderation",
        ][self as usize - 1]
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        self as u8 >= Reply as u8
    }
}

/// Names of the kinds of transactions.
pub const KINDS: [&str; 10] = [
    "Front-Page",
    "Section",
    "Older-Stories",
    "View-Story",
    "View-Comment",
    "View-Member",
    "Post-Comment",
    "Post-Story",
    "Register",
    "Moderate",
];
/// A count so unlikely makes a run invalid: of ten million runs, one is refused by chance.
const UNLIKELY: f64 = 1e-8;

/// Chances of the requests, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix([u64; 10]);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    reads: BTreeMap<String, u64>,
    writes: BTreeMap<String, u64>,
}

impl Mix {
    /// The mix in which so many of a hundred requests write.
    ///
    /// # Errors
    /// [`Error::Usage`] with more than a hundred.
    ///
    /// # Panics
    /// Never: the table is part of the program, and a test reads it.
    pub fn with(writes_percent: u64) -> Result<Mix> {
        if writes_percent > 100 {
            return Err(Error::Usage(format!("--writes must be from 0 to 100, not {writes_percent}")));
        }
        let shares: Shares = toml::from_str(include_str!("mix.toml")).expect("a table of shares");
        Ok(Mix(Request::ALL.map(|request| {
            let (of, percent) = if request.writes() {
                (&shares.writes, writes_percent)
            } else {
                (&shares.reads, 100 - writes_percent)
            };
            of[request.name()] * percent * 10
        })))
    }

    /// The next request.
    pub fn draw(&self, stream: &mut Stream) -> Request {
        let mut left = stream.below(self.0.iter().sum());
        for (request, &chance) in Request::ALL.into_iter().zip(&self.0) {
            if left < chance {
                return request;
            }
            left -= chance;
        }
        unreachable!("a number below the sum of all chances lies in one of them")
    }

    /// Holds the counts of a run against the mix.
    pub fn judged(&self, counts: [u64; 10]) -> (Value, Vec<String>) {
        let (total, all) = (counts.iter().sum::<u64>(), self.0.iter().sum::<u64>() as f64);
        let mut problems = Vec::new();
        let mut entries = serde_json::Map::new();
        for ((name, count), chance) in KINDS.into_iter().zip(counts).zip(self.0) {
            let (share, expected) = (count as f64 / total.max(1) as f64, chance as f64 / all);
            let by_chance = tail(count, total, expected);
            if by_chance < UNLIKELY {
                problems.push(format!(
                    "{name} is {:.2} % of the requests instead of {:.2} %: by chance that happens in one of {:.0e} runs",
                    share * 100.0,
                    expected * 100.0,
                    1.0 / by_chance
                ));
            }
            entries.insert(
                name.to_owned(),
                json!({"percent": share * 100.0, "expected_percent": expected * 100.0, "by_chance": by_chance}),
            );
        }
        (entries.into(), problems)
    }
}

/// The chance that a binomial law of `total` draws with chance `p` gives a count as far off as `count`, on its side, or further.
fn tail(count: u64, total: u64, p: f64) -> f64 {
    let (n, k) = (total as f64, count as f64);
    if p <= 0.0 || p >= 1.0 {
        return f64::from(u8::from(count == if p > 0.0 { total } else { 0 }));
    }
    let above = k > n * p;
    let of_count = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
        + k * p.ln()
        + (n - k) * (1.0 - p).ln();
    // Each further count is less likely than the one before by a factor that only gets smaller.
    let (mut sum, mut term, mut at) = (0.0, of_count.exp(), k);
    while term > sum * 1e-16 && (0.0..=n).contains(&at) {
        sum += term;
        let odds = p / (1.0 - p);
        let (factor, next) = if above {
            ((n - at) / (at + 1.0) * odds, at + 1.0)
        } else {
            (at / (n - at + 1.0) / odds, at - 1.0)
        };
        (term, at) = (term * factor, next);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_driver::rng::Purpose;

    #[test]
    fn each_part_is_whole_and_writes_are_as_many_as_asked_for() {
        for writes in [0, 12, 100] {
            let mix = Mix::with(writes).unwrap();
            let of = |wanted: bool| -> u64 {
                let chances = Request::ALL.into_iter().zip(mix.0);
                chances.filter(|(request, _)| request.writes() == wanted).map(|(_, chance)| chance).sum()
            };
            assert_eq!((of(true), of(false)), (writes * 10_000, (100 - writes) * 10_000));
        }
        assert_eq!(Mix::with(101).unwrap_err().exit_code(), 2);
    }

    fn counts(mix: Mix, draws: u64) -> [u64; 10] {
        let mut stream = Stream::new(4, Purpose::Measured, 0);
        let mut counts = [0; 10];
        (0..draws).for_each(|_| counts[mix.draw(&mut stream) as usize - 1] += 1);
        counts
    }

    #[test]
    fn draws_follow_the_mix_and_those_of_another_are_found_out() {
        let mix = Mix::with(12).unwrap();
        assert_eq!(mix.judged(counts(mix, 100_000)).1, Vec::<String>::new());
        assert_eq!(mix.judged([0; 10]).1, Vec::<String>::new());
        // A board that writes a fifth more often than it should.
        let (_, problems) = mix.judged(counts(Mix::with(15).unwrap(), 100_000));
        assert!(problems.iter().any(|problem| problem.starts_with("Post-Comment is 7.")), "{problems:?}");
        // Who only reads posts nothing at all.
        let mut posted = counts(Mix::with(0).unwrap(), 1000);
        posted[6] += 1;
        assert_eq!(Mix::with(0).unwrap().judged(posted).1.len(), 1);
    }

    #[test]
    fn tails_are_those_of_sums_over_all_counts() {
        // Pascal's triangle: slow, and nothing shared with the way above.
        let choose =
            |n: u64, k: u64| (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
        let exact = |k: u64, n: u64, p: f64| -> f64 {
            let term = |i: u64| choose(n, i) * p.powi(i as i32) * (1.0 - p).powi((n - i) as i32);
            if k as f64 > n as f64 * p {
                (k..=n).map(term).sum()
            } else {
                (0..=k).map(term).sum()
            }
        };
        for (k, n, p) in [(0, 40, 0.05), (9, 40, 0.05), (40, 40, 0.9), (17, 60, 0.3), (3, 100, 0.2)] {
            let (found, expected) = (tail(k, n, p), exact(k, n, p));
            assert!((found / expected - 1.0).abs() < 1e-9, "{k} of {n}: {found} {expected}");
        }
    }
}
