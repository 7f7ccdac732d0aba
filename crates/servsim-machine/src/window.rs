//! What of a trace a timing run measures: transactions, or a number of references.
//!
//! A run begins with empty caches and queues and ends, if it goes on for long enough, with users who
//! have no more work in the trace. Neither is the workload. So without instructions the first quarter of
//! the transactions (one per user at least) passes before the measurement, and the last quarter, in
//! which users run out of work, is left out: half of them are measured, from the end of one transaction
//! to the end of another (ADR 0702). This depends on the trace alone, so that all machines and seeds
//! measure the same; whether it was enough is judged by the runs ([`crate::settled`]).
//!
//! A window of references is cut wherever that many have been made. It measures rates per reference where few
//! transactions are under way and each is long, so that a window from end to end of them would be either very long or
//! a moment.

use crate::error::{transactions, SimulateError};
use crate::warm::Amount;
use serde_json::{json, Value};
use servsim_core::TransactionEnds;

/// How much a run is asked to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transactions {
    /// As many transactions as the trace has in its middle.
    #[default]
    Chosen,
    /// All, and what the trace holds after the last of them.
    All,
    /// This number.
    Number(u64),
    /// So many references instead, wherever they end; a warm-up counts references then, too.
    References(u64),
}

/// The transactions of a trace: how many, for how many users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    transactions: u64,
    users: u64,
}

impl Held {
    /// From the marks of a trace.
    pub fn of(ends: &TransactionEnds) -> Self {
        // Where marks name nobody, the task that makes them is the user.
        let user = |&(task, user): &(u32, u32)| if user == 0 { (1, task) } else { (0, user) };
        let users: std::collections::BTreeSet<_> = ends.keys().map(user).collect();
        Self { transactions: ends.values().sum(), users: users.len() as u64 }
    }
}

impl Held {
    /// How many transactions lie before the timing, after a functional warm-up of `amount` in which `ended`
    /// ended. A number of references ends differently many on different machines, which must measure the same:
    /// they are rounded up to an eighth of the trace.
    pub fn passed(self, amount: Amount, ended: u64) -> u64 {
        match amount {
            Amount::Transactions(number) => number,
            Amount::References(_) => {
                ended.next_multiple_of(self.transactions.div_ceil(8).max(1)).min(self.transactions)
            }
            Amount::Whole => 0,
        }
    }
}

/// The measured part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Transactions that are timed before, or references if these are measured.
    pub warmup: u64,
    /// Transactions that are measured; without a number, to the end of the trace.
    pub transactions: Option<u64>,
    /// References that are measured instead.
    pub references: Option<u64>,
    /// Transactions before the timing began.
    passed: u64,
    held: Held,
    /// Whether the trace decided about either number.
    chosen: bool,
}

impl Window {
    /// The window for a trace of which `passed` transactions lie before the timing; a wished number is
    /// taken as it is.
    ///
    /// # Errors
    /// When more transactions are wished for than the trace holds.
    pub fn of(
        wished: Transactions,
        warmup: Option<u64>,
        held: Held,
        passed: u64,
    ) -> Result<Self, SimulateError> {
        let window = |warmup, transactions, chosen| Self {
            warmup,
            transactions,
            references: None,
            passed,
            held,
            chosen,
        };
        if let Transactions::References(number) = wished {
            // As many before as are measured: caches are about as warm as they become in that time.
            let warmup = warmup.unwrap_or(number);
            return Ok(Self { references: Some(number), ..window(warmup, None, false) });
        }
        if held.transactions == 0 {
            return match (wished, warmup) {
                (Transactions::Number(_), _) | (_, Some(1..)) => Err(SimulateError::Usage(
                    "the trace has no marks of transactions, so none can be counted: leave out --transactions \
                     and --warm-up to measure the whole trace"
                        .into(),
                )),
                _ => Ok(window(0, None, false)),
            };
        }
        let left = held.transactions.saturating_sub(passed);
        if left == 0 {
            return Err(SimulateError::Usage(format!(
                "the functional warm-up of {} is longer than the trace, which ends {}: nothing \
                 would be measured; use a shorter --functional-warm-up, or a longer trace",
                transactions(passed),
                held.transactions
            )));
        }
        let (first, last) = steady(left, held.users);
        let (before, measured) = match (warmup, wished) {
            (None, Transactions::Chosen) => (first, Some(last - first)),
            (None, Transactions::Number(number)) => (first.min(left.saturating_sub(number)), Some(number)),
            (None, Transactions::All) => (0, None),
            (Some(before), Transactions::All) => (before, None),
            (Some(before), Transactions::Number(number)) => (before, Some(number)),
            // A long warm-up may reach the part that is left out otherwise.
            (Some(before), Transactions::Chosen) if before < last => (before, Some(last - before)),
            (Some(before), Transactions::Chosen) => (before, Some(left.saturating_sub(before).max(1))),
            (_, Transactions::References(_)) => unreachable!("returned above"),
        };
        if before.saturating_add(measured.unwrap_or(1)) > left {
            return Err(too_many(before, measured, left, held.transactions));
        }
        let chosen = (warmup.is_none() && wished != Transactions::All) || wished == Transactions::Chosen;
        Ok(window(before, measured, chosen))
    }

    /// Whether the trace marks the ends of transactions.
    pub fn has_marks(self) -> bool {
        self.held.transactions > 0
    }

