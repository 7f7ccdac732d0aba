//! The input data follow the specification's probabilities.

use std::hash::Hash;

use super::*;
use crate::log::Log;
use crate::oltp::scale::Preset;
use crate::rng::Purpose;

fn generator() -> Generator {
    let scale = Preset::Paper.scale(None);
    Generator { scale, a: scale.a(), c: scale.c_run(scale.c_load(1), 2) }
}

fn requests(kind: TransactionKind, count: usize) -> Vec<TransactionInput> {
    let generator = generator();
    let mut stream = Stream::new(17, Purpose::Measured, 0);
    (0..count).map(|_| generator.request(kind, UserWarehouse::Random, &mut stream)).collect()
}

/// By how many standard deviations a count is off its share.
fn off(hits: usize, of: usize, share: f64) -> f64 {
    ((hits as f64 - of as f64 * share) / (of as f64 * share * (1.0 - share)).sqrt()).abs()
}

/// The count fits its share, and shares a fifth off would have been found out.
fn assert_share(hits: usize, of: usize, share: f64) {
    assert!(off(hits, of, share) < 3.0, "{hits} of {of} for a share of {share}");
    for wrong in [0.8 * share, 1.2 * share] {
        assert!(off(hits, of, wrong) > 3.0, "{hits} of {of} would pass for a share of {wrong}");
    }
}

#[test]
fn new_orders_have_ten_lines_one_percent_invalid_and_the_expected_remote_share() {
    let count = 100_000;
    let (mut lines_sum, mut invalid_count, mut remote_count) = (0, 0, 0);
    for request in requests(TransactionKind::NewOrder, count) {
        let TransactionInput::NewOrder { warehouse, lines, invalid, .. } = request else {
            panic!("not a New-Order")
        };
        assert!((5..=15).contains(&lines.len()) && lines.is_sorted());
        assert_eq!(lines.iter().filter(|line| line.1 == 101).count(), usize::from(invalid));
        lines_sum += lines.len();
        invalid_count += usize::from(invalid);
        remote_count += usize::from(lines.iter().any(|line| line.0 != warehouse));
    }
    let mean = lines_sum as f64 / count as f64;
    assert!((mean - 10.0).abs() < 3.0 * (10.0f64 / count as f64).sqrt(), "mean lines {mean}");
    assert_share(invalid_count, count, 0.01);
    let remote_share = (5..=15).map(|lines| 1.0 - 0.99f64.powi(lines)).sum::<f64>() / 11.0;
    assert!((remote_share - 0.0956).abs() < 1e-3);
    assert_share(remote_count, count, remote_share);
}

#[test]
fn payments_are_fifteen_percent_remote_and_sixty_percent_by_name() {
    let count = 100_000;
    let (mut remote, mut by_name) = (0, 0);
    for request in requests(TransactionKind::Payment, count) {
        let TransactionInput::Payment { warehouse, district, home, customer, cents } = request else {
            panic!("not a Payment")
        };
        assert!((100..=500_000).contains(&cents));
        assert!(home.0 != warehouse || home == (warehouse, district));
        remote += usize::from(home.0 != warehouse);
        by_name += usize::from(matches!(customer, Customer::LastName(_)));
    }
    assert_share(remote, count, 0.15);
    assert_share(by_name, count, 0.60);
}

#[test]
fn one_warehouse_has_no_remote_work() {
    let scale = Preset::Spec.scale(Some(1));
    let generator = Generator { scale, a: scale.a(), c: scale.c_load(1) };
    let mut stream = Stream::new(1, Purpose::Measured, 0);
    for _ in 0..2000 {
        match generator.request(TransactionKind::NewOrder, UserWarehouse::Home(1, 4), &mut stream) {
            TransactionInput::NewOrder { lines, .. } => assert!(lines.iter().all(|line| line.0 == 1)),
            other => panic!("{other:?}"),
        }
        match generator.request(TransactionKind::Payment, UserWarehouse::Home(1, 4), &mut stream) {
            TransactionInput::Payment { home, .. } => assert_eq!(home.0, 1),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_fixed_home_fixes_warehouse_and_stock_level_district() {
    let mut stream = Stream::new(1, Purpose::Measured, 0);
    for _ in 0..100 {
        let request =
            generator().request(TransactionKind::StockLevel, UserWarehouse::Home(9, 2), &mut stream);
        assert!(matches!(
            request,
            TransactionInput::StockLevel { warehouse: 9, district: 2, threshold: 10..=20 }
        ));
    }
}

#[test]
fn the_log_hash_tells_order_and_content() {
    let [first, second] = <[TransactionInput; 2]>::try_from(requests(TransactionKind::Delivery, 2)).unwrap();
    let hash = |log: &[&TransactionInput]| {
        let mut hash = Log::default();
        for request in log {
            request.hash(&mut hash);
        }
        hash
    };
    assert_eq!(hash(&[&first, &second]), hash(&[&first, &second]));
    assert_ne!(hash(&[&first, &second]), hash(&[&second, &first]));
}
