//! Warnings beside the figures of a run: what limits their use, and what to do about it; the worst first.

pub(crate) mod of_machine;

use crate::result::{Replication, Timing};
use crate::settled::{self, Judged, MOST_WITHOUT_WORK, SOME_WITHOUT_WORK};
use crate::warm::Amount;
use crate::window::Window;
use of_machine::{began_empty, busy_disks, few_ready_tasks, forced_locks};
use serde_json::{json, Value};
use servsim_config::Machine;

/// How much a warning takes from the figures, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The figures are not what they are named; they must not be ranked.
    Invalid,
    /// The figures may be off; compare with care.
    Weak,
    /// Good to know.
    Note,
}

impl Rank {
    /// Name in results.
    pub fn name(self) -> &'static str {
        ["invalid", "weak", "note"][self as usize]
    }
}

/// One warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// How bad it is.
    pub rank: Rank,
    /// What it is about, for programs.
    pub code: &'static str,
    /// One sentence, with the remedy.
    pub text: String,
}

impl Warning {
    /// As in results.
    pub fn to_json(&self) -> Value {
        json!({"rank": self.rank.name(), "code": self.code, "text": self.text})
    }

    /// What a trace says of itself.
    pub fn notes(notes: Vec<String>) -> Vec<Self> {
        notes.into_iter().map(|text| Self { rank: Rank::Note, code: "trace", text }).collect()
    }

    /// What is said when only the first `kept` of `all` replications tell what happened when.
    pub fn of_left_out_detail(kept: usize, all: usize) -> Option<Self> {
        let text = format!(
            "windows and activity over time are kept of the first {kept} of {all} replications; for those of another \
             one, run it again by its seed: --seed SEED --replications 1"
        );
        (all > kept).then_some(Self { rank: Rank::Note, code: "detail", text })
    }
}

/// Fewer transactions than this say little about a mix of five kinds.
const FEW_TRANSACTIONS: u64 = 30;

/// A run that goes on for more than this share of its time after the last transaction says too little for the
/// throughput.
const LONG_END: f64 = 0.1;

/// What a reader of the result of a timing run must know, the worst first; those of one rank in the order
/// that they are looked for. `warmed` is how much of the trace warmed the caches by a functional run before.
pub fn of(
    window: Window,
    machine: &Machine,
    warmed: Option<Amount>,
    replications: &[Replication],
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |rank, code, text: String| warnings.push(Warning { rank, code, text });
    let fewest = replications.iter().map(Replication::transactions).min().unwrap_or(0);
    if let Some(references) = window.references {
        by_references(references, fewest, timings(replications).any(|t| t.trace_exhausted), &mut warn);
    } else if !window.has_marks() {
        warn(
            Rank::Note,
            "no-marks",
            "the trace has no marks of transactions: all of it was measured from empty caches on, and there is \
             no cycles per transaction"
                .into(),
        );
    } else if fewest == 0 {
        warn(
            Rank::Invalid,
            "no-transaction",
            "no transaction ended in the measured window: use a shorter --warm-up, or a longer trace".into(),
        );
    } else {
        if timings(replications).any(|t| t.trace_exhausted) && window.transactions.is_some() {
            warn(
                Rank::Invalid,
                "exhausted",
                "the trace ended before the requested number of transactions: use a smaller --transactions, or a \
                 longer trace"
                    .into(),
            );
        }
        let after = timings(replications).map(settled::after_the_last).fold(0.0, f64::max);
        if window.transactions.is_none() && after > LONG_END {
            warn(
                Rank::Invalid,
                "tail",
                format!(
                    "{:.0} % of the time lies after the last transaction: use --transactions to measure up to that one",
                    100.0 * after
                ),
            );
        }
        unsettled(settled::judge(timings(replications).collect::<Vec<_>>().into_iter()), fewest, &mut warn);
        if fewest < FEW_TRANSACTIONS {
            warn(
                Rank::Weak,
                "few-transactions",
                format!(
                    "only {} measured; {FEW_TRANSACTIONS} or more give a steadier mix",
                    if fewest == 1 {
                        "1 transaction was".to_owned()
                    } else {
                        format!("{fewest} transactions were")
                    }
                ),
            );
        }
    }
    if let Some(text) = few_ready_tasks(machine, replications) {
        warn(Rank::Note, "few-ready-tasks", text);
    }
    if let Some(text) = forced_locks(replications) {
        warn(Rank::Note, "forced-locks", text);
    }
    let levels = timings(replications).flat_map(|t| &t.levels);
    let remedy = if warmed == Some(Amount::Whole) {
        "what the trace touches has been touched once, by where its tasks ran then; a longer trace fills them further"
    } else {
        "measure later in a longer trace; --functional-warm-up 'whole trace' shows the other extreme"
    };
    if let Some(Warning { rank, code, text }) = began_empty(levels, remedy) {
        warn(rank, code, text);
    }
    if let Some(text) = busy_disks(machine, replications) {
        warn(Rank::Weak, "busy-disks", text);
    }
    if replications.len() < 3 {
        warn(
            Rank::Weak,
            "few-replications",
            format!(
                "{} replication{}: too few for an interval; use --replications 3 or more",
                replications.len(),
                if replications.len() == 1 { "" } else { "s" }
            ),
        );
    }
    warnings.sort_by_key(|warning| warning.rank);
    warnings
}

