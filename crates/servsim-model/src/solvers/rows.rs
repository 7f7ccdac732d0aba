//! A closed network by class, so that the stations of one lie side by side: what Linearizer and AQL go through in every
//! round.

use super::schweitzer::Reduced;

/// Numbers `[class x station]`.
pub(crate) struct Rows {
    pub stations: usize,
    /// Queueing demand, `[class x station]`.
    pub demand: Vec<f64>,
    /// Think time and delays by class.
    pub delay: Vec<f64>,
    /// Customers by class.
    pub population: Vec<f64>,
}

impl Rows {
    pub fn new(reduced: &Reduced<'_>) -> Self {
        let (stations, classes) = (reduced.closed.stations(), reduced.closed.classes());
        let delays = |c: usize| reduced.closed.think[c] + reduced.delay.iter().map(|d| d[c]).sum::<f64>();
        Self {
            stations,
            demand: by_class(&reduced.queueing, classes),
            delay: (0..classes).map(delays).collect(),
            population: reduced.population.clone(),
        }
    }
}

/// A table `[station][class]` by class.
pub(crate) fn by_class(table: &[Vec<f64>], classes: usize) -> Vec<f64> {
    (0..classes).flat_map(|c| table.iter().map(move |row| row[c])).collect()
}

/// The largest difference between numbers of two rows. Eight at a time: one after the other, each would wait for the
/// last.
pub(crate) fn largest_change(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut most = [0.0f64; 8];
    for (x, y) in a.iter().zip(b) {
        for lane in 0..8 {
            most[lane] = most[lane].max((x[lane] - y[lane]).abs());
        }
    }
    a_rest.iter().zip(b_rest).map(|(x, y)| (x - y).abs()).chain(most).fold(0.0, f64::max)
}
