//! Demands that drift, followed by a Kalman filter per station (Zheng, Woodside and Litoiu, IEEE
//! Trans. Software Eng. 34(3), 2008): the demands of all classes are a random walk, and each sample
//! observes their sum weighted by the throughputs. Negative estimates are projected to zero. Drift and error of
//! measurement are the user's to say; where samples are farther from what they were expected to be than these
//! allow (normalised innovations; Bar-Shalom, Li and Kirubarajan 2001, section 5.4), intervals are as much wider.

use super::linear::Matrix;
use super::{nnls, Demand, Fit, Measurements, Scatter};
use crate::error::ModelError;
use serde::{Deserialize, Serialize};

/// What is assumed about drift and measurement.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Standard deviation of a demand's change per sample, relative to the demand.
    pub drift: f64,
    /// Standard deviation of a measured utilisation, relative to it.
    pub measurement: f64,
}

impl Default for Noise {
    fn default() -> Self {
        Self { drift: 0.02, measurement: 0.05 }
    }
}

/// One station's filter.
struct Filter {
    mean: Vec<f64>,
    covariance: Matrix,
}

impl Filter {
    /// Uninformed: each class could cause all of the first sample's load.
    fn new(throughput: &[f64], busy: f64) -> Self {
        let share = throughput.len() as f64;
        let guess = |x: &f64| busy / (share * x.max(1e-9));
        let mean: Vec<f64> = throughput.iter().map(guess).collect();
        let n = mean.len();
        let at = |i: usize, j: usize| if i == j { (share * mean[i]).powi(2).max(1e-12) } else { 0.0 };
        let covariance = (0..n).map(|i| (0..n).map(|j| at(i, j)).collect()).collect();
        Self { mean, covariance }
    }

    /// Takes a sample in. Square of its distance from what was expected, relative to what drift and error allow.
    fn step(&mut self, throughput: &[f64], busy: f64, noise: &Noise) -> f64 {
        let n = self.mean.len();
        for i in 0..n {
            self.covariance[i][i] += (noise.drift * self.mean[i]).powi(2);
        }
        let weighted: Vec<f64> =
            (0..n).map(|i| (0..n).map(|j| self.covariance[i][j] * throughput[j]).sum()).collect();
        let expected: f64 = self.mean.iter().zip(throughput).map(|(d, x)| d * x).sum();
        let spread: f64 = weighted.iter().zip(throughput).map(|(w, x)| w * x).sum();
        let measured = (noise.measurement * expected.max(busy).max(1e-6)).powi(2);
        let gain: Vec<f64> = weighted.iter().map(|w| w / (spread + measured)).collect();
        for i in 0..n {
            self.mean[i] = (self.mean[i] + gain[i] * (busy - expected)).max(0.0);
            for j in 0..n {
                self.covariance[i][j] -= gain[i] * weighted[j];
            }
        }
        (busy - expected).powi(2) / (spread + measured)
    }
}

/// Follows all demands over the samples; the final estimates with intervals, and the series.
///
/// # Errors
/// [`ModelError::Invalid`] for noise that is not positive.
pub fn fit(measurements: &Measurements, noise: &Noise) -> Result<Fit, ModelError> {
    if !(noise.measurement > 0.0 && noise.drift >= 0.0 && (noise.measurement + noise.drift).is_finite()) {
        return Err(ModelError::invalid(
            format!("noise of {} (measurement) and {} (drift)", noise.measurement, noise.drift),
            "give a positive relative measurement error such as 0.05, and a drift of zero or more",
        ));
    }
    let seen = nnls::identifiability(measurements);
    let stations = measurements.stations.len();
    let mut series = vec![vec![Vec::new(); stations]; measurements.samples.len()];
    let (mut demands, mut residual, mut scatter) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..stations {
        measurements.check_idle(k)?;
        let servers = measurements.servers_of(k);
        let first = &measurements.samples[0];
        let mut filter = Filter::new(&first.throughput, first.utilization[k] * servers);
        let (mut squares, mut innovations) = (0.0, Vec::new());
        for (t, sample) in measurements.samples.iter().enumerate() {
            let busy = sample.utilization[k] * servers;
            let expected: f64 = filter.mean.iter().zip(&sample.throughput).map(|(d, x)| d * x).sum();
            squares += ((busy - expected) / busy.max(1e-6)).powi(2);
            innovations.push(filter.step(&sample.throughput, busy, noise));
            series[t][k].clone_from(&filter.mean);
        }
        residual.push((squares / measurements.samples.len() as f64).sqrt());
        // The first samples meet a filter that knows nothing.
        let met = &innovations[measurements.classes.len().min(innovations.len())..];
        let far = if met.is_empty() { 1.0 } else { (met.iter().sum::<f64>() / met.len() as f64).sqrt() };
        let wider = far.max(1.0);
        // Twice the standard deviation of that mean and more, if drift and error are as said.
        if far.powi(2) > 1.0 + 2.0 * (2.0 / met.len() as f64).sqrt() {
            scatter.push(Scatter { station: measurements.stations[k].clone(), times: far });
        }
        for (c, class) in measurements.classes.iter().enumerate() {
            let half = wider * 1.96 * filter.covariance[c][c].max(0.0).sqrt();
            let (mean, identifiable) = (filter.mean[c], seen.reasons[c].is_none());
            demands.push(Demand {
                station: measurements.stations[k].clone(),
                class: class.clone(),
                demand: identifiable.then_some(mean),
                low: identifiable.then_some((mean - half).max(0.0)),
                high: identifiable.then_some(mean + half),
                identifiable,
                note: seen.reasons[c].clone(),
            });
        }
    }
    Ok(Fit {
        method: "kalman".into(),
        demands,
        residual,
        scatter,
        condition: seen.condition,
        series,
        ..Fit::default()
    })
}
