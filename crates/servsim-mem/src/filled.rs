//! Which sets of a cache have been full. A miss in another may owe itself to the cache having begun empty: with a longer
//! past the line might have been there. Where a set has been full, LRU would have lost the line whatever the past (the
//! unknown references of Wood, Hill and Kessler, A Model for Estimating Trace-Sample Miss Ratios, SIGMETRICS 1991), unless
//! a frame whose copy was invalidated would have spared it: tags without a copy count as filling a set here.

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

    /// A set is full.
    pub fn add(&mut self, set: usize) {
        self.0[set / 64] |= 1 << (set % 64);
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

    #[test]
    fn each_set_is_told_apart() {
        let mut filled = FilledSets::none(65);
        assert!(!filled.has(64));
        filled.add(64);
        assert!(filled.has(64) && !filled.has(0) && !filled.has(63));
    }
}
