//! Which sets of a cache have been full, that is all of whose frames were valid at once. A miss in another may owe itself
//! to the cache having begun empty: with a longer past the line might have been there (the unknown references of Wood, Hill
//! and Kessler, A Model for Estimating Trace-Sample Miss Ratios, SIGMETRICS 1991).
//!
//! Under LRU a set that has been full is the same whatever the past. Until then it holds nothing that with another past it
//! would not: what is older goes first, and an invalidation takes a copy from both. Once it is full, they are equal.

use crate::snapshot::{Damaged, Reader, Writer};

/// Sets that have been full, one bit each.
#[derive(Debug, Clone)]
pub struct FilledSets(Vec<u64>);

impl FilledSets {
    /// None of so many sets.
    pub fn none(sets: usize) -> Self {
        Self(vec![0; sets.div_ceil(64)])
    }

    /// Whether a set has been full.
    #[inline]
    pub fn has(&self, set: usize) -> bool {
        self.0[set / 64] >> (set % 64) & 1 != 0
    }

    /// Notes whether a set is full, unless it has been.
    #[inline]
    pub fn note(&mut self, set: usize, is_full: impl FnOnce() -> bool) {
        if !self.has(set) && is_full() {
            self.0[set / 64] |= 1 << (set % 64);
        }
    }

    /// Writes which have been full.
    pub fn save(&self, out: &mut Writer) {
        self.0.iter().for_each(|word| out.put(*word));
    }

    /// Takes over what those of another cache of the same shape were.
    ///
    /// # Errors
    /// When the bytes are no such state.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.0.iter_mut().try_for_each(|word| from.take().map(|saved| *word = saved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Geometry;
    use crate::level::Level;
    use crate::replacement::Replacement;
    use servsim_core::{LineAddr, RandomStream};

    #[test]
    fn each_set_is_told_apart() {
        let mut filled = FilledSets::none(65);
        assert!(!filled.has(64));
        filled.note(63, || false);
        filled.note(64, || true);
        filled.note(64, || false);
        assert!(filled.has(64) && !filled.has(0) && !filled.has(63));
    }

    /// Two caches with the same present, of which only one has a past.
    #[test]
    fn a_set_that_has_been_full_is_the_same_whatever_the_past() {
        let mut told = 0;
        for seed in 0..200 {
            let mut random = RandomStream::new(seed, "filled");
            let geometry = Geometry { size: 4 * 4 * 64, ways: 4, line: 64 };
            let [mut empty, mut old] = [(); 2].map(|()| Level::new(geometry, Replacement::Stamps));
            (0..random.below(40)).for_each(|_| {
                old.insert(LineAddr(random.below(32)), false);
            });
            for _ in 0..60 {
                let line = LineAddr(random.below(32));
                if random.below(3) == 0 {
                    [&mut empty, &mut old].into_iter().for_each(|level| level.invalidate(line));
                    continue;
                }
                let unfilled = empty.counters.unfilled;
                let [hit, with_past] = [&mut empty, &mut old].map(|level| level.look_up(line));
                if empty.counters.unfilled == unfilled {
                    assert_eq!(hit, with_past, "seed {seed}: {line:?}");
                    told += u64::from(!hit);
                }
                [&mut empty, &mut old].into_iter().for_each(|level| {
                    level.insert(line, false);
                });
            }
        }
        assert!(told > 1000, "{told} misses whatever the past");
    }
}
