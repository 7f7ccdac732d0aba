//! Quantities with units, and their textual form (`"32 KiB"`, `"12 cycles"`, `"1 GHz"`, `"5.8 ms"`).
//!
//! Every number that a person writes in a description carries its unit, and every quantity that
//! crosses between crates has its own type, so that a latency in cycles cannot be added to one in
//! nanoseconds. Time is kept in whole picoseconds: fine enough for a clock of 1 THz, and 64 bits
//! last for 213 days of simulated time.

pub mod nearest;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A quantity that could not be read: what was written, what was wanted, and how to write it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}: write a number and a unit, for example \"{example}\" (units: {units})")]
pub struct QuantityError {
    /// The offending text.
    pub text: String,
    /// What was expected, with its article.
    pub wanted: &'static str,
    /// A well-formed example.
    pub example: &'static str,
    /// Accepted units, comma separated.
    pub units: String,
}

/// Splits `"5.8 ms"` into its number and its unit; `None` when there is no number.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-_eE".contains(c))).unwrap_or(text.len());
    // "5 EiB" must not be read as an exponent: back off from a trailing letter.
    let end = text[..end].trim_end_matches(['e', 'E']).len();
    let value: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((value, text[end..].trim()))
}

/// Reads `text` as a whole, non-negative number of base units.
fn parse_scaled(
    text: &str,
    wanted: &'static str,
    example: &'static str,
    units: &[(&str, f64)],
) -> Result<u64, QuantityError> {
    let error = || QuantityError {
        text: text.to_owned(),
        wanted,
        example,
        units: units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
    };
    let (value, unit) = split(text).ok_or_else(error)?;
    let (_, scale) = units.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
    let scaled = (value * scale).round();
    if !(0.0..=9.0e18).contains(&scaled) || (value > 0.0 && scaled < 1.0) {
        return Err(error());
    }
    Ok(scaled as u64)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $wanted:literal, $example:literal, [$(($unit:literal, $scale:expr)),+], $base:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Accepted units, smallest first, with their size in base units.
            pub const UNITS: &'static [(&'static str, f64)] = &[$(($unit, $scale)),+];
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                parse_scaled(text, $wanted, $example, Self::UNITS).map($name)
            }
        }

        impl fmt::Display for $name {
            /// Writes the quantity in the largest unit that divides it.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let whole = |scale: f64| self.0 != 0 && self.0 % (scale as u64).max(1) == 0;
                let best = Self::UNITS.iter().rev().find(|(_, scale)| whole(*scale));
                match best {
                    Some((unit, scale)) => write!(f, "{} {unit}", self.0 / (*scale as u64).max(1)),
                    None => write!(f, "{} {}", self.0, $base),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

quantity!(
    /// A size in bytes.
    Bytes, "a size", "32 KiB",
    [("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("TiB", 1_099_511_627_776.0)], "B"
);
quantity!(
    /// A duration in processor clock cycles.
    Cycles, "a number of cycles", "12 cycles", [("cycles", 1.0)], "cycles"
);
quantity!(
    /// A duration in picoseconds.
    Picos, "a duration", "5.8 ms",
    [("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)], "ps"
);
quantity!(
    /// A frequency in hertz.
    Hertz, "a frequency", "1 GHz", [("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)], "Hz"
);

impl Picos {
    /// The duration in cycles of `clock`, rounded to the nearest cycle.
    pub fn to_cycles(self, clock: Hertz) -> Cycles {
        let cycles = (u128::from(self.0) * u128::from(clock.0) + 500_000_000_000) / 1_000_000_000_000;
        Cycles(cycles as u64)
    }
}

impl Cycles {
    /// The duration in picoseconds at `clock`, rounded down.
    ///
    /// # Panics
    /// When `clock` is zero; descriptions are validated before they reach this point.
    pub fn to_picos(self, clock: Hertz) -> Picos {
        Picos((u128::from(self.0) * 1_000_000_000_000 / u128::from(clock.0)) as u64)
    }
}

impl Add for Cycles {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Cycles {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// A point on the clock and a span after it: a later point.
impl Add<Cycles> for u64 {
    type Output = Self;
    #[inline]
    fn add(self, span: Cycles) -> Self {
        self + span.0
    }
}

/// A clock moves on, and a counter of cycles grows.
impl AddAssign<Cycles> for u64 {
    #[inline]
    fn add_assign(&mut self, span: Cycles) {
        *self += span.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print_in_the_largest_whole_unit() {
        assert_eq!("32 KiB".parse(), Ok(Bytes(32_768)));
        assert_eq!("2MiB".parse::<Bytes>().unwrap().to_string(), "2 MiB");
        assert_eq!("1.5 TiB".parse::<Bytes>().unwrap().to_string(), "1536 GiB");
        assert_eq!(Bytes(1 << 41).to_string(), "2 TiB");
        assert_eq!(Bytes(1500).to_string(), "1500 B");
        assert_eq!(Bytes(0).to_string(), "0 B");
    }

    #[test]
    fn a_number_without_unit_is_refused_with_the_remedy() {
        let error = "12".parse::<Cycles>().unwrap_err().to_string();
        assert!(error.contains("\"12 cycles\""), "{error}");
    }

    #[test]
    fn negative_tiny_and_foreign_values_are_refused() {
        for bad in ["-1 cycles", "0.2 cycles", "3 furlongs", "", "cycles", "1e40 cycles"] {
            assert!(bad.parse::<Cycles>().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_convert_to_cycles_and_back() {
        let clock = Hertz(1_000_000_000);
        assert_eq!("5.8 ms".parse::<Picos>().unwrap().to_cycles(clock), Cycles(5_800_000));
        assert_eq!(Cycles(7).to_picos(clock), Picos(7_000));
    }
}
