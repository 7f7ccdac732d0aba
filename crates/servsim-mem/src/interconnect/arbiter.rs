//! The order point: which of the requests that wait is granted next, and when. It is the bus of Foglia et
//! al. 2004, or what orders the transactions of a crossbar or network.
//!
//! The address phase (the grant) is the point of serialisation. Latency and occupancy are two
//! numbers: a fetch from memory frees the bus while memory works. A second request for a block
//! whose data are still on the way is held until they arrive. Requests of one class are served
//! round-robin over the processors, or (`fifo`) in the order in which they were made, held or not;
//! fetches go before invalidates and writes, those before prefetches, and those before write-backs,
//! unless a processor's write-back buffer is full.
//!
//! **Write buffer.** Without one, a write-back that waits is already in memory as far as fetches are
//! concerned (they take the memory latency), and is never cancelled. With one of N entries per processor
//! the waiting write-backs are its content: when N wait they are as urgent as fetches, and their processor
//! gets no block before one has gone; [`Arbiter::buffered`] and [`Arbiter::cancel_buffered`] are for who snoops it.

use super::{BusRequest, Class, WriteBufferCounters};
use servsim_core::{CpuId, Cycles, LineAddr};

#[derive(Debug, Clone, Copy)]
struct InFlight {
    line: LineAddr,
    cpu: CpuId,
    until: u64,
}

/// Write-backs a processor may have waiting before they become urgent, without write buffers.
const WRITE_BACK_BUFFER: usize = 4;

/// The order point.
#[derive(Debug, Clone)]
pub(super) struct Arbiter {
    pub(super) requests: Vec<BusRequest>,
    in_flight: Vec<InFlight>,
    free_at: u64,
    last_cpu: CpuId,
    last_grant: u64,
    processors: usize,
    fifo: bool,
    most_fetches: usize,
    next: Option<(u64, usize)>,
    /// When each request may be granted, apart from the bus being busy.
    times: Vec<u64>,
    /// Between a grant and the next choice, when no time is up to date.
    granting: bool,
    /// Entries of each processor's write buffer; 0 for none.
    pub(super) write_buffer: usize,
    /// What the write buffers counted.
    pub buffers: WriteBufferCounters,
    /// Cycles occupied so far.
    pub busy: u64,
}

impl Arbiter {
    /// A free order point of `processors` that may each have `most_fetches` fetches under way.
    pub fn new(processors: usize, fifo: bool, most_fetches: usize) -> Self {
        Self {
            requests: Vec::new(),
            in_flight: Vec::new(),
            free_at: 0,
            last_cpu: CpuId(processors - 1),
            last_grant: 0,
            processors,
            fifo,
            most_fetches,
            next: None,
            times: Vec::new(),
            granting: false,
            write_buffer: 0,
            buffers: WriteBufferCounters::default(),
            busy: 0,
        }
    }

    /// When it is free.
    #[inline]
    pub fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Adds a request.
    pub fn post(&mut self, request: BusRequest) {
        if request.class == Class::WriteBack {
            self.enter_buffer(&request);
        }
        let index = self.requests.len();
        self.requests.push(request);
        // A write buffer that is full keeps other requests waiting: all are looked at anew.
        if self.granting || self.write_buffer > 0 && request.class == Class::WriteBack {
            return self.choose();
        }
        let time = self.eligible(&request);
        self.times.push(time);
        match self.next {
            // A write-back may make its processor's others urgent.
            Some(_) if request.class == Class::WriteBack => self.choose_among(),
            Some((next, _)) if time.max(self.free_at) > next => {}
            Some((next, chosen)) if time.max(self.free_at) == next => {
                if self.rank(&self.requests[index]) < self.rank(&self.requests[chosen]) {
                    self.next = Some((next, index));
                }
            }
            _ => self.next = Some((time.max(self.free_at), index)),
        }
    }

    /// Time of the next grant; `u64::MAX` without requests.
    #[inline]
    pub fn next_grant(&self) -> u64 {
        self.next.map_or(u64::MAX, |(time, _)| time)
    }

