//! What a replication measures, and how it is kept up to date: whoever changes a number settles it first.

use super::Engine;
use crate::sim::histogram::Histogram;

/// Parts of equal length in which the measured time is looked at.
pub const PARTS: usize = 4;

/// What one replication measured, per class, station and pool.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Measured time, seconds.
    pub span: f64,
    /// Requests completed per class.
    pub completed: Vec<u64>,
    /// Requests lost per class, for want of room.
    pub lost: Vec<u64>,
    /// Sum of response times per class.
    pub response: Vec<f64>,
    /// Distribution of response times per class.
    pub histogram: Vec<Histogram>,
    /// Integral of the number present `[station][class]`.
    pub present: Vec<Vec<f64>>,
    /// Integral of the speed in use per station.
    pub work: Vec<f64>,
    /// Integral of units held per pool.
    pub held: Vec<f64>,
    /// Integral of requests waiting per pool.
    pub waiting: Vec<f64>,
    /// Integral over each of [`PARTS`] parts of the span of the number in the system per class, and behind these of the
    /// number at each station, `[part][class or station]`.
    pub numbers: Vec<Vec<f64>>,
    /// Integral of the square of that number.
    pub squared: Vec<f64>,
}

impl Measured {
    pub(super) fn nothing(classes: usize, stations: usize, pools: usize) -> Self {
        Self {
            span: 0.0,
            completed: vec![0; classes],
            lost: vec![0; classes],
            response: vec![0.0; classes],
            histogram: vec![Histogram::default(); classes],
            present: vec![vec![0.0; classes]; stations],
            work: vec![0.0; stations],
            held: vec![0.0; pools],
            waiting: vec![0.0; pools],
            numbers: Vec::with_capacity(PARTS),
            squared: vec![0.0; classes + stations],
        }
    }

    /// Counts for the next part from here on.
    pub(super) fn begin_part(&mut self) {
        self.numbers.push(vec![0.0; self.squared.len()]);
    }

    /// So many were counted for so long, seconds, under this number.
    pub(super) fn count(&mut self, number: usize, here: u32, elapsed: f64) {
        let here = f64::from(here);
        if let Some(part) = self.numbers.last_mut() {
            part[number] += here * elapsed;
        }
        self.squared[number] += here * here * elapsed;
    }
}

impl Engine<'_> {
    pub(super) fn settle_station(&mut self, station: usize) {
        let elapsed = self.now - self.touched[station];
        self.touched[station] = self.now;
        if self.measuring {
            for (area, count) in self.measured.present[station].iter_mut().zip(&self.counts[station]) {
                *area += f64::from(*count) * elapsed;
            }
            let here = self.counts[station].iter().sum();
            self.measured.count(self.in_system.len() + station, here, elapsed);
        }
    }

    pub(super) fn settle_class(&mut self, class: usize) {
        let index = self.servers.len() + self.pools.len() + class;
        let elapsed = self.now - self.touched[index];
        self.touched[index] = self.now;
        if self.measuring {
            self.measured.count(class, self.in_system[class], elapsed);
        }
    }

    pub(super) fn settle_pool(&mut self, pool: usize) {
        let index = self.servers.len() + pool;
        let elapsed = self.now - self.touched[index];
        self.touched[index] = self.now;
        if self.measuring {
            let state = &self.pools[pool];
            self.measured.held[pool] += (state.size - state.free) as f64 * elapsed;
            self.measured.waiting[pool] += state.waiting.len() as f64 * elapsed;
        }
    }

    pub(super) fn settle_all(&mut self) {
        self.settle_counts();
        self.servers.iter_mut().for_each(|server| server.advance(self.now));
    }

    /// Settles what is counted and leaves the servers alone, so that looking on changes no rounding in them.
    pub(super) fn settle_counts(&mut self) {
        (0..self.servers.len()).for_each(|k| self.settle_station(k));
        (0..self.pools.len()).for_each(|p| self.settle_pool(p));
        (0..self.in_system.len()).for_each(|c| self.settle_class(c));
    }

    pub(super) fn begin_measuring(&mut self) {
        self.settle_all();
        self.measuring = true;
        self.measure_from = self.now;
        self.servers.iter_mut().for_each(|s| s.work_done = 0.0);
    }
}
