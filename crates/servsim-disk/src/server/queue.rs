//! Waiting requests, kept so that the next one is found quickly: O(1) for FCFS, O(log q) to find and
//! O(q) to move for the position-based orders (a memory move, cheap at the depths disks see).

use super::Discipline;
use crate::features::Command;
use std::collections::VecDeque;

/// A request in the queue.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// The caller's number for it.
    pub id: u64,
    /// Arrival, ns.
    pub arrival_ns: u64,
    /// What it wants.
    pub command: Command,
}

/// The queue of a device.
#[derive(Debug)]
pub struct Queue {
    discipline: Discipline,
    place_sectors: u64,
    /// By arrival for FCFS, by place (then arrival) otherwise.
    waiting: VecDeque<Waiting>,
}

impl Queue {
    /// An empty queue that tells every sector apart.
    pub fn new(discipline: Discipline) -> Self {
        Queue::by_place(discipline, 1)
    }

    /// An empty queue to which `place_sectors` sectors are one place; see [`super::Server`].
    pub fn by_place(discipline: Discipline, place_sectors: u32) -> Self {
        Queue { discipline, place_sectors: u64::from(place_sectors.max(1)), waiting: VecDeque::new() }
    }

    #[inline]
    fn place(&self, at: usize) -> u64 {
        place_of(self.waiting[at].command.lba, self.place_sectors)
    }

    /// Requests waiting below `place`.
    #[inline]
    fn below(&self, place: u64) -> usize {
        self.waiting.partition_point(|other| place_of(other.command.lba, self.place_sectors) < place)
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
            let at = self.below(place_of(request.command.lba, self.place_sectors) + 1);
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
        let position = place_of_arm(position, self.place_sectors);
        let above = self.below(position);
        let ahead = (above < self.waiting.len()).then(|| self.place(above) - position);
        match (self.discipline, ahead) {
            (Discipline::CScan, Some(_)) => Some(above),
            (Discipline::CScan, None) => Some(0),
            (_, ahead) => {
                let Some(below) = above.checked_sub(1) else { return Some(above) };
                let place = self.place(below);
                if ahead.is_some_and(|ahead| ahead <= position - place) {
                    return Some(above);
                }
                // Of several at the same place the earliest goes first.
                Some(self.below(place))
            }
        }
    }
}

/// The place of a sector.
#[inline]
pub(super) fn place_of(lba: u64, place_sectors: u64) -> u64 {
    if place_sectors == 1 {
        lba
    } else {
        lba / place_sectors
    }
}

/// The place of an arm that has just passed the sector before `end`. Where every sector counts it is
/// `end` itself, the place that needs no seek.
#[inline]
pub(super) fn place_of_arm(end: u64, place_sectors: u64) -> u64 {
    place_of(end.saturating_sub(u64::from(place_sectors > 1)), place_sectors)
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
                command: Command { lba, sectors: 1, op: Op::Read },
            });
        }
        let mut position = position;
        let mut seen = Vec::new();
        while let Some(next) = queue.take(Some(position)) {
            seen.push(next.command.lba);
            position = next.command.lba;
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
    fn at_one_place_the_earliest_goes_first() {
        for (discipline, expected) in
            [(Discipline::Sstf, [150, 130, 190, 10]), (Discipline::CScan, [150, 130, 190, 10])]
        {
            let mut queue = Queue::by_place(discipline, 100);
            for (id, lba) in [150, 10, 130, 190].into_iter().enumerate() {
                let command = Command { lba, sectors: 1, op: Op::Read };
                queue.push(Waiting { id: id as u64, arrival_ns: id as u64, command });
            }
            // The arm has passed sector 199: every sector nearer to it than 150 came later.
            let mut position = 200;
            let taken: Vec<u64> = std::iter::from_fn(|| {
                let next = queue.take(Some(position))?;
                position = next.command.lba + 1;
                Some(next.command.lba)
            })
            .collect();
            assert_eq!(taken, expected, "{discipline:?}");
        }
    }

    #[test]
    fn c_scan_goes_up_and_wraps_to_the_lowest() {
        assert_eq!(order(Discipline::CScan, 56), [60, 90, 10, 50]);
    }
}
