//! Exact mean value analysis (Reiser and Lavenberg, J. ACM 27(2), 1980) for single-server and
//! delay stations, any number of closed classes. Numerically stable: every step adds positive
//! terms. Stations with other speeds go to `convolution`, because the recursion over their
//! queue-length probabilities subtracts nearly equal numbers and fails.
//!
//! One class costs `N K` steps; several cost `K` times the population lattice.

use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::Speed;

/// Means of one class at one population.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SingleMeans {
    /// Throughput per second.
    pub throughput: f64,
    /// Mean number per station.
    pub queue: Vec<f64>,
}

/// Solves one class over single-server stations; `demands` and `think` in seconds.
pub fn single_class(demands: &[f64], think: f64, population: usize) -> SingleMeans {
    let mut queue = vec![0.0; demands.len()];
    let throughput = recursion(demands, think, population, &mut queue, |_, _| ());
    SingleMeans { throughput, queue }
}

/// Throughputs at populations `1..=population` of one class over single-server stations.
pub fn single_class_curve(demands: &[f64], think: f64, population: usize) -> Vec<f64> {
    let mut queue = vec![0.0; demands.len()];
    let mut curve = Vec::with_capacity(population);
    recursion(demands, think, population, &mut queue, |x, _| curve.push(x));
    curve
}

/// Throughput only, with caller-owned scratch space: the sweep's inner loop.
pub fn recursion(
    demands: &[f64],
    think: f64,
    population: usize,
    queue: &mut [f64],
    mut visit: impl FnMut(f64, &[f64]),
) -> f64 {
    let total: f64 = demands.iter().sum();
    let mut throughput = 0.0;
    // R = sum D (1 + Q) is carried as total + sum D Q, so each step needs one pass over stations.
    let mut waiting = 0.0;
    for n in 1..=population {
        throughput = n as f64 / (think + total + waiting);
        waiting = 0.0;
        for (q, d) in queue.iter_mut().zip(demands) {
            *q = throughput * d * (1.0 + *q);
            waiting += d * *q;
        }
        visit(throughput, queue);
    }
    throughput
}

/// Exact means of a closed network of single-server and delay stations.
///
/// # Errors
/// [`ModelError::Unsupported`] for other speeds, [`ModelError::TooLarge`] for a lattice above the
/// limit.
pub fn solve(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    refuse_other_speeds(closed)?;
    if closed.total_population() == 0 {
        return Ok(closed.empty_means());
    }
    let means = if closed.classes() == 1 {
        one_class(closed)
    } else {
        let points = closed.lattice(closed.stations(), tolerance.states)?;
        many_classes(closed, points)
    };
    closed.guard("mva", means)
}

fn refuse_other_speeds(closed: &Closed) -> Result<(), ModelError> {
    for (name, speed) in closed.names.iter().zip(&closed.speeds) {
        if !(speed.is_single() || *speed == Speed::Delay) {
            return Err(ModelError::unsupported(
                "mva",
                "stations with several servers or load-dependent rates",
                name,
                "use `convolution`, which is exact and stable there",
            ));
        }
    }
    Ok(())
}

fn one_class(closed: &Closed) -> ClosedMeans {
    let is_queue = |k: &usize| closed.speeds[*k] != Speed::Delay;
    let queues: Vec<usize> = (0..closed.stations()).filter(is_queue).collect();
    let demands: Vec<f64> = queues.iter().map(|&k| closed.demands[k][0]).collect();
    let delays: f64 = (0..closed.stations()).filter(|k| !is_queue(k)).map(|k| closed.demands[k][0]).sum();
    let single = single_class(&demands, closed.think[0] + delays, closed.population[0]);
    let mut means = closed.empty_means();
    means.throughput[0] = single.throughput;
    for k in 0..closed.stations() {
        means.queue[k][0] = single.throughput * closed.demands[k][0];
    }
    for (&k, q) in queues.iter().zip(single.queue) {
        means.queue[k][0] = q;
    }
    means
}

/// Walks the population lattice in mixed-radix order; a neighbour with one customer of class `c`
/// fewer lies `stride[c]` points back.
fn many_classes(closed: &Closed, points: usize) -> ClosedMeans {
    let (stations, classes) = (closed.stations(), closed.classes());
    let strides = strides(&closed.population);
    let mut total_queue = vec![0.0; points * stations];
    let mut at = vec![0usize; classes];
    let mut means = closed.empty_means();
    let mut residence = vec![0.0; stations * classes];
    let queueing: Vec<f64> =
        closed.speeds.iter().map(|s| if *s == Speed::Delay { 0.0 } else { 1.0 }).collect();
    for point in 1..points {
        advance(&mut at, &closed.population);
        let last = point + 1 == points;
        for c in (0..classes).filter(|&c| at[c] > 0) {
            let before = (point - strides[c]) * stations;
            let mut response = closed.think[c];
            for k in 0..stations {
                let r = closed.demands[k][c] * (1.0 + queueing[k] * total_queue[before + k]);
                residence[k * classes + c] = r;
                response += r;
            }
            let throughput = at[c] as f64 / response;
            for k in 0..stations {
                total_queue[point * stations + k] += throughput * residence[k * classes + c];
            }
            if last {
                means.throughput[c] = throughput;
                (0..stations).for_each(|k| means.queue[k][c] = throughput * residence[k * classes + c]);
            }
        }
    }
    means
}

/// Distance between lattice points that differ by one customer of each class.
pub fn strides(population: &[usize]) -> Vec<usize> {
    let mut strides = Vec::with_capacity(population.len());
    let mut stride = 1;
    for &n in population {
        strides.push(stride);
        stride *= n + 1;
    }
    strides
}

/// Steps `at` to the next lattice point, first class fastest.
pub fn advance(at: &mut [usize], population: &[usize]) {
    for (digit, &limit) in at.iter_mut().zip(population) {
        if *digit < limit {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
}
