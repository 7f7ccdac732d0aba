//! Percentiles of several runs together, with their 95 % interval.
//!
//! How many requests take longer than a given time is counted in each run; its mean over runs has a Student interval, and the
//! percentile lies where that interval holds the share that is to be exceeded. A percentile of each run by itself would be
//! biased where few requests exceed it: with two in a run the largest of all would stand for the 99.9th.
//!
//! Requests that take long come together, where a line has formed. Runs of which few such lines are long enough agree on too
//! short a time, so it is told how many a run has.

use super::histogram::Histogram;
use crate::solution::Interval;

/// Share of requests whose lines tell how many come together.
const OFTEN: f64 = 0.3;

/// Percentiles of one class.
pub struct Quantiles {
    /// The first bin that any run has.
    lowest: usize,
    /// Requests of each run above each bin from there on, `[bin][run]`.
    above: Vec<Vec<f64>>,
    /// Requests of each run.
    totals: Vec<f64>,
    /// Student's quantile for as many runs.
    reach: f64,
}

/// A percentile that is known.
#[derive(Debug, Clone, Copy)]
pub struct Quantile {
    /// Its value, seconds.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Requests of a run that take longer, as many as if they came alone.
    pub beyond: f64,
}

impl Quantiles {
    /// From the response times of each run; none without any.
    pub fn of(runs: &[&Histogram], reach: f64) -> Option<Self> {
        let lowest = runs.iter().filter_map(|run| run.bins().map(|bins| bins.start)).min()?;
        let highest = runs.iter().filter_map(|run| run.bins().map(|bins| bins.end)).max()?;
        let totals: Vec<f64> = runs.iter().map(|run| run.total() as f64).collect();
        let mut left = totals.clone();
        let above = (lowest..highest).map(|bin| {
            left.iter_mut().zip(runs).for_each(|(left, run)| *left -= run.at(bin) as f64);
            left.clone()
        });
        Some(Self { lowest, above: above.collect(), totals, reach })
    }

    /// Share of requests above a bin, and the standard error of it by how runs differ.
    fn share(&self, bin: usize) -> (f64, f64) {
        let (runs, all) = (self.totals.len() as f64, self.totals.iter().sum::<f64>());
        let share = self.above[bin].iter().sum::<f64>() / all;
        let off =
            self.above[bin].iter().zip(&self.totals).map(|(above, total)| (above - share * total).powi(2));
        let scatter = off.sum::<f64>() / (runs - 1.0);
        (share, (scatter * runs).sqrt() / all)
    }

    /// The value below which this share (0..1) of requests lies.
    pub fn at(&self, share: f64) -> Option<Quantile> {
        let exceed = 1.0 - share;
        let bins = 0..self.above.len();
        let first = bins.clone().find(|&bin| self.share(bin).0 <= exceed)?;
        let low = (0..first).rev().take_while(|&bin| {
            let (share, error) = self.share(bin);
            share - self.reach * error <= exceed
        });
        let high = bins.skip(first).find(|&bin| {
            let (share, error) = self.share(bin);
            share + self.reach * error <= exceed
        });
        let low = low.last().unwrap_or(first);
        let high = high.unwrap_or(self.above.len() - 1);
        let borders = |bin| Histogram::borders(self.lowest + bin);
        let (below, above) = borders(first);
        Some(Quantile {
            value: (below * above).sqrt(),
            interval: Interval { low: borders(low).0, high: borders(high).1 },
            beyond: exceed * self.totals.iter().sum::<f64>()
                / self.totals.len() as f64
                / self.together(exceed),
        })
    }

    /// How many requests that take longer come together: how much more runs differ than if each came alone, where enough
    /// exceed to tell. Further out they are fewer.
    fn together(&self, exceed: f64) -> f64 {
        let often = exceed.max(OFTEN);
        let Some(bin) = (0..self.above.len()).find(|&bin| self.share(bin).0 <= often) else { return 1.0 };
        let (share, error) = self.share(bin);
        let alone = share / self.totals.iter().sum::<f64>();
        if alone > 0.0 {
            (error * error / alone).max(1.0)
        } else {
            1.0
        }
    }
}
