//! Lines of CSV of two whole numbers each, as simulated times are written: made two digits at a time, from the
//! last to the first, since general formatting takes longer than the simulation does.

/// Two digits of every number below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Most bytes of two numbers and what is between and behind them.
const LONGEST: usize = 2 * 20 + 2;

/// Puts the digits of `value` before `end`; where they begin.
#[inline(always)]
fn digits(line: &mut [u8; LONGEST], end: usize, mut value: u64) -> usize {
    let mut at = end;
    while value >= 100 {
        at -= 2;
        line[at..at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    if value >= 10 {
        at -= 2;
        line[at..at + 2].copy_from_slice(&PAIRS[value as usize]);
    } else {
        at -= 1;
        line[at] = b'0' + value as u8;
    }
    at
}

/// A line `first,second` for each pair, with `ending` before its end.
pub fn lines(pairs: impl ExactSizeIterator<Item = (u64, u64)>, ending: &str) -> Vec<u8> {
    let mut text = Vec::with_capacity(pairs.len() * (24 + ending.len()));
    let mut line = [b'\n'; LONGEST];
    for (first, second) in pairs {
        // Without an ending the end of the line comes along.
        let comma = digits(&mut line, LONGEST - 1, second) - 1;
        line[comma] = b',';
        let begin = digits(&mut line, comma, first);
        if ending.is_empty() {
            text.extend_from_slice(&line[begin..]);
        } else {
            text.extend_from_slice(&line[begin..LONGEST - 1]);
            text.extend_from_slice(ending.as_bytes());
            text.push(b'\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_general_formatting_whatever_the_number_of_digits() {
        let edges = (0..20).flat_map(|power| {
            let at = 10_u64.pow(power);
            [at - 1, at, at + 1, 17 * (at / 10)]
        });
        let values: Vec<u64> = edges.chain([u64::MAX, u64::MAX - 1]).collect();
        let pairs: Vec<(u64, u64)> = values.iter().copied().zip(values.iter().rev().copied()).collect();
        for ending in ["", ",\"254,0\""] {
            let text = String::from_utf8(lines(pairs.iter().copied(), ending)).unwrap();
            assert_eq!(text.lines().count(), pairs.len());
            for (line, (first, second)) in text.lines().zip(&pairs) {
                assert_eq!(line, format!("{first},{second}{ending}"));
            }
        }
    }
}
