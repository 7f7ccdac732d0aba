//! Which of many things happens first: a list in order. What has just happened mostly happens again soon, so that it
//! passes few others, and the question costs nothing.

/// Things that are passed one by one; beyond, the place is searched for.
const NEAR: usize = 8;

/// The times of things that have numbers.
#[derive(Debug, Clone)]
pub struct Earliest {
    /// Those that happen, by time and number, the first at the end.
    order: Vec<(u64, usize)>,
    /// Of all; `u64::MAX` for those that do not.
    times: Vec<u64>,
}

impl Earliest {
    /// So many, none of which happens: `u64::MAX`.
    pub fn new(count: usize) -> Self {
        Self { order: Vec::with_capacity(count), times: vec![u64::MAX; count] }
    }

    /// `index` happens at `time` now.
    #[inline]
    pub fn set(&mut self, index: usize, time: u64) {
        let old = std::mem::replace(&mut self.times[index], time);
        if old == time {
            return;
        }
        if old == u64::MAX {
            self.order.push((0, index));
        } else if self.order.last() != Some(&(old, index)) {
            let at = self.order.partition_point(|&other| other > (old, index));
            self.order.remove(at);
            self.order.push((0, index));
        }
        if time == u64::MAX {
            self.order.pop();
        } else {
            self.sink((time, index));
        }
    }

    /// Moves the last of the list, `entry` from now on, to its place.
    #[inline]
    fn sink(&mut self, entry: (u64, usize)) {
        let mut at = self.order.len() - 1;
        let near = at.saturating_sub(NEAR);
        while at > near && self.order[at - 1] < entry {
            self.order[at] = self.order[at - 1];
            at -= 1;
        }
        if at > 0 && at == near {
            let place = self.order[..at].partition_point(|&other| other > entry);
            self.order.copy_within(place..at, place + 1);
            at = place;
        }
        self.order[at] = entry;
    }

    /// When the first happens.
    #[inline]
    pub fn time(&self) -> u64 {
        self.order.last().map_or(u64::MAX, |&(time, _)| time)
    }

    /// The first from `place` on, counted from 0, with its time; of those at one time, that of the lowest number comes first.
    #[inline]
    pub fn nth(&self, place: usize) -> Option<(usize, u64)> {
        let at = self.order.len().checked_sub(place + 1)?;
        let (time, index) = self.order[at];
        Some((index, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomStream;

    #[test]
    fn the_first_are_those_of_a_list() {
        let mut random = RandomStream::new(1, "earliest");
        for count in [1, 2, 3, 5, 16, 33, 64, 100] {
            let (mut earliest, mut list) = (Earliest::new(count), vec![u64::MAX; count]);
            for _ in 0..2000 {
                let (index, time) = (random.below(count as u64) as usize, random.below(40));
                let time = if time == 0 { u64::MAX } else { time };
                earliest.set(index, time);
                list[index] = time;
                let mut happen: Vec<usize> = (0..count).filter(|&index| list[index] != u64::MAX).collect();
                happen.sort_by_key(|&index| (list[index], index));
                for place in 0..3 {
                    let there = happen.get(place).map(|&index| (index, list[index]));
                    assert_eq!(earliest.nth(place), there, "{list:?}");
                }
                assert_eq!(earliest.time(), happen.first().map_or(u64::MAX, |&index| list[index]));
            }
        }
    }
}