    /// Grants the bus to the chosen request and returns it with the time.
    pub fn grant(&mut self) -> Option<(u64, BusRequest)> {
        let (time, index) = self.next?;
        let request = self.requests.remove(index);
        debug_assert!(time >= self.last_grant, "{request:?} at {time} behind {}", self.last_grant);
        self.last_grant = time;
        self.last_cpu = request.cpu;
        // Whoever was held until now is not to be granted anything earlier.
        self.in_flight.retain(|f| f.until >= time);
        self.next = None;
        self.granting = true;
        Some((time, request))
    }

    /// Occupies the bus after a grant at `time`; with `data_until` the line's data arrive then.
    pub fn occupy(&mut self, time: u64, request: &BusRequest, occupancy: Cycles, data_until: Option<u64>) {
        self.free_at = time + occupancy;
        self.busy += occupancy;
        if let Some(until) = data_until {
            self.in_flight.push(InFlight { line: request.line, cpu: request.cpu, until });
        }
    }

    /// Occupies the bus until `until`, for who has it.
    pub fn keep(&mut self, until: u64) {
        self.busy += until.saturating_sub(self.free_at);
        self.free_at = self.free_at.max(until);
    }

    /// Finds the next request; to be called after every grant.
    pub fn choose(&mut self) {
        self.granting = false;
        let mut times = std::mem::take(&mut self.times);
        times.clear();
        times.extend(self.requests.iter().map(|r| self.eligible(r)));
        self.times = times;
        self.choose_among();
    }

    fn choose_among(&mut self) {
        self.next = self.times.iter().min().map(|&earliest| {
            let time = earliest.max(self.free_at);
            let rank = |&index: &usize| self.rank(&self.requests[index]);
            let open = (0..self.times.len()).filter(|&index| self.times[index] <= time);
            (time, open.min_by_key(rank).unwrap_or(0))
        });
    }

    /// When the request may be granted, apart from the bus being busy.
    fn eligible(&self, request: &BusRequest) -> u64 {
        let (mut held, mut under_way, mut first_back) = (0, 0, u64::MAX);
        for flight in &self.in_flight {
            if flight.line == request.line {
                held = held.max(flight.until);
            }
            if flight.cpu == request.cpu && flight.until > request.ready {
                under_way += 1;
                first_back = first_back.min(flight.until);
            }
        }
        let fetches = matches!(request.class, Class::Fetch | Class::Prefetch);
        let no_room = || self.write_backs(request.cpu) >= self.write_buffer;
        if fetches && self.write_buffer > 0 && no_room() {
            // The write-backs go first, and then every request is looked at anew.
            return u64::MAX;
        }
        let full = fetches && under_way >= self.most_fetches;
        request.ready.max(held).max(if full { first_back } else { 0 })
    }

    fn rank(&self, request: &BusRequest) -> (Class, u64, usize) {
        let mut class = request.class;
        let most = if self.write_buffer > 0 { self.write_buffer } else { WRITE_BACK_BUFFER };
        if class == Class::WriteBack && self.write_backs(request.cpu) >= most {
            class = Class::Fetch;
        }
        let after_last = request.cpu.0 + self.processors - self.last_cpu.0 - 1;
        let turn = if after_last >= self.processors { after_last - self.processors } else { after_last };
        (class, if self.fifo { request.ready } else { 0 }, turn)
    }

