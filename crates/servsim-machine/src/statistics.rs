//! Mean, standard deviation and 95 % interval of a handful of replications.
//!
//! The interval is Student's: mean +- t(0.975, n-1) s / sqrt(n). The quantile is found by bisection
//! on the distribution function, which is integrated numerically: exact to more digits than any
//! printed table and free of a table's gaps.

use serde_json::{json, Value};

/// Summary of one figure over replications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation with n - 1; `None` below two values.
    pub deviation: Option<f64>,
    /// 95 % interval; `None` below three values, where it would say nothing.
    pub interval: Option<(f64, f64)>,
}

impl Summary {
    /// Describes `values`; at least one.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let deviation = (n >= 2).then(|| {
            let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
            (squares / (n - 1) as f64).sqrt()
        });
        let interval = deviation.filter(|_| n >= 3).map(|s| {
            let half = t_quantile(0.975, (n - 1) as f64) * s / (n as f64).sqrt();
            (mean - half, mean + half)
        });
        Self { n, mean, deviation, interval }
    }

    /// As in results.
    pub fn to_json(self) -> Value {
        json!({
            "mean": self.mean,
            "standard_deviation": self.deviation,
            "interval_95": self.interval.map(|(low, high)| [low, high]),
            "n": self.n,
        })
    }
}

/// The quantile `p` (0.5 to 1) of Student's t with `df` degrees of freedom.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 700.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if t_distribution(middle, df) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(T <= x) for x >= 0: with x = sqrt(df) tan(a) the density becomes cos^(df-1), smooth on a
/// finite range, where Simpson's rule converges fast.
fn t_distribution(x: f64, df: f64) -> f64 {
    let power = |a: f64| a.cos().powf(df - 1.0);
    let part = integrate(power, (x / df.sqrt()).atan());
    0.5 + part / (2.0 * integrate(power, std::f64::consts::FRAC_PI_2))
}

fn integrate(f: impl Fn(f64) -> f64, to: f64) -> f64 {
    const STEPS: usize = 400;
    let h = to / STEPS as f64;
    let weight = |i: usize| if i % 2 == 1 { 4.0 } else { 2.0 };
    let inner: f64 = (1..STEPS).map(|i| weight(i) * f(i as f64 * h)).sum();
    (f(0.0) + inner + f(to)) * h / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_those_of_the_printed_tables() {
        // Abramowitz & Stegun 1964, Table 26.10.
        for (df, t) in [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)] {
            assert!((t_quantile(0.975, df) - t).abs() < 6e-4, "{df}: {}", t_quantile(0.975, df));
        }
    }

    #[test]
    fn a_summary_of_known_numbers() {
        let s = Summary::of(&[2.0, 4.0, 6.0]);
        assert_eq!((s.mean, s.deviation), (4.0, Some(2.0)));
        let (low, high) = s.interval.unwrap();
        assert!((high - low - 2.0 * 4.302_65 * 2.0 / 3_f64.sqrt()).abs() < 1e-3);
        assert_eq!(Summary::of(&[1.0, 2.0]).interval, None);
    }
}