fn timings(replications: &[Replication]) -> impl Iterator<Item = &Timing> {
    replications.iter().filter_map(|replication| replication.timing.as_ref())
}

/// What a window of so many references says, and what not: in the run with the fewest so many transactions `ended`.
fn by_references(
    references: u64,
    ended: u64,
    exhausted: bool,
    warn: &mut impl FnMut(Rank, &'static str, String),
) {
    if exhausted {
        warn(
            Rank::Invalid,
            "exhausted",
            format!(
                "the trace ended before {references} references were measured: use fewer --references, or a longer \
                 trace"
            ),
        );
    }
    warn(
        Rank::Note,
        "by-references",
        format!(
            "{references} references were measured wherever transactions began and ended: rates per reference and \
             shares of time hold, figures per transaction do not (fewest ended: {ended})"
        ),
    );
}

/// How the throughput changed by a share, which is infinite if there was none.
fn changed(change: f64) -> String {
    if change.is_finite() {
        format!("changes by {:+.0} %", 100.0 * change)
    } else {
        "rises from nothing".to_owned()
    }
}

/// Why the window, in which `fewest` transactions ended or more, does not show the workload in its steady state.
fn unsettled(found: Judged, fewest: u64, warn: &mut impl FnMut(Rank, &'static str, String)) {
    if found.without_work > SOME_WITHOUT_WORK {
        let rank = if found.without_work > MOST_WITHOUT_WORK { Rank::Invalid } else { Rank::Weak };
        warn(
            rank,
            "out-of-work",
            format!(
                "users who had no more work in the trace make {:.1} % of the users' time in the measured window, so \
                 the machine served fewer than it seems: measure fewer transactions (--transactions), or \
                 capture more",
                100.0 * found.without_work
            ),
        );
    }
    if let Some(change) = found.change {
        warn(
            Rank::Weak,
            "unsettled",
            format!(
                "throughput {} from the first to the last third of the measured window, which is therefore \
                 not settled: use a longer --warm-up or a longer trace",
                changed(change)
            ),
        );
    }
    // Of fewer, another warning says that they are few.
    if let Some(change) = found.perhaps.filter(|_| fewest >= FEW_TRANSACTIONS) {
        warn(
            Rank::Note,
            "perhaps-unsettled",
            format!(
                "throughput {} from the first to the last third of the measured window, as much as chance makes of \
                 {fewest} transactions: measure more to see whether it is settled",
                changed(change)
            ),
        );
    }
    if let Some(pause) = found.pause {
        warn(
            Rank::Weak,
            "pause",
            format!(
                "no transaction ends for {:.0} % of the measured window at a stretch, so its throughput is that of \
                 a moment: measure more transactions, of a longer trace",
                100.0 * pause
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_may_be_chance_is_noted_where_transactions_are_not_few() {
        let told = |found, fewest| {
            let mut told = Vec::new();
            unsettled(found, fewest, &mut |rank, code, text| told.push((rank, code, text)));
            told
        };
        let found = Judged { perhaps: Some(-0.3), ..Judged::default() };
        let [(rank, code, text)] = told(found, 40).try_into().expect("one warning");
        assert_eq!((rank, code), (Rank::Note, "perhaps-unsettled"));
        assert!(
            text.starts_with("throughput changes by -30 % from") && text.contains("of 40 transactions"),
            "{text}"
        );
        assert!(told(found, FEW_TRANSACTIONS - 1).is_empty());
        let sure = Judged { change: Some(f64::INFINITY), ..Judged::default() };
        assert!(told(sure, 40)[0].2.starts_with("throughput rises from nothing from"));
    }
}
