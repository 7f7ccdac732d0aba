//! Exact convolution for one closed class and stations of any speed (Buzen, CACM 16(9), 1973),
//! stable at thousands of customers and servers.
//!
//! The normalising constant spans tens of thousands of orders of magnitude, so it is never formed.
//! Instead the rate `theta` is found at which an *open* network with the same stations would hold
//! `N` customers on average; each station's factors `F(n) theta^n` are normalised to a probability
//! distribution, and the distributions are convolved. The value at `N` is then near the centre of
//! a distribution, far from underflow, and since every term is positive each of the `N` additions
//! loses at most one rounding. Terms that do underflow are below 1e-300 of the result.
//!
//! A station whose rate no longer changes from `m` customers on has the generating function `q(z) / (1 - rho z)`, with
//! `q` of degree `m`: `q(n) = F(n) - rho F(n-1)`, which is not negative where the rates only grow. So it costs
//! `(m + 1) N` multiplications (single servers `N`), and a delay, or rates that also fall, `N^2/2`.

use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::Speed;

/// A station's distribution `p(n) ~ F(n) theta^n`, n = 0..=N, with `F(n) = D^n / prod alpha(j)`.
fn distribution(demand: f64, speed: &Speed, theta: f64, population: usize) -> Vec<f64> {
    // Walk outwards from the mode, where the factor is set to 1: nothing overflows.
    let ratio = |n: usize| demand * theta / speed.at(n);
    let mut log = 0.0;
    let (mut mode, mut best) = (0, 0.0);
    for n in 1..=population {
        log += ratio(n).ln();
        if log > best {
            (mode, best) = (n, log);
        }
    }
    let mut p = vec![0.0; population + 1];
    p[mode] = 1.0;
    for n in mode + 1..=population {
        p[n] = p[n - 1] * ratio(n);
    }
    for n in (0..mode).rev() {
        p[n] = p[n + 1] / ratio(n + 1);
    }
    let sum: f64 = p.iter().sum();
    for x in &mut p {
        *x /= sum;
    }
    p
}

/// Customers from which on the rate of a station is what it stays, if it only grows until then; all, otherwise.
fn width(speed: &Speed, population: usize) -> usize {
    let steady = match speed {
        Speed::Servers(m) => *m,
        Speed::Rates(rates) if rates.windows(2).all(|pair| pair[0] <= pair[1]) => rates.len(),
        Speed::Rates(_) | Speed::Delay => population,
    };
    steady.min(population)
}

/// The generating function of a station's `F(n) theta^n`, up to a factor: a polynomial over `1 - ratio z`.
struct Factor {
    polynomial: Vec<f64>,
    ratio: f64,
}

impl Factor {
    fn new(demand: f64, speed: &Speed, theta: f64, population: usize) -> Self {
        let steady = width(speed, population);
        if steady == population {
            return Self { polynomial: distribution(demand, speed, theta, population), ratio: 0.0 };
        }
        let p = distribution(demand, speed, theta, steady);
        let inverse = 1.0 / speed.at(steady);
        // Each difference is formed from the rates, so that none is lost to rounding.
        let growth = |n: usize| p[n - 1] * theta * demand * (1.0 / speed.at(n) - inverse);
        let polynomial = std::iter::once(p[0]).chain((1..steady).map(growth)).collect();
        Self { polynomial, ratio: theta * demand * inverse }
    }
}

/// Mean of a distribution over 0, 1, 2, ...
fn mean(p: &[f64]) -> f64 {
    p.iter().enumerate().map(|(n, x)| n as f64 * x).sum()
}

/// Mean of the truncated geometric distribution with ratio `rho` over 0..=n.
fn geometric_mean_number(rho: f64, n: usize) -> f64 {
    let big = n as f64;
    if (rho - 1.0).abs() * big < 1e-3 {
        return big / 2.0 + (rho - 1.0) * big * (big + 2.0) / 12.0;
    }
    let tail = ((big + 1.0) * rho.ln()).exp();
    if tail.is_infinite() {
        return big - 1.0 / (rho - 1.0);
    }
    rho / (1.0 - rho) - (big + 1.0) * tail / (1.0 - tail)
}

/// Mean number at a queueing station of the open network, of whose states those of up to `population` are kept. What
/// lies beyond the customers from which on its rate is steady is summed in closed form, for there may be millions.
fn mean_number(demand: f64, speed: &Speed, theta: f64, population: usize) -> f64 {
    let steady = width(speed, population);
    let head = distribution(demand, speed, theta, steady);
    let rho = theta * demand / speed.at(steady);
    let beyond = population - steady;
    let tail = geometric_mean_number(rho, beyond);
    let weight = head[steady] * geometric_sum(rho, beyond);
    let kept = head[..steady].iter().sum::<f64>() + weight;
    (mean(&head[..steady]) + weight * (steady as f64 + tail)) / kept
}

