//! How like a trace the free runs of a parallel device are: the loss that [`super::calibrate`] makes small.

use super::parallel::{Channels, Parallel};
use crate::metrics::{autocorrelation, crps, mean};
use crate::request::{Command, Request};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Free runs of a candidate.
const RUNS: usize = 2;
/// Requests between two looks at whether a candidate can still be good enough.
const BLOCK: usize = 64;
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

    /// How unlike the truth free runs of `model` are; about 2 for a histogram.
    pub(super) fn loss(&self, model: &Parallel) -> f64 {
        self.loss_within(model, f64::INFINITY).unwrap_or(f64::INFINITY)
    }

    /// That loss, or nothing as soon as it is certain to be beyond `limit`: most of what a search tries is, and what is
    /// worst takes longest to run.
    pub(super) fn loss_within(&self, model: &Parallel, limit: f64) -> Option<f64> {
        let mut states: [_; RUNS] = std::array::from_fn(|run| {
            (Channels::new(model), Pcg64Mcg::seed_from_u64(self.seed ^ run as u64))
        });
        let count = self.requests.len();
        let mut runs: [Vec<f64>; RUNS] = std::array::from_fn(|_| Vec::with_capacity(count));
        let mut logs: [Vec<f64>; RUNS] = std::array::from_fn(|_| Vec::with_capacity(count));
        // Where every request takes the same, what rounding leaves of a score is no bound.
        let bound = if self.flat.iter().all(|&flat| flat > 1e-6) {
            limit + 1e-6 * limit.abs()
        } else {
            f64::INFINITY
        };
        let mut sums = [0.0; 2];
        for (at, request) in self.requests.iter().enumerate() {
            let (mut draws, mut log_draws) = ([0.0; RUNS], [0.0; RUNS]);
            for (run, (channels, rng)) in states.iter_mut().enumerate() {
                let ns = channels.service_ns(&Command::from(request), request.arrival_ns, rng);
                draws[run] = ns as f64 * 1e-3;
                log_draws[run] = logarithm(draws[run]);
                runs[run].push(draws[run]);
                logs[run].push(log_draws[run]);
            }
            sums[0] += crps::of_pair(draws, self.us[at]);
            sums[1] += crps::of_pair(log_draws, self.logarithms[at]);
            if at % BLOCK == 0 && self.scores(sums) > bound {
                return None;
            }
        }
        let (mut means, mut lags) = (0.0, 0.0);
        for (run, logs) in runs.iter().zip(&logs) {
            let said = cell_means(&self.cells, run);
            let off = said.iter().zip(&self.means).filter(|(_, (_, share))| *share > 0.0);
            means += off.map(|(said, real)| real.1 * (said.0 / real.0).ln().abs()).sum::<f64>();
            for (lag, real) in [1, 10].into_iter().zip(self.autocorrelation) {
                lags += (autocorrelation::of(logs, lag) - real).abs();
            }
        }
        Some(self.scores(sums) + (4.0 * means + 0.5 * lags) / RUNS as f64)
    }

    /// What sums of scores of times and of logarithms contribute; no later request makes it less.
    fn scores(&self, sums: [f64; 2]) -> f64 {
        let count = self.requests.len() as f64;
        sums[0] / count / self.flat[0] + sums[1] / count / self.flat[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::parallel::{Placement, LENGTHS};
    use crate::request::{Op, NO_START};

    #[test]
    fn a_limit_ends_a_look_at_a_candidate_that_is_beyond_it_and_changes_no_loss() {
        let request = |at: u64| Request {
            arrival_ns: at / 8 * 700_000 + at % 8 * 3_000,
            start_ns: NO_START,
            completion_ns: at / 8 * 700_000 + at % 8 * (20_000 + at % 7 * 900) + 60_000,
            lba: at * 8,
            sectors: 8,
            device: 0,
            op: match at % 5 {
                0 => Op::Write,
                _ => Op::Read,
            },
            by_tracer: false,
        };
        let requests: Vec<Request> = (0..2000).map(request).collect();
        let truth = Truth::new(&requests, 3);
        let mut given_up = 0;
        for (channels, read_us) in [(1, 10.0), (1, 200.0), (4, 60.0), (8, 90.0), (64, 5.0)] {
            let model = Parallel {
                channels,
                placement: Placement::First,
                piece_sectors: 8,
                read_us,
                program_us: 40.0,
                buffer: None,
                collection: None,
                throttle: None,
                phases: None,
                scale: [1.0; 2],
                undisturbed: [1.0; 2],
                quiet_us: [(); 2].map(|()| vec![vec![40.0, 70.0]; LENGTHS]),
                seen_in_tenth: 0,
                rivals: Vec::new(),
            };
            let loss = truth.loss(&model);
            for limit in [0.2, 0.5, 0.9, 0.999_999_9, 1.0, 1.000_000_1, 3.0].map(|share| share * loss) {
                let within = truth.loss_within(&model, limit);
                given_up += usize::from(within.is_none());
                assert!(
                    within == Some(loss) || within.is_none() && limit < loss,
                    "{limit} {loss} {within:?}"
                );
            }
        }
        assert!(given_up >= 5, "{given_up} candidates were given up");
    }
}
