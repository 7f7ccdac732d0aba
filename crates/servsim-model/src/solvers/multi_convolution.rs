//! Exact convolution over the population lattice for several closed classes and stations of any
//! speed (Reiser and Kobayashi, IBM J. R&D 19(3), 1975). Each class is scaled by an approximate
//! throughput, so that the constants near the full population neither overflow nor underflow.
//!
//! Cost: lattice points x classes per single server, lattice points squared per other station.

use super::mva::{advance, strides};
use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::Speed;

/// Normalising constants on the population lattice, class `c` scaled by `scale[c]`.
pub struct Lattice {
    /// Constants, first class fastest.
    pub g: Vec<f64>,
    /// Scale per class: the approximate throughput.
    pub scale: Vec<f64>,
    /// Distance between neighbours per class.
    pub strides: Vec<usize>,
}

impl Lattice {
    /// Throughput of `class` at the lattice point `index` (which holds at least one customer of it).
    pub fn throughput(&self, index: usize, class: usize) -> f64 {
        self.scale[class] * self.g[index - self.strides[class]] / self.g[index]
    }
}

/// A rough throughput per class: what keeps the scaled constants near 1.
fn scales(closed: &Closed) -> Vec<f64> {
    let mut load = vec![0.0; closed.stations()];
    let base: Vec<f64> = (0..closed.classes())
        .map(|c| {
            let work: f64 = (0..closed.stations()).map(|k| closed.demands[k][c]).sum();
            closed.population[c].max(1) as f64 / (closed.think[c] + work).max(f64::MIN_POSITIVE)
        })
        .collect();
    for (k, total) in load.iter_mut().enumerate() {
        let offered: f64 = base.iter().zip(&closed.demands[k]).map(|(x, d)| x * d).sum();
        *total = offered / closed.speeds[k].capacity(closed.total_population());
    }
    (0..closed.classes())
        .map(|c| {
            let meets = (0..closed.stations()).filter(|&k| closed.demands[k][c] > 0.0);
            let worst = meets.map(|k| load[k]).fold(1.0, f64::max);
            base[c] / worst
        })
        .collect()
}

/// The constants of the whole network, or without station `skip`, or with `twice` counted twice.
pub fn lattice(closed: &Closed, skip: Option<usize>, twice: Option<usize>) -> Lattice {
    let scale = scales(closed);
    let strides = strides(&closed.population);
    let mut g = delays(closed, &scale, &strides);
    for k in 0..closed.stations() {
        let repeat = if Some(k) == skip { 0 } else { 1 + usize::from(Some(k) == twice) };
        for _ in 0..repeat {
            add_station(closed, k, &scale, &strides, &mut g);
        }
    }
    Lattice { g, scale, strides }
}

/// Think times and delay stations: a product of Poisson terms.
fn delays(closed: &Closed, scale: &[f64], strides: &[usize]) -> Vec<f64> {
    let points = closed.population.iter().map(|n| n + 1).product();
    let mut g = vec![1.0; points];
    for c in 0..closed.classes() {
        let stations = (0..closed.stations()).filter(|&k| closed.speeds[k] == Speed::Delay);
        let delay = closed.think[c] + stations.map(|k| closed.demands[k][c]).sum::<f64>();
        let load = delay * scale[c];
        let mut logs = vec![0.0];
        for n in 1..=closed.population[c] {
            logs.push(logs[n - 1] + (load / n as f64).ln());
        }
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (index, value) in g.iter_mut().enumerate() {
            *value *= (logs[index / strides[c] % (closed.population[c] + 1)] - top).exp();
        }
    }
    g
}

fn add_station(closed: &Closed, k: usize, scale: &[f64], strides: &[usize], g: &mut Vec<f64>) {
    let loads: Vec<f64> = closed.demands[k].iter().zip(scale).map(|(d, x)| d * x).collect();
    match &closed.speeds[k] {
        Speed::Delay => return,
        _ if loads.iter().all(|&l| l == 0.0) => return,
        Speed::Servers(1) => add_single_server(&closed.population, &loads, strides, g),
        speed => *g = convolve(&closed.population, strides, g, &factor(closed, speed, &loads)),
    }
    let peak = g.iter().copied().fold(0.0, f64::max);
    for x in g.iter_mut() {
        *x /= peak;
    }
}

fn add_single_server(population: &[usize], loads: &[f64], strides: &[usize], g: &mut [f64]) {
    let mut at = vec![0usize; population.len()];
    for index in 0..g.len() {
        let mut value = g[index];
        for c in 0..loads.len() {
            if at[c] > 0 {
                value += loads[c] * g[index - strides[c]];
            }
        }
        g[index] = value;
        advance(&mut at, population);
    }
}

