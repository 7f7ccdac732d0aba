//! A generalised Pareto tail (Pickands 1975), fitted by probability-weighted moments (Hosking &
//! Wallis 1987), so that a simulation can exceed the largest value it was fitted on.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Share of the values that the tail stands for.
const TAIL_SHARE: f64 = 0.003;
/// Fewest exceedances that settle two parameters.
const MINIMUM: usize = 30;
/// Service times of a device have a finite variance: the shape stays below one half.
const SHAPE_LIMIT: f64 = 0.45;
/// A draw stays within this many times the largest exceedance seen: beyond lies pure speculation.
const REACH: f64 = 3.0;

/// Values above `threshold_us` follow a generalised Pareto distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Where the tail begins, us.
    pub threshold_us: f64,
    /// Scale, us.
    pub scale_us: f64,
    /// Shape: positive is heavier than exponential, negative has an end.
    pub shape: f64,
    /// Largest excess seen, us.
    pub largest_excess_us: f64,
}

impl Tail {
    /// Whether values drawn from it are times.
    pub(crate) fn is_sound(&self) -> bool {
        let times = [self.threshold_us, self.scale_us, self.largest_excess_us];
        times.iter().all(|us| (0.0..=1e12).contains(us)) && (-10.0..=10.0).contains(&self.shape)
    }

    /// Fits the tail of `sorted_us`, all values in ascending order; `None` if there are too few.
    pub fn fit(sorted_us: &[f32]) -> Option<Tail> {
        let count = (sorted_us.len() as f64 * TAIL_SHARE) as usize;
        if count < MINIMUM {
            return None;
        }
        let threshold = f64::from(sorted_us[sorted_us.len() - count - 1]);
        let excesses: Vec<f64> =
            sorted_us[sorted_us.len() - count..].iter().map(|&x| f64::from(x) - threshold).collect();
        let n = count as f64;
        let mean = excesses.iter().sum::<f64>() / n;
        // a1 = E[X (1 - F(X))] with plotting positions (j - 0.35) / n.
        let weighted: f64 =
            excesses.iter().enumerate().map(|(at, x)| x * (1.0 - (at as f64 + 0.65) / n)).sum::<f64>() / n;
        let denominator = mean - 2.0 * weighted;
        if mean <= 0.0 || denominator <= 0.0 {
            return None;
        }
        let shape = (2.0 - mean / denominator).clamp(-1.0, SHAPE_LIMIT);
        let scale_us = mean * (1.0 - shape);
        Some(Tail { threshold_us: threshold, scale_us, shape, largest_excess_us: excesses[count - 1] })
    }

    /// A value above the threshold, us.
    pub fn draw(&self, rng: &mut Pcg64Mcg) -> f64 {
        let survival = 1.0 - rng.random::<f64>();
        let excess = if self.shape.abs() < 1e-6 {
            -self.scale_us * survival.ln()
        } else {
            self.scale_us / self.shape * (survival.powf(-self.shape) - 1.0)
        };
        self.threshold_us + excess.min(REACH * self.largest_excess_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn an_exponential_tail_has_shape_near_zero_and_its_own_scale() {
        let n = 200_000;
        let sorted: Vec<f32> = (0..n).map(|k| -(1.0 - (k as f32 + 0.5) / n as f32).ln() * 100.0).collect();
        let tail = Tail::fit(&sorted).unwrap();
        assert!(tail.shape.abs() < 0.1 && (tail.scale_us - 100.0).abs() < 10.0, "{tail:?}");
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mean = (0..10_000).map(|_| tail.draw(&mut rng)).sum::<f64>() / 10_000.0;
        assert!((mean - tail.threshold_us - 100.0).abs() < 12.0, "{mean}");
    }
}
