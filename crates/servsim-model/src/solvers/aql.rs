//! AQL, the aggregate queue length method (Zahorjan, Eager and Sweillam, Perf. Eval. 8(4), 1988):
//! as Linearizer, but the correction is kept per station for all classes together, which needs a
//! factor `C` less memory and time at nearly the same accuracy. As there, one exact step of MVA
//! leads from the populations reduced by one to the full one.

use super::exact_step::{self, FixedPoint};
use super::schweitzer::Reduced;
use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;

/// Approximate means by AQL.
///
/// # Errors
/// [`ModelError::NotConverged`]; [`ModelError::Unsupported`] for load-dependent rates.
pub fn solve(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    exact_step::solve(closed, "aql", fixed_point, tolerance)
}

/// AQL proper, at the population of `reduced`.
fn fixed_point(reduced: &Reduced<'_>, tolerance: &Tolerance) -> Result<FixedPoint, ModelError> {
    let (stations, classes) = (reduced.closed.stations(), reduced.closed.classes());
    let full = reduced.population.clone();
    let total: f64 = full.iter().sum();
    let mut queue = reduced.start(&full);
    let mut fewer: Vec<(Vec<f64>, Vec<Vec<f64>>)> = (0..classes)
        .map(|c| {
            let mut population = full.clone();
            population[c] = (population[c] - 1.0).max(0.0);
            let queue = reduced.start(&population);
            (population, queue)
        })
        .collect();
    // gamma[c][k] = Q_k(N - 1_c) / (N - 1) - Q_k(N) / N
    let mut gamma = vec![vec![0.0; stations]; classes];
    let mut last = (f64::INFINITY, 0);
    for iteration in 1..=tolerance.iterations {
        let (_, mut change, mut worst) = step(reduced, &full, &mut queue, &gamma);
        for (population, queue) in fewer.iter_mut().filter(|f| f.0.iter().sum::<f64>() > 0.0) {
            let (_, moved, place) = step(reduced, population, queue, &gamma);
            if moved > change {
                (change, worst) = (moved, place);
            }
        }
        if change <= tolerance.residual {
            let fewer = fewer.iter().map(|(_, queue)| exact_step::totals(queue)).collect();
            return Ok(FixedPoint {
                all: exact_step::totals(&queue),
                fewer,
                iterations: iteration,
                residual: change,
            });
        }
        last = (change, worst);
        for (c, (_, reduced_queue)) in fewer.iter().enumerate().filter(|_| total > 1.0) {
            for k in 0..stations {
                let at = |queue: &[Vec<f64>]| queue[k].iter().sum::<f64>();
                gamma[c][k] = at(reduced_queue) / (total - 1.0) - at(&queue) / total;
            }
        }
    }
    Err(reduced.not_converged("aql", last.0, tolerance.iterations, last.1))
}

fn step(
    reduced: &Reduced<'_>,
    population: &[f64],
    queue: &mut [Vec<f64>],
    gamma: &[Vec<f64>],
) -> (Vec<f64>, f64, usize) {
    let total: f64 = population.iter().sum();
    reduced.step(population, queue, |all, _, k, removed| {
        ((total - 1.0) * (all / total + gamma[removed][k])).max(0.0)
    })
}
