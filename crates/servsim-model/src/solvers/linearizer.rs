//! Linearizer (Chandy and Neuse, CACM 25(2), 1982): Schweitzer's estimate is corrected by the
//! change of each class's share of a station when one customer leaves, measured by solving the
//! network at every population reduced by one. Here queues and corrections are iterated together
//! until both settle, not for the customary two or three rounds; the method solves the network with one customer of
//! each class removed, and one exact step of MVA (`exact_step`) leads to the full population. That
//! halves the error. [`Anderson`] takes the number of rounds from hundreds to some ten. With many classes, one solution at the full population gives all those that lack a customer.

use super::anderson::Anderson;
use super::exact_step::{self, FixedPoint};
use super::schweitzer::Reduced;
use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;

/// Corrections `[removed class][station][class]`.
type Shares = Vec<Vec<Vec<f64>>>;

/// Approximate means by Linearizer.
///
/// # Errors
/// [`ModelError::NotConverged`]; [`ModelError::Unsupported`] for load-dependent rates.
pub fn solve(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    exact_step::solve(closed, "linearizer", fixed_point, tolerance)
}

/// Linearizer proper, at the population of `reduced`.
fn fixed_point(reduced: &Reduced<'_>, tolerance: &Tolerance) -> Result<FixedPoint, ModelError> {
    let (stations, classes) = (reduced.closed.stations(), reduced.closed.classes());
    let full = reduced.population.clone();
    let fewer: Vec<Vec<f64>> = (0..classes).map(|c| less_one(&full, c)).collect();
    let mut queue = reduced.start(&full);
    let mut queues: Vec<_> = fewer.iter().map(|population| reduced.start(population)).collect();
    let mut correction = vec![vec![vec![0.0; classes]; stations]; classes];
    let mut last = (f64::INFINITY, 0);
    let mut steps = Anderson::default();
    for iteration in 1..=tolerance.iterations {
        let moved = update(&full, &fewer, &queue, &queues, &mut correction);
        let point = flat(&queue, &queues);
        // What the corrections add to what a class finds, with everyone there.
        let added = |rows: &Vec<Vec<f64>>| -> Vec<f64> {
            rows.iter().map(|row| row.iter().zip(&full).map(|(share, n)| share * n).sum()).collect()
        };
        let sums: Vec<Vec<f64>> = correction.iter().map(added).collect();
        last = larger(moved, step(reduced, &full, &mut queue, &correction, &sums, None));
        for c in (0..classes).filter(|&c| full[c] > 0.0) {
            last = larger(last, step(reduced, &fewer[c], &mut queues[c], &correction, &sums, Some(c)));
        }
        if last.0 <= tolerance.residual {
            let fewer = queues.iter().map(|queue| exact_step::totals(queue)).collect();
            let all = exact_step::totals(&queue);
            return Ok(FixedPoint { all, fewer, iterations: iteration, residual: last.0 });
        }
        let next = steps.next(&point, &flat(&queue, &queues));
        let entries = queue.iter_mut().chain(queues.iter_mut().flatten()).flatten();
        entries.zip(next).filter(|(_, x)| *x >= 0.0).for_each(|(q, x)| *q = x);
    }
    Err(reduced.not_converged("linearizer", last.0, tolerance.iterations, last.1))
}

/// All queues in one row.
fn flat(queue: &[Vec<f64>], queues: &[Vec<Vec<f64>>]) -> Vec<f64> {
    queue.iter().chain(queues.iter().flatten()).flatten().copied().collect()
}

fn larger(a: (f64, usize), b: (f64, usize)) -> (f64, usize) {
    if b.0 > a.0 {
        b
    } else {
        a
    }
}

/// One step of MVA at `population`, which lacks a customer of class `left_out`, with the corrections held; the largest
/// change and where.
fn step(
    reduced: &Reduced<'_>,
    population: &[f64],
    queue: &mut [Vec<f64>],
    correction: &Shares,
    sums: &[Vec<f64>],
    left_out: Option<usize>,
) -> (f64, usize) {
    let (_, change, worst) = reduced.step(population, queue, |all, own, k, c| {
        let shares = &correction[c][k];
        let lacking = left_out.map_or(0.0, |out| shares[out]) + shares[c];
        (all - own / population[c] + sums[c][k] - lacking).max(0.0)
    });
    (change, worst)
}

fn less_one(population: &[f64], class: usize) -> Vec<f64> {
    let mut fewer = population.to_vec();
    fewer[class] = (fewer[class] - 1.0).max(0.0);
    fewer
}

/// Measures the corrections anew; the largest change of a share, and where.
fn update(
    full: &[f64],
    fewer: &[Vec<f64>],
    queue: &[Vec<f64>],
    queues: &[Vec<Vec<f64>>],
    correction: &mut Shares,
) -> (f64, usize) {
    let mut moved = (0.0, 0);
    for (removed, shares) in correction.iter_mut().enumerate() {
        for (k, row) in shares.iter_mut().enumerate() {
            for (c, value) in row.iter_mut().enumerate() {
                let left = fewer[removed][c];
                if full[removed] == 0.0 || full[c] == 0.0 || left == 0.0 {
                    continue;
                }
                let new = queues[removed][k][c] / left - queue[k][c] / full[c];
                let change = (new - *value).abs();
                if change > moved.0 {
                    moved = (change, k);
                }
                *value = new;
            }
        }
    }
    moved
}
