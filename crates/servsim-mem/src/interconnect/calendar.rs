//! When a link or a memory is taken: spans of time that do not overlap, and the first gap for the next. What arrives
//! early goes before what was promised later, if it fits; so the data that memory sends in a while do not keep a
//! request from the link now.

use servsim_core::Cycles;
use std::collections::VecDeque;

/// The spans that something is taken for, from now on.
#[derive(Debug, Clone, Default)]
pub(super) struct Calendar {
    /// In order, apart from one another; each with its end.
    taken: VecDeque<(u64, u64)>,
}

impl Calendar {
    /// Takes `length` from `at`, or from the first gap after it; when they begin. Nobody asks for a time
    /// before `now` any more.
    pub fn take(&mut self, now: u64, at: u64, length: Cycles) -> u64 {
        if length == Cycles(0) {
            return at;
        }
        while self.taken.front().is_some_and(|&(_, end)| end < now) {
            self.taken.pop_front();
        }
        let mut start = at;
        let mut place = self.taken.partition_point(|&(_, end)| end < at);
        while let Some(&(next, end)) = self.taken.get(place) {
            if next >= start + length {
                break;
            }
            start = start.max(end);
            place += 1;
        }
        self.insert(place, (start, start + length));
        start
    }

    /// Inserts a span before that at `place`, joined with those that it touches.
    fn insert(&mut self, place: usize, (mut start, mut end): (u64, u64)) {
        let (mut first, mut after) = (place, place);
        if let Some(&(before, touched)) = place.checked_sub(1).and_then(|before| self.taken.get(before)) {
            if touched == start {
                (start, first) = (before, place - 1);
            }
        }
        if let Some(&(touched, behind)) = self.taken.get(place) {
            if touched == end {
                (end, after) = (behind, place + 1);
            }
        }
        if first == after {
            self.taken.insert(first, (start, end));
        } else {
            self.taken[first] = (start, end);
            self.taken.drain(first + 1..after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::RandomStream;

    #[test]
    fn gaps_are_filled_and_nothing_is_taken_twice() {
        let mut r = RandomStream::new(3, "calendar");
        let (mut calendar, mut plain, mut now) = (Calendar::default(), vec![false; 60_000], 0);
        for _ in 0..4000 {
            now += r.below(8);
            let (at, length) = (now + r.below(90), 1 + r.below(9));
            let free = |start: u64| !plain[start as usize..(start + length) as usize].contains(&true);
            let expected = (at..59_000).find(|&start| free(start)).unwrap();
            assert_eq!(calendar.take(now, at, Cycles(length)), expected, "{length} from {at}");
            plain[expected as usize..(expected + length) as usize].fill(true);
            let spans: Vec<_> = calendar.taken.iter().copied().collect();
            assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0), "{spans:?}");
        }
        assert!(plain.iter().filter(|taken| **taken).count() > 10_000);
    }

    #[test]
    fn what_takes_no_time_never_waits() {
        let mut calendar = Calendar::default();
        assert_eq!(calendar.take(0, 5, Cycles(10)), 5);
        assert_eq!(calendar.take(0, 7, Cycles(0)), 7);
        assert_eq!(calendar.take(0, 7, Cycles(1)), 15);
    }
}
