//! Non-negative least squares (Lawson and Hanson 1974, chapter 23) of utilisation on throughput,
//! weighted for errors proportional to the utilisation, with Student intervals on the demands that
//! are not held at zero. What a station does besides requests (a constant) joins in where it differs from none.
//!
//! Identifiability: the throughputs, each column scaled to unit length, are decomposed; directions
//! with (almost) no variation name the classes that always moved together.

use super::linear::{eigen, invert, solve, Matrix};
use super::{Background, Demand, Fit, Measurements, Outlier};
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
/// Samples beyond one per class that an estimate of background needs.
const SPARE: usize = 3;
/// Confidence with which background must differ from none: higher than that of intervals, for it changes the demands.
const CERTAIN: f64 = 0.99;
/// Utilisation below which background is not worth a word.
const LEAST_BACKGROUND: f64 = 0.005;
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
    /// Weighted sum of the squared errors.
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
        let mut weights: Vec<f64> = vec![1.0 / (typical * typical).max(1e-18); self.busy.len()];
        let mut demand = Vec::new();
        for _ in 0..ROUNDS {
            let (cross, right) = self.cross(&weights);
            demand = nnls(&cross, &right);
            let fitted = self.fitted(&demand);
            let trust = trusted(&fitted, &self.busy);
            weights = fitted.iter().zip(trust).map(|(f, t)| t / f.max(floor).powi(2)).collect();
        }
        let fitted = self.fitted(&demand);
        let squares =
            fitted.iter().zip(&self.busy).zip(&weights).map(|((f, b), w)| w * (f - b).powi(2)).sum();
        Estimate { rows: self, demand, weights, squares }
    }
}

impl Estimate {
    /// Half-widths of the intervals of the columns `usable`, at a two-sided level.
    fn half_widths(&self, usable: &[usize], level: f64) -> Option<Vec<f64>> {
        // Demands held at zero keep their column, so that their upper ends are not understated.
        let degrees = self.rows.busy.len() as f64 - usable.len() as f64;
        if degrees < 1.0 {
            return None;
        }
        let (cross, _) = self.rows.cross(&self.weights);
        let a: Matrix = usable.iter().map(|&i| usable.iter().map(|&j| cross[i][j]).collect()).collect();
        let inverse = invert(&a)?;
        let quantile = student_quantile(degrees, 0.5 + 0.5 * level);
        Some((0..usable.len()).map(|i| quantile * (inverse[i][i] * self.squares / degrees).sqrt()).collect())
    }
}

/// The estimate with background, where that is there beyond doubt.
fn with_background(measurements: &Measurements, k: usize, usable: &[usize]) -> Option<Estimate> {
    let classes = measurements.classes.len();
    if measurements.samples.len() < usable.len() + SPARE {
        return None;
    }
    let found = Rows::new(measurements, k, true).estimate(|f, _| vec![1.0; f.len()]);
    let all: Vec<usize> = usable.iter().copied().chain([classes]).collect();
    let half = *found.half_widths(&all, CERTAIN)?.last()?;
    let share = found.demand[classes];
    (share > LEAST_BACKGROUND * measurements.servers_of(k) && share > half).then_some(found)
}

fn station(
    measurements: &Measurements,
    k: usize,
    seen: &Identifiability,
    found: &mut Fit,
) -> Result<(), ModelError> {
    let (classes, servers) = (measurements.classes.len(), measurements.servers_of(k));
    let name = &measurements.stations[k];
    let mut usable: Vec<usize> = (0..classes).filter(|&c| seen.reasons[c].is_none()).collect();
    let background = with_background(measurements, k, &usable);
    let has_background = background.is_some();
    let best =
        background.unwrap_or_else(|| Rows::new(measurements, k, false).estimate(|f, _| vec![1.0; f.len()]));
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
    usable.extend(has_background.then_some(classes));
    let half = best.half_widths(&usable, 0.95);
    let half = |c: usize| Some(half.as_ref()?[usable.iter().position(|&u| u == c)?]);
    for c in 0..classes {
        found.demands.push(demand(
            name,
            &measurements.classes[c],
            best.demand[c],
            half(c),
            seen.reasons[c].as_ref(),
        ));
    }
    if has_background {
        let (share, half) = (best.demand[classes] / servers, half(classes).unwrap_or(0.0) / servers);
        let (low, high) = ((share - half).max(0.0), share + half);
        found.background.push(Background { station: name.clone(), utilization: share, low, high });
    }
    outliers(measurements, k, has_background, &mut found.outliers);
    found.residual.push((best.squares / fitted.len() as f64).sqrt());
    Ok(())
}

fn demand(station: &str, class: &str, value: f64, half: Option<f64>, reason: Option<&String>) -> Demand {
    let identifiable = reason.is_none();
    let weak = half.is_some_and(|h| value > 0.0 && h > WEAK * value);
    let note = reason.cloned().or_else(|| match half {
        None => Some("too few samples for an interval".into()),
        Some(_) => weak.then(|| "weak: the interval is wider than half the estimate".into()),
    });
    Demand {
        station: station.into(),
        class: class.into(),
        demand: identifiable.then_some(value),
        low: half.filter(|_| identifiable).map(|h| (value - h).max(0.0)),
        high: half.filter(|_| identifiable).map(|h| value + h),
        identifiable,
        note,
    }
}

/// Samples far from what the others agree on: a fit that trusts each less the farther off it is (Huber 1964), then
/// errors beyond [`FAR`] of their median.
fn outliers(measurements: &Measurements, k: usize, background: bool, found: &mut Vec<Outlier>) {
    let relative = |fitted: &[f64], busy: &[f64]| -> Vec<f64> {
        fitted.iter().zip(busy).map(|(f, b)| (b - f) / f.max(FLOOR)).collect()
    };
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
