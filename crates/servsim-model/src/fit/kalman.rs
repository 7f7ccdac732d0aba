//! Demands that drift, followed by a Kalman filter per station (Zheng, Woodside and Litoiu, IEEE
//! Trans. Software Eng. 34(3), 2008): the demands of all classes are a random walk, and each sample
//! observes their sum weighted by the throughputs. Negative estimates are projected to zero. What a station does besides
//! requests is one more that is followed, as if it were a class that is served once a second. Drift and error of
//! measurement are the user's to say; where samples are farther from what they were expected to be than these
//! allow (normalised innovations; Bar-Shalom, Li and Kirubarajan 2001, section 5.4), intervals are as much wider.

use super::beside::{self, Errors, Verdict};
use super::linear::Matrix;
use super::{nnls, Fit, Measurements, Scatter};
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

    /// Takes a sample in. Busy servers that were expected, and the square of its distance from them relative to what drift
    /// and error allow.
    fn step(&mut self, throughput: &[f64], busy: f64, noise: &Noise) -> (f64, f64) {
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
        (expected, (busy - expected).powi(2) / (spread + measured))
    }
}

/// One station's demands, and what it does besides as the last of them if that is followed too.
struct Followed {
    filter: Filter,
    /// Estimates after each sample.
    series: Vec<Vec<f64>>,
    /// Squares of the relative errors of all samples, each expected from those before it.
    squares: f64,
    /// How many times as far from what was expected samples are as drift and error allow, root mean square.
    far: f64,
    /// Samples which that was taken from.
    met: usize,
}

impl Followed {
    fn new(measurements: &Measurements, k: usize, noise: &Noise, background: bool) -> Self {
        let servers = measurements.servers_of(k);
        let row = |x: &[f64]| -> Vec<f64> { x.iter().copied().chain(background.then_some(1.0)).collect() };
        let first = &measurements.samples[0];
        let mut filter = Filter::new(&row(&first.throughput), first.utilization[k] * servers);
        let (mut squares, mut innovations, mut series) = (0.0, Vec::new(), Vec::new());
        for sample in &measurements.samples {
            let (x, busy) = (row(&sample.throughput), sample.utilization[k] * servers);
            let (expected, innovation) = filter.step(&x, busy, noise);
            squares += ((busy - expected) / busy.max(1e-6)).powi(2);
            innovations.push(innovation);
            series.push(filter.mean.clone());
        }
        // The first samples meet a filter that knows nothing.
        let met = &innovations[filter.mean.len().min(innovations.len())..];
        let far = if met.is_empty() { 1.0 } else { (met.iter().sum::<f64>() / met.len() as f64).sqrt() };
        let met = met.len();
        Self { filter, series, squares, far, met }
    }

    /// Errors of the columns `usable`, as much wider as samples are farther off.
    fn errors(&self, usable: &[usize]) -> Errors {
        let wider = self.far.max(1.0).powi(2);
        let row = |&i: &usize| usable.iter().map(|&j| wider * self.filter.covariance[i][j]).collect();
        Errors {
            estimates: usable.iter().map(|&i| self.filter.mean[i]).collect(),
            covariance: usable.iter().map(row).collect(),
            degrees: f64::INFINITY,
        }
    }

    /// Farther off than drift and error allow by twice the standard deviation of that mean and more.
    fn scatters(&self) -> bool {
        self.far.powi(2) > 1.0 + 2.0 * (2.0 / self.met as f64).sqrt()
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
    let (classes, samples) = (measurements.classes.len(), measurements.samples.len());
    let usable: Vec<usize> = (0..classes).filter(|&c| seen.reasons[c].is_none()).collect();
    let all: Vec<usize> = usable.iter().copied().chain([classes]).collect();
    let mut found = Fit { method: "kalman".into(), condition: seen.condition, ..Fit::default() };
    found.series = vec![Vec::new(); samples];
    for k in 0..measurements.stations.len() {
        let without = Followed::new(measurements, k, noise, false);
        let with = beside::enough(samples, usable.len()).then(|| Followed::new(measurements, k, noise, true));
        let errors = with.as_ref().map(|with| with.errors(&all));
        let judged =
            beside::judge(Some(&without.errors(&usable)), errors.as_ref(), measurements.servers_of(k));
        let best = with.filter(|_| judged.0 == Verdict::Proven).unwrap_or(without);
        if judged.0 != Verdict::Proven {
            measurements.check_idle(k)?;
        }
        for (all, own) in found.series.iter_mut().zip(&best.series) {
            all.push(own[..classes].to_vec());
        }
        found.residual.push((best.squares / samples as f64).sqrt());
        if best.scatters() {
            found.scatter.push(Scatter { station: measurements.stations[k].clone(), times: best.far });
        }
        beside::record(measurements, k, judged, &best.filter.mean, &seen.reasons, &mut found);
    }
    Ok(found)
}
