//! Where a line may lie in its set: one byte of each way, eight ways to a number.
//!
//! The frames of a set fill several lines of the host. A search compares eight bytes at once instead, those of eight sets
//! side by side in one line of the host, and looks only at frames whose byte is that of the line: one if the line is
//! there, hardly ever any if it is not.

use crate::host;
use servsim_core::hash::spread;
use servsim_core::LineAddr;

/// Ways of one number.
const WAYS: usize = 8;
/// The lowest bit of each byte, and the highest.
const LOWEST: u64 = u64::MAX / 0xFF;
const HIGHEST: u64 = LOWEST << 7;

/// The signatures of all ways of a cache.
#[derive(Debug)]
pub(super) struct Signatures {
    rows: Vec<u64>,
    /// Numbers of a set.
    width: usize,
}

/// The byte of `line`.
#[inline(always)]
fn signature(line: LineAddr) -> u64 {
    spread(line.0, 8)
}

impl Signatures {
    /// Those of an empty cache.
    pub fn new(sets: usize, ways: usize) -> Self {
        let width = ways.div_ceil(WAYS);
        Self { rows: vec![0; sets * width], width }
    }

    /// `way` of `set` is given to `line`.
    #[inline]
    pub fn set(&mut self, set: usize, way: usize, line: LineAddr) {
        let (row, shift) = (&mut self.rows[set * self.width + way / WAYS], way % WAYS * 8);
        *row = *row & !(0xFF << shift) | signature(line) << shift;
    }

    /// Brings those of `set` nearer.
    #[inline]
    pub fn prefetch(&self, set: usize) {
        host::prefetch(&self.rows, set * self.width);
    }

    /// The way of `set` that has `line`, where `is_in` says of a way whether it does. It is asked for few ways, some beyond the
    /// last among them.
    #[inline(always)]
    pub fn find(&self, set: usize, line: LineAddr, mut is_in: impl FnMut(usize) -> bool) -> Option<usize> {
        let wanted = signature(line) * LOWEST;
        let rows = set * self.width;
        let mut row = rows;
        loop {
            // A byte that is alike is 0 now: the lowest of those found here surely, others perhaps.
            let apart = self.rows[row] ^ wanted;
            let mut alike = apart.wrapping_sub(LOWEST) & !apart & HIGHEST;
            while alike != 0 {
                let way = (row - rows) * WAYS + alike.trailing_zeros() as usize / 8;
                if is_in(way) {
                    return Some(way);
                }
                alike &= alike - 1;
            }
            row += 1;
            if row == rows + self.width {
                return None;
            }
        }
    }

    /// Host memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::RandomStream;

    #[test]
    fn few_frames_are_asked_and_the_right_one_among_them() {
        let mut random = RandomStream::new(1, "signatures");
        for ways in [1, 5, 8, 16, 20] {
            let mut signatures = Signatures::new(3, ways);
            let mut lines = vec![LineAddr(0); ways];
            let mut asked = 0;
            for _ in 0..4000 {
                let way = random.below(ways as u64) as usize;
                lines[way] = LineAddr(random.next_u64() >> 8);
                signatures.set(1, way, lines[way]);
                let (held, other) = (random.below(ways as u64) as usize, LineAddr(random.next_u64() >> 8));
                for (line, place) in
                    [(lines[held], lines.iter().position(|&l| l == lines[held])), (other, None)]
                {
                    let counted = std::cell::Cell::new(0);
                    let is_in = |way: usize| {
                        counted.set(counted.get() + 1);
                        lines.get(way) == Some(&line)
                    };
                    // A way that was never set has no byte of its own.
                    if line != LineAddr(0) {
                        assert_eq!(signatures.find(1, line, is_in), place, "{ways} ways");
                        asked += counted.get();
                    }
                }
            }
            assert!(asked < 4000 * 3 / 2, "{ways} ways: {asked}");
        }
    }
}
