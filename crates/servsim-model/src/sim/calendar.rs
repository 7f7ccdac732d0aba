//! What happens next in a replication. Every station has one alarm and every open class one arrival, each a clock
//! that is set anew; the earliest is found by a tournament, in which a clock that moves replays only its own
//! matches. Customers who think are many and never change their mind: they wait in a heap, whose first is one more
//! clock. Nothing outdated is ever kept, unlike in a queue of events.

use super::server::{JobId, Moment};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A station completes a service.
    Alarm(usize),
    /// A request of an open class enters.
    Arrival(usize),
    /// A customer has finished thinking.
    Begin(JobId),
}

/// The clocks of a replication.
#[derive(Debug)]
pub struct Calendar {
    stations: usize,
    /// First power of two that holds all clocks: the tree's leaves begin there.
    leaves: usize,
    /// Time of each clock; infinite where it is not set. The last is that of those who think.
    times: Vec<f64>,
    /// The clock that wins below each node; node 1 is the root.
    winners: Vec<u32>,
    thinking: BinaryHeap<Reverse<(Moment, u64, JobId)>>,
    sequence: u64,
}

impl Calendar {
    /// No clock set.
    pub fn new(stations: usize, classes: usize) -> Self {
        let clocks = stations + classes + 1;
        let leaves = clocks.next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        (0..leaves).for_each(|i| winners[leaves + i] = i as u32);
        (1..leaves).rev().for_each(|node| winners[node] = winners[2 * node]);
        let times = vec![f64::INFINITY; leaves];
        Self { stations, leaves, times, winners, thinking: BinaryHeap::new(), sequence: 0 }
    }

    /// Sets or clears a station's alarm.
    pub fn set_alarm(&mut self, station: usize, at: Option<f64>) {
        self.set(station, at.unwrap_or(f64::INFINITY));
    }

    /// Sets the next arrival of an open class.
    pub fn set_arrival(&mut self, class: usize, at: f64) {
        self.set(self.stations + class, at);
    }

    /// Lets a customer think until then; of several at one time the first goes first.
    pub fn think(&mut self, job: JobId, until: f64) {
        self.sequence += 1;
        self.thinking.push(Reverse((Moment(until), self.sequence, job)));
        self.set_thinking();
    }

    /// The next event up to `end`, and when; its clock is cleared.
    pub fn pop(&mut self, end: f64) -> Option<(f64, Event)> {
        let clock = self.winners[1] as usize;
        let at = self.times[clock];
        if at > end || at == f64::INFINITY {
            return None;
        }
        if clock < self.stations {
            self.set(clock, f64::INFINITY);
            return Some((at, Event::Alarm(clock)));
        }
        if clock < self.thinking_clock() {
            self.set(clock, f64::INFINITY);
            return Some((at, Event::Arrival(clock - self.stations)));
        }
        let Reverse((_, _, job)) = self.thinking.pop()?;
        self.set_thinking();
        Some((at, Event::Begin(job)))
    }

    fn thinking_clock(&self) -> usize {
        self.times.len() - 1
    }

    fn set_thinking(&mut self) {
        let first = self.thinking.peek().map_or(f64::INFINITY, |Reverse((at, ..))| at.0);
        self.set(self.thinking_clock(), first);
    }

    fn set(&mut self, clock: usize, at: f64) {
        // Compared to be the same, not to be near.
        #[allow(clippy::float_cmp)]
        if self.times[clock] == at {
            return;
        }
        self.times[clock] = at;
        let mut node = (self.leaves + clock) >> 1;
        while node > 0 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let earlier = self.times[left as usize] <= self.times[right as usize];
            self.winners[node] = if earlier { left } else { right };
            node >>= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Calendar, Event};

    #[test]
    fn events_come_in_the_order_of_their_times_whatever_is_set_anew() {
        let mut calendar = Calendar::new(3, 2);
        calendar.set_alarm(0, Some(5.0));
        calendar.set_alarm(2, Some(4.0));
        calendar.set_arrival(1, 3.0);
        calendar.think(7, 2.0);
        calendar.think(8, 2.0);
        calendar.set_alarm(0, Some(1.0));
        calendar.set_alarm(2, None);
        let mut seen = Vec::new();
        while let Some(next) = calendar.pop(10.0) {
            seen.push(next);
        }
        let expected = [
            (1.0, Event::Alarm(0)),
            (2.0, Event::Begin(7)),
            (2.0, Event::Begin(8)),
            (3.0, Event::Arrival(1)),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_after_the_end_stays() {
        let mut calendar = Calendar::new(1, 0);
        calendar.set_alarm(0, Some(2.0));
        assert_eq!(calendar.pop(1.0), None);
        assert_eq!(calendar.pop(2.0), Some((2.0, Event::Alarm(0))));
    }
}
