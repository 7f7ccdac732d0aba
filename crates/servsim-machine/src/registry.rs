//! What stands in a replication of a result: every number by path, with its unit and meaning.
//!
//! Three kinds: figures computed here ([`crate::figures`]), counters as they are declared ([`crate::counted`]), and
//! the further records below, which [`crate::json`] writes. `servsim explain`, the units of tables, the choice of
//! figures to compare and sweep by, the report and `docs/reference/figures.md` read this list and keep none.

use crate::counted::SETS;
use crate::figures::{Better, FIGURES};
use crate::storage::results::{OF_BUSES, OF_DISKS};
use serde_json::{json, Value};
use servsim_core::counters::{Counter, Layout, Rule};

/// What is known of a number of a result.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its path in a replication; `*` stands for a number or for a name.
    pub path: String,
    /// Its unit; `1` for shares and ratios.
    pub unit: &'static str,
    /// What it is, in one sentence without a full stop.
    pub meaning: &'static str,
    /// What it is called where its path says too little.
    pub title: Option<&'static str>,
    /// Which way it is better, where designs can be judged by it.
    pub better: Option<Better>,
    /// What every replication must have, and greater than zero, to tell it.
    pub needs: &'static [&'static str],
    /// Whether summaries describe it.
    pub summarised: bool,
    /// How it is declared, if it is a counter; those of both modes stand in results under `user` and `kernel`.
    pub counter: Option<&'static Counter>,
    /// What its `*` stands for, where that is always the same.
    pub parts: Vec<&'static str>,
}

impl Entry {
    /// A number of which nothing but this is known.
    fn plain(path: String, unit: &'static str, meaning: &'static str) -> Self {
        Self {
            path,
            unit,
            meaning,
            title: None,
            better: None,
            needs: &[],
            summarised: false,
            counter: None,
            parts: Vec::new(),
        }
    }

    /// As the other languages read it.
    pub fn to_json(&self) -> Value {
        json!({
            "path": self.path, "unit": self.unit, "meaning": self.meaning, "title": self.title,
            "better": self.better.map(|better| if better == Better::Lower { "lower" } else { "higher" }),
            "needs": self.needs, "summarised": self.summarised, "counter": self.counter.is_some(),
            "windowed": self.counter.is_some_and(|counter| counter.windowed), "additive": self.counter.is_some_and(|counter| counter.rule == Rule::Sum),
            "parts": self.parts,
        })
    }
}

/// A percentile of the response times of a kind.
macro_rules! percentile_of_kind {
    ($percent:literal) => {
        (
            concat!("transactions_by_kind.*.p", $percent, "_response_cycles"),
            "cycles",
            concat!(
                "Time within which ",
                $percent,
                " of 100 of a kind were answered; none where fewer than five took longer"
            ),
        )
    };
}

