//! When a link or a memory is taken: spans of time that do not overlap, and the first gap for the next. What arrives
//! early goes before what was promised later, if it fits; so the data that memory sends in a while do not keep a
//! request from the link now.

use servsim_core::Cycles;
use std::collections::VecDeque;

/// The spans that something is taken for, from now on.
#[derive(Debug, Clone)]
pub(super) struct Calendar {
    /// The earliest, with its end; it may be over. Kept apart, because few links have more than one thing before the
    /// data that is promised to them, and every request of a snooping machine asks all links.
    head: (u64, u64),
    /// When the next begins.
    next: u64,
    /// All others, in order, apart from one another.
    rest: VecDeque<(u64, u64)>,
}

impl Default for Calendar {
    fn default() -> Self {
        Self { head: (0, 0), next: u64::MAX, rest: VecDeque::new() }
    }
}

impl Calendar {
    /// Takes `length` from `at`, or from the first gap after it; when they begin. Nobody asks for a time
    /// before `now` any more.
    #[inline]
    pub fn take(&mut self, now: u64, at: u64, length: Cycles) -> u64 {
        if length == Cycles(0) {
            return at;
        }
        let (begin, end) = self.head;
        if end < now && at + length < self.next {
            self.head = (at, at + length);
            return at;
        }
        if at <= end && at + length > begin && end + length < self.next {
            self.head.1 = end + length;
            return end;
        }
        self.fit(now, at, length)
    }

    /// Takes the first gap, whatever lies before and behind it.
    fn fit(&mut self, now: u64, at: u64, length: Cycles) -> u64 {
        self.rest.push_front(self.head);
        while self.rest.front().is_some_and(|&(_, end)| end < now) {
            self.rest.pop_front();
        }
        let mut start = at;
        let mut place = self.rest.partition_point(|&(_, end)| end < at);
        while let Some(&(next, end)) = self.rest.get(place) {
            if next >= start + length {
                break;
            }
            start = start.max(end);
            place += 1;
        }
        self.insert(place, (start, start + length));
        self.head = self.rest.pop_front().unwrap_or_default();
        self.next = self.rest.front().map_or(u64::MAX, |&(next, _)| next);
        start
    }

    /// Inserts a span before that at `place`, joined with those that it touches.
    fn insert(&mut self, place: usize, (mut start, mut end): (u64, u64)) {
        let (mut first, mut after) = (place, place);
        if let Some(&(before, touched)) = place.checked_sub(1).and_then(|before| self.rest.get(before)) {
            if touched == start {
                (start, first) = (before, place - 1);
            }
        }
        if let Some(&(touched, behind)) = self.rest.get(place) {
            if touched == end {
                (end, after) = (behind, place + 1);
            }
        }
        if first == after {
            self.rest.insert(first, (start, end));
        } else {
            self.rest[first] = (start, end);
            self.rest.drain(first + 1..after);
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
            let spans: Vec<_> = std::iter::once(calendar.head).chain(calendar.rest.iter().copied()).collect();
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
