//! How long services take beside their mean: exponential unless said otherwise, constant, of phases (Neuts 1981), or as
//! a histogram measured them. A law is a shape, with mean one; a station's demand says how long its mean is.
//!
//! Two moments become a law of phases as in Tijms, "A First Course in Stochastic Models" (2003), section 5.4.1 and
//! appendix B: two exponential phases of balanced means above a coefficient of variation of one, a mixture of two Erlang
//! laws below.

use crate::error::ModelError;

/// Coefficient of variation below which an Erlang law would need a hundred phases and a time is taken for constant.
const CONSTANT: f64 = 0.1;

/// The shape of service times, with mean one.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Law {
    /// Exponential.
    #[default]
    Exponential,
    /// All alike.
    Constant,
    /// The time until a small chain ends.
    Phases(Phases),
    /// Uniform within each bin.
    Histogram(Histogram),
}

/// A chain of exponential phases that ends: phase-type law.
#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    /// Probability of beginning in each phase; sums to one.
    pub start: Vec<f64>,
    /// Mean time in each phase.
    pub means: Vec<f64>,
    /// Probability of going on to each phase; what is missing to one ends the service.
    pub next: Vec<Vec<f64>>,
}

/// Bins and their weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Borders of the bins, ascending, one more than weights.
    borders: Vec<f64>,
    /// Sums of the weights up to the end of each bin; the last is one.
    up_to: Vec<f64>,
}

impl Law {
    /// The law with this coefficient of variation (standard deviation over mean).
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for one that is negative, not a number, or above a hundred.
    pub fn of_cv(cv: f64) -> Result<Self, ModelError> {
        if !(0.0..=100.0).contains(&cv) {
            return Err(ModelError::invalid(
                format!("a coefficient of variation of {cv}"),
                "give the standard deviation of the service times over their mean, from 0 to 100",
            ));
        }
        let square = cv * cv;
        if (cv - 1.0).abs() < 1e-12 {
            return Ok(Self::Exponential);
        }
        if cv > 0.0 && cv < CONSTANT {
            return Err(ModelError::invalid(
                format!("a coefficient of variation of {cv} needs more than a hundred phases"),
                format!("give 0 for constant times, or at least {CONSTANT}"),
            ));
        }
        if cv < CONSTANT {
            return Ok(Self::Constant);
        }
        if cv > 1.0 {
            let first = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt());
            let start = vec![first, 1.0 - first];
            let means = start.iter().map(|p| 0.5 / p).collect();
            return Phases::new(start, means, vec![vec![0.0; 2]; 2]).map(Self::Phases);
        }
        // One phase fewer with some probability, all with the same mean.
        let count = (1.0 / square).ceil() as usize;
        let k = count as f64;
        let fewer = (k * square - (k * (1.0 + square) - k * k * square).max(0.0).sqrt()) / (1.0 + square);
        let mut start = vec![0.0; count];
        start[0] = 1.0 - fewer;
        start[1] += fewer;
        let next =
            (0..count).map(|i| (0..count).map(|j| f64::from(u8::from(j == i + 1))).collect()).collect();
        Phases::new(start, vec![1.0; count], next).map(Self::Phases)
    }

    /// Squared coefficient of variation.
    pub fn square_cv(&self) -> f64 {
        match self {
            Self::Exponential => 1.0,
            Self::Constant => 0.0,
            Self::Phases(phases) => phases.second_moment() - 1.0,
            Self::Histogram(histogram) => histogram.second_moment() - 1.0,
        }
    }

    /// True for exponential times.
    pub fn is_exponential(&self) -> bool {
        *self == Self::Exponential
    }

    /// One service time, from uniform random numbers in `[0, 1)`.
    pub fn draw(&self, uniform: &mut impl FnMut() -> f64) -> f64 {
        match self {
            Self::Exponential => -(1.0 - uniform()).ln(),
            Self::Constant => 1.0,
            Self::Phases(phases) => phases.draw(uniform),
            Self::Histogram(histogram) => histogram.quantile(uniform()),
        }
    }
}