/// Numbers that are neither counters nor figures of a summary: path, unit, meaning.
const RECORDED: &[(&str, &str, &str)] = &[
    ("transactions", "transactions", "Transactions that ended in the measured window"),
    ("processor_utilization.*", "1", "A processor's share of its time with a task that memory did not delay"),
    (
        "transactions_by_kind.*.count",
        "transactions",
        "Transactions of a kind that ended in the measured window",
    ),
    (
        "transactions_by_kind.*.mean_response_cycles",
        "cycles",
        "Mean time from a user's last reply to this one",
    ),
    percentile_of_kind!(50),
    percentile_of_kind!(90),
    percentile_of_kind!(95),
    percentile_of_kind!(99),
    ("distinct_lines", "lines", "Lines touched for the first time in the measured window"),
    ("processor_levels.cycles.*", "cycles", "Cycles with so many tasks at the processors"),
    ("processor_levels.departures.*", "tasks", "Tasks that left the processors when so many were there"),
    (
        "processor_levels.instructions.*",
        "instructions",
        "Instructions executed with so many tasks at the processors",
    ),
    ("users.count", "users", "Users who were served"),
    ("users.processors_cycles", "cycles", "Cycles of all users whose server process was ready or running"),
    ("users.devices_cycles", "cycles", "Cycles of all users whose server process waited for a device"),
    (
        "users.behind_processors_cycles",
        "cycles",
        "Cycles of all users behind a task that was ready or running",
    ),
    ("users.behind_devices_cycles", "cycles", "Cycles of all users behind a task that waited for a device"),
    (
        "users.asleep_cycles",
        "cycles",
        "Cycles of all users who slept for a time, or waited for a task that did",
    ),
    ("users.gone_cycles", "cycles", "Cycles of all users for whom the trace had no more work"),
    (
        "work_by_kind.*.transactions",
        "transactions",
        "Transactions of a kind that were followed from begin to end",
    ),
    ("work_by_kind.*.instructions", "instructions", "Instructions of those transactions, in all"),
    ("work_by_kind.*.loads", "references", "Loads of those transactions, in all"),
    ("work_by_kind.*.stores", "references", "Stores of those transactions, in all"),
    ("work_by_kind.*.disk_reads", "requests", "Disk reads of those transactions, in all"),
    ("work_by_kind.*.disk_writes", "requests", "Disk writes of those transactions, in all"),
    ("cycle_stacks.*.base", "cycles", "Cycles of a processor in which nothing delayed it"),
    (
        "cycle_stacks.*.dependence",
        "cycles",
        "Cycles of a processor waiting for results of earlier instructions",
    ),
    ("cycle_stacks.*.fetch_miss", "cycles", "Cycles of a processor waiting for instructions"),
    ("cycle_stacks.*.load_miss", "cycles", "Cycles of a processor waiting for loads"),
    ("cycle_stacks.*.store", "cycles", "Cycles of a processor waiting for room in its store buffer"),
    ("cycle_stacks.*.translation", "cycles", "Cycles of a processor waiting for address translation"),
    ("cycle_stacks.*.branch", "cycles", "Cycles of a processor lost to mispredicted branches"),
    ("cycle_stacks.*.lock_spin", "cycles", "Cycles of a processor spinning for a lock"),
    ("cycle_stacks.*.idle", "cycles", "Cycles of a processor without a ready task"),
    ("bus_busy_cycles", "cycles", "Cycles that the bus was occupied"),
    ("locks.*.acquisitions", "locks", "Locks of a class that were taken"),
    ("locks.*.contended", "locks", "Acquisitions that had to wait"),
    ("locks.*.wait_cycles", "cycles", "Cycles from the first attempt to the moment the owner goes on"),
    ("locks.*.spin_references", "references", "Loads of a lock's word while spinning"),
    ("locks.unmatched_releases", "releases", "Releases by somebody who did not hold the lock"),
    ("locks.repeated_acquisitions", "locks", "Acquisitions by somebody who held the lock already"),
    (
        "locks.forced_releases",
        "releases",
        "Kernel spinlocks whose holder left its processor, or held for too long",
    ),
    ("locks.cut_holds", "locks", "Locks still held where the trace of a task ends"),
    ("locks.forced_handovers", "locks", "Locks handed over to break a cycle of waiters"),
    ("most_ready_tasks", "tasks", "Most tasks that were ready or running at once"),
    ("mean_ready_tasks", "tasks", "Mean number of tasks that were ready or running"),
    ("trace_exhausted", "1", "1 where the trace ended before the transactions that were asked for"),
    (
        "interconnect.busiest_way_utilization",
        "1",
        "Share of the window that the busiest port or link was taken",
    ),
    ("nodes.pairs.*.from", "1", "The node that asked"),
    ("nodes.pairs.*.to", "1", "The node that was asked"),
    (
        "window_cycles",
        "cycles",
        "Length of a window of the run; what is left at the end of the measured window is in none",
    ),
    ("storage.disks.*.disk", "1", "Number of the disk"),
    ("storage.disks.*.bus", "1", "Number of the I/O bus that the disk is on"),
    ("storage.disks.*.reads", "requests", "Reads that a disk completed"),
    ("storage.disks.*.writes", "requests", "Writes that a disk completed"),
    ("storage.disks.*.bytes", "bytes", "Bytes of the requests that a disk completed"),
    (
        "storage.disks.*.busy_cycles",
        "cycles",
        "Cycles that a disk's mechanisms worked or held data for the bus",
    ),
    ("storage.buses.*.bus", "1", "Number of the I/O bus"),
    ("storage.buses.*.tenures", "tenures", "Times the I/O bus was held"),
    ("storage.buses.*.busy_cycles", "cycles", "Cycles that the I/O bus was held"),
    ("storage.flushes", "flushes", "Times that disks were told to write back their caches"),
    ("storage.accesses.*.reads", "requests", "Reads of a relation or file that were handed to the disks"),
    ("storage.accesses.*.writes", "requests", "Writes of a relation or file that were handed to the disks"),
    ("memory.reads", "lines", "Lines read from memory"),
    ("memory.writes", "lines", "Lines written to memory"),
];

