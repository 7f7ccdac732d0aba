//! Reading lines and numbers without allocating: CSV traces must pass at millions of lines a second.

use crate::error::ImportError;
use std::io::BufRead;

/// A byte-order mark as UTF-8.
const UTF8_MARK: &[u8] = "\u{feff}".as_bytes();

/// Called with the number and the text of each line.
type EachLine<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), ImportError>;

/// What is done with lines.
pub trait Lines {
    /// With one of them: its number, and its text without its end.
    ///
    /// # Errors
    /// When it has not the form of its format.
    fn one(&mut self, number: u64, line: &[u8]) -> Result<(), ImportError>;

    /// With several at once, if there is a quick way: those of `buffer` from `from` on, after line `number`. Returns where the
    /// first begins that was not taken, and how many were.
    ///
    /// # Errors
    /// As of one.
    fn several(&mut self, _buffer: &[u8], from: usize, _number: u64) -> Result<(usize, u64), ImportError> {
        Ok((from, 0))
    }
}

struct OneByOne<'a>(EachLine<'a>);

impl Lines for OneByOne<'_> {
    fn one(&mut self, number: u64, line: &[u8]) -> Result<(), ImportError> {
        (self.0)(number, line)
    }
}

/// Calls `each` with the number and the bytes of every line that is not blank, without its end.
///
/// # Errors
/// Those of the input and of `each`.
pub fn for_each_line(input: &mut dyn BufRead, each: EachLine<'_>) -> Result<(), ImportError> {
    for_lines(input, &mut OneByOne(each))
}

/// The same for what knows a quick way with several.
///
/// # Errors
/// Those of the input and of `lines`.
pub fn for_lines(input: &mut dyn BufRead, lines: &mut dyn Lines) -> Result<(), ImportError> {
    let mut carried: Vec<u8> = Vec::new();
    let mut number = 0;
    skip_mark(input)?;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let mut from = 0;
        while let Some(length) = find_newline(&buffer[from..]) {
            let piece = &buffer[from..from + length];
            from += length + 1;
            number += 1;
            if carried.is_empty() {
                line(number, piece, lines)?;
            } else {
                carried.extend_from_slice(piece);
                line(number, &carried, lines)?;
                carried.clear();
            }
            let taken;
            (from, taken) = lines.several(buffer, from, number)?;
            number += taken;
        }
        carried.extend_from_slice(&buffer[from..]);
        let used = buffer.len();
        input.consume(used);
    }
    if carried.is_empty() {
        return Ok(());
    }
    line(number + 1, &carried, lines)
}

/// Passes over the mark that some programs put before UTF-8 text.
fn skip_mark(input: &mut dyn BufRead) -> Result<(), ImportError> {
    let head = input.fill_buf()?;
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err(ImportError::Utf16);
    }
    let mark = if head.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 };
    input.consume(mark);
    Ok(())
}

/// Drops a trailing carriage return and passes over blank lines.
fn line(number: u64, bytes: &[u8], lines: &mut dyn Lines) -> Result<(), ImportError> {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    lines.one(number, bytes)
}

