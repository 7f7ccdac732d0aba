//! What the I/O system did in a measured window, as figures and as JSON.

use serde_json::{json, Map, Value};
use servsim_os::{BusCounts, DiskCounts, StorageCounts};

/// Reads and writes of one relation or file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accesses {
    /// Its name; `(elsewhere)` for sectors of no known file.
    pub name: String,
    /// Requests that begin there: reads, writes.
    pub requests: [u64; 2],
}

/// The I/O system in the measured window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StorageResult {
    /// What disks and buses did.
    pub counts: StorageCounts,
    /// Requests that each disk serves side by side.
    pub slots: Vec<usize>,
    /// Bus of each disk, from 0.
    pub buses: Vec<Option<usize>>,
    /// Requests by what they concern, most first.
    pub accesses: Vec<Accesses>,
}

fn share(part: u128, cycles: u64) -> f64 {
    part as f64 / cycles.max(1) as f64
}

/// A figure that every disk has, or every I/O bus.
pub struct PartFigure {
    /// Its name behind the number of the disk or bus.
    pub name: &'static str,
    /// Its unit; `1` for shares.
    pub unit: &'static str,
    /// What it is, in one sentence without a full stop.
    pub meaning: &'static str,
    /// Of this disk or bus, in a window of so many cycles; none without a request.
    of: fn(&StorageResult, usize, u64) -> Option<f64>,
}

const fn figure(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    of: fn(&StorageResult, usize, u64) -> Option<f64>,
) -> PartFigure {
    PartFigure { name, unit, meaning, of }
}

/// The figures of a disk.
pub const OF_DISKS: &[PartFigure] = &[
    figure(
        "utilization",
        "1",
        "Share of the window that a disk's mechanisms worked or held data for the bus",
        |r, disk, cycles| Some(r.disk_utilization(disk, cycles)),
    ),
    figure("mean_present", "requests", "Mean number of requests at a disk", |r, disk, cycles| {
        Some(share(r.counts.disks[disk].present, cycles))
    }),
    figure("mean_wait_cycles", "cycles", "Mean wait of a disk's requests for their turn", |r, disk, _| {
        r.of_requests(disk, |c| c.wait)
    }),
    figure(
        "mean_bus_wait_cycles",
        "cycles",
        "Mean wait of a disk's requests for the I/O bus",
        |r, disk, _| r.of_requests(disk, |c| c.bus_wait),
    ),
    figure(
        "mean_mechanism_cycles",
        "cycles",
        "Mean time that the mechanisms of a disk worked for a request",
        |r, disk, _| r.of_requests(disk, |c| c.mechanism),
    ),
    figure(
        "mean_response_cycles",
        "cycles",
        "Mean time from a request's arrival at a disk to its completion",
        |r, disk, _| r.of_requests(disk, |c| c.response),
    ),
];

/// The figures of an I/O bus.
pub const OF_BUSES: &[PartFigure] = &[
    figure("utilization", "1", "Share of the window that an I/O bus was held", |r, bus, cycles| {
        Some(share(r.counts.buses[bus].busy, cycles))
    }),
    figure(
        "mean_waiting",
        "requests",
        "Mean number of requests that waited for an I/O bus",
        |r, bus, cycles| Some(share(r.counts.buses[bus].waiting, cycles)),
    ),
    figure(
        "mean_wait_cycles",
        "cycles",
        "Mean wait for an I/O bus, of the times it was held",
        |r, bus, _| {
            let BusCounts { waiting, tenures, .. } = r.counts.buses[bus];
            (tenures > 0).then(|| waiting as f64 / tenures as f64)
        },
    ),
];

impl StorageResult {
    /// Share of the window that a disk's mechanisms worked or held data for the bus.
    pub fn disk_utilization(&self, disk: usize, cycles: u64) -> f64 {
        share(self.counts.disks[disk].busy, cycles) / self.slots[disk].max(1) as f64
    }

    /// Mean over a disk's completed requests; none without any.
    fn of_requests(&self, disk: usize, sum: fn(&DiskCounts) -> u64) -> Option<f64> {
        let counts = &self.counts.disks[disk];
        let requests = counts.reads + counts.writes;
        (requests > 0).then(|| sum(counts) as f64 / requests as f64)
    }

    /// A figure of every disk, by number from 1; disks without it are left out.
    pub fn of_disks(&self, figure: &PartFigure, cycles: u64) -> Vec<(String, f64)> {
        self.numbered(self.counts.disks.len(), figure, cycles)
    }

    /// A figure of every I/O bus, likewise.
    pub fn of_buses(&self, figure: &PartFigure, cycles: u64) -> Vec<(String, f64)> {
        self.numbered(self.counts.buses.len(), figure, cycles)
    }

    fn numbered(&self, count: usize, figure: &PartFigure, cycles: u64) -> Vec<(String, f64)> {
        let known = |part: usize| Some(((part + 1).to_string(), (figure.of)(self, part, cycles)?));
        (0..count).filter_map(known).collect()
    }

    /// As in results; disks and buses count from 1.
    pub fn to_json(&self, cycles: u64) -> Value {
        let object = |first: Value, figures: &[PartFigure], part: usize| {
            let mut object = match first {
                Value::Object(object) => object,
                _ => Map::new(),
            };
            object.extend(figures.iter().map(|f| (f.name.to_owned(), json!((f.of)(self, part, cycles)))));
            Value::Object(object)
        };
        let disk = |(number, c): (usize, &DiskCounts)| {
            let first = json!({
                "disk": number + 1, "bus": self.buses[number].map(|bus| bus + 1), "reads": c.reads,
                "writes": c.writes, "bytes": c.bytes, "busy_cycles": c.busy as u64,
            });
            object(first, OF_DISKS, number)
        };
        let bus = |(number, c): (usize, &BusCounts)| {
            let first = json!({"bus": number + 1, "tenures": c.tenures, "busy_cycles": c.busy as u64});
            object(first, OF_BUSES, number)
        };
        let access = |a: &Accesses| json!({"name": a.name, "reads": a.requests[0], "writes": a.requests[1]});
        json!({
            "disks": self.counts.disks.iter().enumerate().map(disk).collect::<Vec<_>>(),
            "buses": self.counts.buses.iter().enumerate().map(bus).collect::<Vec<_>>(),
            "flushes": self.counts.flushes,
            "accesses": self.accesses.iter().map(access).collect::<Vec<_>>(),
        })
    }
}