    /// Users that the transactions of the trace end for.
    pub fn users(self) -> u64 {
        self.held.users
    }

    /// As in the options of a result.
    pub fn to_json(self) -> Value {
        if let Some(number) = self.references {
            return json!({"references": number, "warmup_references": self.warmup, "to_the_end": false,
                          "chosen_by": "options"});
        }
        if self.held.transactions == 0 {
            return Value::Null;
        }
        let before = self.passed + self.warmup;
        let last = self.transactions.map_or(self.held.transactions, |number| before + number);
        json!({
            "first": before + 1, "last": last, "of": self.held.transactions, "users": self.held.users,
            "to_the_end": self.transactions.is_none(), "chosen_by": if self.chosen { "trace" } else { "options" },
        })
    }
}

/// The steady part of `count` transactions for `users` users: how many precede it, and where it ends.
fn steady(count: u64, users: u64) -> (u64, u64) {
    let first = count.div_ceil(4).max(users.min(count.div_ceil(2)));
    let last = count - count / 4;
    // One transaction or two are all there is to measure.
    if first < last {
        (first, last)
    } else {
        (0, count)
    }
}

fn too_many(before: u64, measured: Option<u64>, left: u64, held: u64) -> SimulateError {
    let rest = if left == held {
        format!("the trace holds {held}")
    } else {
        format!("the trace holds {held}, of which {left} are left after the functional warm-up")
    };
    SimulateError::Usage(match measured {
        Some(number) if before < left => {
            let after = if before > 0 { format!(" after a warm-up of {before}") } else { String::new() };
            format!(
                "{}{after} cannot be measured: {rest}; use a smaller --transactions, or a longer trace",
                transactions(number)
            )
        }
        _ => format!(
            "a warm-up of {} leaves none to measure: {rest}; use a shorter --warm-up, or a longer trace",
            transactions(before)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(transactions: u64, users: u64) -> Held {
        Held { transactions, users }
    }

    fn chosen(transactions: u64, users: u64) -> (u64, Option<u64>) {
        let window = Window::of(Transactions::Chosen, None, held(transactions, users), 0).unwrap();
        (window.warmup, window.transactions)
    }

    #[test]
    fn the_middle_half_of_a_trace_is_measured_after_one_transaction_per_user() {
        assert_eq!(chosen(200, 24), (50, Some(100)));
        assert_eq!(chosen(96, 24), (24, Some(48)));
        assert_eq!(chosen(100, 40), (40, Some(35)), "each user has had a transaction");
        assert_eq!(chosen(100, 90), (50, Some(25)), "but half of them at most");
        assert_eq!(chosen(10, 5), (5, Some(3)));
    }

    #[test]
    fn every_tiny_trace_has_something_to_measure() {
        assert_eq!(chosen(1, 1), (0, Some(1)));
        for count in 1..50 {
            for users in 1..=count {
                let (before, measured) = chosen(count, users);
                assert!(measured.unwrap() > 0 && before + measured.unwrap() <= count, "{count} {users}");
            }
        }
    }

    #[test]
    fn what_was_asked_for_wins_and_the_rest_is_chosen() {
        let of = |wished, warmup| {
            let window = Window::of(wished, warmup, held(200, 24), 0).unwrap();
            (window.warmup, window.transactions, window.to_json()["chosen_by"].clone())
        };
        assert_eq!(of(Transactions::Number(120), Some(3)), (3, Some(120), json!("options")));
        assert_eq!(of(Transactions::Number(120), None), (50, Some(120), json!("trace")));
        assert_eq!(of(Transactions::Number(190), None), (10, Some(190), json!("trace")));
        assert_eq!(of(Transactions::Chosen, Some(10)), (10, Some(140), json!("trace")));
        assert_eq!(of(Transactions::Chosen, Some(180)), (180, Some(20), json!("trace")));
        assert_eq!(of(Transactions::All, None), (0, None, json!("options")));
    }

    #[test]
    fn more_than_the_trace_holds_is_refused_with_what_it_holds() {
        let refused =
            |wished, warmup, held, passed| Window::of(wished, warmup, held, passed).unwrap_err().to_string();
        let text = refused(Transactions::Number(5000), None, held(96, 24), 0);
        assert!(text.contains("5000") && text.contains("holds 96"), "{text}");
        let text = refused(Transactions::Chosen, Some(96), held(96, 24), 0);
        assert!(text.contains("leaves none"), "{text}");
        let text = refused(Transactions::Number(80), None, held(96, 24), 20);
        assert!(text.contains("76 are left"), "{text}");
        let text = refused(Transactions::Number(1), None, held(0, 0), 0);
        assert!(text.contains("no marks"), "{text}");
    }

    #[test]
    fn what_a_functional_warm_up_passed_is_not_measured() {
        let window = Window::of(Transactions::Chosen, None, held(200, 24), 40).unwrap();
        assert_eq!((window.warmup, window.transactions), (40, Some(80)));
        assert_eq!((&window.to_json()["first"], &window.to_json()["last"]), (&json!(81), &json!(160)));
    }

    #[test]
    fn users_are_counted_once_even_if_several_clients_ask_for_them() {
        let ends = TransactionEnds::from([((1, 7), 3), ((2, 7), 4), ((2, 8), 1), ((5, 0), 2), ((6, 0), 2)]);
        assert_eq!(Held::of(&ends), held(12, 4));
    }
}
