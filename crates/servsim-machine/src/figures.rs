//! The figures of a run, each once: path, unit, meaning, and how it follows from what was counted.
//!
//! Summaries, the tables of `compare` and `sweep`, `servsim explain FIGURE` and `docs/reference/figures.md` read
//! this list; a further figure is a further entry. All of them are of the measured window and are summarised by
//! their mean over replications, so sums over processors, modes and users are made here.

use crate::result::{gsp, ProcessorTimes, Replication, Timing};
use servsim_mem::protocol::BusOp;
use servsim_mem::{CoherenceClass, MissClass};

/// How a figure is found.
enum Source {
    /// It is one number; none where it has no meaning.
    One(fn(&Replication) -> Option<f64>),
    /// There is one for each value of the `*` in its path, in this order.
    Each(fn(&Replication) -> Vec<(String, f64)>),
}

/// One figure of a run.
pub struct Figure {
    /// Its path in summaries; `*` stands for a number from 1 or for a name.
    pub path: &'static str,
    /// Its unit; `1` for shares and ratios.
    pub unit: &'static str,
    /// What it is, in one sentence without a full stop.
    pub meaning: &'static str,
    source: Source,
}

const fn one(
    path: &'static str,
    unit: &'static str,
    meaning: &'static str,
    source: fn(&Replication) -> Option<f64>,
) -> Figure {
    Figure { path, unit, meaning, source: Source::One(source) }
}

const fn each(
    path: &'static str,
    unit: &'static str,
    meaning: &'static str,
    source: fn(&Replication) -> Vec<(String, f64)>,
) -> Figure {
    Figure { path, unit, meaning, source: Source::Each(source) }
}

/// Every figure, in the order of summaries.
pub const FIGURES: &[Figure] = &[
    one("references", "references", "Instruction fetches, loads and stores", |r| Some(references(r))),
    one("instructions", "instructions", "Instructions executed by all processors", |r| {
        Some(r.counters.instructions() as f64)
    }),
    one("misses_per_reference", "1", "Misses of the first level, per reference", |r| {
        Some(r.counters.misses.iter().flatten().sum::<u64>() as f64 / references(r).max(1.0))
    }),
    each(
        "misses.*",
        "misses",
        "Misses of the first level by class: cold, capacity, conflict, or by sharing",
        |r| both(MissClass::NAMES, &r.counters.misses),
    ),
    each(
        "coherence.*",
        "transactions",
        "Coherence transactions (invalidations and updates) by the sharing that caused them",
        |r| both(CoherenceClass::NAMES, &r.counters.coherence),
    ),
    one("misses.context_switch", "misses", "Misses on lines that a task lost because of a switch", |r| {
        Some(r.counters.context_switch.iter().flatten().sum::<u64>() as f64)
    }),
    one("removed.copies", "lines", "Copies removed because another processor fetched the line", |r| {
        Some((r.counters.removed[0][0] + r.counters.removed[1][0]) as f64)
    }),
    one("removed.misses", "misses", "Misses on copies that were removed so", |r| {
        Some((r.counters.removed[0][1] + r.counters.removed[1][1]) as f64)
    }),
    each(
        "bus.*",
        "transactions",
        "Transactions on the bus or interconnect by kind; `write` writes a line back",
        |r| BusOp::ALL.iter().map(|&op| (op.name().to_owned(), r.counters.bus_total(op) as f64)).collect(),
    ),
    each(
        "prefetch.*",
        "lines",
        "Lines prefetched: issued, useful, useless; late ones came after they were wanted",
        |r| {
            let Some(p) = &r.prefetches else { return Vec::new() };
            let counts = [("issued", p.issued), ("useful", p.useful), ("useless", p.useless)];
            let late = r.timing.as_ref().map(|t| ("late", t.late_prefetches));
            named(counts.into_iter().chain(late))
        },
    ),
    one("tlb.misses_per_reference", "1", "Misses of the translation buffers, per reference", |r| {
        Some(r.tlb.as_ref()?.misses() as f64 / references(r).max(1.0))
    }),
    one("tlb.walks", "walks", "Page walks", |r| Some(r.tlb.as_ref()?.walks.iter().sum::<u64>() as f64)),
    one("tlb.walk_references", "references", "References that page walks made", |r| {
        Some(r.tlb.as_ref()?.walk_references.iter().sum::<u64>() as f64)
    }),
    one("tlb.cycles", "cycles", "Cycles of all processors spent on address translation", |r| {
        r.tlb.as_ref()?;
        Some(r.timing.as_ref()?.processors.iter().map(|p| p.translation).sum::<u64>() as f64)
    }),
    one("cycles", "cycles", "Length of the measured window", |r| Some(r.timing.as_ref()?.cycles as f64)),
    one("gsp", "processors", "Global system power: the sum of the processors' utilisations", |r| {
        r.timing.as_ref().map(gsp)
    }),
    one("bus_utilization", "1", "Share of the window that the bus was occupied", |r| {
        r.timing.as_ref().map(|t| t.bus_busy as f64 / cycles(t))
    }),
    one("idle_share", "1", "Share of the processors' time without a ready task", |r| {
        let t = r.timing.as_ref()?;
        let idle = |p: &ProcessorTimes| p.idle as f64;
        Some(t.processors.iter().map(idle).sum::<f64>() / (cycles(t) * t.processors.len().max(1) as f64))
    }),
    each(
        "disk.*.*",
        "1 or cycles",
        "A disk's utilisation, requests present, and mean times of its requests",
        |r| r.timing.as_ref().and_then(|t| Some(t.storage.as_ref()?.disks(t.cycles))).unwrap_or_default(),
    ),
    each(
        "io_bus.*.*",
        "1 or cycles",
        "An I/O bus's utilisation, requests waiting for it, and their mean wait",
        |r| r.timing.as_ref().and_then(|t| Some(t.storage.as_ref()?.buses(t.cycles))).unwrap_or_default(),
    ),
    each(
        "write_buffer.*",
        "lines",
        "Lines that entered a write buffer, were supplied from it, or were cancelled",
        |r| {
            let Some(b) = r.timing.as_ref().and_then(|t| t.write_buffers) else { return Vec::new() };
            named([("entered", b.entered), ("supplied", b.supplied), ("cancelled", b.cancelled)])
        },
    ),
    one(
        "cycles_per_transaction",
        "cycles/transaction",
        "Elapsed cycles of the machine per transaction",
        |r| {
            let t = r.timing.as_ref()?;
            (r.transactions() > 0).then(|| t.cycles as f64 / r.transactions() as f64)
        },
    ),
    one("transactions_per_million_cycles", "transactions/Mcycle", "Throughput in simulated time", |r| {
        let t = r.timing.as_ref()?;
        (r.transactions() > 0).then(|| r.transactions() as f64 * 1e6 / cycles(t))
    }),
];

