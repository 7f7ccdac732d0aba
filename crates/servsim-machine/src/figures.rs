//! The figures of a run that follow from what was counted, each once: path, unit, meaning, computation.
//!
//! Counters are declared where they are counted ([`mod@servsim_core::counters`]); here stands what is computed from
//! them. [`crate::registry`] describes both, for summaries, the tables of `compare` and `sweep`, reports,
//! `servsim explain FIGURE` and `docs/reference/figures.md`. All figures are of the measured window and are
//! summarised by their mean over replications, so sums over processors, modes and users are made here.

use crate::counted::counted;
use crate::result::{gsp, mean_response, percentile_response, ProcessorTimes, Replication, Timing};
use crate::storage::results::{PartFigure, OF_BUSES, OF_DISKS};

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The less the better.
    Lower,
    /// The more the better.
    Higher,
}

/// One figure of a run.
pub struct Figure {
    /// Its path in summaries.
    pub path: &'static str,
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
    /// How it is found; none where it has no meaning.
    of: fn(&Replication) -> Option<f64>,
}

impl Figure {
    const fn titled(mut self, title: &'static str) -> Self {
        self.title = Some(title);
        self
    }

    const fn better(mut self, better: Better, needs: &'static [&'static str]) -> Self {
        self.better = Some(better);
        self.needs = needs;
        self
    }
}

const fn figure(
    path: &'static str,
    unit: &'static str,
    meaning: &'static str,
    of: fn(&Replication) -> Option<f64>,
) -> Figure {
    Figure { path, unit, meaning, title: None, better: None, needs: &[], of }
}

/// A percentile of the response times of all transactions.
macro_rules! percentile {
    ($percent:literal, $title:literal) => {
        figure(
            concat!("response_cycles.p", $percent),
            "cycles",
            concat!(
                "Time from a user's last reply to this one within which ",
                $percent,
                " of 100 transactions ended; only where five or more took longer"
            ),
            |r| Some(percentile_response(&responses(r), $percent)? as f64),
        )
        .titled($title)
        .better(Better::Lower, TIMED)
    };
}

const TIMED: &[&str] = &["cycles", "transactions"];

