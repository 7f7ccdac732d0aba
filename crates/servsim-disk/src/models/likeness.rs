//! How like a trace the free runs of a parallel device are: the loss that [`super::calibrate`] makes small.

use super::parallel::{Channels, Parallel};
use crate::metrics::{autocorrelation, crps, mean};
use crate::request::{Command, Request};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Free runs of a candidate.
const RUNS: usize = 2;
/// Classes of density of arrivals.
const DENSITIES: usize = 4;

/// What happened, as the loss needs it.
pub(super) struct Truth<'a> {
    pub(super) requests: &'a [Request],
    us: Vec<f64>,
    logarithms: Vec<f64>,
    /// Operation and density of each request.
    cells: Vec<usize>,
    /// Mean time of each cell, us, with its share of the requests.
    means: Vec<(f64, f64)>,
    /// Scores of a histogram: of times and of logarithms.
    flat: [f64; 2],
    autocorrelation: [f64; 2],
    pub(super) seed: u64,
}

fn logarithm(us: f64) -> f64 {
    us.max(1e-3).ln()
}

/// Arrivals in the `window_ns` before each request.
fn densities(requests: &[Request], window_ns: u64) -> Vec<usize> {
    let mut first = 0;
    let count = |(at, request): (usize, &Request)| {
        while requests[first].arrival_ns + window_ns < request.arrival_ns {
            first += 1;
        }
        at - first
    };
    requests.iter().enumerate().map(count).collect()
}

fn cell_means(cells: &[usize], us: &[f64]) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0.0); 2 * DENSITIES];
    for (&cell, us) in cells.iter().zip(us) {
        sums[cell].0 += us;
        sums[cell].1 += 1.0;
    }
    sums.into_iter().map(|(sum, n)| (sum / f64::max(n, 1.0), n / us.len() as f64)).collect()
}

impl<'a> Truth<'a> {
    /// What `requests` (one device, in arrival order) tell.
    pub(super) fn new(requests: &'a [Request], seed: u64) -> Self {
        let us: Vec<f64> = requests.iter().map(|r| (r.response_ns() as f64 * 1e-3).max(1e-3)).collect();
        let logarithms: Vec<f64> = us.iter().map(|&us| logarithm(us)).collect();
        let counts = densities(requests, (20e3 * mean(&us)) as u64);
        let mut sorted = counts.clone();
        sorted.sort_unstable();
        let limits: Vec<usize> = (1..DENSITIES).map(|k| sorted[k * sorted.len() / DENSITIES]).collect();
        let density = |count: usize| limits.iter().filter(|&&limit| count > limit).count();
        let cells: Vec<usize> = requests
            .iter()
            .zip(counts)
            .map(|(request, count)| request.op as usize * DENSITIES + density(count))
            .collect();
        Truth {
            means: cell_means(&cells, &us),
            flat: [crps::unconditional(&us, &us), crps::unconditional(&logarithms, &logarithms)]
                .map(|score| score.max(1e-9)),
            autocorrelation: [1, 10].map(|lag| autocorrelation::of_logarithms(&us, lag)),
            requests,
            us,
            logarithms,
            cells,
            seed,
        }
    }

    fn run(&self, model: &Parallel, seed: u64) -> Vec<f64> {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ seed);
        let mut channels = Channels::new(model);
        let time = |request: &Request| {
            channels.service_ns(&Command::from(request), request.arrival_ns, &mut rng) as f64 * 1e-3
        };
        self.requests.iter().map(time).collect()
    }

    /// How unlike the truth free runs of `model` are; about 2 for a histogram.
    pub(super) fn loss(&self, model: &Parallel) -> f64 {
        let runs: [Vec<f64>; RUNS] = std::array::from_fn(|run| self.run(model, run as u64));
        let score = |of: &dyn Fn(f64) -> f64, real: &[f64]| {
            let scores = (0..real.len()).map(|at| {
                let mut draws: [f64; RUNS] = std::array::from_fn(|run| of(runs[run][at]));
                crps::from_draws(&mut draws, real[at])
            });
            scores.sum::<f64>() / real.len() as f64
        };
        let scores = score(&|us| us, &self.us) / self.flat[0]
            + score(&|us| logarithm(us), &self.logarithms) / self.flat[1];
        let (mut means, mut lags) = (0.0, 0.0);
        for run in &runs {
            let said = cell_means(&self.cells, run);
            let off = said.iter().zip(&self.means).filter(|(_, (_, share))| *share > 0.0);
            means += off.map(|(said, real)| real.1 * (said.0 / real.0).ln().abs()).sum::<f64>();
            for (lag, real) in [1, 10].into_iter().zip(self.autocorrelation) {
                lags += (autocorrelation::of_logarithms(run, lag) - real).abs();
            }
        }
        scores + (4.0 * means + 0.5 * lags) / RUNS as f64
    }
}
