//! The order of service, and the physical service time, of a trace in arrival order.
//!
//! A request's service starts at its recorded start; without one, at its arrival or, if later, when
//! the device last had fewer than its number of slots busy: the latest completion for a device that
//! serves one request at a time.
//!
//! Services come in the order in which they start. On a device with several slots that is not the order
//! of completions, in which a request would know of others that complete, or even arrive, after it starts.

use crate::request::{Command, Request, Start};
use std::collections::VecDeque;

/// A request as the device served it.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// The request.
    pub request: Request,
    /// Start of service, ns.
    pub start_ns: u64,
    /// Time without work before it, ns; 0 when it waited.
    pub idle_ns: u64,
    /// Requests in service when it started, itself left out.
    pub others: u32,
    /// Rank of its arrival, from 0.
    pub number: usize,
}

impl Served {
    /// What was known when it started.
    #[inline(always)]
    pub fn start(&self) -> Start {
        Start {
            command: Command::from(&self.request),
            start_ns: self.start_ns,
            idle_ns: self.idle_ns,
            others: self.others,
        }
    }

    /// Physical service time: completion minus start, ns.
    pub fn service_ns(&self) -> u64 {
        self.request.completion_ns - self.start_ns
    }

    /// Time in the queue, ns.
    pub fn wait_ns(&self) -> u64 {
        self.start_ns - self.request.arrival_ns
    }
}

/// Turns arrivals into services, as a stream: O(1) a request while they complete nearly in order.
#[derive(Debug)]
pub struct ServiceOrder {
    slots: usize,
    uses_recorded_start: bool,
    /// In flight, by time of service (see [`ServiceOrder::rank`]).
    in_flight: VecDeque<(usize, Request)>,
    arrived: usize,
    /// The latest completions, earliest first, as many as there are slots.
    completions: VecDeque<u64>,
    /// The last completion of a device with one slot, which needs no list.
    latest: Option<u64>,
    /// The last rank handed out by [`ServiceOrder::next_in_order`].
    latest_rank: u64,
}

impl ServiceOrder {
    /// A device that serves `slots` requests at a time.
    pub fn new(slots: usize, uses_recorded_start: bool) -> Self {
        ServiceOrder {
            slots: slots.max(1),
            uses_recorded_start,
            in_flight: VecDeque::new(),
            arrived: 0,
            completions: VecDeque::new(),
            latest: None,
            latest_rank: 0,
        }
    }

    /// What decides the order of service: the recorded start; without one the completion, which has the
    /// same order on a device that serves one request at a time, or else the arrival.
    #[inline]
    fn rank(&self, request: &Request) -> u64 {
        let unrecorded = if self.slots == 1 { request.completion_ns } else { request.arrival_ns };
        request.recorded_start_ns().filter(|_| self.uses_recorded_start).unwrap_or(unrecorded)
    }

    /// The next arrival; `each` gets every request whose service is known to come before it.
    #[inline]
    pub fn push(&mut self, request: Request, each: &mut impl FnMut(&Served)) {
        let rank = self.rank(&request);
        while let Some(first) = self.in_flight.front() {
            if self.rank(&first.1) > request.arrival_ns {
                break;
            }
            let (number, first) = *first;
            self.in_flight.pop_front();
            self.serve(number, first, each);
        }
        let number = self.arrived;
        self.arrived += 1;
        if self.in_flight.back().is_none_or(|last| self.rank(&last.1) <= rank) {
            self.in_flight.push_back((number, request));
            return;
        }
        let mut at = self.in_flight.len() - 1;
        while at > 0 && self.rank(&self.in_flight[at - 1].1) > rank {
            at -= 1;
        }
        self.in_flight.insert(at, (number, request));
    }

    /// The next arrival's service, if the device has one slot and served so far in order of arrival,
    /// as an FCFS device does: quicker than [`ServiceOrder::push`]. `None` if `request` was served
    /// before one that has been handed out: then begin again, with [`ServiceOrder::run`].
    #[inline(always)]
    pub fn next_in_order(&mut self, request: &Request) -> Option<Served> {
        let rank = self.rank(request);
        if self.slots != 1 || rank < self.latest_rank {
            return None;
        }
        self.latest_rank = rank;
        let number = self.arrived;
        self.arrived += 1;
        Some(self.serve_alone(number, request))
    }

    /// A whole trace, from nothing to its end.
    pub fn run(&mut self, requests: &[Request], each: &mut impl FnMut(&Served)) {
        requests.iter().for_each(|request| self.push(*request, each));
        self.finish(each);
    }