/// Sum of `rho^j` for j = 0..=n.
fn geometric_sum(rho: f64, n: usize) -> f64 {
    let terms = n as f64 + 1.0;
    if (rho - 1.0).abs() * terms < 1e-3 {
        return terms;
    }
    -(terms * rho.ln()).exp_m1() / (1.0 - rho)
}

/// A network of one class with all delays merged into `think`.
struct Single<'a> {
    demands: Vec<f64>,
    speeds: Vec<&'a Speed>,
    think: f64,
    population: usize,
}

impl Single<'_> {
    /// Mean number present in the open network at rate `theta`, where queues hold `N` at most.
    fn open_population(&self, theta: f64) -> f64 {
        let queues = self.demands.iter().zip(&self.speeds);
        let queued = |(demand, speed): (&f64, &&Speed)| mean_number(*demand, speed, theta, self.population);
        self.think * theta + queues.map(queued).sum::<f64>()
    }

    /// The rate at which the open network holds `N` on average. It only sets the scale: 2 % are enough, but of many
    /// customers no more than the number at a delay varies by, or what is looked for would be lost in its tail.
    fn rate(&self) -> f64 {
        let target = self.population as f64;
        let near = target.sqrt().recip().min(0.02);
        let limit = |k: usize| self.speeds[k].capacity(self.population) / self.demands[k];
        let cap = (0..self.demands.len()).map(limit).fold(f64::INFINITY, f64::min);
        let total = self.think + self.demands.iter().sum::<f64>();
        // No throughput exceeds `cap`, and beyond it a single server's terms would grow as rho^N.
        let mut high = cap.min(target / total);
        let mut low = high;
        while high < cap && self.open_population(high) < target * 0.98 {
            high = (2.0 * high).min(cap);
        }
        if self.open_population(high) < target * 0.98 {
            return high;
        }
        while self.open_population(low) > target {
            low *= 0.5;
        }
        for _ in 0..60 {
            let middle = (low * high).sqrt();
            let found = self.open_population(middle);
            if (found / target - 1.0).abs() < near {
                return middle;
            }
            if found < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low * high).sqrt()
    }

    /// Convolves all stations but `skip`, and the delay, up to a common factor.
    fn constants(&self, factors: &[Factor], skip: Option<usize>) -> Vec<f64> {
        let mut g = unit(self.population);
        let kept = || factors.iter().enumerate().filter(|&(k, _)| Some(k) != skip).map(|(_, factor)| factor);
        for factor in kept().filter(|f| f.polynomial.len() > 1) {
            g = convolve(&factor.polynomial, &g);
        }
        kept().filter(|f| f.ratio > 0.0).for_each(|factor| add_single_server(&mut g, factor.ratio));
        g
    }
}

fn unit(population: usize) -> Vec<f64> {
    let mut g = vec![0.0; population + 1];
    g[0] = 1.0;
    g
}

/// Buzen's step for a single server, rescaled so that the largest entry stays near 1.
pub fn add_single_server(g: &mut [f64], rho: f64) {
    let mut carry = 0.0;
    for value in g.iter_mut() {
        carry = *value + rho * carry;
        *value = carry;
    }
    let peak = g.iter().copied().fold(0.0, f64::max);
    if peak > 1e100 {
        for x in g.iter_mut() {
            *x /= peak;
        }
    }
}

/// The product of two generating functions, to the length of the longer.
///
/// The negligible head and tail of either distribution (exact zeros after underflow) are skipped.
pub fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let size = a.len().max(b.len());
    let mut out = vec![0.0; size];
    let first = b.iter().position(|x| *x > 0.0).unwrap_or(size);
    let last = b.iter().rposition(|x| *x > 0.0).map_or(0, |i| i + 1);
    for (i, &x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        let end = last.min(size - i);
        if first < end {
            for (o, y) in out[i + first..i + end].iter_mut().zip(&b[first..end]) {
                *o += x * y;
            }
        }
    }
    out
}

/// Exact means, with queue-length distributions at every station that is not a single server.
///
/// # Errors
/// [`ModelError::Unsupported`] for several classes; [`ModelError::TooLarge`].
pub fn solve(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    if closed.classes() != 1 {
        return super::multi_convolution::solve(closed, tolerance);
    }
    if closed.population[0] == 0 {
        return Ok(closed.empty_means());
    }
    // The stations that are no single servers are convolved once for each of them: refuse hours of work.
    let wide = || closed.speeds.iter().filter(|s| !s.is_single() && **s != Speed::Delay);
    let widths: usize = wide().map(|speed| width(speed, closed.population[0])).sum();
    closed.lattice(closed.stations().max(wide().count().saturating_mul(widths) / 100), tolerance.states)?;
    let means = one_class(closed, closed.population[0]);
    closed.guard("convolution", means)
}

