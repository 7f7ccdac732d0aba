//! Which of many things happens first: their times as a tournament, so that one that changes, and the question, cost steps
//! in the logarithm of their number.

/// The times of things that have numbers.
#[derive(Debug, Clone)]
pub struct Earliest {
    /// The winner of a pair at half its place, the things themselves from the middle on.
    times: Vec<u64>,
    /// Where they begin: a power of two.
    size: usize,
}

impl Earliest {
    /// So many, none of which happens: `u64::MAX`.
    pub fn new(count: usize) -> Self {
        let size = count.max(1).next_power_of_two();
        Self { times: vec![u64::MAX; 2 * size], size }
    }

    /// `index` happens at `time` now.
    #[inline]
    pub fn set(&mut self, index: usize, time: u64) {
        let mut at = self.size + index;
        self.times[at] = time;
        while at > 1 {
            let time = self.times[at].min(self.times[at ^ 1]);
            at /= 2;
            if self.times[at] == time {
                return;
            }
            self.times[at] = time;
        }
    }

    /// When the first happens.
    #[inline]
    pub fn time(&self) -> u64 {
        self.times[1]
    }

    /// The first, of those at one time that of the lowest number; its time, and that of the next.
    #[inline]
    pub fn first_two(&self) -> (usize, u64, u64) {
        let (mut at, first, mut second) = (1, self.times[1], u64::MAX);
        while at < self.size {
            at *= 2;
            at += usize::from(self.times[at] != first);
            second = second.min(self.times[at ^ 1]);
        }
        (at - self.size, first, second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomStream;

    #[test]
    fn the_first_two_are_those_of_a_list() {
        let mut random = RandomStream::new(1, "earliest");
        for count in [1, 2, 3, 5, 16, 33, 64, 100] {
            let (mut earliest, mut list) = (Earliest::new(count), vec![u64::MAX; count]);
            for _ in 0..2000 {
                let (index, time) = (random.below(count as u64) as usize, random.below(40));
                let time = if time == 0 { u64::MAX } else { time };
                earliest.set(index, time);
                list[index] = time;
                let first = (0..count).min_by_key(|&index| list[index]).unwrap();
                let others = (0..count).filter(|&index| index != first).map(|index| list[index]);
                let second = others.min().unwrap_or(u64::MAX);
                assert_eq!(earliest.first_two(), (first, list[first], second), "{list:?}");
                assert_eq!(earliest.time(), list[first]);
            }
        }
    }
}