    /// The end of the trace: all that is in flight completes.
    pub fn finish(&mut self, each: &mut impl FnMut(&Served)) {
        while let Some((number, first)) = self.in_flight.pop_front() {
            self.serve(number, first, each);
        }
    }

    /// [`ServiceOrder::serve`] of a device with one slot.
    #[inline(always)]
    fn serve_alone(&mut self, number: usize, request: &Request) -> Served {
        let free = self.latest.unwrap_or(0);
        let recorded = request.recorded_start_ns().filter(|_| self.uses_recorded_start);
        let start_ns = recorded.unwrap_or_else(|| request.arrival_ns.max(free).min(request.completion_ns));
        let idle_ns = if self.latest.is_some() { start_ns.saturating_sub(free) } else { 0 };
        self.latest = Some(request.completion_ns);
        Served { request: *request, start_ns, idle_ns, others: 0, number }
    }

    #[inline]
    fn serve(&mut self, number: usize, request: Request, each: &mut impl FnMut(&Served)) {
        if self.slots == 1 {
            each(&self.serve_alone(number, &request));
            return;
        }
        let slot_free = if self.completions.len() == self.slots { self.completions[0] } else { 0 };
        let latest = self.completions.back().copied();
        let recorded = request.recorded_start_ns().filter(|_| self.uses_recorded_start);
        let start_ns =
            recorded.unwrap_or_else(|| request.arrival_ns.max(slot_free).min(request.completion_ns));
        let idle_ns = latest.map_or(0, |latest| start_ns.saturating_sub(latest));
        let others = self.completions.iter().filter(|&&done| done > start_ns).count() as u32;
        each(&Served { request, start_ns, idle_ns, others, number });
        let at = self.completions.partition_point(|&done| done <= request.completion_ns);
        self.completions.insert(at, request.completion_ns);
        if self.completions.len() > self.slots {
            self.completions.pop_front();
        }
    }
}

/// All services of a trace held in memory, in service order.
pub fn services(requests: &[Request], slots: usize, uses_recorded_start: bool) -> Vec<Served> {
    let mut order = ServiceOrder::new(slots, uses_recorded_start);
    let mut served = Vec::with_capacity(requests.len());
    for request in requests {
        order.push(*request, &mut |service| served.push(*service));
    }
    order.finish(&mut |service| served.push(*service));
    served
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Op, NO_START};

    #[test]
    fn service_starts_when_the_earlier_request_completes() {
        let request = |arrival_ns, completion_ns| Request {
            arrival_ns,
            completion_ns,
            start_ns: NO_START,
            lba: 0,
            sectors: 8,
            device: 0,
            op: Op::Read,
            by_tracer: false,
        };
        // The second to arrive is served last.
        let trace = [request(0, 10), request(1, 30), request(2, 18), request(50, 60)];
        let served = services(&trace, 1, true);
        let seen: Vec<_> = served.iter().map(|s| (s.request.arrival_ns, s.service_ns(), s.idle_ns)).collect();
        assert_eq!(seen, [(0, 10, 0), (2, 8, 0), (1, 12, 0), (50, 10, 20)]);
    }

    #[test]
    fn a_trace_in_order_of_service_is_served_the_quick_way_and_another_is_refused() {
        let request = |arrival_ns, start_ns, completion_ns| Request {
            arrival_ns,
            completion_ns,
            start_ns,
            lba: 0,
            sectors: 8,
            device: 0,
            op: Op::Read,
            by_tracer: false,
        };
        let seen = |served: &Served| (served.number, served.start_ns, served.idle_ns, served.wait_ns());
        for recorded in [false, true] {
            let mut trace =
                vec![request(0, 2, 10), request(3, 11, 20), request(50, 51, 60), request(60, 60, 60)];
            let mut order = ServiceOrder::new(1, recorded);
            let quick: Vec<_> =
                trace.iter().map(|request| seen(&order.next_in_order(request).unwrap())).collect();
            let general: Vec<_> = services(&trace, 1, recorded).iter().map(seen).collect();
            assert_eq!(quick, general);
            // Arrives while the last is served, and goes before it.
            trace.push(request(61, 90, 100));
            trace.push(request(62, 70, 80));
            let mut order = ServiceOrder::new(1, recorded);
            let refused: Vec<bool> =
                trace.iter().map(|request| order.next_in_order(request).is_none()).collect();
            assert_eq!(refused, [false, false, false, false, false, true]);
            assert!(ServiceOrder::new(2, recorded).next_in_order(&trace[0]).is_none());
        }
    }
}
