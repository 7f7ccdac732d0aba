//! Events at known times, in the order of their times; of the same time, in the order they were entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of events `E`.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<(u64, u64, E)>>,
    entered: u64,
}

impl<E: Ord + Copy> EventQueue<E> {
    /// Without events.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), entered: 0 }
    }

    /// Enters `event` at `time`; returns how many were entered so far.
    pub fn push(&mut self, time: u64, event: E) -> u64 {
        self.entered += 1;
        self.heap.push(Reverse((time, self.entered, event)));
        self.entered
    }

    /// When the next event is; `u64::MAX` without one.
    #[inline]
    pub fn next_time(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((time, ..))| *time)
    }

    /// Takes the next event out, with its time.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }

    /// All events, in no order: when, in which order they were entered, and what.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, E)> + '_ {
        self.heap.iter().map(|&Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_as_they_were_entered() {
        let mut queue = EventQueue::new();
        assert_eq!(queue.next_time(), u64::MAX);
        let numbers: Vec<u64> = [(5, 'z'), (3, 'y'), (5, 'a')].map(|(time, e)| queue.push(time, e)).to_vec();
        assert_eq!((numbers, queue.next_time(), queue.iter().count()), (vec![1, 2, 3], 3, 3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(3, 'y'), (5, 'z'), (5, 'a')]);
    }
}
