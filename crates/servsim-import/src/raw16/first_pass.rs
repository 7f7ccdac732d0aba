//! The loop of the first pass over a raw16 file: it checks and sums records, and finds those whose page is to be looked
//! up.

use super::records::{Odd, Words, NO_ORIGIN, RECORD};
use servsim_core::hash::spread;
use servsim_core::PAGE_SHIFT;

/// Entries of the filter of the first pass: 32 KiB.
const FILTER: usize = 1 << 12;

/// A sum that depends on the order within a record, to notice a file that was replaced.
#[inline]
pub(super) fn summed(sum: u64, Words { address, rest }: Words) -> u64 {
    sum.wrapping_add(address).wrapping_add(rest.rotate_left(23))
}

/// What the first pass learns of a chunk beside its pages.
#[derive(Clone, Copy, Default)]
pub(super) struct Checked {
    odd: Odd,
    /// Whether some record is of nobody.
    of_nobody: bool,
    /// As [`summed`].
    pub sum: u64,
}

impl Checked {
    /// Checks records of `chunk`, for so many processors, up to the first that `filter` does not know, which it returns; the
    /// rest is left. One loop of its own, so that the compiler keeps all of it in registers.
    #[inline(never)]
    pub(super) fn next_unknown(
        &mut self,
        chunk: &mut &[u8],
        processors: usize,
        filter: &mut Filter,
    ) -> Option<Words> {
        let Self { mut odd, mut of_nobody, mut sum } = *self;
        let mut origin = NO_ORIGIN;
        let mut records = chunk.as_chunks().0.iter();
        let mut unknown = None;
        for bytes in records.by_ref() {
            let words = Words::of(bytes);
            if words.origin() != origin {
                origin = words.origin();
                of_nobody |= words.of_nobody(processors);
            }
            odd.note(words, words.form());
            sum = summed(sum, words);
            if !filter.knows(words) {
                unknown = Some(words);
                break;
            }
        }
        let left = records.len() * RECORD;
        *chunk = &chunk[chunk.len() - left..];
        *self = Self { odd, of_nobody, sum };
        unknown
    }

    /// Whether some record is to be looked at.
    pub(super) fn any_odd(&self) -> bool {
        self.of_nobody || self.odd.any()
    }
}

/// Pairs of page and process that were seen lately: direct-mapped, one word each. A word holds the
/// page and the low 12 bits of the process; the other 4 follow from its place.
pub(super) struct Filter(Box<[u64; FILTER]>);

impl Filter {
    pub(super) fn new() -> Self {
        // A word belongs to 16 places with the same low 8 bits; these words are not in theirs.
        let unused = |index: usize| if index as u8 == 0 { 1 << PAGE_SHIFT } else { 0 };
        let words: Vec<u64> = (0..FILTER).map(unused).collect();
        debug_assert!(Self::spread(0) == 0 && Self::spread(1 << PAGE_SHIFT) & 0xFF != 0);
        Self(words.into_boxed_slice().try_into().expect("the size of the filter"))
    }

    /// 12 bits that depend on all of the word: regions begin at round addresses.
    #[inline]
    fn spread(word: u64) -> usize {
        spread(word, FILTER.ilog2()) as usize
    }

    /// Whether the record's page is known to be touched by its process; it is from now on. Never
    /// for accesses that leave the page.
    #[inline]
    fn knows(&mut self, words: Words) -> bool {
        const OFFSET: u64 = (1 << PAGE_SHIFT) - 1;
        let (address, pid) = (words.address, u64::from(words.pid()));
        let word = (address & !OFFSET) | (pid & OFFSET);
        let index = Self::spread(word) ^ (pid >> 12 << 8) as usize;
        let known = self.0[index] == word && (address & OFFSET) + words.bytes_after_first() <= OFFSET;
        self.0[index] = word;
        known
    }
}
