//! The little numerical mathematics that intervals, percentiles and routing need: special functions by `statrs`, and
//! small systems of linear equations.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

pub use statrs::function::gamma::ln_gamma;

/// The `probability` quantile of Student's t with `degrees` degrees of freedom, infinitely many for the normal
/// distribution; NaN where there are none.
pub fn student_quantile(degrees: f64, probability: f64) -> f64 {
    if degrees == f64::INFINITY {
        // The library's search has no end there.
        return Normal::standard().inverse_cdf(probability);
    }
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::NAN, |student| student.inverse_cdf(probability))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_quantiles_agree_with_printed_tables() {
        // Abramowitz and Stegun, table 26.10.
        for (degrees, expected) in [(1.0, 12.706), (5.0, 2.571), (9.0, 2.262), (30.0, 2.042)] {
            assert!((student_quantile(degrees, 0.975) - expected).abs() < 5e-4, "{degrees}");
            assert!((student_quantile(degrees, 0.025) + expected).abs() < 5e-4, "{degrees}");
        }
    }

    #[test]
    fn student_quantiles_of_one_and_two_degrees_have_closed_forms() {
        for probability in [0.501, 0.6, 0.9, 0.975, 0.995, 0.9999] {
            let cauchy = (std::f64::consts::PI * (probability - 0.5)).tan();
            assert!((student_quantile(1.0, probability) / cauchy - 1.0).abs() < 1e-9, "{probability}");
            let odds = 2.0 * probability - 1.0;
            let two = odds * (2.0 / (1.0 - odds * odds)).sqrt();
            assert!((student_quantile(2.0, probability) / two - 1.0).abs() < 1e-9, "{probability}");
        }
    }
}
