//! Non-negative least squares (Lawson and Hanson 1974, chapter 23) of utilisation on throughput,
//! weighted for errors that grow with the utilisation, with Student intervals on the demands that
//! are not held at zero. What a station does besides requests (a constant) joins in where it differs from none.
//!
//! Identifiability: the throughputs, each column scaled to unit length, are decomposed; directions
//! with (almost) no variation name the classes that always moved together.

use super::beside::{self, Errors, Verdict};
use super::linear::{eigen, invert, solve, Matrix};
use super::{Fit, Measurements, Outlier};
use crate::error::ModelError;

/// Eigenvalue of the scaled cross products below which a direction was not observed.
const UNSEEN: f64 = 1e-6;
/// Share of a class in an unseen direction that makes its demand unidentifiable.
const INVOLVED: f64 = 0.1;
/// The error of a measured utilisation grows with this half power of it: between requests that are counted, whose
/// number is as uncertain as its root is (1), and a meter that is wrong in proportion (2).
const POWER: f64 = 1.5;
/// Rounds of re-weighting by fitted utilisation.
const ROUNDS: usize = 4;
/// Busy servers below which an error counts as if there were so many.
const FLOOR: f64 = 0.02;
/// Standard deviations beyond which a sample is shown as an outlier.
const FAR: f64 = 4.5;

/// Solves `min |A x - b|, x >= 0` from `A'A` and `A'b`.
pub fn nnls(cross: &Matrix, right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut x = vec![0.0; n];
    let mut free = vec![false; n];
    let gradient = |x: &[f64], j: usize| right[j] - (0..n).map(|i| cross[j][i] * x[i]).sum::<f64>();
    for _ in 0..10 * n.max(1) {
        let enter = (0..n)
            .filter(|&j| !free[j] && gradient(&x, j) > 1e-12 * right[j].abs().max(f64::MIN_POSITIVE))
            .max_by(|&a, &b| gradient(&x, a).total_cmp(&gradient(&x, b)));
        let Some(enter) = enter else { break };
        free[enter] = true;
        loop {
            let Some(trial) = restricted(cross, right, &free) else {
                free[enter] = false;
                break;
            };
            if (0..n).all(|j| !free[j] || trial[j] > 0.0) {
                x = trial;
                break;
            }
            let step = (0..n)
                .filter(|&j| free[j] && trial[j] <= 0.0)
                .map(|j| x[j] / (x[j] - trial[j]))
                .fold(1.0, f64::min);
            for j in 0..n {
                x[j] += step * (trial[j] - x[j]);
                if free[j] && x[j] <= 1e-15 {
                    (x[j], free[j]) = (0.0, false);
                }
            }
        }
    }
    x
}

fn restricted(cross: &Matrix, right: &[f64], free: &[bool]) -> Option<Vec<f64>> {
    let index: Vec<usize> = (0..free.len()).filter(|&j| free[j]).collect();
    let a: Matrix = index.iter().map(|&i| index.iter().map(|&j| cross[i][j]).collect()).collect();
    let b: Vec<f64> = index.iter().map(|&i| right[i]).collect();
    let part = solve(&a, &b)?;
    let mut x = vec![0.0; free.len()];
    index.iter().zip(part).for_each(|(&j, value)| x[j] = value);
    Some(x)
}

/// What the throughputs let one see: per class, the reason it cannot be identified, if any.
pub struct Identifiability {
    /// Reason per class.
    pub reasons: Vec<Option<String>>,
    /// Condition number, columns scaled.
    pub condition: f64,
}

