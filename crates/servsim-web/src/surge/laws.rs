//! The probability laws of SURGE: distribution functions and their inverses.
//!
//! Sizes are drawn by the inverse of the distribution function, so that a set can be drawn evenly (one
//! number from each of n equal parts of 0..1) and a check compares with the same function.

use servsim_driver::rng::Stream;

/// A probability law on positive numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Lognormal, only below `most`.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// No value is above this; infinite for the whole law.
        most: f64,
    },
    /// Pareto, only below `most`.
    Pareto {
        /// Smallest value.
        k: f64,
        /// Exponent of the tail.
        alpha: f64,
        /// No value is above this; infinite for the whole law.
        most: f64,
    },
    /// Weibull.
    Weibull {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
}

/// The standard normal distribution function.
fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The inverse of [`normal`], by halving: 60 steps leave less than 1e-16 of the interval.
fn normal_inverse(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

impl Law {
    /// The share of values up to `x`.
    pub fn cdf(self, x: f64) -> f64 {
        let whole = |x: f64| match self {
            Law::Lognormal { mu, sigma, .. } if x > 0.0 => normal((x.ln() - mu) / sigma),
            Law::Pareto { k, alpha, .. } if x > k => 1.0 - (k / x).powf(alpha),
            Law::Weibull { shape, scale } if x > 0.0 => 1.0 - (-(x / scale).powf(shape)).exp(),
            _ => 0.0,
        };
        (whole(x) / whole(self.most())).min(1.0)
    }

    /// The value below which a share `p` of all values lies.
    pub fn quantile(self, p: f64) -> f64 {
        match self {
            Law::Lognormal { mu, sigma, most } => {
                (mu + sigma * normal_inverse(p * normal((most.ln() - mu) / sigma))).exp().min(most)
            }
            Law::Pareto { k, alpha, most } => {
                let below = 1.0 - (k / most).powf(alpha);
                (k / (1.0 - p * below).powf(1.0 / alpha)).min(most)
            }
            Law::Weibull { shape, scale } => scale * (-(1.0 - p).ln()).powf(1.0 / shape),
        }
    }

    /// The mean.
    pub fn mean(self) -> f64 {
        match self {
            Law::Lognormal { mu, sigma, most } => {
                let z = (most.ln() - mu) / sigma;
                (mu + sigma * sigma / 2.0).exp() * normal(z - sigma) / normal(z)
            }
            Law::Pareto { k, alpha, most } => {
                let ratio = k / most;
                let (up_to, of) = (1.0 - ratio.powf(alpha - 1.0), 1.0 - ratio.powf(alpha));
                k * alpha / (alpha - 1.0) * up_to / of
            }
            Law::Weibull { shape, scale } => scale * libm::tgamma(1.0 + 1.0 / shape),
        }
    }

    /// Draws a value.
    pub fn draw(self, stream: &mut Stream) -> f64 {
        // A number in (0, 1] from the stream; its complement is never 1, whose quantile may be infinite.
        self.quantile(1.0 - stream.unit())
    }

    fn most(self) -> f64 {
        match self {
            Law::Lognormal { most, .. } | Law::Pareto { most, .. } => most,
            Law::Weibull { .. } => f64::INFINITY,
        }
    }
}

/// The largest distance between the law and the shares that `sorted` values have (Kolmogorov, Smirnov).
pub fn distance(law: Law, sorted: &[f64]) -> f64 {
    let share = |count: usize| count as f64 / sorted.len() as f64;
    sorted.iter().enumerate().fold(0.0, |worst, (index, &value)| {
        let expected = law.cdf(value);
        f64::max(worst, (expected - share(index)).abs().max((share(index + 1) - expected).abs()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_driver::rng::Purpose;

    const LAWS: [Law; 5] = [
        Law::Lognormal { mu: 9.357, sigma: 1.318, most: 133_000.0 },
        Law::Lognormal { mu: 1.5, sigma: 0.8, most: f64::INFINITY },
        Law::Pareto { k: 133_000.0, alpha: 1.1, most: 1e7 },
        Law::Pareto { k: 1.0, alpha: 2.43, most: f64::INFINITY },
        Law::Weibull { shape: 1.46, scale: 0.382 },
    ];

    #[test]
    fn quantiles_invert_the_distribution_function() {
        for law in LAWS {
            for p in [0.001, 0.1, 0.5, 0.9, 0.999] {
                assert!((law.cdf(law.quantile(p)) - p).abs() < 1e-9, "{law:?} at {p}");
            }
        }
    }

    #[test]
    fn means_are_those_of_many_even_quantiles() {
        for law in LAWS {
            let n = 400_000;
            let sum: f64 = (0..n).map(|i| law.quantile((f64::from(i) + 0.5) / f64::from(n))).sum();
            let error = sum / f64::from(n) / law.mean() - 1.0;
            assert!(error.abs() < 2e-3, "{law:?}: {error}");
        }
    }

    #[test]
    fn the_normal_law_has_the_quantiles_of_its_tables() {
        for (p, z) in [(0.5, 0.0), (0.975, 1.959_964), (0.01, -2.326_348)] {
            assert!((normal_inverse(p) - z).abs() < 1e-6);
        }
    }

    #[test]
    fn draws_follow_their_law_and_no_other() {
        let mut stream = Stream::new(5, Purpose::Load, 0);
        let mut drawn: Vec<f64> = (0..20_000).map(|_| LAWS[4].draw(&mut stream)).collect();
        drawn.sort_by(f64::total_cmp);
        // 1.63 / sqrt(n) is the 1 % point of the test's statistic.
        assert!(distance(LAWS[4], &drawn) < 1.63 / 20_000f64.sqrt());
        assert!(distance(Law::Weibull { shape: 1.6, scale: 0.382 }, &drawn) > 2.0 * 1.63 / 20_000f64.sqrt());
    }
}
