//! Sets of coherent caches. Two host words hold a set; nothing outside this file and the index of copies
//! knows, so that machines with more caches need a change here only.

/// Most coherent caches of a machine: two, of a split first level, for each of its processors.
pub const MAX_CACHES: usize = u128::BITS as usize;

/// A set of coherent caches, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheSet(u128);

impl CacheSet {
    /// The set of `cache` alone.
    #[inline]
    pub fn of(cache: usize) -> Self {
        debug_assert!(cache < MAX_CACHES, "a set holds {MAX_CACHES} caches");
        Self(1 << cache)
    }

    /// The set whose bits are these.
    #[inline]
    pub(crate) fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// One bit for each cache.
    #[inline]
    pub(crate) fn bits(self) -> u128 {
        self.0
    }

    /// Whether `cache` is in it.
    #[inline]
    pub fn has(self, cache: usize) -> bool {
        self.0 >> cache & 1 != 0
    }

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds `cache`.
    #[inline]
    pub fn insert(&mut self, cache: usize) {
        *self = self.union(Self::of(cache));
    }

    /// Takes `cache` out.
    #[inline]
    pub fn remove(&mut self, cache: usize) {
        *self = self.without(cache);
    }

    /// The set without `cache`.
    #[inline]
    #[must_use]
    pub fn without(self, cache: usize) -> Self {
        self.difference(Self::of(cache))
    }

    /// What is not in the other.
    #[inline]
    #[must_use]
    pub fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What is in either.
    #[inline]
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its caches, in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        // Word by word, because most machines have caches for one only.
        let mut words = [self.0 as u64, (self.0 >> 64) as u64];
        std::iter::from_fn(move || {
            let (word, base) = if words[0] != 0 { (&mut words[0], 0) } else { (&mut words[1], 64) };
            if *word == 0 {
                return None;
            }
            let cache = base + word.trailing_zeros() as usize;
            *word &= *word - 1;
            Some(cache)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_come_out_once_and_in_order() {
        let mut set = CacheSet::default();
        [127, 0, 64, 63, 0].into_iter().for_each(|cache| set.insert(cache));
        set.remove(63);
        assert!(set.has(64) && !set.has(63) && !set.is_empty());
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 64, 127]);
        assert_eq!(set.without(64).union(CacheSet::of(3)).iter().collect::<Vec<_>>(), [0, 3, 127]);
    }
}