/// Examines the throughputs of all samples.
pub fn identifiability(measurements: &Measurements) -> Identifiability {
    let classes = measurements.classes.len();
    let length = |c: usize| measurements.samples.iter().map(|s| s.throughput[c].powi(2)).sum::<f64>().sqrt();
    let lengths: Vec<f64> = (0..classes).map(length).collect();
    let entry = |a: usize, b: usize| {
        let sum: f64 = measurements.samples.iter().map(|s| s.throughput[a] * s.throughput[b]).sum();
        sum / (lengths[a] * lengths[b]).max(f64::MIN_POSITIVE)
    };
    let cross: Matrix = (0..classes).map(|a| (0..classes).map(|b| entry(a, b)).collect()).collect();
    let pairs = eigen(&cross);
    let mut reasons = vec![None; classes];
    for (c, reason) in reasons.iter_mut().enumerate().filter(|(c, _)| lengths[*c] == 0.0) {
        *reason = Some(format!("class `{}` never ran", measurements.classes[c]));
    }
    for (_, vector) in pairs.iter().filter(|(value, _)| *value < UNSEEN) {
        let involved: Vec<usize> =
            (0..classes).filter(|&c| vector[c].abs() > INVOLVED && lengths[c] > 0.0).collect();
        let names: Vec<String> = involved.iter().map(|&c| format!("`{}`", measurements.classes[c])).collect();
        for &c in &involved {
            reasons[c].get_or_insert_with(|| {
                format!("the throughputs of {} always moved together; vary the mix", names.join(", "))
            });
        }
    }
    let smallest = pairs[0].0.max(0.0);
    let condition = if smallest > 0.0 { (pairs[classes - 1].0 / smallest).sqrt() } else { f64::MAX };
    Identifiability { reasons, condition }
}

/// Estimates all demands by weighted non-negative least squares, with what a station does besides requests where the
/// measurements show that it does.
///
/// # Errors
/// [`ModelError::Contradiction`] when a station's utilisation cannot come from any demands.
pub fn fit(measurements: &Measurements) -> Result<Fit, ModelError> {
    let seen = identifiability(measurements);
    let mut found = Fit { method: "nnls".into(), condition: seen.condition, ..Fit::default() };
    for k in 0..measurements.stations.len() {
        station(measurements, k, &seen, &mut found)?;
    }
    Ok(found)
}

/// `X` rows, with a one behind them where there is background, and busy servers, of one station.
struct Rows {
    throughput: Vec<Vec<f64>>,
    busy: Vec<f64>,
}

/// What weighted least squares found: one demand per column, and the weights of the last round.
struct Estimate {
    rows: Rows,
    demand: Vec<f64>,
    weights: Vec<f64>,
    /// Sum of the squared errors, weighted as they were.
    squares: f64,
}

impl Rows {
    fn new(measurements: &Measurements, k: usize, background: bool) -> Self {
        let row = |x: &Vec<f64>| x.iter().copied().chain(background.then_some(1.0)).collect();
        Self {
            throughput: measurements.samples.iter().map(|s| row(&s.throughput)).collect(),
            busy: measurements
                .samples
                .iter()
                .map(|s| s.utilization[k] * measurements.servers_of(k))
                .collect(),
        }
    }

    fn cross(&self, weights: &[f64]) -> (Matrix, Vec<f64>) {
        let n = self.throughput[0].len();
        let mut cross = vec![vec![0.0; n]; n];
        let mut right = vec![0.0; n];
        for ((x, busy), w) in self.throughput.iter().zip(&self.busy).zip(weights) {
            for i in 0..n {
                right[i] += w * x[i] * busy;
                for j in 0..n {
                    cross[i][j] += w * x[i] * x[j];
                }
            }
        }
        (cross, right)
    }

    fn fitted(&self, demand: &[f64]) -> Vec<f64> {
        self.throughput.iter().map(|x| x.iter().zip(demand).map(|(x, d)| x * d).sum()).collect()
    }

    /// Re-weighted by the fitted load, and by how far `trusted` takes each sample for an outlier.
    fn estimate(self, trusted: impl Fn(&[f64], &[f64]) -> Vec<f64>) -> Estimate {
        let typical = self.busy.iter().sum::<f64>() / self.busy.len() as f64;
        let floor = (0.05 * typical).max(1e-9);
        let mut weights: Vec<f64> = vec![1.0; self.busy.len()];
        let mut demand = Vec::new();
        for _ in 0..ROUNDS {
            let (cross, right) = self.cross(&weights);
            demand = nnls(&cross, &right);
            let fitted = self.fitted(&demand);
            let trust = trusted(&fitted, &self.busy);
            weights = fitted.iter().zip(trust).map(|(f, t)| t / f.max(floor).powf(POWER)).collect();
        }
        let fitted = self.fitted(&demand);
        let squares =
            fitted.iter().zip(&self.busy).zip(&weights).map(|((f, b), w)| w * (f - b).powi(2)).sum();
        Estimate { rows: self, demand, weights, squares }
    }
}

