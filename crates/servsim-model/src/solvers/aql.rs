//! AQL, the aggregate queue length method (Zahorjan, Eager and Sweillam, Perf. Eval. 8(4), 1988):
//! as Linearizer, but the correction is kept per station for all classes together, which needs a
//! factor `C` less memory at nearly the same accuracy. As there, one exact step of MVA
//! leads from the populations reduced by one to the full one.
//!
//! What a class finds depends on the sums over classes only, so that these are all the iteration keeps, for every
//! population: with [`Anderson`] some twenty rounds of `C` by `C` by `K` multiplications.

use super::anderson::Anderson;
use super::exact_step::{self, FixedPoint};
use super::rows::Rows;
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

/// Residence times `constant + slope x number of all`, at least the demand.
#[derive(Default)]
struct Lines {
    constant: Vec<f64>,
    slope: f64,
}

impl Rows {
    /// What residence times are at a population of so many.
    fn lines(&self, total: f64, gamma: &[f64], lines: &mut Lines) {
        lines.slope = if total > 1.0 { (total - 1.0) / total } else { 0.0 };
        let constant = self.demand.iter().zip(gamma).map(|(d, g)| d * (1.0 + (total - 1.0).max(0.0) * g));
        lines.constant.clear();
        lines.constant.extend(constant);
    }

    /// One round at a population that lacks a customer of class `out`: from the sums over classes to new ones.
    fn round(&self, lines: &Lines, out: Option<usize>, sums: &[f64], new: &mut [f64], residence: &mut [f64]) {
        new.fill(0.0);
        for (c, n) in self.population.iter().enumerate() {
            let n = if out == Some(c) { n - 1.0 } else { *n };
            if n <= 0.0 {
                continue;
            }
            let at = c * self.stations..(c + 1) * self.stations;
            let rows = self.demand[at.clone()].iter().zip(&lines.constant[at]).zip(sums);
            for (r, ((d, constant), sum)) in residence.iter_mut().zip(rows) {
                *r = (constant + d * lines.slope * sum).max(*d);
            }
            let throughput = n / (self.delay[c] + residence.iter().sum::<f64>());
            for (sum, r) in new.iter_mut().zip(&*residence) {
                *sum += throughput * r;
            }
        }
    }
}

/// AQL proper, at the population of `reduced`.
fn fixed_point(reduced: &Reduced<'_>, tolerance: &Tolerance) -> Result<FixedPoint, ModelError> {
    let rows = Rows::new(reduced);
    let (stations, classes) = (rows.stations, rows.population.len());
    let total: f64 = rows.population.iter().sum();
    // The sums at the full population, then at those that lack a customer of each class.
    let start: Vec<f64> = reduced.start(&rows.population).iter().map(|row| row.iter().sum()).collect();
    let present: Vec<usize> = (0..classes).filter(|&c| rows.population[c] > 0.0 && total > 1.0).collect();
    let mut point = start.repeat(1 + present.len());
    let mut image = vec![0.0; point.len()];
    // gamma[c][k] = Q_k(N - 1_c) / (N - 1) - Q_k(N) / N
    let mut gamma = vec![0.0; classes * stations];
    let (mut all, mut fewer, mut residence) = (Lines::default(), Lines::default(), vec![0.0; stations]);
    let mut steps = Anderson::default();
    let mut last = (f64::INFINITY, 0);
    for iteration in 1..=tolerance.iterations {
        let (full, lacking) = point.split_at(stations);
        for (&c, sums) in present.iter().zip(lacking.chunks(stations)) {
            for k in 0..stations {
                gamma[c * stations + k] = sums[k] / (total - 1.0) - full[k] / total;
            }
        }
        rows.lines(total, &gamma, &mut all);
        rows.lines(total - 1.0, &gamma, &mut fewer);
        let (new, news) = image.split_at_mut(stations);
        rows.round(&all, None, full, new, &mut residence);
        for ((&c, sums), new) in present.iter().zip(lacking.chunks(stations)).zip(news.chunks_mut(stations)) {
            rows.round(&fewer, Some(c), sums, new, &mut residence);
        }
        last = moved(&point, &image, stations, total);
        if last.0 <= tolerance.residual {
            let mut fewer = vec![vec![0.0; stations]; classes];
            present.iter().zip(image[stations..].chunks(stations)).for_each(|(&c, q)| fewer[c] = q.to_vec());
            return Ok(FixedPoint {
                all: image[..stations].to_vec(),
                fewer,
                iterations: iteration,
                residual: last.0,
            });
        }
        point = steps.next(&point, &image);
        point.iter_mut().zip(&image).filter(|(x, _)| **x < 0.0).for_each(|(x, g)| *x = *g);
    }
    Err(reduced.not_converged("aql", last.0, tolerance.iterations, last.1))
}

/// The largest change of a sum as a share of all customers, and at which station.
fn moved(point: &[f64], image: &[f64], stations: usize, total: f64) -> (f64, usize) {
    let changes = point.iter().zip(image).map(|(x, g)| (g - x).abs() / total.max(1.0));
    changes
        .enumerate()
        .fold((0.0, 0), |most, (i, change)| if change > most.0 { (change, i % stations) } else { most })
}