impl Phases {
    /// A law of phases, scaled to mean one.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for numbers that are no probabilities or no times, and for a law that may never end.
    pub fn new(start: Vec<f64>, means: Vec<f64>, next: Vec<Vec<f64>>) -> Result<Self, ModelError> {
        let invalid = |what: &str, remedy: &str| Err(ModelError::invalid(format!("phases: {what}"), remedy));
        let count = means.len();
        let all = "give one start probability, one mean and one row of `next` per phase";
        if count == 0 || start.len() != count || next.len() != count || next.iter().any(|r| r.len() != count)
        {
            return invalid("start, means and next differ in length", all);
        }
        let probabilities = |row: &[f64]| row.iter().all(|p| (0.0..=1.0).contains(p));
        let sum = |row: &[f64]| row.iter().sum::<f64>();
        if !probabilities(&start) || (sum(&start) - 1.0).abs() > 1e-9 {
            return invalid("the start probabilities do not sum to 1", "give probabilities that do");
        }
        if !next.iter().all(|row| probabilities(row) && sum(row) <= 1.0 + 1e-9) {
            return invalid("a row of next is no list of probabilities", "let each row sum to at most 1");
        }
        if means.iter().any(|m| !m.is_finite() || *m <= 0.0) {
            return invalid("a mean is not positive", "give positive means, or leave the phase out");
        }
        let mut law = Self { start, means, next };
        let Some(left) = law.remaining() else {
            return invalid("the service may never end", "let some row of next sum to less than 1");
        };
        let mean: f64 = law.start.iter().zip(&left).map(|(p, m)| p * m).sum();
        law.means.iter_mut().for_each(|m| *m /= mean);
        Ok(law)
    }

    /// Mean time until the end from each phase.
    fn remaining(&self) -> Option<Vec<f64>> {
        crate::special::solve_linear(&self.absorbing(), &self.means)
            .filter(|left| left.iter().all(|m| m.is_finite() && *m > 0.0))
    }

    /// The identity less `next`.
    fn absorbing(&self) -> Vec<Vec<f64>> {
        let count = self.means.len();
        let entry = |i: usize, j: usize| f64::from(u8::from(i == j)) - self.next[i][j];
        (0..count).map(|i| (0..count).map(|j| entry(i, j)).collect()).collect()
    }

    fn second_moment(&self) -> f64 {
        // From phase i: 2 m_i^2 + 2 m_i sum p_ij r_j + sum p_ij s_j, with r the mean and s the second moment left.
        let left = self.remaining().unwrap_or_default();
        let constant: Vec<f64> = (0..self.means.len())
            .map(|i| {
                let after: f64 = self.next[i].iter().zip(&left).map(|(p, r)| p * r).sum();
                2.0 * self.means[i] * (self.means[i] + after)
            })
            .collect();
        let moments = crate::special::solve_linear(&self.absorbing(), &constant).unwrap_or_default();
        self.start.iter().zip(&moments).map(|(p, m)| p * m).sum()
    }

    /// Probability that the service ends after a phase.
    pub fn ends(&self, phase: usize) -> f64 {
        (1.0 - self.next[phase].iter().sum::<f64>()).max(0.0)
    }

    fn draw(&self, uniform: &mut impl FnMut() -> f64) -> f64 {
        let mut phase = pick(&self.start, uniform());
        let mut time = 0.0;
        while let Some(here) = phase {
            time -= self.means[here] * (1.0 - uniform()).ln();
            phase = pick(&self.next[here], uniform());
        }
        time
    }
}

/// The entry in which a uniform number falls; `None` beyond their sum.
fn pick(probabilities: &[f64], mut at: f64) -> Option<usize> {
    for (index, p) in probabilities.iter().enumerate() {
        if at < *p {
            return Some(index);
        }
        at -= p;
    }
    // Rounding must not end a list that sums to one.
    (at < 1e-9).then(|| probabilities.iter().rposition(|p| *p > 0.0)).flatten()
}

