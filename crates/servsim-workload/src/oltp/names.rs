//! The random texts of TPC-C clause 4.3.2, written straight into a row buffer.

pub use servsim_driver::text::{digits, text};

use crate::rng::Stream;

/// Syllables of a last name, by decimal digit (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// The last name of a number from 0 to 999.
pub fn last_name(number: i32) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10]
        .iter()
        .map(|&digit| SYLLABLES[digit as usize])
        .collect()
}

/// Appends a text of 26 to 50 characters, of which one in ten holds ORIGINAL (clause 4.3.3.1).
pub fn data(out: &mut Vec<u8>, stream: &mut Stream) {
    let start = out.len();
    text(out, stream, 26, 50);
    if stream.percent(10) {
        let place = start + stream.below((out.len() - start - 8 + 1) as u64) as usize;
        out[place..place + 8].copy_from_slice(b"ORIGINAL");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn last_names_follow_the_digits() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn texts_keep_their_bounds_and_one_in_ten_is_original() {
        let mut stream = Stream::new(1, Purpose::Load, 9);
        let mut original = 0;
        for _ in 0..10_000 {
            let mut row = Vec::new();
            data(&mut row, &mut stream);
            assert!((26..=50).contains(&row.len()));
            original += i32::from(row.windows(8).any(|part| part == b"ORIGINAL"));
        }
        assert!((original - 1000).abs() < 90, "{original} of 10000 rows are ORIGINAL (3 sigma is 90)");
    }
}
