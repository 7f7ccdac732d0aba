//! Fork-join by stated approximation, one closed class: each branch is a queue of its own, and the
//! section lasts as long as the slowest branch. Branch residence times are taken as independent
//! exponentials, whose expected maximum follows from inclusion-exclusion, then corrected for the
//! correlation of queues that grow together by the factor of Nelson and Tantawi (IEEE Trans.
//! Comput. 37(6), 1988), exact there for two equal M/M/1 branches. Other stations obey MVA.

use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::{Network, Speed};

/// Expected maximum of independent exponentials with these means (at most 20 of them).
pub fn expected_maximum(means: &[f64]) -> f64 {
    let rates: Vec<f64> = means.iter().filter(|m| **m > 0.0).map(|m| 1.0 / m).collect();
    let mut sum = 0.0;
    for subset in 1u32..(1 << rates.len()) {
        let rate: f64 = rates.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1).map(|(_, r)| r).sum();
        sum += if subset.count_ones() % 2 == 1 { 1.0 / rate } else { -1.0 / rate };
    }
    sum
}

/// Nelson and Tantawi's mean of `k` equal branches relative to independence, at utilisation `rho`.
fn correlation(k: usize, rho: f64) -> f64 {
    let harmonic = |k: usize| (1..=k).map(|i| 1.0 / i as f64).sum::<f64>();
    let (hk, h2) = (harmonic(k), 1.5);
    let two = (12.0 - rho) / 8.0;
    (hk / h2 + 4.0 / 11.0 * (1.0 - hk / h2) * rho) * two / hk
}

/// Means by MVA over populations `1..=N`, with the section time in place of the branches' sum.
///
/// # Errors
/// [`ModelError::Unsupported`] for several classes, other speeds, or more than 20 branches.
pub fn solve(network: &Network, closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    refuse(network, closed)?;
    closed.lattice(closed.stations(), tolerance.states)?;
    let stations = closed.stations();
    let in_fork = |k: usize| network.forks.iter().any(|f| f.stations().any(|s| s == k));
    let mut queue = vec![0.0; stations];
    let mut throughput = 0.0;
    for n in 1..=closed.population[0] {
        let residence: Vec<f64> = (0..stations)
            .map(|k| {
                closed.demands[k][0] * if closed.speeds[k] == Speed::Delay { 1.0 } else { 1.0 + queue[k] }
            })
            .collect();
        let plain: f64 = (0..stations).filter(|&k| !in_fork(k)).map(|k| residence[k]).sum();
        let forked: f64 = network
            .forks
            .iter()
            .map(|fork| {
                let times: Vec<f64> = fork.stations().map(|k| residence[k]).collect();
                let load = |k: usize| (throughput * closed.demands[k][0]).min(1.0);
                let rho = fork.stations().map(load).fold(0.0, f64::max);
                let slowest = times.iter().copied().fold(0.0, f64::max);
                (expected_maximum(&times) * correlation(times.len(), rho)).max(slowest)
            })
            .sum();
        throughput = n as f64 / (closed.think[0] + plain + forked);
        (0..stations).for_each(|k| queue[k] = throughput * residence[k]);
    }
    let mut means = closed.empty_means();
    means.throughput[0] = throughput;
    (0..stations).for_each(|k| means.queue[k][0] = queue[k]);
    closed.guard("forkjoin", means)
}

fn refuse(network: &Network, closed: &Closed) -> Result<(), ModelError> {
    let unsupported = |feature: &str, place: &str, remedy: &str| {
        Err(ModelError::unsupported("forkjoin", feature, place, remedy))
    };
    if closed.classes() != 1 || network.classes.len() != 1 {
        return unsupported("several classes", &network.forks[0].name, "use `simulation`");
    }
    if let Some(k) =
        (0..closed.stations()).find(|&k| !closed.speeds[k].is_single() && closed.speeds[k] != Speed::Delay)
    {
        return unsupported("stations with several servers", &closed.names[k], "use `simulation`");
    }
    if let Some(fork) = network.forks.iter().find(|fork| !fork.is_flat()) {
        return unsupported("branches of several stations", &fork.name, "use `auto` or `simulation`");
    }
    match network.forks.iter().find(|fork| fork.branches.len() > 20) {
        Some(fork) => unsupported("more than 20 branches", &fork.name, "use `simulation`"),
        None => Ok(()),
    }
}
