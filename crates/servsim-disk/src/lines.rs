//! Lines of CSV of two whole numbers each, as simulated times are written: made eight digits at a time, since general
//! formatting takes longer than the simulation does.

/// Numbers of up to so many digits are made at once.
const DIGITS: usize = 8;
/// The least number of more.
const BEYOND: u64 = 100_000_000;
/// Most bytes of two numbers and what is between and behind them, and what is written beyond the last digit.
const LONGEST: usize = 2 * 20 + 2 + DIGITS;
/// Bytes that are made before they are asked for.
const BLOCK: usize = 1 << 16;

/// The digits of a number below [`BEYOND`], leading zeros included, as 0 to 9, the first in the lowest byte.
#[inline(always)]
fn digits(value: u64) -> u64 {
    // Halves of four digits, quarters of two, then single ones; quotients by multiplication, two or four at once.
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | ((halves - 100 * hundreds) << 16);
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((quarters - 10 * tens) << 8)
}

/// Lines in the making.
#[derive(Debug)]
pub struct Lines {
    /// What lies beyond `end` is of no meaning.
    text: Vec<u8>,
    end: usize,
    /// Behind the two numbers of each line, its end included.
    ending: Vec<u8>,
}

impl Lines {
    /// None yet; `ending` comes behind the two numbers of each.
    pub fn new(ending: &str) -> Self {
        let ending = [ending.as_bytes(), b"\n"].concat();
        Lines { text: vec![0; BLOCK + LONGEST + ending.len()], end: 0, ending }
    }

    /// Adds `first,second`. True if it is time to take what has been made.
    #[inline]
    pub fn push(&mut self, first: u64, second: u64) -> bool {
        if self.end > BLOCK {
            self.text.resize(self.end + LONGEST + self.ending.len(), 0);
        }
        self.number(first);
        self.text[self.end] = b',';
        self.end += 1;
        self.number(second);
        if let [end] = self.ending[..] {
            self.text[self.end] = end;
        } else {
            self.text[self.end..self.end + self.ending.len()].copy_from_slice(&self.ending);
        }
        self.end += self.ending.len();
        self.end > BLOCK
    }

    /// What has been made since it was taken last.
    pub fn take(&mut self) -> &[u8] {
        &self.text[..std::mem::take(&mut self.end)]
    }

    #[inline(always)]
    fn number(&mut self, value: u64) {
        if value < BEYOND {
            return self.leading(value);
        }
        let above = value / BEYOND;
        if above < BEYOND {
            self.leading(above);
        } else {
            self.leading(above / BEYOND);
            self.whole(above % BEYOND);
        }
        self.whole(value % BEYOND);
    }

    /// All eight digits.
    #[inline(always)]
    fn whole(&mut self, value: u64) {
        self.bytes(digits(value), DIGITS);
    }

    /// Those from the first that is not zero on, the last in any case.
    #[inline(always)]
    fn leading(&mut self, value: u64) {
        let digits = digits(value);
        let zeros = ((digits | 1 << 56).trailing_zeros() / 8) as usize;
        self.bytes(digits >> (8 * zeros), DIGITS - zeros);
    }

    #[inline(always)]
    fn bytes(&mut self, digits: u64, count: usize) {
        let text = (digits | 0x3030_3030_3030_3030).to_le_bytes();
        self.text[self.end..self.end + DIGITS].copy_from_slice(&text);
        self.end += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_general_formatting_whatever_the_number_of_digits() {
        let edges = (0..20).flat_map(|power| {
            let at = 10_u64.pow(power);
            [at - 1, at, at + 1, 17 * (at / 10), 99 * (at / 100), 12_345_678_909_876_543_210 / at]
        });
        let values: Vec<u64> = edges.chain([u64::MAX, u64::MAX - 1]).collect();
        let pairs: Vec<(u64, u64)> = values.iter().copied().zip(values.iter().rev().copied()).collect();
        for ending in ["", ",\"254,0\""] {
            let (mut lines, mut text) = (Lines::new(ending), Vec::new());
            // More than is made at a time, and then some that nobody took.
            for &(first, second) in pairs.iter().cycle().take(pairs.len() * 40) {
                if lines.push(first, second) && text.is_empty() {
                    text.extend_from_slice(lines.take());
                }
            }
            text.extend_from_slice(lines.take());
            assert!(lines.take().is_empty());
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.lines().count(), pairs.len() * 40);
            for (line, (first, second)) in text.lines().zip(pairs.iter().cycle()) {
                assert_eq!(line, format!("{first},{second}{ending}"));
            }
        }
    }

    #[test]
    fn every_number_of_four_digits_is_made_of_its_own_in_both_halves() {
        for number in 0..10_000 {
            let halves = digits(number * 10_000 + 9_999 - number).to_le_bytes().map(|digit| b'0' + digit);
            assert_eq!(halves, format!("{number:04}{:04}", 9_999 - number).as_bytes());
        }
    }
}
