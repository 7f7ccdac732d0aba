//! Schweitzer's approximate mean value analysis (1979; Bard's proportional estimate): removing one
//! customer of a class scales that class's queues in proportion. Errors of several per cent are
//! usual; Linearizer and AQL below cost more and err less.
//!
//! Several servers are treated by Seidmann's split (IEEE Trans. Software Eng. 13(3), 1987): a
//! server `m` times as fast, followed by a delay of `D (m-1)/m`.

use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::Speed;

/// A closed network reduced to single servers and delays, ready for iteration.
pub(crate) struct Reduced<'a> {
    pub closed: &'a Closed,
    /// Queueing demand `[station][class]`.
    pub queueing: Vec<Vec<f64>>,
    /// Delay `[station][class]`.
    pub delay: Vec<Vec<f64>>,
    /// Customers per class, as real numbers.
    pub population: Vec<f64>,
}

impl<'a> Reduced<'a> {
    /// Splits every station, or refuses rates that no split describes.
    pub fn new(closed: &'a Closed, solver: &str) -> Result<Self, ModelError> {
        let (mut queueing, mut delay) = (closed.demands.clone(), closed.demands.clone());
        for (k, speed) in closed.speeds.iter().enumerate() {
            let share = match speed {
                Speed::Delay => 0.0,
                Speed::Servers(m) => 1.0 / *m as f64,
                Speed::Rates(_) => {
                    let place = closed.names[k].clone();
                    let remedy = if closed.classes() == 1 {
                        "use `convolution`, which is exact for any rates"
                    } else {
                        "use `simulation`, or `convolution` for small populations"
                    };
                    return Err(ModelError::unsupported(solver, "load-dependent rates", place, remedy));
                }
            };
            for d in &mut queueing[k] {
                *d *= share;
            }
            delay[k].iter_mut().for_each(|d| *d *= 1.0 - share);
        }
        let population = closed.population.iter().map(|&n| n as f64).collect();
        Ok(Self { closed, queueing, delay, population })
    }

    /// One step of MVA from the queue that an arriving customer of each class finds.
    ///
    /// `found(all, own, k, c)` is the mean number in queue at station `k` seen by class `c`, given that of all
    /// classes and of its own there. Updates `queue` (queueing part only) and returns throughputs and the largest
    /// relative change.
    pub fn step(
        &self,
        population: &[f64],
        queue: &mut [Vec<f64>],
        found: impl Fn(f64, f64, usize, usize) -> f64,
    ) -> (Vec<f64>, f64, usize) {
        let (stations, classes) = (self.closed.stations(), self.closed.classes());
        let mut throughput = vec![0.0; classes];
        let mut residence = vec![0.0; stations];
        let (mut change, mut worst) = (0.0, 0);
        let mut all: Vec<f64> = queue.iter().map(|row| row.iter().sum()).collect();
        // Class by class, so that later classes already meet the new queues (Gauss and Seidel).
        for c in (0..classes).filter(|&c| population[c] > 0.0) {
            let mut response = self.closed.think[c];
            for k in 0..stations {
                let wait = self.queueing[k][c];
                residence[k] = if wait > 0.0 { wait * (1.0 + found(all[k], queue[k][c], k, c)) } else { 0.0 };
                response += residence[k] + self.delay[k][c];
            }
            throughput[c] = population[c] / response;
            for (k, r) in residence.iter().enumerate() {
                let next = throughput[c] * r;
                let moved = (next - queue[k][c]).abs() / population[c];
                if moved > change {
                    (change, worst) = (moved, k);
                }
                all[k] += next - queue[k][c];
                queue[k][c] = next;
            }
        }
        (throughput, change, worst)
    }

    /// Where iteration starts: customers spread over the stations in proportion to demand.
    pub fn start(&self, population: &[f64]) -> Vec<Vec<f64>> {
        let total: Vec<f64> = (0..population.len())
            .map(|c| self.queueing.iter().map(|d| d[c]).sum::<f64>().max(f64::MIN_POSITIVE))
            .collect();
        let row = |d: &Vec<f64>| (0..population.len()).map(|c| population[c] * d[c] / total[c]).collect();
        self.queueing.iter().map(row).collect()
    }

    /// Turns converged queueing parts into means that include the delays.
    pub fn means(
        &self,
        throughput: Vec<f64>,
        mut queue: Vec<Vec<f64>>,
        iterations: usize,
        residual: f64,
    ) -> ClosedMeans {
        for (k, row) in queue.iter_mut().enumerate() {
            for (c, q) in row.iter_mut().enumerate() {
                *q += throughput[c] * self.delay[k][c];
            }
        }
        let marginal = vec![None; queue.len()];
        ClosedMeans { throughput, queue, marginal, iterations, residual }
    }

    /// The error for an iteration that was stopped.
    pub fn not_converged(&self, solver: &str, residual: f64, iterations: usize, worst: usize) -> ModelError {
        ModelError::NotConverged {
            solver: solver.into(),
            residual,
            iterations,
            station: self.closed.names[worst].clone(),
        }
    }
}

/// Approximate means by Schweitzer's method.
///
/// # Errors
/// [`ModelError::NotConverged`]; [`ModelError::Unsupported`] for load-dependent rates.
pub fn solve(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    let reduced = Reduced::new(closed, "schweitzer")?;
    let population = reduced.population.clone();
    let mut queue = reduced.start(&population);
    let mut last = (f64::INFINITY, 0);
    for iteration in 1..=tolerance.iterations {
        let (throughput, change, worst) =
            reduced.step(&population, &mut queue, |all, own, _, c| (all - own / population[c]).max(0.0));
        if change <= tolerance.residual {
            let means = reduced.means(throughput, queue, iteration, change);
            return closed.guard("schweitzer", means);
        }
        last = (change, worst);
    }
    Err(reduced.not_converged("schweitzer", last.0, tolerance.iterations, last.1))
}
