//! The first rows of a database, as a script for `psql`: a `COPY` for each table, every row from a random stream of its own, so that
//! seed and size alone make the rows.

use std::io::Write;

use servsim_driver::rng::{Purpose, Stream};

use crate::{Error, Result};

/// Bytes of rows that are kept before they are written.
const CHUNK: usize = 256 << 10;

/// Appends formatted text; writing to memory does not fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => {{
        use std::io::Write as _;
        let _ = write!($out, $($format)*);
    }};
}
pub(crate) use put;

/// A day as SQL writes it, counted from 1970-01-01 (Gregorian calendar, in eras of 400 years from March 0000).
#[derive(Clone, Copy, Debug)]
pub struct Day(pub i32);

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let days = self.0 + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        write!(f, "{:04}-{month:02}-{day:02}", year + era * 400 + next)
    }
}

/// The random stream of a row: by the first four letters of its table, and its number.
pub fn stream(seed: u64, table: &str, id: u32) -> Stream {
    let table = table.bytes().take(4).fold(0u64, |sum, byte| sum << 8 | u64::from(byte));
    Stream::new(seed, Purpose::Load, table << 32 | u64::from(id))
}

/// Writes a table: its name and that of its streams, how many times `rows` is called, with which numbers (from 1).
///
/// # Errors
/// When the reader does not take it.
pub fn table(
    to: &mut impl Write,
    (name, streams, seed): (&str, &str, u64),
    count: u32,
    mut rows: impl FnMut(&mut Vec<u8>, &mut Stream, u32),
) -> Result<()> {
    let failed = |error| Error::Environment(format!("the rows of {name} could not be written: {error}"));
    let mut out = Vec::with_capacity(CHUNK * 2);
    // Rows of a table that the same transaction has made: no later query has to set their visibility.
    put!(out, "COPY {name} FROM stdin (FREEZE);\n");
    for id in 1..=count {
        rows(&mut out, &mut stream(seed, streams, id), id);
        if out.len() >= CHUNK {
            to.write_all(&out).map_err(failed)?;
            out.clear();
        }
    }
    out.extend_from_slice(b"\\.\n");
    to.write_all(&out).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_calendar() {
        for (day, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (12_599, "2004-06-30"),
            (11_016, "2000-02-29"),
            (-14_610, "1930-01-01"),
            (-32_872, "1880-01-01"),
        ] {
            assert_eq!(Day(day).to_string(), text);
        }
    }
}