/// Indices of the stations that queue, and the sum of all delays.
fn split(closed: &Closed) -> (Vec<usize>, f64) {
    let works = |k: &usize| closed.speeds[*k] != Speed::Delay && closed.demands[*k][0] > 0.0;
    let delay = (0..closed.stations()).filter(|k| closed.speeds[*k] == Speed::Delay);
    let think = closed.think[0] + delay.map(|k| closed.demands[k][0]).sum::<f64>();
    ((0..closed.stations()).filter(works).collect(), think)
}

fn single<'a>(closed: &'a Closed, queues: &[usize], think: f64, population: usize) -> Single<'a> {
    Single {
        demands: queues.iter().map(|&k| closed.demands[k][0]).collect(),
        speeds: queues.iter().map(|&k| &closed.speeds[k]).collect(),
        think,
        population,
    }
}

/// The factor of each queueing station and, last, of the delay.
fn factors(network: &Single<'_>, theta: f64) -> Vec<Factor> {
    let of = |(demand, speed): (&f64, &&Speed)| Factor::new(*demand, speed, theta, network.population);
    let mut factors: Vec<_> = network.demands.iter().zip(&network.speeds).map(of).collect();
    if network.think > 0.0 {
        factors.push(Factor::new(network.think, &Speed::Delay, theta, network.population));
    }
    factors
}

fn one_class(closed: &Closed, population: usize) -> ClosedMeans {
    let (queues, think) = split(closed);
    let network = single(closed, &queues, think, population);
    let theta = network.rate();
    let factors = factors(&network, theta);
    let g = network.constants(&factors, None);
    let mut means = closed.empty_means();
    means.throughput[0] = theta * g[population - 1] / g[population];
    for k in 0..closed.stations() {
        means.queue[k][0] = means.throughput[0] * closed.demands[k][0];
    }
    for (index, &k) in queues.iter().enumerate() {
        if *network.speeds[index] == Speed::Servers(1) {
            let (queue, p) = single_server_queue(&g, theta * network.demands[index]);
            means.queue[k][0] = queue;
            means.marginal[k] = Some(p);
        } else {
            let factor = distribution(network.demands[index], network.speeds[index], theta, population);
            let rest = network.constants(&factors, Some(index));
            let mut p: Vec<f64> = (0..=population).map(|n| factor[n] * rest[population - n]).collect();
            let sum: f64 = p.iter().sum();
            for x in &mut p {
                *x /= sum;
            }
            means.queue[k][0] = mean(&p);
            means.marginal[k] = Some(p);
        }
    }
    means
}

/// Mean `sum rho^j g(N-j) / g(N)` at a single server, and the distribution of its number.
fn single_server_queue(g: &[f64], rho: f64) -> (f64, Vec<f64>) {
    let population = g.len() - 1;
    // Horner's scheme visits g(0) first, which carries the highest power.
    let sum = g[..population].iter().fold(0.0, |sum, value| rho * (sum + value));
    let mut power = 1.0;
    let mut p = Vec::with_capacity(population + 1);
    for n in 0..=population {
        // P(n) = rho^n (g(N-n) - rho g(N-n-1)) / g(N)
        let next = if n < population { rho * g[population - n - 1] } else { 0.0 };
        p.push((power * (g[population - n] - next) / g[population]).max(0.0));
        power *= rho;
    }
    (sum / g[population], p)
}

/// Constants `G(n) theta^n`, n = 0..=N, of a one-class network, up to a common factor: what further
/// single servers can be added to with [`add_single_server`].
pub fn scaled_constants(closed: &Closed, theta: f64) -> Vec<f64> {
    let (queues, think) = split(closed);
    let network = single(closed, &queues, think, closed.population[0]);
    network.constants(&factors(&network, theta), None)
}

/// Throughputs at populations 1..=N of a one-class network of any speeds.
///
/// One scale serves the populations whose constant stays above 1e-200 of the peak; lower ones get
/// their own.
pub fn throughput_curve(closed: &Closed) -> Vec<f64> {
    let (queues, think) = split(closed);
    let mut top = closed.population[0];
    let mut curve = vec![0.0; top];
    while top > 0 {
        let network = single(closed, &queues, think, top);
        let theta = network.rate();
        let g = network.constants(&factors(&network, theta), None);
        let peak = g.iter().copied().fold(0.0, f64::max);
        let mut n = top;
        while n > 0 && (n == top || g[n - 1] > peak * 1e-200) {
            curve[n - 1] = theta * g[n - 1] / g[n];
            n -= 1;
        }
        top = n;
    }
    curve
}
