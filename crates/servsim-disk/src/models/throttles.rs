//! Limits of a host that a trace may show, and whether it does.
//!
//! A token bucket lets requests pass at moments that arrivals alone decide, so a trace can contradict one: no
//! request is done before it has passed. Without that test the search takes limits that nobody set, a little above the
//! rate of the arrivals, for what makes neighbours alike; at a higher load they would decide everything.

use super::parallel::{Throttle, Unit};
use crate::request::{Command, Request};

/// Fewest requests that must have waited for a limit.
const FEWEST: usize = 30;
/// Share of those whose response must hold the wait.
const BORNE_OUT: f64 = 0.9;
/// Share of a wait that the response must hold: rate and burst are found step by step.
const OF_THE_WAIT: f64 = 0.5;
/// Mean responses of the requests that did not wait for it, in the median wait of those that did: shorter waits are not
/// told from those for the device.
const BEYOND_OTHERS: f64 = 3.0;

/// A throttle at work: arrivals alone decide when requests pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    throttle: Throttle,
    tokens: f64,
    admitted_us: f64,
}

impl Bucket {
    pub(super) fn new(throttle: &Throttle) -> Self {
        Bucket { throttle: *throttle, tokens: throttle.burst, admitted_us: 0.0 }
    }

    /// When it lets a request that arrives at `start_us` pass.
    #[inline]
    pub(super) fn admit(&mut self, command: &Command, start_us: f64) -> f64 {
        let throttle = &self.throttle;
        let per_us = throttle.per_second * 1e-6;
        let now = start_us.max(self.admitted_us);
        self.tokens = (self.tokens + (now - self.admitted_us) * per_us).min(throttle.burst);
        let cost = match throttle.unit {
            Unit::Requests => 1.0,
            Unit::Sectors => f64::from(command.sectors),
        };
        // A request larger than the bucket passes when the bucket is full, and is owed for.
        let missing = (cost.min(throttle.burst) - self.tokens).max(0.0);
        self.admitted_us = now + missing / per_us;
        self.tokens += missing - cost;
        self.admitted_us
    }
}

/// Limits that the trace may show: completions of a throttled device are never denser, in the long run.
pub(super) fn throttles(requests: &[Request]) -> Vec<Throttle> {
    let mut done: Vec<(u64, f64)> =
        requests.iter().map(|r| (r.completion_ns, f64::from(r.sectors))).collect();
    done.sort_unstable_by_key(|done| done.0);
    let span_s = done.last().map_or(0.0, |last| last.0 as f64 * 1e-9);
    let mut found = Vec::new();
    for unit in [Unit::Requests, Unit::Sectors] {
        let mut totals: Vec<f64> = Vec::with_capacity(done.len() + 1);
        totals.push(0.0);
        for (at, &(_, sectors)) in done.iter().enumerate() {
            totals.push(totals[at] + if unit == Unit::Requests { 1.0 } else { sectors });
        }
        // The most that completes within a window, for windows that double.
        let mut windows = Vec::new();
        let mut window_s = 1e-3;
        while window_s < span_s / 3.0 {
            let (mut first, mut most) = (0, 0.0_f64);
            for at in 0..done.len() {
                while (done[at].0 - done[first].0) as f64 * 1e-9 > window_s {
                    first += 1;
                }
                most = most.max(totals[at + 1] - totals[first]);
            }
            windows.push((window_s, most));
            window_s *= 2.0;
        }
        for pair in windows.windows(2) {
            let per_second = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
            let burst = (pair[0].1 - per_second * pair[0].0).max(1.0);
            if per_second > 0.0 {
                found.push(Throttle { unit, per_second, burst });
            }
        }
    }
    found
}

/// Whether requests (one device, in arrival order) waited for `throttle` as it says.
pub(super) fn is_met(throttle: &Throttle, requests: &[Request]) -> bool {
    let mut bucket = Bucket::new(throttle);
    let (mut waits_us, mut borne_out) = (Vec::new(), 0_usize);
    let (mut others_us, mut others) = (0.0, 0_usize);
    for request in requests {
        let arrival_us = request.arrival_ns as f64 * 1e-3;
        let wait_us = bucket.admit(&Command::from(request), arrival_us) - arrival_us;
        let response_us = request.response_ns() as f64 * 1e-3;
        if wait_us > 0.0 {
            waits_us.push(wait_us);
            borne_out += usize::from(response_us >= OF_THE_WAIT * wait_us);
        } else {
            others += 1;
            others_us += response_us;
        }
    }
    let waited = waits_us.len();
    if waited < FEWEST || (borne_out as f64) < BORNE_OUT * waited as f64 {
        return false;
    }
    let (_, &mut median_us, _) = waits_us.select_nth_unstable_by(waited / 2, f64::total_cmp);
    median_us * others as f64 >= BEYOND_OTHERS * others_us
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Op, NO_START};

    const LIMIT: Throttle = Throttle { unit: Unit::Requests, per_second: 1000.0, burst: 10.0 };

    /// `bursts` of 30 requests at once, each passed by `LIMIT` and done 40 us later; `kept` is the share of the wait kept.
    fn trace(bursts: u64, kept: f64) -> Vec<Request> {
        let mut bucket = Bucket::new(&LIMIT);
        let each = |at: u64| {
            let arrival_ns = at / 30 * 100_000_000;
            let request = Request {
                arrival_ns,
                start_ns: NO_START,
                completion_ns: 0,
                lba: at * 8,
                sectors: 8,
                device: 0,
                op: Op::Read,
                by_tracer: false,
            };
            let arrival_us = arrival_ns as f64 * 1e-3;
            let wait_us = bucket.admit(&Command::from(&request), arrival_us) - arrival_us;
            Request { completion_ns: arrival_ns + (kept * wait_us * 1e3) as u64 + 40_000, ..request }
        };
        (0..bursts * 30).map(each).collect()
    }

    #[test]
    fn a_limit_is_met_where_requests_waited_for_it_and_contradicted_by_those_done_before_they_passed() {
        assert!(is_met(&LIMIT, &trace(10, 1.0)));
        assert!(!is_met(&LIMIT, &trace(10, 0.0)), "requests were done before they could have passed");
        assert!(!is_met(&LIMIT, &trace(1, 1.0)), "twenty waits show nothing");
        // The longest wait is 20 ms; where requests take 10 ms by themselves it could be theirs.
        let slow =
            trace(10, 1.0).into_iter().map(|r| Request { completion_ns: r.completion_ns + 10_000_000, ..r });
        assert!(!is_met(&LIMIT, &slow.collect::<Vec<_>>()), "waits that the device itself may have caused");
        // Found step by step, a limit that is a tenth off is not yet contradicted.
        assert!(is_met(&Throttle { per_second: 900.0, ..LIMIT }, &trace(10, 1.0)));
    }
}
