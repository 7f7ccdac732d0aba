//! The time until a finite Markov chain is absorbed (a phase-type distribution), by uniformisation: the
//! chain is watched at the ticks of a Poisson process quicker than all its rates, so that the share
//! absorbed by time `t` is that after each number of ticks, weighted by the Poisson probability of the
//! number. Only positive terms are added, so that nothing cancels (Grassmann 1977).

use crate::special::ln_gamma;

/// Ticks times moves beyond which the distribution is not computed: about two seconds.
const MOST_WORK: f64 = 2e9;
/// A share of what lies beyond the largest probability asked for, neglected.
const NEGLECTED: f64 = 1e-6;

/// A chain that begins in one of its states and ends in absorption.
#[derive(Debug, Default)]
pub struct Phases {
    /// Probability of beginning in each state.
    start: Vec<f64>,
    /// Moves between states, rates per second.
    moves: Vec<(u32, u32, f64)>,
    /// Rate of absorption from each state, per second.
    end: Vec<f64>,
}

impl Phases {
    /// A chain that begins in state `i` with probability `start[i]`, and stays there.
    pub fn new(start: Vec<f64>) -> Self {
        let end = vec![0.0; start.len()];
        Self { start, moves: Vec::new(), end }
    }

    /// Lets the chain go from one state to another, `rate` times a second.
    pub fn go(&mut self, from: usize, to: usize, rate: f64) {
        if rate > 0.0 {
            self.moves.push((from as u32, to as u32, rate));
        }
    }

    /// Lets the chain end from a state, `rate` times a second.
    pub fn finish(&mut self, from: usize, rate: f64) {
        self.end[from] += rate;
    }

    /// This chain, and after its end `next`.
    #[must_use]
    pub fn then(mut self, next: &Self) -> Self {
        let shift = self.start.len();
        for from in 0..shift {
            let rate = self.end[from];
            for (to, share) in next.start.iter().enumerate() {
                self.go(from, shift + to, rate * share);
            }
            self.end[from] = 0.0;
        }
        self.start.extend(next.start.iter().map(|_| 0.0));
        self.end.extend(&next.end);
        let moved = |&(from, to, rate): &(u32, u32, f64)| (from + shift as u32, to + shift as u32, rate);
        self.moves.extend(next.moves.iter().map(moved));
        self
    }

    /// The times, seconds, by which it has ended with each probability; `None` if that is too much work.
    pub fn quantiles(&self, probabilities: &[f64]) -> Option<Vec<f64>> {
        let most = probabilities.iter().copied().fold(0.0, f64::max);
        let (tick, absorbed) = self.absorbed(1.0 - (1.0 - most) * NEGLECTED)?;
        Some(probabilities.iter().map(|&p| quantile(tick, &absorbed, p)).collect())
    }

    /// Ticks per second, and the share absorbed after each number of ticks until it exceeds `enough`.
    fn absorbed(&self, enough: f64) -> Option<(f64, Vec<f64>)> {
        let mut out = self.end.clone();
        self.moves.iter().for_each(|&(from, _, rate)| out[from as usize] += rate);
        let tick = out.iter().copied().fold(0.0, f64::max);
        let stay: Vec<f64> = out.iter().map(|rate| 1.0 - rate / tick).collect();
        let cost = (self.moves.len() + self.start.len()) as f64;
        let (mut now, mut next) = (self.start.clone(), vec![0.0; self.start.len()]);
        let mut done = vec![0.0];
        let mut sum = 0.0;
        while sum < enough {
            if done.len() as f64 * cost > MOST_WORK {
                return None;
            }
            for state in 0..now.len() {
                sum += now[state] * self.end[state] / tick;
                next[state] = now[state] * stay[state];
            }
            for &(from, to, rate) in &self.moves {
                next[to as usize] += now[from as usize] * rate / tick;
            }
            std::mem::swap(&mut now, &mut next);
            done.push(sum.min(1.0));
        }
        Some((tick, done))
    }
}

/// The time by which the weighted share absorbed is `probability`.
fn quantile(tick: f64, absorbed: &[f64], probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, absorbed.len() as f64 * 2.0 + 40.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if share_by(middle, absorbed) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high) / tick
}

/// Share absorbed when `mean` ticks are expected.
fn share_by(mean: f64, absorbed: &[f64]) -> f64 {
    let spread = 9.0 * mean.sqrt() + 20.0;
    let first = (mean - spread).max(0.0) as usize;
    let last = (mean + spread) as usize;
    let mut weight =
        if mean > 0.0 { (first as f64 * mean.ln() - mean - ln_gamma(first as f64 + 1.0)).exp() } else { 1.0 };
    let (mut sum, mut weights) = (0.0, 0.0);
    for ticks in first..=last {
        sum += weight * absorbed.get(ticks).copied().unwrap_or(1.0);
        weights += weight;
        weight *= mean / (ticks as f64 + 1.0);
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::Phases;

    fn exponential(rate: f64) -> Phases {
        let mut phases = Phases::new(vec![1.0]);
        phases.finish(0, rate);
        phases
    }

    #[test]
    fn quantiles_of_exponential_and_erlang_times_are_those_of_the_tables() {
        let one = exponential(2.0).quantiles(&[0.5, 0.999]).unwrap();
        assert!(
            (one[0] - 2f64.ln() / 2.0).abs() < 1e-9 && (one[1] - 1000f64.ln() / 2.0).abs() < 1e-8,
            "{one:?}"
        );
        // Chi-square with 10 degrees of freedom is Erlang-5 of scale 2: 95 % point 18.307.
        let five = (1..5).fold(exponential(0.5), |sum, _| sum.then(&exponential(0.5)));
        let point = five.quantiles(&[0.95]).unwrap()[0];
        assert!((point - 18.307_038).abs() < 1e-5, "{point}");
    }

    #[test]
    fn unequal_rates_do_not_cancel() {
        // Two rates that differ by a hundred thousand millionth: partial fractions would lose all digits.
        let both = exponential(1.0).then(&exponential(1.0 + 1e-11)).quantiles(&[0.5]).unwrap()[0];
        assert!((both - 1.678_346_99).abs() < 1e-7, "{both}");
    }
}
