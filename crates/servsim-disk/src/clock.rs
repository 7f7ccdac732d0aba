//! Ticks of a host's clock in the times of a trace.
//!
//! A host that sleeps, or stamps, by ticks leaves times that are whole numbers of ticks. Where that
//! holds of *idle time plus service* but not of the idle time, the idle time before a request tells
//! how long its service will take: a model that knows it knows the answer. [`idle_tells_service`]
//! finds that, [`tick`] finds a clock.
//!
//! The measure is the resultant length of circular statistics (Mardia & Jupp 2000): times are put on
//! a circle as long as the period; 1 if all meet in one point, about `1/sqrt(n)` if they are spread.

use crate::order::Served;
use std::f64::consts::TAU;

/// Shortest and longest period looked for, ns: clocks of hosts tick 50 to 1000 times a second.
const PERIODS_NS: (f64, f64) = (900_000.0, 20_500_000.0);
/// Longer times carry the error of the period with them.
const LONGEST_NS: u64 = 200_000_000;
/// Times looked at; more settle nothing.
const ENOUGH: usize = 512;
/// Fewer times agree by chance.
pub const FEWEST: usize = 32;
/// A resultant beyond this is a clock: by chance the best of all periods reaches 0.5 with 32 times.
const CLOCK: f64 = 0.7;

/// A clock found in times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// Its period, ns.
    pub period_ns: f64,
    /// How well the times agree with it, 0 to 1.
    pub resultant: f64,
}

/// The resultant length of `times_ns` around a circle of `period_ns`.
fn resultant(times_ns: &[f64], period_ns: f64) -> f64 {
    let sums = times_ns.iter().fold((0.0, 0.0), |(x, y), time| {
        let (sin, cos) = (TAU * time / period_ns).sin_cos();
        (x + cos, y + sin)
    });
    f64::hypot(sums.0, sums.1) / times_ns.len().max(1) as f64
}

/// The times used, of all that are given.
fn usable(times_ns: impl Iterator<Item = u64>) -> Vec<f64> {
    times_ns.filter(|time| (1..=LONGEST_NS).contains(time)).take(ENOUGH).map(|time| time as f64).collect()
}

/// The clock of which `times_ns` are whole ticks, if there is one.
pub fn tick(times_ns: impl Iterator<Item = u64>) -> Option<Tick> {
    let times_ns = usable(times_ns);
    if times_ns.len() < FEWEST {
        return None;
    }
    // Two steps a turn of the longest time: no peak is missed by more than a quarter of a turn.
    let step = 0.25 / times_ns.iter().fold(1.0, |longest: f64, time| longest.max(*time));
    let (first, last) = (1.0 / PERIODS_NS.1, 1.0 / PERIODS_NS.0);
    let steps = ((last - first) / step) as u64;
    let candidates = (0..=steps).map(|k| {
        let period_ns = 1.0 / (first + k as f64 * step);
        Tick { period_ns, resultant: resultant(&times_ns, period_ns) }
    });
    let best = candidates.max_by(|a, b| a.resultant.total_cmp(&b.resultant))?;
    (best.resultant > CLOCK).then_some(best)
}

/// Whether the idle time before a request tells its service time, because their sum is whole ticks of
/// a clock and the idle time alone is not. `served` are services in their order, of one device.
pub fn idle_tells_service(served: &[Served]) -> Option<Tick> {
    // Services that waited have no idle time to tell anything.
    let alone: Vec<&Served> = served.iter().filter(|service| service.idle_ns > 0).take(2 * ENOUGH).collect();
    let sums = alone.iter().map(|service| service.idle_ns + service.service_ns());
    let found = tick(sums)?;
    let idle = usable(alone.iter().map(|service| service.idle_ns));
    let services = usable(alone.iter().map(|service| service.service_ns()));
    let spread = |times: &[f64]| resultant(times, found.period_ns) < CLOCK;
    (spread(&idle) && spread(&services)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_oracle::drive::Words;

    #[test]
    fn whole_ticks_with_noise_are_found_with_their_period_and_spread_times_are_not() {
        let mut words = Words(3);
        for count in [FEWEST as u64, 400] {
            let ticks: Vec<u64> =
                (0..count).map(|_| (1 + words.below(8)) * 9_960_000 + words.below(800_000)).collect();
            let found = tick(ticks.into_iter()).expect("a clock");
            assert!((found.period_ns / 9_960_000.0 - 1.0).abs() < 0.02, "{found:?}");
            let spread: Vec<u64> = (0..count).map(|_| 1 + words.below(90_000_000)).collect();
            assert_eq!(tick(spread.into_iter()), None, "{count}");
        }
        assert_eq!(tick([9_960_000; FEWEST - 1].into_iter()), None);
    }
}