/// Every computed figure, in the order of summaries; those of each disk and I/O bus follow ([`OF_DISKS`], [`OF_BUSES`]).
pub const FIGURES: &[Figure] = &[
    figure("references", "references", "Instruction fetches, loads and stores", |r| Some(references(r))),
    figure("instructions", "instructions", "Instructions executed by all processors", |r| {
        Some(r.counters.instructions() as f64)
    }),
    figure(
        "misses_per_reference",
        "1",
        "Misses of the outermost private caches, where coherence is kept, per reference",
        |r| Some(misses(r) / references(r).max(1.0)),
    )
    .better(Better::Lower, &["references"]),
    figure(
        "misses_per_transaction",
        "misses/transaction",
        "Misses of the outermost private caches, where coherence is kept, per transaction",
        |r| (r.transactions() > 0).then(|| misses(r) / r.transactions() as f64),
    )
    .better(Better::Lower, TIMED),
    figure("misses.context_switch", "misses", "Misses on lines that a task lost because of a switch", |r| {
        Some(r.counters.context_switch.iter().flatten().sum::<u64>() as f64)
    }),
    figure("prefetch.late", "lines", "Useful prefetches still on their way when they were asked for", |r| {
        r.prefetches.as_ref()?;
        Some(r.timing.as_ref()?.late_prefetches as f64)
    }),
    figure("tlb.misses_per_reference", "1", "Misses of the translation buffers, per reference", |r| {
        Some(r.tlb.as_ref()?.misses() as f64 / references(r).max(1.0))
    })
    .better(Better::Lower, &["references"]),
    figure("tlb.cycles", "cycles", "Cycles of all processors spent on address translation", |r| {
        r.tlb.as_ref()?;
        Some(r.timing.as_ref()?.processors.iter().map(|p| p.translation).sum::<u64>() as f64)
    }),
    figure("cycles", "cycles", "Length of the measured window", |r| Some(r.timing.as_ref()?.cycles as f64)),
    figure("gsp", "processors", "Global system power: the sum of the processors' utilisations", |r| {
        r.timing.as_ref().map(gsp)
    })
    .titled("global system power")
    .better(Better::Higher, &["cycles"]),
    figure("bus_utilization", "1", "Share of the window that the bus was occupied", |r| {
        r.timing.as_ref().map(|t| t.bus_busy as f64 / cycles(t))
    })
    .titled("bus utilisation")
    .better(Better::Lower, &["cycles"]),
    figure("idle_share", "1", "Share of the processors' time without a ready task", |r| {
        let t = r.timing.as_ref()?;
        let idle = |p: &ProcessorTimes| p.idle as f64;
        Some(t.processors.iter().map(idle).sum::<f64>() / (cycles(t) * t.processors.len().max(1) as f64))
    }),
    figure(
        "nodes.remote_share",
        "1",
        "Share of the fetches from memory that another node's memory served",
        |r| Some(r.timing.as_ref()?.nodes.as_ref()?.remote_share()),
    )
    .titled("remote share of memory reads")
    .better(Better::Lower, &["cycles"]),
    figure(
        "nodes.busiest_link_utilization",
        "1",
        "Share of the window that the busiest link between nodes was taken",
        |r| {
            let t = r.timing.as_ref().filter(|t| t.nodes.is_some())?;
            Some(*t.ways_busy.iter().max()? as f64 / cycles(t))
        },
    ),
    figure(
        "nodes.link_utilization",
        "1",
        "Share of the window that links between nodes were taken, on average",
        |r| {
            let t = r.timing.as_ref()?;
            let busy = t.nodes.as_ref()?.requests.link_busy as f64;
            Some(busy / (t.ways_busy.len().max(1) as f64 * cycles(t)))
        },
    )
    .titled("utilisation of links between nodes"),
    figure(
        "nodes.broadcast_share",
        "1",
        "Share of the requests between nodes that went to all nodes when they were made",
        |r| {
            let requests = &r.timing.as_ref()?.nodes.as_ref()?.requests;
            let all = requests.broadcasts + requests.unicasts;
            (all > 0).then(|| requests.broadcasts as f64 / all as f64)
        },
    ),
    figure(
        "cycles_per_transaction",
        "cycles/transaction",
        "Elapsed cycles of the machine per transaction",
        |r| {
            let t = r.timing.as_ref()?;
            (r.transactions() > 0).then(|| t.cycles as f64 / r.transactions() as f64)
        },
    )
    .better(Better::Lower, TIMED),
    figure("transactions_per_million_cycles", "transactions/Mcycle", "Throughput in simulated time", |r| {
        let t = r.timing.as_ref()?;
        (r.transactions() > 0).then(|| r.transactions() as f64 * 1e6 / cycles(t))
    })
    .better(Better::Higher, TIMED),
    figure("response_cycles.mean", "cycles", "Mean time from a user's last reply to this one", |r| {
        mean_response(&responses(r))
    })
    .titled("mean response time")
    .better(Better::Lower, TIMED),
    percentile!(50, "median of response times"),
    percentile!(90, "90th percentile of response times"),
    percentile!(95, "95th percentile of response times"),
    percentile!(99, "99th percentile of response times"),
];

/// The figures of one replication by full path: computed ones, then the counters that summaries describe.
pub fn figures(replication: &Replication) -> Vec<(String, f64)> {
    let computed =
        FIGURES.iter().filter_map(|figure| Some((figure.path.to_owned(), (figure.of)(replication)?)));
    let counters = counted(replication).into_iter().filter(|(counter, _)| counter.summarised);
    let named = |(counter, values): (&servsim_core::counters::Counter, &[u64])| {
        counter.names().into_iter().zip(counter.both_modes(values)).collect::<Vec<_>>()
    };
    let counters = counters.flat_map(named).map(|(name, count)| (name, count as f64));
    computed.chain(of_storage(replication)).chain(counters).collect()
}

/// The figures of each disk and I/O bus, where these are described.
fn of_storage(replication: &Replication) -> Vec<(String, f64)> {
    let Some(timing) = &replication.timing else { return Vec::new() };
    let Some(storage) = &timing.storage else { return Vec::new() };
    let named = |group: &'static str, figure: &'static PartFigure, found: Vec<(String, f64)>| {
        found.into_iter().map(move |(part, value)| (format!("{group}.{part}.{}", figure.name), value))
    };
    let disks = OF_DISKS.iter().flat_map(|f| named("disk", f, storage.of_disks(f, timing.cycles)));
    disks
        .chain(OF_BUSES.iter().flat_map(|f| named("io_bus", f, storage.of_buses(f, timing.cycles))))
        .collect()
}

/// Response times of all kinds in ascending order, cycles.
fn responses(replication: &Replication) -> Vec<u64> {
    let mut all: Vec<u64> =
        replication.kinds.iter().flat_map(|kind| kind.responses.iter().copied()).collect();
    all.sort_unstable();
    all
}

fn misses(replication: &Replication) -> f64 {
    replication.counters.misses.iter().flatten().sum::<u64>() as f64
}

fn references(replication: &Replication) -> f64 {
    replication.counters.total_references() as f64
}

fn cycles(timing: &Timing) -> f64 {
    timing.cycles.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

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
