//! Warming up until the server's work for a transaction no longer changes.
//!
//! A server that has just started is slower at everything it does for the first time: each of its
//! processes reads the catalogue, plans each statement (`PostgreSQL` plans a prepared statement five
//! times with its parameters before it considers a plan for all of them), and reads each page from
//! disk. The warm-up therefore begins with a rehearsal, in which every user runs every kind of
//! transaction equally often, and goes on with the mix in rounds, until two successive rounds agree:
//! in processor time per transaction of each kind, and in disk reads.
//!
//! Processor time is that of the server's processes. In an emulated guest whose clock advances by
//! one nanosecond per instruction it is the number of instructions.

use std::fs;

use serde_json::{json, Map, Value};

use super::request::{TransactionKind, KINDS};

/// How often each user runs each kind in the rehearsal: the sixth execution of a statement may be
/// the first with a plan for all parameters, and the seventh shows what it costs.
pub const REHEARSALS: usize = 7;
/// Transactions of a round per user, and the fewest of a round.
const ROUND_PER_USER: u64 = 10;
const SHORTEST_ROUND: u64 = 240;
/// Largest change from round to round, relative, of the time per transaction over all kinds.
const TOLERANCE: f64 = 0.03;
/// The same for a single kind, of which a round may hold only ten transactions.
const KIND_TOLERANCE: f64 = 0.20;
/// Largest change from round to round of the disk reads per transaction: absolute, and relative.
const READS_TOLERANCE: (f64, f64) = (0.1, 0.1);

/// How long to warm up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// So many transactions over all users.
    Transactions(u64),
    /// Until the server has settled, but for at most [`LONGEST`] rounds.
    Settled,
}

/// Rounds after which a server that has not settled is taken as it is.
pub const LONGEST: usize = 40;

impl std::str::FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "settle" => Ok(WarmUp::Settled),
            number => number
                .parse()
                .map(WarmUp::Transactions)
                .map_err(|_| format!("{number:?} is neither a number of transactions nor \"settle\"")),
        }
    }
}

/// What one round showed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Round {
    count: [u64; KINDS],
    nanoseconds: [u64; KINDS],
    /// Kibibytes read from disks, by anyone.
    read_kib: u64,
}

impl Round {
    fn transactions(&self) -> u64 {
        self.count.iter().sum()
    }

    fn per_transaction(&self, kind: usize) -> Option<f64> {
        (self.count[kind] > 0).then(|| self.nanoseconds[kind] as f64 / self.count[kind] as f64)
    }

    /// Nanoseconds per transaction if the kinds came in these shares, so that rounds with a few more
    /// of a long kind are comparable. Kinds that a round lacks are left out.
    fn standardised(&self, shares: [f64; KINDS]) -> f64 {
        let present = || (0..KINDS).filter_map(|kind| Some((shares[kind], self.per_transaction(kind)?)));
        let weight: f64 = present().map(|(share, _)| share).sum();
        present().map(|(share, time)| share * time).sum::<f64>() / weight.max(f64::MIN_POSITIVE)
    }

    fn reads(&self) -> f64 {
        // The guest's page cache reads pages of 4 KiB.
        self.read_kib as f64 / 4.0 / self.transactions().max(1) as f64
    }

    fn agrees_with(&self, before: &Round, shares: [f64; KINDS]) -> bool {
        let close = |a: f64, b: f64, tolerance: f64| (a - b).abs() <= tolerance * b;
        let kinds = (0..KINDS).all(|kind| match (self.per_transaction(kind), before.per_transaction(kind)) {
            (Some(now), Some(then)) => close(now, then, KIND_TOLERANCE),
            _ => true,
        });
        let reads =
            (self.reads() - before.reads()).abs() <= READS_TOLERANCE.0 + READS_TOLERANCE.1 * before.reads();
        kinds && reads && close(self.standardised(shares), before.standardised(shares), TOLERANCE)
    }
}

/// Watches a warm-up.
#[derive(Debug)]
pub struct Settling {
    shares: [f64; KINDS],
    rehearsal: u64,
    round: u64,
    rounds: Vec<Round>,
    read_kib: u64,
    settled: bool,
    over: bool,
    say: fn(&str),
}

impl Settling {
    /// Nothing seen yet of `users` users whose kinds come in these shares; `say` takes a line at the end
    /// of each round.
    pub fn new(users: usize, shares: [f64; KINDS], say: fn(&str)) -> Self {
        let users = users as u64;
        Settling {
            shares,
            rehearsal: users * (REHEARSALS * KINDS) as u64,
            round: SHORTEST_ROUND.max(users * ROUND_PER_USER),
            rounds: vec![Round::default()],
            read_kib: read_kib(),
            settled: false,
            over: false,
            say,
        }
    }