impl Estimate {
    /// The error of the columns `usable`; `None` with too few samples.
    fn errors(&self, usable: &[usize]) -> Option<Errors> {
        // Demands held at zero keep their column, so that their upper ends are not understated.
        let degrees = self.rows.busy.len() as f64 - usable.len() as f64;
        if degrees < 1.0 {
            return None;
        }
        let (cross, _) = self.rows.cross(&self.weights);
        let a: Matrix = usable.iter().map(|&i| usable.iter().map(|&j| cross[i][j]).collect()).collect();
        let estimates = usable.iter().map(|&column| self.demand[column]).collect();
        let mut covariance = invert(&a)?;
        covariance.iter_mut().flatten().for_each(|entry| *entry *= self.squares / degrees);
        Some(Errors { estimates, covariance, degrees })
    }
}

fn station(
    measurements: &Measurements,
    k: usize,
    seen: &Identifiability,
    found: &mut Fit,
) -> Result<(), ModelError> {
    let (classes, servers) = (measurements.classes.len(), measurements.servers_of(k));
    let name = &measurements.stations[k];
    let usable: Vec<usize> = (0..classes).filter(|&c| seen.reasons[c].is_none()).collect();
    let of = |background| Rows::new(measurements, k, background).estimate(|f, _| vec![1.0; f.len()]);
    let (without, all) = (of(false), usable.iter().copied().chain([classes]).collect::<Vec<_>>());
    let with = beside::enough(measurements.samples.len(), usable.len()).then(|| of(true));
    let errors = with.as_ref().and_then(|with| with.errors(&all));
    let judged = beside::judge(without.errors(&usable).as_ref(), errors.as_ref(), servers);
    let has_background = judged.0 == Verdict::Proven;
    let best = with.filter(|_| has_background).unwrap_or(without);
    if !has_background {
        measurements.check_idle(k)?;
    }
    let fitted = best.rows.fitted(&best.demand);
    if let Some(i) = fitted.iter().position(|f| *f > servers * 1.25) {
        return Err(ModelError::Contradiction {
            station: name.clone(),
            what: format!("sample {}: the fitted load is {:.2} of {servers} servers", i + 1, fitted[i]),
            remedy: "check that utilisations and throughputs cover the same interval".into(),
        });
    }
    beside::record(measurements, k, judged, &best.demand, &seen.reasons, found);
    outliers(measurements, k, has_background, &mut found.outliers);
    let squares: f64 = relative(&fitted, &best.rows.busy).iter().map(|error| error * error).sum();
    found.residual.push((squares / fitted.len() as f64).sqrt());
    Ok(())
}

/// Errors of the busy servers, relative to what was fitted.
fn relative(fitted: &[f64], busy: &[f64]) -> Vec<f64> {
    fitted.iter().zip(busy).map(|(f, b)| (b - f) / f.max(FLOOR)).collect()
}

/// Samples far from what the others agree on: a fit that trusts each less the farther off it is (Huber 1964), then
/// errors beyond [`FAR`] of their median.
fn outliers(measurements: &Measurements, k: usize, background: bool, found: &mut Vec<Outlier>) {
    let trusted = |fitted: &[f64], busy: &[f64]| {
        let errors = relative(fitted, busy);
        let usual = spread(&errors);
        errors.iter().map(|e| (1.5 * usual / e.abs().max(1e-300)).min(1.0)).collect()
    };
    let robust = Rows::new(measurements, k, background).estimate(trusted);
    let fitted = robust.rows.fitted(&robust.demand);
    let errors = relative(&fitted, &robust.rows.busy);
    let usual = spread(&errors);
    let servers = measurements.servers_of(k);
    for (i, _) in errors.iter().enumerate().filter(|(_, e)| e.abs() > FAR * usual) {
        found.push(Outlier {
            sample: i + 1,
            station: measurements.stations[k].clone(),
            measured: robust.rows.busy[i] / servers,
            fitted: fitted[i] / servers,
        });
    }
}

/// Standard deviation of normal errors with this median size, at least half a per cent.
fn spread(errors: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    (1.4826 * sizes[sizes.len() / 2]).max(0.005)
}
