//! Sets of coherent caches, as wide as a machine needs: 16 bits, one host word for up to 64 caches, two for 128, and 32 for
//! more. What a transaction does is compiled for each width ([`CacheSet`] is its type parameter), so that small
//! machines pay nothing for large ones; outside a transaction nobody knows the width.

use servsim_core::CacheId;

/// Most coherent caches of a machine: two, of a split first level, for each of its processors.
pub const MAX_CACHES: usize = 2 * crate::MAX_PROCESSORS;

/// A set of coherent caches, by number.
pub trait CacheSet: Copy + Default + PartialEq + std::fmt::Debug {
    /// The set of `cache` alone.
    #[inline]
    #[must_use]
    fn of(cache: CacheId) -> Self {
        let mut set = Self::default();
        set.insert(cache);
        set
    }
    /// Whether `cache` is in it.
    fn has(&self, cache: CacheId) -> bool;
    /// Whether nothing is in it.
    fn is_empty(&self) -> bool;
    /// Whether two or more are in it.
    fn has_several(&self) -> bool;
    /// Adds `cache`.
    fn insert(&mut self, cache: CacheId);
    /// Takes `cache` out.
    fn remove(&mut self, cache: CacheId);
    /// The set without `cache`.
    #[inline]
    #[must_use]
    fn without(mut self, cache: CacheId) -> Self {
        self.remove(cache);
        self
    }
    /// Its words of 64 caches each, the lowest first.
    fn words(&self) -> impl Iterator<Item = u64> + '_;
    /// The set with these words; those that it has no room for are left out.
    fn of_words(words: impl Iterator<Item = u64>) -> Self;
    /// Takes out the first cache.
    fn take_first(&mut self) -> Option<CacheId>;
    /// Its caches, in ascending order.
    #[inline]
    fn iter(mut self) -> impl Iterator<Item = CacheId> {
        std::iter::from_fn(move || self.take_first())
    }
}

macro_rules! numbers {
    ($($set:ty),+) => {$(
        impl CacheSet for $set {
            #[inline]
            fn has(&self, cache: CacheId) -> bool {
                self >> cache.0 & 1 != 0
            }
            #[inline]
            fn is_empty(&self) -> bool {
                *self == 0
            }
            #[inline]
            fn has_several(&self) -> bool {
                *self & self.wrapping_sub(1) != 0
            }
            #[inline]
            fn insert(&mut self, cache: CacheId) {
                *self |= 1 << cache.0;
            }
            #[inline]
            fn remove(&mut self, cache: CacheId) {
                *self &= !(1 << cache.0);
            }
            #[inline]
            fn take_first(&mut self) -> Option<CacheId> {
                let first = self.trailing_zeros();
                if first == Self::BITS {
                    return None;
                }
                *self &= *self - 1;
                Some(CacheId(first as usize))
            }
            #[allow(clippy::cast_lossless)] // not for every width
            #[inline]
            fn words(&self) -> impl Iterator<Item = u64> + '_ {
                (0..Self::BITS.div_ceil(64)).map(move |word| (self >> (64 * word)) as u64)
            }
            #[allow(clippy::cast_lossless)] // the same
            fn of_words(words: impl Iterator<Item = u64>) -> Self {
                let placed = (0..Self::BITS.div_ceil(64)).zip(words);
                placed.fold(0, |set, (at, word)| set | (word as Self) << (64 * at))
            }
        }
    )+};
}
numbers!(u16, u64, u128);

/// Host words of a set of more than 128 caches.
const WORDS: usize = MAX_CACHES / 64;

/// A set of more than 128 caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Many([u64; WORDS]);

impl Default for Many {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl CacheSet for Many {
    fn has(&self, cache: CacheId) -> bool {
        self.0[cache.0 / 64].has(CacheId(cache.0 % 64))
    }
    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
    fn has_several(&self) -> bool {
        self.0.iter().map(|word| word.count_ones()).sum::<u32>() > 1
    }
    fn insert(&mut self, cache: CacheId) {
        self.0[cache.0 / 64].insert(CacheId(cache.0 % 64));
    }
    fn remove(&mut self, cache: CacheId) {
        self.0[cache.0 / 64].remove(CacheId(cache.0 % 64));
    }
    fn take_first(&mut self) -> Option<CacheId> {
        let (at, word) = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        word.take_first().map(|first| CacheId(at * 64 + first.0))
    }
    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
    fn of_words(words: impl Iterator<Item = u64>) -> Self {
        let mut set = Self::default();
        set.0.iter_mut().zip(words).for_each(|(own, word)| *own = word);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caches_come_out_once_and_in_order<S: CacheSet>(last: usize) {
        let mut set = S::default();
        assert!(!set.has_several() && !S::of(CacheId(last)).has_several());
        [last, 0, 10, 11, 0].into_iter().for_each(|cache| set.insert(CacheId(cache)));
        set.remove(CacheId(11));
        assert!(set.has(CacheId(10)) && !set.has(CacheId(11)) && !set.is_empty());
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 10, last].map(CacheId));
        assert_eq!(set.without(CacheId(10)).iter().collect::<Vec<_>>(), [0, last].map(CacheId));
        assert!(set.without(CacheId(10)).has_several(), "0 and {last}");
        assert_eq!(S::of_words(set.words()), set);
        assert!(S::of(CacheId(last)).without(CacheId(last)).is_empty());
    }

    #[test]
    fn sets_of_every_width_hold_the_same() {
        caches_come_out_once_and_in_order::<u16>(15);
        caches_come_out_once_and_in_order::<u64>(63);
        caches_come_out_once_and_in_order::<u128>(127);
        caches_come_out_once_and_in_order::<Many>(MAX_CACHES - 1);
    }
}
