//! The last step of Linearizer and AQL: queues approximated with one customer of each class removed
//! enter the exact arrival theorem at the full population.
//!
//! At a saturated station an approximate queue can be short by a hair, so that the utilisation law
//! would be broken by some 1e-4. Throughput is then not clamped: the waiting time at that station
//! is stretched until every law holds again (Little, population, utilisation), and an answer that
//! needs more than 1 % of stretching is withheld.

use super::schweitzer::Reduced;
use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::Speed;

/// Largest stretch of a waiting time that still counts as rounding of the approximation.
const MOST_STRETCH: f64 = 1.01;
/// Utilisation to which an overshooting station is brought.
const FULL: f64 = 1.0 - 1e-12;

/// Classes up to which the populations that lack a customer are each approximated for themselves. Beyond, the
/// solution at the full population says what it found there itself: errors double, the time falls by the classes.
const FEW_CLASSES: usize = crate::bands::MANY;

/// Converged queues of an approximation.
pub(crate) struct FixedPoint {
    /// Queueing part of all classes, per station.
    pub all: Vec<f64>,
    /// The same where a customer is missing, `[class][station]`.
    pub fewer: Vec<Vec<f64>>,
    /// Iterations made.
    pub iterations: usize,
    /// Residual of the last.
    pub residual: f64,
}

/// An approximation of the queues at the population of its argument.
pub(crate) type Approximation = fn(&Reduced<'_>, &Tolerance) -> Result<FixedPoint, ModelError>;

/// Approximates every population reduced by one, then takes the exact step.
pub(crate) fn solve(
    closed: &Closed,
    solver: &str,
    approximate: Approximation,
    tolerance: &Tolerance,
) -> Result<ClosedMeans, ModelError> {
    let reduced = Reduced::new(closed, solver)?;
    let (stations, classes) = (closed.stations(), closed.classes());
    let mut residence = vec![vec![0.0; classes]; stations];
    let (mut iterations, mut residual) = (0, 0.0f64);
    let together = if classes > FEW_CLASSES { Some(approximate(&reduced, tolerance)?) } else { None };
    if let Some(found) = &together {
        (iterations, residual) = (found.iterations, found.residual);
    }
    for c in (0..classes).filter(|&c| closed.population[c] > 0) {
        let alone =
            if together.is_none() { Some(lacking(closed, c, solver, approximate, tolerance)?) } else { None };
        if let Some(found) = &alone {
            iterations += found.iterations;
            residual = residual.max(found.residual);
        }
        let met = match (&together, &alone) {
            (Some(found), _) => &found.fewer[c],
            (None, Some(found)) => &found.all,
            (None, None) => unreachable!("one of the two was solved"),
        };
        for k in 0..stations {
            residence[k][c] = reduced.queueing[k][c] * (1.0 + met[k]);
        }
    }
    stretch(&reduced, solver, &mut residence)?;
    let throughput = throughputs(&reduced, &cycles(&reduced, &residence));
    let queue =
        residence.iter().map(|row| row.iter().zip(&throughput).map(|(r, x)| r * x).collect()).collect();
    closed.guard(solver, reduced.means(throughput, queue, iterations, residual))
}

/// The approximation with one customer of a class missing.
fn lacking(
    closed: &Closed,
    class: usize,
    solver: &str,
    approximate: Approximation,
    tolerance: &Tolerance,
) -> Result<FixedPoint, ModelError> {
    let fewer = closed.without_one(class);
    if fewer.total_population() == 0 {
        let all = vec![0.0; closed.stations()];
        return Ok(FixedPoint { all, fewer: Vec::new(), iterations: 0, residual: 0.0 });
    }
    approximate(&Reduced::new(&fewer, solver)?, tolerance)
}

/// Times between two requests of a customer, by class.
fn cycles(reduced: &Reduced<'_>, residence: &[Vec<f64>]) -> Vec<f64> {
    let mut cycles = reduced.closed.think.clone();
    for (row, delay) in residence.iter().zip(&reduced.delay) {
        cycles.iter_mut().zip(row.iter().zip(delay)).for_each(|(sum, (r, d))| *sum += r + d);
    }
    cycles
}

fn throughputs(reduced: &Reduced<'_>, cycles: &[f64]) -> Vec<f64> {
    reduced.population.iter().zip(cycles).map(|(n, cycle)| if *n > 0.0 { n / cycle } else { 0.0 }).collect()
}

/// Stretches the waits of overshooting stations until none is loaded beyond its capacity.
fn stretch(reduced: &Reduced<'_>, solver: &str, residence: &mut [Vec<f64>]) -> Result<(), ModelError> {
    let queues: Vec<usize> =
        (0..residence.len()).filter(|&k| reduced.closed.speeds[k] != Speed::Delay).collect();
    let mut cycles = cycles(reduced, residence);
    for _ in 0..2 * queues.len() {
        let throughput = throughputs(reduced, &cycles);
        let load = |k: usize, x: &[f64]| x.iter().zip(&reduced.queueing[k]).map(|(x, d)| x * d).sum::<f64>();
        let worst = queues.iter().map(|&k| (load(k, &throughput), k)).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((overshoot, k)) = worst.filter(|w| w.0 > 1.0) else { return Ok(()) };
        let longer = |factor: f64| -> Vec<f64> {
            cycles.iter().zip(&residence[k]).map(|(cycle, r)| cycle + (factor - 1.0) * r).collect()
        };
        let stretched = |factor: f64| load(k, &throughputs(reduced, &longer(factor)));
        let (mut low, mut high) = (1.0, MOST_STRETCH);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if stretched(middle) > FULL {
                low = middle;
            } else {
                high = middle;
            }
        }
        if stretched(high) > 1.0 {
            return Err(ModelError::Numerical {
                solver: solver.into(),
                law: "the utilisation bound X D <= capacity",
                station: reduced.closed.names[k].clone(),
                excess: overshoot - 1.0,
            });
        }
        cycles = longer(high);
        residence[k].iter_mut().for_each(|r| *r *= high);
    }
    Ok(())
}