    pub(super) fn write_backs(&self, cpu: CpuId) -> usize {
        let of_cpu = |r: &&BusRequest| r.cpu == cpu && r.class == Class::WriteBack;
        self.requests.iter().filter(of_cpu).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Origin;
    use super::*;

    fn request(cpu: usize, ready: u64, line: u64, class: Class) -> BusRequest {
        BusRequest { cpu: CpuId(cpu), ready, line: LineAddr(line), class, origin: Origin::Processor }
    }

    /// Processor 0 fetches line 7: the bus is taken until 24, the data arrive at 80.
    fn with_line_7_on_its_way(processors: usize, most_fetches: usize) -> Arbiter {
        let mut bus = Arbiter::new(processors, false, most_fetches);
        bus.post(request(0, 0, 7, Class::Fetch));
        let (time, first) = bus.grant().unwrap();
        bus.occupy(time, &first, Cycles(24), Some(80));
        bus.choose();
        bus
    }

    #[test]
    fn fetches_go_first_and_turns_rotate() {
        let mut bus = Arbiter::new(3, false, 8);
        bus.post(request(0, 0, 1, Class::Coherence));
        bus.post(request(2, 0, 2, Class::Fetch));
        bus.post(request(1, 0, 3, Class::Fetch));
        let order: Vec<usize> = std::iter::from_fn(|| {
            let (time, request) = bus.grant()?;
            bus.occupy(time, &request, Cycles(10), None);
            bus.choose();
            Some(request.cpu.0)
        })
        .collect();
        assert_eq!(order, [1, 2, 0]);
        assert_eq!(bus.busy, 30);
    }

    #[test]
    fn a_second_request_for_a_block_on_its_way_is_held() {
        let mut bus = with_line_7_on_its_way(2, 8);
        bus.post(request(1, 1, 7, Class::Fetch));
        assert_eq!(bus.next_grant(), 80);
        bus.post(request(1, 1, 8, Class::Coherence));
        assert_eq!(bus.next_grant(), 24);
    }

    #[test]
    fn the_write_back_of_a_line_on_its_way_waits_for_its_data() {
        let mut bus = with_line_7_on_its_way(2, 8);
        bus.post(request(0, 30, 7, Class::WriteBack));
        bus.choose();
        assert_eq!(bus.next_grant(), 80);
        bus.post(request(1, 30, 9, Class::WriteBack));
        assert_eq!(bus.next_grant(), 30, "that of another line goes first");
    }

    #[test]
    fn no_grant_lies_before_the_last_one() {
        let mut bus = with_line_7_on_its_way(3, 8);
        bus.post(request(1, 30, 7, Class::Fetch));
        bus.post(request(2, 40, 7, Class::Coherence));
        assert_eq!(bus.grant().map(|(time, request)| (time, request.cpu.0)), Some((80, 1)));
        // It needs no transaction any more: the bus stays free.
        bus.choose();
        assert_eq!(bus.grant().map(|(time, request)| (time, request.cpu.0)), Some((80, 2)));
    }

    #[test]
    fn first_come_is_who_asked_first_though_it_was_held() {
        let mut bus = with_line_7_on_its_way(3, 8);
        bus.fifo = true;
        bus.keep(100);
        bus.post(request(2, 60, 8, Class::Fetch));
        bus.post(request(1, 30, 7, Class::Fetch));
        bus.choose();
        assert_eq!(bus.grant().map(|(time, request)| (time, request.line.0)), Some((100, 7)));
    }

    #[test]
    fn a_cache_with_all_its_misses_under_way_waits_for_one_to_return() {
        let mut bus = with_line_7_on_its_way(2, 1);
        bus.post(request(0, 1, 9, Class::Fetch));
        assert_eq!(bus.next_grant(), 80);
    }

    #[test]
    fn a_choice_made_request_by_request_is_that_of_a_full_look() {
        let mut random = servsim_core::RandomStream::new(3, "bus");
        let mut choices = 0;
        for fifo in [false, true] {
            let (mut quick, mut full) = (Arbiter::new(5, fifo, 2), Arbiter::new(5, fifo, 2));
            let mut now = 0;
            for _ in 0..20_000 {
                now = now.max(quick.next_grant().min(now + random.below(12)));
                if random.below(2) == 0 || quick.next.is_none() {
                    let class = [Class::Fetch, Class::Coherence, Class::WriteBack][random.below(3) as usize];
                    let posted = request(random.below(5) as usize, now, random.below(4), class);
                    quick.post(posted);
                    full.requests.push(posted);
                    full.choose();
                } else {
                    let (time, granted) = quick.grant().unwrap();
                    now = now.max(time);
                    assert_eq!(full.grant(), Some((time, granted)));
                    let (occupancy, data) = (random.below(30), time + random.below(90));
                    let data = (granted.class == Class::Fetch).then_some(data);
                    for bus in [&mut quick, &mut full] {
                        bus.occupy(time, &granted, Cycles(occupancy), data);
                        bus.choose();
                    }
                }
                choices += usize::from(quick.requests.len() > 1);
                assert_eq!(quick.next, full.next);
            }
        }
        assert!(choices > 10_000, "{choices}");
    }
}
