//! Sets of 4-byte words within a line, as bit masks as narrow as the line allows: the masks sit in
//! every cache frame, so their width decides how many frames fit a host cache.

/// Bytes per word of the sharing classification (Dubois et al. 1993 track words; 4 bytes).
pub const WORD_BYTES: u64 = 4;

/// A set of words of one line.
pub trait WordMask: Copy + Default + Send + Sync + 'static {
    /// log2 of the bytes of the longest line that it has words for.
    const LINE_SHIFT: u32;

    /// The words `first` to `last`, both included.
    fn range(first: u32, last: u32) -> Self;
    /// Adds the words of `other`.
    fn add(&mut self, other: Self);
    /// The set itself, or without `wanted` the empty one.
    #[must_use]
    fn only_if(self, wanted: bool) -> Self;
    /// Whether the two sets meet.
    fn meets(self, other: Self) -> bool;
    /// Whether the set is empty.
    fn is_empty(self) -> bool;
    /// Whether every word of `other` is in this set.
    fn covers(self, other: Self) -> bool;

    /// The set as numbers, always equally many.
    fn parts(self) -> Vec<u64>;
    /// The set that [`WordMask::parts`] made these numbers of; `None` when it is none.
    fn of_parts(parts: &[u64]) -> Option<Self>;

    /// The words that the bytes `start..=end` of a line overlap.
    fn of_bytes(start: u64, end: u64) -> Self;
}

/// Bytes of the longest line that one number has words for.
const BYTES: usize = 256;

/// The words from that of a byte on, and those of all bytes before one: what bytes overlap is looked up in two steps, where
/// working it out takes a dozen.
struct ByByte<W> {
    from: [W; BYTES],
    before: [W; BYTES + 1],
}

macro_rules! narrow {
    ($($kind:ident $by_byte:ident),+) => {$(
        const $by_byte: &ByByte<$kind> = &{
            let mut by_byte = ByByte { from: [0; BYTES], before: [0; BYTES + 1] };
            let mut byte = 0;
            while byte < BYTES {
                let word = (byte as u64 / WORD_BYTES) as u32;
                if word < $kind::BITS {
                    by_byte.from[byte] = $kind::MAX << word;
                    by_byte.before[byte + 1] = $kind::MAX >> ($kind::BITS - 1 - word);
                }
                byte += 1;
            }
            by_byte
        };

        impl WordMask for $kind {
            const LINE_SHIFT: u32 = ($kind::BITS * WORD_BYTES as u32).ilog2();

            #[inline]
            fn range(first: u32, last: u32) -> Self {
                // Two shifts that do not wait for each other; the bit beyond the last of a number is none.
                (2_u64 << last).wrapping_sub(1 << first) as Self
            }
            #[inline]
            fn add(&mut self, other: Self) {
                *self |= other;
            }
            #[inline]
            fn only_if(self, wanted: bool) -> Self {
                self & Self::from(wanted).wrapping_neg()
            }
            #[inline]
            fn meets(self, other: Self) -> bool {
                self & other != 0
            }
            #[inline]
            fn is_empty(self) -> bool {
                self == 0
            }
            #[inline]
            fn covers(self, other: Self) -> bool {
                other & !self == 0
            }
            #[inline]
            fn of_bytes(start: u64, end: u64) -> Self {
                $by_byte.from[start as usize] & $by_byte.before[end as usize + 1]
            }
            fn parts(self) -> Vec<u64> {
                vec![u64::from(self)]
            }
            fn of_parts(parts: &[u64]) -> Option<Self> {
                Self::try_from(*parts.first()?).ok()
            }
        }
    )+};
}
narrow!(u16 WORDS_16, u32 WORDS_32, u64 WORDS_64);

/// Words of lines from 512 bytes up to a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wide([u64; 16]);

impl WordMask for Wide {
    const LINE_SHIFT: u32 = 12;

    fn of_bytes(start: u64, end: u64) -> Self {
        Self::range((start / WORD_BYTES) as u32, (end / WORD_BYTES) as u32)
    }
    fn range(first: u32, last: u32) -> Self {
        let mut mask = Self::default();
        for word in first..=last {
            mask.0[word as usize / 64] |= 1 << (word % 64);
        }
        mask
    }
    fn add(&mut self, other: Self) {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a |= b;
        }
    }
    fn only_if(self, wanted: bool) -> Self {
        if wanted {
            self
        } else {
            Self::default()
        }
    }
    fn meets(self, other: Self) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
    fn is_empty(self) -> bool {
        self.0.iter().all(|&part| part == 0)
    }
    fn covers(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(a, b)| b & !a == 0)
    }
    fn parts(self) -> Vec<u64> {
        self.0.to_vec()
    }
    fn of_parts(parts: &[u64]) -> Option<Self> {
        parts.try_into().ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_every_width_hold_exactly_their_range() {
        assert_eq!(u16::range(0, 15), u16::MAX);
        assert_eq!(u32::range(3, 4), 0b1_1000);
        assert_eq!(u64::of_bytes(252, 255), 1 << 63);
        let wide = Wide::range(63, 64);
        assert!(wide.meets(Wide::range(64, 64)) && !wide.meets(Wide::range(65, 1023)));
    }

    #[test]
    fn a_byte_range_covers_every_word_it_overlaps() {
        assert_eq!(u16::of_bytes(3, 4), 0b11);
        assert_eq!(u16::of_bytes(4, 7), 0b10);
    }
}