/// Everything that is known, figures of summaries first.
pub fn entries() -> Vec<Entry> {
    let figure = |f: &crate::figures::Figure| Entry {
        title: f.title,
        better: f.better,
        needs: f.needs,
        summarised: true,
        ..Entry::plain(f.path.to_owned(), f.unit, f.meaning)
    };
    let recorded = |&(path, unit, meaning): &(&str, &'static str, &'static str)| {
        Entry::plain(path.to_owned(), unit, meaning)
    };
    let counters = SETS.iter().flat_map(|(prefix, set)| set.iter().filter_map(|c| of_counter(prefix, c)));
    let further = RECORDED.iter().map(recorded).chain(of_parts(["storage.disks", "storage.buses"], false));
    let figures = FIGURES.iter().map(figure).chain(of_parts(["disk", "io_bus"], true));
    figures.chain(counters).chain(further).collect()
}

/// The figures that every disk and I/O bus has, under these paths.
fn of_parts([disks, buses]: [&'static str; 2], summarised: bool) -> impl Iterator<Item = Entry> {
    let each = [(disks, OF_DISKS), (buses, OF_BUSES)].into_iter();
    let named =
        each.flat_map(|(path, figures)| figures.iter().map(move |f| (format!("{path}.*.{}", f.name), f)));
    named.map(move |(path, f)| Entry { summarised, ..Entry::plain(path, f.unit, f.meaning) })
}

/// The entry of a counter; modes are added, as where figures are shown.
fn of_counter(prefix: &str, counter: &'static Counter) -> Option<Entry> {
    let parts = if counter.parts.is_empty() { "" } else { ".*" };
    let total = (counter.layout == Layout::ModesAndTotal).then_some("total");
    (counter.layout != Layout::Hidden).then(|| Entry {
        summarised: counter.summarised,
        counter: Some(counter),
        parts: counter.parts.iter().copied().chain(total).collect(),
        ..Entry::plain(format!("{prefix}{}{parts}", counter.path), counter.unit, counter.meaning)
    })
}

/// The entry of the number with this full path, of one mode too; an exact one before one with `*`.
pub fn entry(path: &str) -> Option<Entry> {
    let all = entries();
    let of_modes = path.strip_suffix(".user").or_else(|| path.strip_suffix(".kernel"));
    let find = |path: &str| {
        let exact = all.iter().find(|entry| entry.path == path);
        exact.or_else(|| all.iter().find(|entry| fits(entry, path))).cloned()
    };
    of_modes.and_then(find).filter(|entry| entry.counter.is_some()).or_else(|| find(path))
}

fn fits(entry: &Entry, path: &str) -> bool {
    let (mut pattern, mut parts) = (entry.path.split('.'), path.split('.'));
    loop {
        match (pattern.next(), parts.next()) {
            (None, None) => return true,
            (Some("*"), Some(part)) if entry.parts.is_empty() || entry.parts.contains(&part) => {}
            (Some(wanted), Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_found_by_its_own_path_and_no_path_is_twice() {
        let all = entries();
        for (place, known) in all.iter().enumerate() {
            assert_eq!(entry(&known.path).map(|found| found.path).as_ref(), Some(&known.path));
            assert!(all[..place].iter().all(|other| other.path != known.path), "{}", known.path);
            assert!(!known.meaning.is_empty() && !known.meaning.ends_with('.'), "{}", known.path);
        }
        // A `*` at the end says nothing of what it stands for, unless its parts are named or it is a number.
        let numbered = ["processor_utilization.", "processor_levels."];
        for known in all.iter().filter(|known| known.path.ends_with(".*") && known.parts.is_empty()) {
            assert!(numbered.iter().any(|stem| known.path.starts_with(stem)), "{}", known.path);
        }
        let found = |path: &str| entry(path).map(|found| found.path);
        assert_eq!(found("misses.context_switch").as_deref(), Some("misses.context_switch"));
        assert_eq!(found("disk.2.mean_wait_cycles").as_deref(), Some("disk.*.mean_wait_cycles"));
        assert_eq!(entry("storage.buses.1.mean_waiting").map(|found| found.unit), Some("requests"));
        assert_eq!(found("misses_by_loss.replaced.kernel").as_deref(), Some("misses_by_loss.*"));
        assert_eq!(found("processors.3.idle").as_deref(), Some("processors.*.idle"));
        assert_eq!(found("misses.total").as_deref(), Some("misses.*"));
        assert!(found("disk.2").is_none() && found("nothing").is_none() && found("misses.nothing").is_none());
    }
}
