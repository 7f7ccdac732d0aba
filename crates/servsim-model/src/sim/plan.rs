//! How much a model is simulated, how far it is, and whether to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// How far a simulation is, for another thread to look at and to stop.
#[derive(Debug, Default)]
pub struct Watch {
    /// Bits of the requests per replication, and of the share of them that is done.
    requests: AtomicU64,
    done: AtomicU64,
    stopped: AtomicBool,
}

impl Watch {
    /// Requests per replication of the runs under way, and the share of all runs that is done; none before there are any.
    pub fn look(&self) -> Option<(f64, f64)> {
        let of = |number: &AtomicU64| f64::from_bits(number.load(Ordering::Relaxed));
        Some((of(&self.requests), of(&self.done))).filter(|(requests, _)| *requests > 0.0)
    }

    /// Ends the simulation soon, with [`crate::ModelError::Interrupted`], and those that are asked for with this watch
    /// afterwards.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn tell(&self, requests: f64, done: f64) {
        self.requests.store(requests.to_bits(), Ordering::Relaxed);
        self.done.store(done.to_bits(), Ordering::Relaxed);
    }
}

/// How much to simulate.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Independent replications (at least 2).
    pub replications: usize,
    /// Requests per replication, about, after the warm-up.
    pub requests: f64,
    /// Warm-up as a share of the measured span.
    pub warmup: f64,
    /// Seed; replication `i` uses a stream derived from it.
    pub seed: u64,
    /// Wanted relative half-width of every class's throughput and response interval; the length is
    /// doubled until it is met. `None` runs once.
    pub half_width: Option<f64>,
    /// Visits to stations, of all replications together, after which the wanted half-width is given up and
    /// what was reached is said. `None` goes on for long, then ends with an error.
    pub visits: Option<f64>,
    /// Told how far the runs are, and asked whether to stop.
    pub watch: Option<Arc<Watch>>,
}

impl Plan {
    /// Whether whoever watches the runs wants them to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.stopped.load(Ordering::Relaxed))
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            replications: 10,
            requests: 20_000.0,
            warmup: 0.2,
            seed: 1,
            half_width: None,
            visits: None,
            watch: None,
        }
    }
}
