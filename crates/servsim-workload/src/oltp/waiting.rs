//! Keying and think times of TPC-C clause 5.2.5.7: off by default, scaled when asked for.

use super::request::TransactionKind;
use crate::rng::Stream;

/// Keying time and mean think time of a kind, in seconds.
pub fn seconds(kind: TransactionKind) -> (f64, f64) {
    match kind {
        TransactionKind::NewOrder => (18.0, 12.0),
        TransactionKind::Payment => (3.0, 12.0),
        TransactionKind::OrderStatus => (2.0, 10.0),
        TransactionKind::Delivery | TransactionKind::StockLevel => (2.0, 5.0),
    }
}

/// A think time: exponential with the kind's mean, cut at ten times the mean, in seconds.
pub fn think(kind: TransactionKind, stream: &mut Stream) -> f64 {
    let mean = seconds(kind).1;
    (-stream.unit().ln() * mean).min(10.0 * mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oltp::deck::Mix;
    use crate::rng::Purpose;

    #[test]
    fn mix_weighted_times_are_those_of_du_et_al_2001() {
        let shares = Mix::Weighted.shares();
        let weighted = |pick: fn((f64, f64)) -> f64| -> f64 {
            TransactionKind::ALL.iter().zip(shares).map(|(&kind, share)| share * pick(seconds(kind))).sum()
        };
        assert!((weighted(|times| times.0) - 9.63).abs() < 1e-12);
        assert!((weighted(|times| times.1) - 11.36).abs() < 1e-12);
    }

    #[test]
    fn think_times_have_their_mean_and_their_cut() {
        let mut stream = Stream::new(3, Purpose::Waiting, 0);
        let draws: Vec<f64> = (0..200_000).map(|_| think(TransactionKind::Payment, &mut stream)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 12.0).abs() < 3.0 * 12.0 / (draws.len() as f64).sqrt(), "mean {mean}");
        assert!(draws.iter().all(|&t| (0.0..=120.0).contains(&t)));
    }
}
