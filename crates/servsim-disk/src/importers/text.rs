//! Reading lines and numbers without allocating: CSV traces must pass at millions of lines a second.

use crate::error::ImportError;
use std::io::BufRead;

/// A byte-order mark as UTF-8.
const UTF8_MARK: &[u8] = "\u{feff}".as_bytes();

/// Called with the number and the text of each line.
type EachLine<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), ImportError>;

/// Calls `each` with the number and the bytes of every line that is not blank, without its end.
///
/// # Errors
/// Those of the input and of `each`.
pub fn for_each_line(input: &mut dyn BufRead, each: EachLine<'_>) -> Result<(), ImportError> {
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
                line(number, piece, each)?;
            } else {
                carried.extend_from_slice(piece);
                line(number, &carried, each)?;
                carried.clear();
            }
        }
        carried.extend_from_slice(&buffer[from..]);
        let used = buffer.len();
        input.consume(used);
    }
    if carried.is_empty() {
        return Ok(());
    }
    line(number + 1, &carried, each)
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
fn line(number: u64, bytes: &[u8], each: EachLine<'_>) -> Result<(), ImportError> {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    each(number, bytes)
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

/// The whole number that begins at `from` and ends with its field, at a comma or the end of `line`,
/// with the place where it ends; `None` for anything else, which [`scaled`] may still read.
#[inline(always)]
pub fn plain(line: &[u8], from: usize) -> Option<(u64, usize)> {
    /// So many digits never overflow.
    const SAFE: usize = 18;
    let rest = &line[from..];
    let mut value = 0_u64;
    for (at, byte) in rest.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (*byte == b',' && at > 0 && at <= SAFE).then_some((value, from + at));
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    (!rest.is_empty() && rest.len() <= SAFE).then_some((value, line.len()))
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
