//! Non-negative least squares (Lawson and Hanson 1974, chapter 23) of utilisation on throughput,
//! weighted for errors proportional to the utilisation, with Student intervals on the demands that
//! are not held at zero.
//!
//! Identifiability: the throughputs, each column scaled to unit length, are decomposed; directions
//! with (almost) no variation name the classes that always moved together.

use super::linear::{eigen, invert, solve, Matrix};
use super::{Demand, Fit, Measurements};
use crate::error::ModelError;
use crate::special::student_quantile;

/// Eigenvalue of the scaled cross products below which a direction was not observed.
const UNSEEN: f64 = 1e-6;
/// Share of a class in an unseen direction that makes its demand unidentifiable.
const INVOLVED: f64 = 0.1;
/// Interval half-width, relative to the estimate, beyond which a demand is reported as weak.
const WEAK: f64 = 0.5;
/// Rounds of re-weighting by fitted utilisation.
const ROUNDS: usize = 4;

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

/// Estimates all demands by weighted non-negative least squares.
///
/// # Errors
/// [`ModelError::Contradiction`] when a station's utilisation cannot come from any demands.
pub fn fit(measurements: &Measurements) -> Result<Fit, ModelError> {
    let seen = identifiability(measurements);
    let mut demands = Vec::new();
    let mut residual = Vec::new();
    for k in 0..measurements.stations.len() {
        let (mut entries, rms) = station(measurements, k, &seen)?;
        demands.append(&mut entries);
        residual.push(rms);
    }
    Ok(Fit { method: "nnls".into(), demands, residual, condition: seen.condition, series: Vec::new() })
}

/// `X` rows, busy servers, and the weights of one station.
struct Rows<'a> {
    throughput: Vec<&'a [f64]>,
    busy: Vec<f64>,
}

impl Rows<'_> {
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
}

fn station(
    measurements: &Measurements,
    k: usize,
    seen: &Identifiability,
) -> Result<(Vec<Demand>, f64), ModelError> {
    let servers = measurements.servers_of(k);
    let rows = Rows {
        throughput: measurements.samples.iter().map(|s| s.throughput.as_slice()).collect(),
        busy: measurements.samples.iter().map(|s| s.utilization[k] * servers).collect(),
    };
    let typical = rows.busy.iter().sum::<f64>() / rows.busy.len() as f64;
    let floor = (0.05 * typical).max(1e-9);
    let mut weights: Vec<f64> = vec![1.0 / (typical * typical).max(1e-18); rows.busy.len()];
    let mut demand = Vec::new();
    for _ in 0..ROUNDS {
        let (cross, right) = rows.cross(&weights);
        demand = nnls(&cross, &right);
        let fitted = rows.fitted(&demand);
        weights = fitted.iter().map(|f| 1.0 / f.max(floor).powi(2)).collect();
    }
    let fitted = rows.fitted(&demand);
    if let Some(i) = fitted.iter().position(|f| *f > servers * 1.25) {
        return Err(ModelError::Contradiction {
            station: measurements.stations[k].clone(),
            what: format!("sample {}: the fitted load is {:.2} of {servers} servers", i + 1, fitted[i]),
            remedy: "check that utilisations and throughputs cover the same interval".into(),
        });
    }
    let squares: f64 =
        fitted.iter().zip(&rows.busy).zip(&weights).map(|((f, b), w)| w * (f - b).powi(2)).sum();
    let entries = intervals(measurements, k, &rows, &weights, &demand, squares, seen);
    Ok((entries, (squares / rows.busy.len() as f64).sqrt()))
}

fn intervals(
    measurements: &Measurements,
    k: usize,
    rows: &Rows<'_>,
    weights: &[f64],
    demand: &[f64],
    squares: f64,
    seen: &Identifiability,
) -> Vec<Demand> {
    let classes = demand.len();
    let usable: Vec<usize> = (0..classes).filter(|&c| seen.reasons[c].is_none()).collect();
    let free: Vec<usize> = usable.iter().copied().filter(|&c| demand[c] > 0.0).collect();
    // Demands held at zero keep their column, so that their upper ends are not understated.
    let degrees = rows.busy.len() as f64 - usable.len() as f64;
    let (cross, _) = rows.cross(weights);
    let a: Matrix = usable.iter().map(|&i| usable.iter().map(|&j| cross[i][j]).collect()).collect();
    let inverse = invert(&a);
    let half = |c: usize| -> Option<f64> {
        let at = usable.iter().position(|&u| u == c)?;
        let variance = inverse.as_ref()?[at][at] * squares / degrees;
        (degrees >= 1.0).then(|| student_quantile(degrees, 0.975) * variance.sqrt())
    };
    (0..classes)
        .map(|c| {
            let identifiable = seen.reasons[c].is_none();
            let half = half(c);
            let weak = half.is_some_and(|h| free.contains(&c) && h > WEAK * demand[c]);
            let note = seen.reasons[c].clone().or_else(|| {
                if half.is_none() {
                    Some("too few samples for an interval".into())
                } else {
                    weak.then(|| "weak: the interval is wider than half the estimate".into())
                }
            });
            Demand {
                station: measurements.stations[k].clone(),
                class: measurements.classes[c].clone(),
                demand: identifiable.then_some(demand[c]),
                low: half.filter(|_| identifiable).map(|h| (demand[c] - h).max(0.0)),
                high: half.filter(|_| identifiable).map(|h| demand[c] + h),
                identifiable,
                note,
            }
        })
        .collect()
}
