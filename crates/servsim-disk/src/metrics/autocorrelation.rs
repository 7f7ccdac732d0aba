//! Autocorrelation of the logarithm of times: whether bursts survive in a simulation.

/// Autocorrelation of `log y` at `lag`; 0 for a constant or too short sample. Values below 1 ns
/// (in the caller's unit of microseconds: 0.001) are taken as that.
pub fn of_logarithms(times_us: &[f64], lag: usize) -> f64 {
    of(&times_us.iter().map(|y| y.max(1e-3).ln()).collect::<Vec<f64>>(), lag)
}

/// Autocorrelation of `logs` themselves at `lag`.
pub(crate) fn of(logs: &[f64], lag: usize) -> f64 {
    if logs.len() <= lag + 1 {
        return 0.0;
    }
    let mean = super::mean(logs);
    let variance: f64 = logs.iter().map(|x| (x - mean).powi(2)).sum();
    if variance == 0.0 {
        return 0.0;
    }
    logs.iter().zip(&logs[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / variance
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_alternating_series_is_anticorrelated() {
        let series: Vec<f64> = (0..100).map(|k| if k % 2 == 0 { 1.0 } else { 10.0 }).collect();
        assert!((super::of_logarithms(&series, 1) + 0.99).abs() < 1e-9);
    }
}
