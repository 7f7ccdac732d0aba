//! Waiting requests, kept so that the next one is found quickly: O(1) for FCFS, O(log q) to find and
//! O(q) to move for the position-based orders (a memory move, cheap at the depths disks see).

use super::Discipline;
use crate::features::Wanted;
use std::collections::VecDeque;

/// A request in the queue.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// The caller's number for it.
    pub id: u64,
    /// Arrival, ns.
    pub arrival_ns: u64,
    /// What it wants.
    pub wanted: Wanted,
}

/// The queue of a device.
#[derive(Debug)]
pub struct Queue {
    discipline: Discipline,
    /// By arrival for FCFS, by first sector (then arrival) otherwise.
    waiting: VecDeque<Waiting>,
}

impl Queue {
    /// An empty queue.
    pub fn new(discipline: Discipline) -> Self {
        Queue { discipline, waiting: VecDeque::new() }
    }

    /// Number of requests waiting.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Earliest arrival among those waiting, ns.
    pub fn earliest(&self) -> Option<u64> {
        match self.discipline {
            Discipline::Fcfs => self.waiting.front().map(|first| first.arrival_ns),
            _ => self.waiting.iter().map(|waiting| waiting.arrival_ns).min(),
        }
    }

    /// Adds a request; arrivals come in order of time.
    #[inline]
    pub fn push(&mut self, request: Waiting) {
        if self.discipline == Discipline::Fcfs {
            self.waiting.push_back(request);
        } else {
            let at = self.waiting.partition_point(|other| other.wanted.lba <= request.wanted.lba);
            self.waiting.insert(at, request);
        }
    }

    /// Takes the next request for an arm at `position`; without a position, the earliest.
    #[inline]
    pub fn take(&mut self, position: Option<u64>) -> Option<Waiting> {
        let at = self.choose(position)?;
        self.waiting.remove(at)
    }

    fn choose(&self, position: Option<u64>) -> Option<usize> {
        if self.waiting.is_empty() {
            return None;
        }
        if self.discipline == Discipline::Fcfs {
            return Some(0);
        }
        let Some(position) = position else {
            return (0..self.waiting.len()).min_by_key(|&at| self.waiting[at].arrival_ns);
        };
        let above = self.waiting.partition_point(|waiting| waiting.wanted.lba < position);
        let ahead = self.waiting.get(above).map(|waiting| waiting.wanted.lba - position);
        match (self.discipline, ahead) {
            (Discipline::CScan, Some(_)) => Some(above),
            (Discipline::CScan, None) => Some(0),
            (_, ahead) => {
                let Some(below) = above.checked_sub(1) else { return Some(above) };
                let lba = self.waiting[below].wanted.lba;
                if ahead.is_some_and(|ahead| ahead <= position - lba) {
                    return Some(above);
                }
                // Of several at the same place the earliest goes first.
                Some(self.waiting.partition_point(|waiting| waiting.wanted.lba < lba))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    fn order(discipline: Discipline, position: u64) -> Vec<u64> {
        let mut queue = Queue::new(discipline);
        for (id, lba) in [50, 10, 90, 60].into_iter().enumerate() {
            queue.push(Waiting {
                id: id as u64,
                arrival_ns: id as u64,
                wanted: Wanted { lba, sectors: 1, op: Op::Read },
            });
        }
        let mut position = position;
        let mut seen = Vec::new();
        while let Some(next) = queue.take(Some(position)) {
            seen.push(next.wanted.lba);
            position = next.wanted.lba;
        }
        seen
    }

    #[test]
    fn fcfs_keeps_arrival_order() {
        assert_eq!(order(Discipline::Fcfs, 55), [50, 10, 90, 60]);
    }

    #[test]
    fn sstf_takes_the_nearest_on_either_side() {
        assert_eq!(order(Discipline::Sstf, 56), [60, 50, 90, 10]);
    }

    #[test]
    fn c_scan_goes_up_and_wraps_to_the_lowest() {
        assert_eq!(order(Discipline::CScan, 56), [60, 90, 10, 50]);
    }
}
