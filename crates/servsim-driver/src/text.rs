//! Random texts of populations, written straight into a row buffer: the a-strings and n-strings of TPC-C (clause 4.3.2)
//! and TPC-W (clause 4.6.2).

use crate::rng::Stream;

/// Sixty-four characters without meaning to the row format, so that six random bits pick one.
const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";

/// Appends a random text of `low` to `high` characters.
pub fn text(out: &mut Vec<u8>, stream: &mut Stream, low: i32, high: i32) {
    let length = stream.between(low, high);
    characters(out, stream, ALPHABET, length);
}

/// Appends so many random characters of an alphabet.
pub fn characters(out: &mut Vec<u8>, stream: &mut Stream, alphabet: &[u8; 64], length: i32) {
    let mut left = length;
    while left > 0 {
        let mut bits = stream.bits();
        for _ in 0..left.min(10) {
            out.push(alphabet[(bits & 63) as usize]);
            bits >>= 6;
        }
        left -= 10;
    }
}

/// Appends `length` random decimal digits.
pub fn digits(out: &mut Vec<u8>, stream: &mut Stream, length: i32) {
    for _ in 0..length {
        out.push(b'0' + stream.below(10) as u8);
    }
}