impl Histogram {
    /// From borders of bins and a weight for each, scaled to mean one; the mean beside it, in the unit of the borders.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for borders that do not ascend, negative weights, or none.
    pub fn new(borders: &[f64], weights: &[f64]) -> Result<(Self, f64), ModelError> {
        let invalid =
            |what: &str, remedy: &str| Err(ModelError::invalid(format!("histogram: {what}"), remedy));
        if weights.is_empty() || borders.len() != weights.len() + 1 {
            return invalid(
                "there must be one border more than there are counts",
                "list the borders of all bins",
            );
        }
        if borders[0] < 0.0 || borders.windows(2).any(|w| w[0].is_nan() || w[1] <= w[0] || w[1].is_infinite())
        {
            return invalid("the borders do not ascend from zero or more", "sort them");
        }
        let sum: f64 = weights.iter().sum();
        if weights.iter().any(|w| *w < 0.0) || !sum.is_finite() || sum <= 0.0 {
            return invalid(
                "the counts are negative or all zero",
                "give how many services fell into each bin",
            );
        }
        let middle = |(w, c): (&[f64], &f64)| 0.5 * (w[0] + w[1]) * c / sum;
        let mean: f64 = borders.windows(2).zip(weights).map(middle).sum();
        let mut before = 0.0;
        let up_to = weights.iter().map(|w| {
            before += w / sum;
            before
        });
        let histogram = Self { up_to: up_to.collect(), borders: borders.iter().map(|b| b / mean).collect() };
        Ok((histogram, mean))
    }

    /// Borders of the bins, with mean one, and the share of each.
    pub fn bins_and_weights(&self) -> (Vec<f64>, Vec<f64>) {
        (self.borders.clone(), self.bins().map(|bin| bin.2).collect())
    }

    fn bins(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let before = std::iter::once(0.0).chain(self.up_to.iter().copied());
        let weights = self.up_to.iter().zip(before).map(|(sum, before)| sum - before);
        self.borders.windows(2).zip(weights).map(|(w, share)| (w[0], w[1], share))
    }

    fn second_moment(&self) -> f64 {
        self.bins().map(|(low, high, share)| share * (low * low + low * high + high * high) / 3.0).sum()
    }

    fn quantile(&self, share: f64) -> f64 {
        let bin = self.up_to.partition_point(|sum| *sum <= share).min(self.up_to.len() - 1);
        let before = if bin == 0 { 0.0 } else { self.up_to[bin - 1] };
        let within = ((share - before) / (self.up_to[bin] - before)).clamp(0.0, 1.0);
        self.borders[bin] + within * (self.borders[bin + 1] - self.borders[bin])
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, Law, Phases};

    #[test]
    fn two_moments_are_met() {
        for cv in [0.1, 0.3, 0.5, 0.75, 0.99, 1.5, 4.0] {
            let law = Law::of_cv(cv).unwrap();
            assert!((law.square_cv() - cv * cv).abs() < 1e-9 * (1.0 + cv * cv), "{cv}: {}", law.square_cv());
        }
        assert_eq!(Law::of_cv(0.0).unwrap(), Law::Constant);
        assert_eq!(Law::of_cv(1.0).unwrap(), Law::Exponential);
        assert!(Law::of_cv(0.01).is_err() && Law::of_cv(-1.0).is_err() && Law::of_cv(f64::NAN).is_err());
    }

    #[test]
    fn what_is_drawn_has_the_moments_that_are_stated() {
        let loops =
            Phases::new(vec![0.5, 0.5], vec![1.0, 3.0], vec![vec![0.0, 0.4], vec![0.3, 0.0]]).unwrap();
        let (bins, mean) = Histogram::new(&[0.0, 1.0, 2.0, 10.0], &[5.0, 0.0, 2.0]).unwrap();
        assert!((mean - (2.5 + 12.0) / 7.0).abs() < 1e-12);
        for law in
            [Law::Phases(loops), Law::of_cv(0.6).unwrap(), Law::of_cv(2.0).unwrap(), Law::Histogram(bins)]
        {
            let mut state = 7u64;
            let mut uniform = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..400_000 {
                let time = law.draw(&mut uniform);
                sum += time / 400_000.0;
                squares += time * time / 400_000.0;
            }
            let second = 1.0 + law.square_cv();
            assert!((sum - 1.0).abs() < 0.02, "{law:?}: {sum}");
            assert!((squares / second - 1.0).abs() < 0.04, "{law:?}: {squares} {second}");
        }
    }
}