/// The figures of one replication by full path.
pub fn figures(replication: &Replication) -> Vec<(String, f64)> {
    let of = |figure: &Figure| match figure.source {
        Source::One(find) => {
            find(replication).map(|value| (figure.path.to_owned(), value)).into_iter().collect()
        }
        Source::Each(find) => {
            let stem = figure.path.split('*').next().unwrap_or_default();
            find(replication)
                .into_iter()
                .map(|(name, value)| (format!("{stem}{name}"), value))
                .collect::<Vec<_>>()
        }
    };
    FIGURES.iter().flat_map(of).collect()
}

/// The entry of the figure with this full path; an exact one before one with `*`.
pub fn figure(path: &str) -> Option<&'static Figure> {
    let fits = |figure: &&Figure| {
        let (mut pattern, mut parts) = (figure.path.split('.'), path.split('.'));
        loop {
            match (pattern.next(), parts.next()) {
                (None, None) => return true,
                (Some(wanted), Some(part)) if wanted == "*" || wanted == part => {}
                _ => return false,
            }
        }
    };
    FIGURES.iter().find(|figure| figure.path == path).or_else(|| FIGURES.iter().find(fits))
}

fn references(replication: &Replication) -> f64 {
    replication.counters.total_references() as f64
}

fn cycles(timing: &Timing) -> f64 {
    timing.cycles.max(1) as f64
}

/// Counts of both modes together, by name.
fn both<const N: usize>(names: [&str; N], table: &[[u64; N]; 2]) -> Vec<(String, f64)> {
    names
        .iter()
        .enumerate()
        .map(|(i, name)| ((*name).to_owned(), (table[0][i] + table[1][i]) as f64))
        .collect()
}

fn named(counts: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<(String, f64)> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_found_by_its_own_path_and_no_path_is_twice() {
        for (place, entry) in FIGURES.iter().enumerate() {
            assert_eq!(figure(entry.path).map(|found| found.path), Some(entry.path));
            assert!(FIGURES[..place].iter().all(|other| other.path != entry.path), "{}", entry.path);
            assert!(!entry.meaning.is_empty() && !entry.meaning.ends_with('.'), "{}", entry.path);
        }
        assert_eq!(figure("misses.context_switch").map(|found| found.path), Some("misses.context_switch"));
        assert_eq!(figure("disk.2.mean_wait_cycles").map(|found| found.path), Some("disk.*.*"));
        assert!(figure("disk.2").is_none() && figure("nothing").is_none());
    }

    #[test]
    fn figures_are_computed_from_what_was_counted() {
        let times = |idle| ProcessorTimes { idle, ..ProcessorTimes::default() };
        let timing = Timing { cycles: 100, processors: vec![times(50), times(20)], ..Timing::default() };
        let replication = Replication { timing: Some(timing), ..Replication::default() };
        let found = figures(&replication);
        let value = |path: &str| found.iter().find(|(name, _)| name == path).map(|(_, value)| *value);
        assert_eq!(value("idle_share"), Some(0.35));
        assert_eq!(value("cycles"), Some(100.0));
        assert_eq!(value("cycles_per_transaction"), None);
        assert_eq!(value("misses.cold"), Some(0.0));
        assert_eq!(value("tlb.walks"), None);
    }
}