    /// A transaction has ended for which a server process took so long. Returns whether the warm-up
    /// goes on.
    pub fn ended(&mut self, kind: TransactionKind, nanoseconds: u64) -> bool {
        if self.over {
            // Users that were at work when the warm-up ended.
            return false;
        }
        let length = if self.rounds.len() == 1 { self.rehearsal } else { self.round };
        let last = self.rounds.len() - 1;
        let round = &mut self.rounds[last];
        round.count[kind as usize - 1] += 1;
        round.nanoseconds[kind as usize - 1] += nanoseconds;
        if round.transactions() < length {
            return true;
        }
        let now = read_kib();
        round.read_kib = now - std::mem::replace(&mut self.read_kib, now);
        let (time, reads) = (round.standardised(self.shares) / 1000.0, round.reads());
        let ended: u64 = self.rounds.iter().map(Round::transactions).sum();
        (self.say)(&format!(
            "warming up: {ended} transactions, the last ones {time:.0} us of the server and {reads:.2} disk reads each"
        ));
        self.settled = self.has_settled();
        self.over = self.settled || self.rounds.len() > LONGEST;
        if !self.over {
            self.rounds.push(Round::default());
        }
        !self.over
    }

    /// Whether the last three rounds agree. The rehearsal is none of them.
    fn has_settled(&self) -> bool {
        let [_, mix @ ..] = self.rounds.as_slice() else { return false };
        let [.., first, second, last] = mix else { return false };
        last.agrees_with(first, self.shares) && last.agrees_with(second, self.shares)
    }

    /// What was seen, for whoever wants to know how warm the server is.
    pub fn report(&self) -> Value {
        let rounds: Vec<Value> = self
            .rounds
            .iter()
            .filter(|round| round.transactions() > 0)
            .map(|round| self.line(round))
            .collect();
        json!({
            "settled": self.settled,
            "transactions": self.rounds.iter().map(Round::transactions).sum::<u64>(),
            "rehearsal_transactions": self.rounds[0].transactions(),
            "rounds": rounds,
        })
    }

    fn line(&self, round: &Round) -> Value {
        let mut kinds = Map::new();
        for kind in TransactionKind::ALL {
            let time = round.per_transaction(kind as usize - 1);
            kinds.insert(kind.name().to_owned(), json!(time.map(|time| time / 1000.0)));
        }
        json!({
            "transactions": round.transactions(),
            "server_microseconds_per_transaction": round.standardised(self.shares) / 1000.0,
            "server_microseconds_by_kind": kinds,
            "disk_reads_per_transaction": round.reads(),
        })
    }
}

/// KiB read from disks since the machine started (proc(5), `/proc/vmstat`); zero where it is not told.
fn read_kib() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("pgpgin "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: [f64; KINDS] = [0.4, 0.4, 0.1, 0.05, 0.05];

    /// A round of 100 transactions in `SHARES`, each taking so many nanoseconds.
    fn round(nanoseconds: [u64; KINDS], read_kib: u64) -> Round {
        let count = [40, 40, 10, 5, 5];
        Round { count, nanoseconds: std::array::from_fn(|kind| nanoseconds[kind] * count[kind]), read_kib }
    }

    fn settling(rounds: &[Round]) -> bool {
        let mut watch = Settling::new(1, SHARES, |_| ());
        watch.rounds.extend_from_slice(rounds);
        watch.has_settled()
    }

    const WARM: [u64; KINDS] = [3000, 1000, 400, 2000, 900];

    #[test]
    fn three_rounds_that_agree_are_a_settled_server_and_fewer_are_not() {
        let warm = round(WARM, 0);
        assert!(settling(&[warm.clone(), warm.clone(), warm.clone()]));
        assert!(!settling(&[warm.clone(), warm]), "the rehearsal does not count");
    }

    #[test]
    fn a_change_of_the_whole_of_one_kind_or_of_the_reads_is_not_settled() {
        let warm = round(WARM, 0);
        let slower = round(WARM.map(|time| time * 104 / 100), 0);
        let rare = round([3000, 1000, 400, 2600, 900], 0);
        let reading = round(WARM, 100 * 4);
        for cold in [slower, rare, reading] {
            assert!(!settling(&[cold.clone(), warm.clone(), warm.clone()]), "{cold:?}");
            assert!(settling(&[cold, warm.clone(), warm.clone(), warm.clone()]));
        }
    }

    #[test]
    fn a_larger_share_of_a_long_kind_is_no_change() {
        let mut other = round(WARM, 0);
        other.count[0] *= 2;
        other.nanoseconds[0] *= 2;
        assert!(settling(&[round(WARM, 0), other, round(WARM, 0)]));
    }

    #[test]
    fn the_warm_up_ends_when_settled_or_after_the_longest() {
        let run = |cost: &dyn Fn(u64) -> u64| {
            let mut watch = Settling::new(2, SHARES, |_| ());
            let mut ended = 0;
            while watch.ended(TransactionKind::ALL[ended as usize % KINDS], cost(ended)) {
                ended += 1;
            }
            assert!(!watch.ended(TransactionKind::Payment, 1), "one that was at work then does not count");
            (ended + 1, watch.report())
        };
        let (ended, report) = run(&|_| 1000);
        let rehearsal = (2 * REHEARSALS * KINDS) as u64;
        assert_eq!((ended, &report["settled"]), (rehearsal + 3 * SHORTEST_ROUND, &json!(true)));
        let (ended, report) = run(&|ended| 1000 + ended);
        assert_eq!((ended, &report["settled"]), (rehearsal + LONGEST as u64 * SHORTEST_ROUND, &json!(false)));
        assert_eq!(
            (&report["transactions"], report["rounds"].as_array().unwrap().len()),
            (&json!(ended), LONGEST + 1)
        );
    }
}
