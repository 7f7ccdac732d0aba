//! Linearizer (Chandy and Neuse, CACM 25(2), 1982): Schweitzer's estimate is corrected by the
//! change of each class's share of a station when one customer leaves, measured by solving the
//! network at every population reduced by one. Here queues and corrections are iterated together
//! until both settle, not for the customary two or three rounds; the method solves the network with one customer of
//! each class removed, and one exact step of MVA (`exact_step`) leads to the full population. That
//! halves the error. [`Anderson`] takes the number of rounds from hundreds to some ten. With many classes, one solution at
//! the full population gives all those that lack a customer.

use super::anderson::Anderson;
use super::exact_step::{self, FixedPoint};
use super::rows::{by_class, largest_change, Rows};
use super::schweitzer::Reduced;
use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;

/// Approximate means by Linearizer.
///
/// # Errors
/// [`ModelError::NotConverged`]; [`ModelError::Unsupported`] for load-dependent rates.
pub fn solve(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    exact_step::solve(closed, "linearizer", fixed_point, tolerance)
}

/// Linearizer proper, at the population of `reduced`.
fn fixed_point(reduced: &Reduced<'_>, tolerance: &Tolerance) -> Result<FixedPoint, ModelError> {
    let mut linearizer = Linearizer::new(Rows::new(reduced));
    let block = linearizer.rows.demand.len();
    let start = |population: &Vec<f64>| by_class(&reduced.start(population), population.len());
    let mut point: Vec<f64> = linearizer.populations.iter().flat_map(start).collect();
    let mut image = point.clone();
    let mut steps = Anderson::default();
    let mut last = f64::INFINITY;
    for iteration in 1..=tolerance.iterations {
        let moved = linearizer.correct(&point);
        image.copy_from_slice(&point);
        for (which, queue) in image.chunks_exact_mut(block).enumerate() {
            linearizer.step(which, queue);
        }
        last = linearizer.change(&point, &image).max(moved);
        if last <= tolerance.residual {
            let mut totals = image.chunks_exact(block).map(|queue| linearizer.totals(queue));
            let all = totals.next().unwrap_or_default();
            return Ok(FixedPoint { all, fewer: totals.collect(), iterations: iteration, residual: last });
        }
        point = steps.next(&point, &image);
        point.iter_mut().zip(&image).filter(|(x, _)| **x < 0.0).for_each(|(x, g)| *x = *g);
    }
    let all = point.chunks_exact(block).zip(image.chunks_exact(block));
    let changes = all.flat_map(|(a, b)| a.iter().zip(b).map(|(x, y)| (x - y).abs()).enumerate());
    let worst = changes.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i % linearizer.rows.stations);
    Err(reduced.not_converged("linearizer", last, tolerance.iterations, worst))
}

/// Queues are `[class x station]` for each population, and what is below follows the same order.
struct Linearizer {
    rows: Rows,
    /// The full population, then those that lack a customer of each class.
    populations: Vec<Vec<f64>>,
    /// Change of each class's share of a station when a customer leaves, `[class that left][class x station]`.
    correction: Vec<f64>,
    /// What corrections add to what a class finds, with everyone but itself there.
    added: Vec<f64>,
    residence: Vec<f64>,
}

impl Linearizer {
    fn new(rows: Rows) -> Self {
        let (classes, block) = (rows.population.len(), rows.demand.len());
        let mut populations = vec![rows.population.clone(); 1 + classes];
        for (c, fewer) in populations[1..].iter_mut().enumerate() {
            fewer[c] = (fewer[c] - 1.0).max(0.0);
        }
        let (correction, added) = (vec![0.0; classes * block], vec![0.0; block]);
        let residence = vec![0.0; rows.stations];
        Self { rows, populations, correction, added, residence }
    }

    /// Measures the corrections anew; the largest change of one.
    fn correct(&mut self, point: &[f64]) -> f64 {
        let (stations, block) = (self.rows.stations, self.rows.demand.len());
        let (queue, queues) = point.split_at(block);
        let mut moved = 0.0f64;
        let mut new = vec![0.0; stations];
        let each = self.correction.chunks_exact_mut(block).zip(queues.chunks_exact(block)).enumerate();
        for (removed, (shares, lacking)) in each {
            let added = &mut self.added[removed * stations..(removed + 1) * stations];
            added.fill(0.0);
            let rows = shares.chunks_exact_mut(stations).zip(lacking.chunks_exact(stations));
            for (c, ((row, lacking), queue)) in rows.zip(queue.chunks_exact(stations)).enumerate() {
                let (full, left) = (self.rows.population[c], self.populations[1 + removed][c]);
                if self.rows.population[removed] == 0.0 || full == 0.0 || left == 0.0 {
                    continue;
                }
                let (per_full, per_left) = (1.0 / full, 1.0 / left);
                for (new, (lacking, queue)) in new.iter_mut().zip(lacking.iter().zip(queue)) {
                    *new = lacking * per_left - queue * per_full;
                }
                moved = moved.max(largest_change(&new, row));
                row.copy_from_slice(&new);
                let others = if c == removed { full - 1.0 } else { full };
                added.iter_mut().zip(&new).for_each(|(sum, share)| *sum += others * share);
            }
        }
        moved
    }

    /// One step of MVA at a population, with the corrections held.
    fn step(&mut self, which: usize, queue: &mut [f64]) {
        let (stations, block) = (self.rows.stations, self.rows.demand.len());
        let population = &self.populations[which];
        let nothing = vec![0.0; stations];
        let mut all = self.totals(queue);
        // Class by class, so that later classes already meet the new queues (Gauss and Seidel).
        for (c, own) in queue.chunks_exact_mut(stations).enumerate().filter(|(c, _)| population[*c] > 0.0) {
            let at = c * stations..(c + 1) * stations;
            let lacking = match which.checked_sub(1) {
                Some(out) => &self.correction[c * block + out * stations..][..stations],
                None => &nothing[..],
            };
            let alone = 1.0 / population[c];
            let found = all.iter().zip(&*own).zip(self.added[at.clone()].iter().zip(lacking));
            let demands = self.rows.demand[at].iter();
            for (r, (demand, ((all, own), (added, lacking)))) in
                self.residence.iter_mut().zip(demands.zip(found))
            {
                *r = demand * (1.0 + (all - own * alone + added - lacking).max(0.0));
            }
            let throughput = population[c] / (self.rows.delay[c] + self.residence.iter().sum::<f64>());
            for ((own, all), r) in own.iter_mut().zip(&mut all).zip(&self.residence) {
                let next = throughput * r;
                *all += next - *own;
                *own = next;
            }
        }
    }

    /// Number of all classes per station.
    fn totals(&self, queue: &[f64]) -> Vec<f64> {
        let mut all = vec![0.0; self.rows.stations];
        for row in queue.chunks_exact(self.rows.stations) {
            all.iter_mut().zip(row).for_each(|(sum, q)| *sum += q);
        }
        all
    }

    /// The largest change of a queue as a share of its class.
    fn change(&self, point: &[f64], image: &[f64]) -> f64 {
        let rows = point.chunks_exact(self.rows.stations).zip(image.chunks_exact(self.rows.stations));
        let people = self.populations.iter().flatten();
        rows.zip(people)
            .filter(|(_, people)| **people > 0.0)
            .map(|((a, b), people)| largest_change(a, b) / people)
            .fold(0.0, f64::max)
    }
}