/// Position of the first newline, eight bytes at a time.
fn find_newline(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let mut chunks = bytes.chunks_exact(8);
    let mut at = 0;
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes")) ^ (ONES * u64::from(b'\n'));
        let zero = word.wrapping_sub(ONES) & !word & HIGHS;
        if zero != 0 {
            return Some(at + (zero.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    chunks.remainder().iter().position(|&byte| byte == b'\n').map(|offset| at + offset)
}

/// The words of a line, split at spaces and tabs.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| std::str::from_utf8(word).unwrap_or("\u{fffd}"))
}

/// A decimal number such as `-12.345` in units of `scale`, exactly, rounded down; exponents through
/// floating point. `scale` is at most 10^12.
pub fn scaled(bytes: &[u8], scale: i64) -> Option<i64> {
    let bytes = bytes.trim_ascii();
    let (negative, digits) = match bytes.first()? {
        b'-' => (true, &bytes[1..]),
        b'+' => (false, &bytes[1..]),
        _ => (false, bytes),
    };
    let mut whole: i64 = 0;
    let mut at = 0;
    while at < digits.len() && digits[at].is_ascii_digit() {
        whole = whole.checked_mul(10)?.checked_add(i64::from(digits[at] - b'0'))?;
        at += 1;
    }
    let has_digits = at > 0;
    let mut value = whole.checked_mul(scale)?;
    if at < digits.len() {
        if digits[at] != b'.' {
            return exponent(bytes, scale);
        }
        let fraction = &digits[at + 1..];
        if fraction.iter().any(|byte| !byte.is_ascii_digit()) {
            return exponent(bytes, scale);
        }
        if !has_digits && fraction.is_empty() {
            return None;
        }
        let mut unit = scale;
        for digit in fraction {
            unit /= 10;
            value = value.checked_add(i64::from(digit - b'0') * unit)?;
        }
    } else if !has_digits {
        return None;
    }
    Some(if negative { -value } else { value })
}

fn exponent(bytes: &[u8], scale: i64) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let scaled = value * scale as f64;
    (scaled.is_finite() && scaled.abs() < 9.0e18).then_some(scaled.floor() as i64)
}

/// Bytes before a line that [`numbers`] may read, and its longest line, end included.
pub const BEFORE: usize = 16;
const LONGEST: usize = 48;
/// What [`numbers`] looks at.
pub type Around = [u8; BEFORE + LONGEST];

/// The whole numbers of the line that begins [`BEFORE`] bytes into `bytes`, and its length with its end; `None` if it
/// is not as many numbers of 1 to 15 digits with commas between them.
///
/// Where fields end is found for all of them before any is read: one after the other, each would wait for the one
/// before it, and digit by digit its length, as good as random, would be guessed wrongly each time.
#[inline(always)]
pub fn numbers(bytes: &Around, values: &mut [u64]) -> Option<usize> {
    const EVERY: u64 = 0x0101_0101_0101_0101;
    let word = |at: usize| {
        let chunk = bytes[at..].first_chunk::<8>().expect("within");
        // Digits become 0 to 9.
        u64::from_le_bytes(*chunk) ^ (EVERY * 0x30)
    };
    // A bit for every byte that is no digit: anything but 0 to 9 has the highest bit, or has it with 118 more.
    let mut ends = 0_u64;
    for at in 0..LONGEST / 8 {
        let word = word(BEFORE + 8 * at);
        let others = (((word & (EVERY * 0x7f)) + EVERY * 118) | word) >> 7 & EVERY;
        ends |= (others.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
    }
    let count = values.len();
    let (mut start, mut is_good) = (0, true);
    for (at, value) in values.iter_mut().enumerate() {
        let end = ends.trailing_zeros() as usize;
        if end >= LONGEST {
            return None;
        }
        ends &= ends - 1;
        let length = end - start;
        let expected = if at + 1 == count { b'\n' } else { b',' };
        is_good &= (1..16).contains(&length) && bytes[BEFORE + end] == expected;
        let kept = |digits: usize| u64::MAX << (64 - 8 * digits.clamp(1, 8));
        *value = eight_digits(word(BEFORE + end - 8) & kept(length));
        if length > 8 {
            *value += 100_000_000 * eight_digits(word(BEFORE + end - 16) & kept(length - 8));
        }
        start = end + 1;
    }
    is_good.then_some(start)
}

/// The number that eight bytes of 0 to 9 make, the lowest first.
#[inline(always)]
fn eight_digits(bytes: u64) -> u64 {
    // Pairs, then the sum of the four of them, each with its power.
    let pairs = (bytes.wrapping_mul(10).wrapping_add(bytes >> 8)) & 0x00ff_00ff_00ff_00ff;
    let upper = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let lower = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    upper.wrapping_add(lower) >> 32
}

/// A whole number, decimal or `0x` hexadecimal.
pub fn whole(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether the first line of `head` satisfies `test`.
pub fn first_line(head: &[u8], test: impl Fn(&str) -> bool) -> bool {
    head.strip_prefix(UTF8_MARK)
        .unwrap_or(head)
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .find(|line| !line.is_empty() && line[0] != b'#')
        .and_then(|line| std::str::from_utf8(line).ok())
        .is_some_and(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_scale_exactly_and_garbage_is_refused() {
        assert_eq!(scaled(b"12.345", 1000), Some(12_345));
        assert_eq!(scaled(b"-0.5", 1000), Some(-500));
        assert_eq!(scaled(b"1e3", 1000), Some(1_000_000));
        assert_eq!(scaled(b".5", 10), Some(5));
        for bad in ["", ".", "-", "12x", "nan", "99999999999999999999"] {
            assert_eq!(scaled(bad.as_bytes(), 1000), None, "{bad}");
        }
    }

    #[test]
    fn numbers_of_any_length_are_read_all_at_once_and_anything_else_is_left() {
        let mut words = servsim_oracle::drive::Words(3);
        let mut read = 0;
        for _ in 0..20_000 {
            let fields: Vec<String> = (0..3)
                .map(|_| match words.below(40) {
                    0 => String::new(),
                    1 => ["x", "1.5", "-3", " 7", "\u{e9}1", "/", ":", "1\r"][words.below(8) as usize]
                        .to_owned(),
                    _ => (0..=words.below(16)).map(|_| char::from(b'0' + words.below(10) as u8)).collect(),
                })
                .collect();
            let line = fields.join(",");
            let text = format!("7777777777777777{line}\n{}", "8,".repeat(40));
            let mut values = [0; 3];
            let found = numbers(text.as_bytes().first_chunk().expect("long enough"), &mut values);
            let is_plain = |field: &String| {
                (1..16).contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_digit())
            };
            if fields.iter().all(is_plain) {
                assert_eq!(found, Some(line.len() + 1), "{line}");
                assert_eq!(values.to_vec(), fields.iter().map(|f| f.parse().unwrap()).collect::<Vec<u64>>());
                read += 1;
            } else {
                assert_eq!(found, None, "{line}");
            }
        }
        assert!((5000..19_000).contains(&read), "{read}");
        let long = "1".repeat(80);
        assert_eq!(numbers(long.as_bytes().first_chunk().unwrap(), &mut [0; 3]), None);
    }

    #[test]
    fn lines_cross_the_borders_of_the_buffer() {
        let text = b"one\r\n\ntwo is longer than the buffer\nthree";
        let mut seen = Vec::new();
        let mut input = std::io::BufReader::with_capacity(5, &text[..]);
        for_each_line(&mut input, &mut |number, bytes| {
            seen.push((number, String::from_utf8_lossy(bytes).into_owned()));
            Ok(())
        })
        .unwrap();
        let expected = [(1, "one"), (3, "two is longer than the buffer"), (4, "three")];
        assert_eq!(seen, expected.map(|(number, text)| (number, text.to_owned())));
    }
}