/// `|n|! prod (D_c x_c)^n_c / n_c! / prod alpha(j)` on the lattice, largest value 1.
fn factor(closed: &Closed, speed: &Speed, loads: &[f64]) -> Vec<f64> {
    let total = closed.total_population();
    let mut order = vec![0.0; total + 1];
    for n in 1..=total {
        order[n] = order[n - 1] + (n as f64 / speed.at(n)).ln();
    }
    let class_logs: Vec<Vec<f64>> = (0..loads.len())
        .map(|c| {
            let mut logs = vec![0.0];
            (1..=closed.population[c]).for_each(|n| logs.push(logs[n - 1] + (loads[c] / n as f64).ln()));
            logs
        })
        .collect();
    let mut at = vec![0usize; loads.len()];
    let points: usize = closed.population.iter().map(|n| n + 1).product();
    let mut logs = Vec::with_capacity(points);
    for _ in 0..points {
        let sum: f64 = at.iter().zip(&class_logs).map(|(&n, logs)| logs[n]).sum();
        logs.push(sum + order[at.iter().sum::<usize>()]);
        advance(&mut at, &closed.population);
    }
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter().map(|log| (log - top).exp()).collect()
}

/// Lattice convolution: `out(n) = sum over m <= n of a(m) b(n - m)`.
fn convolve(population: &[usize], strides: &[usize], a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; a.len()];
    let row = population[0] + 1;
    let rows: Vec<Vec<usize>> = rows(population);
    for (i, at) in rows.iter().enumerate() {
        for (j, more) in rows.iter().enumerate() {
            let fits = (1..population.len()).all(|c| at[c] + more[c] <= population[c]);
            if !fits {
                continue;
            }
            let target: usize = (1..population.len()).map(|c| (at[c] + more[c]) * strides[c]).sum();
            let (x, y) = (&a[i * row..(i + 1) * row], &b[j * row..(j + 1) * row]);
            let out = &mut out[target..target + row];
            for (n, &x) in x.iter().enumerate().filter(|(_, x)| **x > 0.0) {
                out[n..].iter_mut().zip(y).for_each(|(o, y)| *o += x * y);
            }
        }
    }
    out
}

/// Lattice coordinates of the start of each row (first class zero).
fn rows(population: &[usize]) -> Vec<Vec<usize>> {
    let mut at = vec![0usize; population.len()];
    let count: usize = population[1..].iter().map(|n| n + 1).product();
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        rows.push(at.clone());
        advance(&mut at[1..], &population[1..]);
    }
    rows
}

/// Exact means for several classes.
///
/// # Errors
/// [`ModelError::TooLarge`]; [`ModelError::Numerical`] when the constants leave the range of
/// floating point (very unequal classes).
pub fn solve(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    let other = closed.speeds.iter().filter(|s| !s.is_single() && **s != Speed::Delay).count();
    let points: f64 = closed.population.iter().map(|&n| n as f64 + 1.0).product();
    let work = if other > 0 { points as usize } else { 1 };
    closed.lattice(closed.classes() * work, tolerance.states * if other > 0 { 100.0 } else { 1.0 })?;
    let whole = lattice(closed, None, None);
    let last = whole.g.len() - 1;
    let mut means = closed.empty_means();
    for c in (0..closed.classes()).filter(|&c| closed.population[c] > 0) {
        means.throughput[c] = whole.throughput(last, c);
    }
    for k in 0..closed.stations() {
        match closed.speeds[k] {
            Speed::Delay => {
                (0..closed.classes())
                    .for_each(|c| means.queue[k][c] = means.throughput[c] * closed.demands[k][c]);
            }
            Speed::Servers(1) => single_server_queues(closed, k, &whole, &mut means),
            _ => other_queues(closed, k, &whole, &mut means),
        }
    }
    closed.guard("convolution", means)
}

/// `E[n_kc] = rho_c h(N - e_c) / g(N)`, where `h` counts station `k` twice.
fn single_server_queues(closed: &Closed, k: usize, whole: &Lattice, means: &mut ClosedMeans) {
    let mut h = whole.g.clone();
    let loads: Vec<f64> = closed.demands[k].iter().zip(&whole.scale).map(|(d, x)| d * x).collect();
    add_single_server(&closed.population, &loads, &whole.strides, &mut h);
    let last = h.len() - 1;
    for c in (0..closed.classes()).filter(|&c| closed.population[c] > 0) {
        means.queue[k][c] = loads[c] * h[last - whole.strides[c]] / whole.g[last];
    }
}

/// Sums the joint distribution of station `k`; also yields its total-number distribution.
fn other_queues(closed: &Closed, k: usize, whole: &Lattice, means: &mut ClosedMeans) {
    let loads: Vec<f64> = closed.demands[k].iter().zip(&whole.scale).map(|(d, x)| d * x).collect();
    if loads.iter().all(|&l| l == 0.0) {
        return;
    }
    let rest = lattice(closed, Some(k), None);
    let factor = factor(closed, &closed.speeds[k], &loads);
    let last = factor.len() - 1;
    let mut marginal = vec![0.0; closed.total_population() + 1];
    let mut at = vec![0usize; closed.classes()];
    let mut sum = 0.0;
    for (index, f) in factor.iter().enumerate() {
        let p = f * rest.g[last - index];
        sum += p;
        marginal[at.iter().sum::<usize>()] += p;
        for c in 0..closed.classes() {
            means.queue[k][c] += at[c] as f64 * p;
        }
        advance(&mut at, &closed.population);
    }
    for p in &mut marginal {
        *p /= sum;
    }
    for q in &mut means.queue[k] {
        *q /= sum;
    }
    means.marginal[k] = Some(marginal);
}
