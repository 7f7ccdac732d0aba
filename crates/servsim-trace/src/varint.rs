//! Variable-length integers: LEB128, and zigzag for signed differences. One byte holds the values
//! that make up most of every column, which is what the compressor behind it wants to see.

use crate::error::Fault;

/// Appends `value` in LEB128.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed `value` in zigzag LEB128.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Small magnitudes of either sign become small unsigned numbers.
#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads LEB128 at `*at`, moving it on.
#[inline]
pub fn get(bytes: &[u8], at: &mut usize) -> Result<u64, Fault> {
    let (value, next) = get_at(bytes, *at)?;
    *at = next;
    Ok(value)
}

/// Reads LEB128 at `at`; also where the next number is. Both as values, so that they stay in registers along a loop.
#[inline]
fn get_at(bytes: &[u8], at: usize) -> Result<(u64, usize), Fault> {
    let first = *bytes.get(at).ok_or_else(ends)?;
    if first < 0x80 {
        return Ok((u64::from(first), at + 1));
    }
    get_long(bytes, at)
}

/// The less common case of [`get`]: more than one byte. Up to eight are taken out of one word, without a branch for each.
#[inline]
fn get_long(bytes: &[u8], at: usize) -> Result<(u64, usize), Fault> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    let word = word.map_or(0x8080_8080_8080_8080, |word| u64::from_le_bytes(*word));
    // The last byte is the first without the highest bit.
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return get_bytes(bytes, at);
    }
    let groups = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = groups & 0x007f_007f_007f_007f | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let value = fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Ok((value, at + ends.trailing_zeros() as usize / 8 + 1))
}

/// [`get_long`] byte by byte: near the end of a column, and what takes nine or ten.
#[cold]
fn get_bytes(bytes: &[u8], mut at: usize) -> Result<(u64, usize), Fault> {
    let mut value = 0;
    for shift in (0..=63).step_by(7) {
        let byte = *bytes.get(at).ok_or_else(ends)?;
        at += 1;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((value, at));
        }
    }
    Err(Fault::from("a number is longer than 64 bits"))
}

/// Reads zigzag LEB128 at `*at`, moving it on.
#[inline]
pub fn get_signed(bytes: &[u8], at: &mut usize) -> Result<i64, Fault> {
    get(bytes, at).map(unzigzag)
}

/// Reads zigzag LEB128 at `at`; also where the next number is.
#[inline]
pub fn get_signed_at(bytes: &[u8], at: usize) -> Result<(i64, usize), Fault> {
    get_at(bytes, at).map(|(value, next)| (unzigzag(value), next))
}

/// Reads a length that must not exceed `limit`, so that hostile input cannot reserve memory.
pub fn get_length(bytes: &[u8], at: &mut usize, limit: usize, what: &str) -> Result<usize, Fault> {
    let value = get(bytes, at)?;
    if value > limit as u64 {
        return Err(Fault(format!("{what} is {value}, more than the {limit} allowed")));
    }
    Ok(value as usize)
}

fn ends() -> Fault {
    Fault::from("a column ends in the middle of a number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_survives_the_round_trip(unsigned: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(&mut bytes, unsigned);
            put_signed(&mut bytes, signed);
            let mut at = 0;
            prop_assert_eq!(get(&bytes, &mut at).unwrap(), unsigned);
            prop_assert_eq!(get_signed(&bytes, &mut at).unwrap(), signed);
            prop_assert_eq!(at, bytes.len());
        }

        #[test]
        fn numbers_of_every_length_are_read_out_of_the_middle_of_a_column(
            values in proptest::collection::vec((0..64_u32, any::<u64>()), 1..40)
        ) {
            let values: Vec<u64> = values.iter().map(|(shift, value)| value >> shift).collect();
            let mut bytes = Vec::new();
            values.iter().for_each(|&value| put(&mut bytes, value));
            let mut at = 0;
            for &value in &values {
                prop_assert_eq!(get(&bytes, &mut at).unwrap(), value);
            }
            prop_assert_eq!(at, bytes.len());
        }
    }

    #[test]
    fn a_number_cut_short_or_too_long_is_a_fault() {
        assert!(get(&[0x80], &mut 0).is_err());
        assert!(get(&[0xff; 11], &mut 0).is_err());
        assert!(get(&[], &mut 0).is_err());
        assert!(get_length(&[9], &mut 0, 8, "the list").is_err());
    }
}
