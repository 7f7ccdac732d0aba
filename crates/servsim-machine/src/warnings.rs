//! Warnings beside the figures of a run: what limits their use, and what to do about it; the worst first.

use crate::result::{Replication, Timing};
use crate::settled::{self, Judged, MOST_WITHOUT_WORK, SOME_WITHOUT_WORK};
use crate::window::Window;
use serde_json::{json, Value};
use servsim_config::Machine;
use servsim_os::BusCounts;

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

/// Disks that are asked for more of their time than this are the bottleneck: at 90 % a queue of one
/// server holds nine requests on average (M/M/1).
const BUSY_DISKS: f64 = 0.9;

/// Fewer transactions than this say little about a mix of five kinds.
const FEW_TRANSACTIONS: u64 = 30;

/// Holds that end by force are few in a sound trace, and each is in the result; beyond this share of all they
/// change the figures.
const MANY_FORCED: f64 = 1e-4;

/// A run that goes on for more than this share of its time after the last transaction says too little for the
/// throughput.
const LONG_END: f64 = 0.1;

/// What a reader of the result of a timing run must know, the worst first; those of one rank in the order
/// that they are looked for.
pub fn of(window: Window, machine: &Machine, replications: &[Replication]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |rank, code, text: String| warnings.push(Warning { rank, code, text });
    let timings = || replications.iter().filter_map(|r| r.timing.as_ref());
    let fewest = replications.iter().map(Replication::transactions).min().unwrap_or(0);
    if let Some(references) = window.references {
        by_references(references, fewest, timings().any(|t| t.trace_exhausted), &mut warn);
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
        if timings().any(|t| t.trace_exhausted) && window.transactions.is_some() {
            warn(
                Rank::Invalid,
                "exhausted",
                "the trace ended before the requested number of transactions: use a smaller --transactions, or a \
                 longer trace"
                    .into(),
            );
        }
        let after = timings().map(settled::after_the_last).fold(0.0, f64::max);
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
        unsettled(settled::judge(timings().collect::<Vec<_>>().into_iter()), fewest, &mut warn);
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
    let least = timings().map(|t| t.most_ready).min().unwrap_or(0);
    let mean = timings().map(|t| t.mean_ready_thousandths).min().unwrap_or(0) as f64 / 1000.0;
    if least < machine.processors as u64 || mean < machine.processors as f64 {
        warn(
            Rank::Note,
            "few-ready-tasks",
            format!(
                "the {} processors outnumber the ready tasks ({mean:.1} on average, {least} at most): \
                 some processors idle for lack of work, not because of the machine",
                machine.processors
            ),
        );
    }
    let counts = || timings().filter_map(|t| t.locks).map(|locks| locks.counts);
    let forced: u64 = counts().map(|c| c.forced_releases + c.forced_handovers).sum();
    let taken: u64 = counts().map(|c| c.classes.iter().map(|class| class.acquisitions).sum::<u64>()).sum();
    if forced as f64 > MANY_FORCED * taken as f64 {
        warn(
            Rank::Note,
            "forced-locks",
            format!(
                "{forced} of {taken} holds of a lock ended by force, because the trace holds no release in time or \
                 its waits came back to the holder: see `locks` of the replications; `--set \
                 locks.arbitrated=spinlocks` leaves the others as recorded"
            ),
        );
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

/// The disks or I/O buses that limit the throughput, if any do.
fn busy_disks(machine: &Machine, replications: &[Replication]) -> Option<String> {
    let share = replications.iter().map(|r| disk_share(r, machine)).fold(0.0, f64::max);
    if machine.storage.disks > 0 {
        replications.iter().filter_map(|r| r.timing.as_ref()).find_map(busy_storage)
    } else {
        (share > BUSY_DISKS).then(|| {
            format!(
                "the disks were asked for {:.0} % of their time: they limit the throughput, not the processors; \
                 more of them work side by side with `disk.parallel` above {}",
                100.0 * share,
                machine.disk_parallel
            )
        })
    }
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

/// The busiest disk or I/O bus, if it limits the throughput.
fn busy_storage(timing: &Timing) -> Option<String> {
    let storage = timing.storage.as_ref()?;
    let cycles = timing.cycles.max(1) as f64;
    let disks = (0..storage.counts.disks.len())
        .map(|disk| (storage.disk_utilization(disk, timing.cycles), format!("disk {}", disk + 1)));
    let bus = |(bus, c): (usize, &BusCounts)| (c.busy as f64 / cycles, format!("I/O bus {}", bus + 1));
    let buses = storage.counts.buses.iter().enumerate().map(bus);
    let (share, name) = disks.chain(buses).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (share > BUSY_DISKS).then(|| {
        format!(
            "{name} was busy {:.0} % of the time: it limits the throughput, not the processors; spread its \
             data with `placement`, or describe more with disk.count and io.buses",
            100.0 * share
        )
    })
}

/// Service time of the requests of the measured window, as a share of what the disks had to give.
fn disk_share(replication: &Replication, machine: &Machine) -> f64 {
    let Some(timing) = &replication.timing else { return 0.0 };
    let cycles = |picos: servsim_units::Picos| picos.to_cycles(machine.clock).0 as f64;
    let asked = timing.system.disk_reads as f64 * cycles(machine.disk_read)
        + timing.system.disk_writes as f64 * cycles(machine.disk_write);
    asked / (timing.cycles.max(1) as f64 * machine.disk_parallel as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::SystemCounters;

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

    #[test]
    fn disks_that_limit_the_throughput_are_named() {
        let machine =
            Machine::from_toml("[disk]\nread_time = \"1 ms\"\nparallel = 2", "m.toml", &[]).expect("valid");
        // Two disks have 2 ms to give in a window of one million cycles at 1 GHz.
        let after = |disk_reads| {
            let system = SystemCounters { disk_reads, ..SystemCounters::default() };
            let timing = Timing { cycles: 1_000_000, system, ..Timing::default() };
            Replication { timing: Some(timing), ..Replication::default() }
        };
        assert!((disk_share(&after(1), &machine) - 0.5).abs() < 1e-12);
        assert!((disk_share(&after(2), &machine) - 1.0).abs() < 1e-12);
    }
}
