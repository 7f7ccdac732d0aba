//! The few special functions that intervals and percentiles need: log-gamma (Lanczos), regularised
//! incomplete beta (continued fraction, Abramowitz and Stegun 26.5), and the quantiles of Student's
//! t found from it by bisection. Accurate to about 1e-12.

/// Natural logarithm of the gamma function for `x > 0` (Lanczos, g = 7, n = 9).
pub fn ln_gamma(x: f64) -> f64 {
    const LANCZOS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let sum: f64 = LANCZOS[0] + (1..9).map(|i| LANCZOS[i] / (x + i as f64)).sum::<f64>();
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Regularised incomplete beta function `I_x(a, b)`.
pub fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_cdf(b, a, 1.0 - x);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    let (mut c, mut d) = (1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0)));
    let mut h = d;
    for i in 1..10_000 {
        let m = f64::from(i);
        for numerator in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / (1.0 + numerator * d);
            c = 1.0 + numerator / c;
            h *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * h / a
}

/// The `probability` quantile of Student's t with `degrees` degrees of freedom.
pub fn student_quantile(degrees: f64, probability: f64) -> f64 {
    if probability < 0.5 {
        return -student_quantile(degrees, 1.0 - probability);
    }
    let cdf = |t: f64| 1.0 - 0.5 * beta_cdf(degrees / 2.0, 0.5, degrees / (degrees + t * t));
    let mut high = 2.0;
    while cdf(high) < probability {
        high *= 2.0;
    }
    bisect(0.0, high, |t| cdf(t) < probability)
}

/// The solution of a small system of linear equations, by elimination with row pivots; `None` where there is no one.
pub fn solve_linear(matrix: &[Vec<f64>], constant: &[f64]) -> Option<Vec<f64>> {
    let n = constant.len();
    let mut rows: Vec<Vec<f64>> =
        matrix.iter().zip(constant).map(|(row, c)| row.iter().copied().chain([*c]).collect()).collect();
    for step in 0..n {
        let pivot = (step..n).max_by(|&a, &b| rows[a][step].abs().total_cmp(&rows[b][step].abs()))?;
        rows.swap(step, pivot);
        if rows[step][step].abs() < 1e-13 {
            return None;
        }
        let (done, rest) = rows.split_at_mut(step + 1);
        for row in rest {
            let factor = row[step] / done[step][step];
            row[step..].iter_mut().zip(&done[step][step..]).for_each(|(x, p)| *x -= factor * p);
        }
    }
    let mut found = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| rows[i][j] * found[j]).sum();
        found[i] = (rows[i][n] - known) / rows[i][i];
    }
    Some(found)
}

/// The point where `below` turns false between `low` and `high`.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_quantiles_agree_with_printed_tables() {
        // Abramowitz and Stegun, table 26.10.
        for (degrees, expected) in [(1.0, 12.706), (5.0, 2.571), (9.0, 2.262), (30.0, 2.042)] {
            assert!((student_quantile(degrees, 0.975) - expected).abs() < 5e-4, "{degrees}");
        }
    }
}
