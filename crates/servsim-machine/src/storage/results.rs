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

/// Mean over completed requests; none without any.
fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}

/// Known figures of so many parts, named by number from 1.
fn numbered(count: usize, of: impl Fn(usize) -> Vec<(&'static str, Option<f64>)>) -> Vec<(String, f64)> {
    let named = |part: usize| {
        of(part).into_iter().filter_map(move |(name, value)| Some((format!("{}.{name}", part + 1), value?)))
    };
    (0..count).flat_map(named).collect()
}

impl StorageResult {
    /// Share of the window that a disk's mechanisms worked or held data for the bus.
    pub fn disk_utilization(&self, disk: usize, cycles: u64) -> f64 {
        share(self.counts.disks[disk].busy, cycles) / self.slots[disk].max(1) as f64
    }

    fn disk_figures(&self, disk: usize, cycles: u64) -> Vec<(&'static str, Option<f64>)> {
        let c: &DiskCounts = &self.counts.disks[disk];
        let n = c.reads + c.writes;
        vec![
            ("utilization", Some(self.disk_utilization(disk, cycles))),
            ("mean_present", Some(share(c.present, cycles))),
            ("mean_wait_cycles", mean(c.wait, n)),
            ("mean_bus_wait_cycles", mean(c.bus_wait, n)),
            ("mean_mechanism_cycles", mean(c.mechanism, n)),
            ("mean_response_cycles", mean(c.response, n)),
        ]
    }

    fn bus_figures(&self, bus: usize, cycles: u64) -> Vec<(&'static str, Option<f64>)> {
        let c: &BusCounts = &self.counts.buses[bus];
        let waited = (c.tenures > 0).then(|| c.waiting as f64 / c.tenures as f64);
        vec![
            ("utilization", Some(share(c.busy, cycles))),
            ("mean_waiting", Some(share(c.waiting, cycles))),
            ("mean_wait_cycles", waited),
        ]
    }

    /// Figures of all disks, as `1.utilization`; those without a request are left out.
    pub fn disks(&self, cycles: u64) -> Vec<(String, f64)> {
        numbered(self.counts.disks.len(), |disk| self.disk_figures(disk, cycles))
    }

    /// The same of all I/O buses.
    pub fn buses(&self, cycles: u64) -> Vec<(String, f64)> {
        numbered(self.counts.buses.len(), |bus| self.bus_figures(bus, cycles))
    }

    /// As in results; disks and buses count from 1.
    pub fn to_json(&self, cycles: u64) -> Value {
        let object = |first: Value, list: Vec<(&'static str, Option<f64>)>| {
            let mut object = match first {
                Value::Object(object) => object,
                _ => Map::new(),
            };
            object.extend(list.into_iter().map(|(name, value)| (name.to_owned(), json!(value))));
            Value::Object(object)
        };
        let disk = |(number, c): (usize, &DiskCounts)| {
            let first = json!({
                "disk": number + 1, "bus": self.buses[number].map(|bus| bus + 1), "reads": c.reads,
                "writes": c.writes, "bytes": c.bytes, "busy_cycles": c.busy as u64,
            });
            object(first, self.disk_figures(number, cycles))
        };
        let bus = |(number, c): (usize, &BusCounts)| {
            let first = json!({"bus": number + 1, "tenures": c.tenures, "busy_cycles": c.busy as u64});
            object(first, self.bus_figures(number, cycles))
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
