//! One setting of a machine: its key, kind, range, default, meaning and source, in one place. The
//! same object reads, checks, explains and prints the value.

use servsim_units::{Bytes, Cycles, Hertz, Picos};
use std::fmt;

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// A whole number from a range, without a unit: a count of things.
    Count(u64, u64),
    /// A power of two of bytes, written with its unit.
    Size(u64, u64),
    /// Bytes of a cache, written with their unit; its ways must divide them into whole sets.
    Capacity(u64, u64),
    /// The same, or `none`, which is 0.
    CapacityOrNone(u64, u64),
    /// Processor clock cycles.
    Cycles(u64, u64),
    /// A duration, in picoseconds.
    Time(u64, u64),
    /// A frequency, in hertz.
    Frequency(u64, u64),
    /// A number of the named things: `"200000 references"`.
    Things(&'static str, u64, u64),
    /// One of the listed words, in letters of either case: the field writes MESI and LRU.
    Choice(&'static [&'static str]),
}

/// A value that a setting took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text or a choice.
    Text(String),
    /// Any number, in the base unit of the kind.
    Number(u64),
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Dotted key.
    pub key: &'static str,
    /// Accepted values.
    pub kind: Kind,
    /// Value when the description does not give one, as written.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

impl Setting {
    /// The value when the description does not give one.
    pub(crate) fn default_value(&self) -> Value {
        let quoted = !matches!(self.kind, Kind::Count(..));
        self.kind.read(self.default, quoted).expect("a default that its own kind accepts")
    }
}

impl Kind {
    /// Reads a value as written in a description: `number` when it was written without quotes.
    ///
    /// # Errors
    /// One sentence with the accepted values.
    pub fn read(self, text: &str, quoted: bool) -> Result<Value, String> {
        match self {
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Choice(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
                Some(&word) => Ok(Value::Text(word.to_owned())),
                None => Err(choice_error(text, words)),
            },
            Self::Count(low, high) if !quoted => {
                let number = text
                    .replace('_', "")
                    .parse()
                    .map_err(|_| format!("`{text}` is not a whole number from {low} to {high}"))?;
                self.within(number, low, high)
            }
            Self::Count(low, high) => {
                Err(format!("`{text}` is not a whole number from {low} to {high}, without quotes"))
            }
            Self::Size(low, high) => {
                let number = text.parse::<Bytes>().map_err(|e| e.to_string())?.0;
                if !number.is_power_of_two() {
                    return Err(format!("{} is not a power of two", Bytes(number)));
                }
                self.within(number, low, high)
            }
            Self::Capacity(low, high) => {
                self.within(text.parse::<Bytes>().map_err(|e| e.to_string())?.0, low, high)
            }
            Self::CapacityOrNone(..) if text.eq_ignore_ascii_case("none") => Ok(Value::Number(0)),
            Self::CapacityOrNone(low, high) => Self::Capacity(low, high)
                .read(text, quoted)
                .map_err(|why| format!("{why}; write `none` to leave the level out")),
            Self::Cycles(low, high) => {
                self.within(text.parse::<Cycles>().map_err(|e| e.to_string())?.0, low, high)
            }
            Self::Time(low, high) => {
                self.within(text.parse::<Picos>().map_err(|e| e.to_string())?.0, low, high)
            }
            Self::Frequency(low, high) => {
                self.within(text.parse::<Hertz>().map_err(|e| e.to_string())?.0, low, high)
            }
            Self::Things(unit, low, high) => self.within(things(text, unit)?, low, high),
        }
    }

    fn within(self, number: u64, low: u64, high: u64) -> Result<Value, String> {
        if (low..=high).contains(&number) {
            return Ok(Value::Number(number));
        }
        Err(format!("{} is outside {} to {}", self.show(number), self.show(low), self.show(high)))
    }

    /// Writes a number of this kind with its unit.
    pub fn show(self, number: u64) -> String {
        match self {
            Self::CapacityOrNone(..) if number == 0 => "none".into(),
            Self::Size(..) | Self::Capacity(..) | Self::CapacityOrNone(..) => Bytes(number).to_string(),
            Self::Cycles(..) => Cycles(number).to_string(),
            Self::Time(..) => Picos(number).to_string(),
            Self::Frequency(..) => Hertz(number).to_string(),
            Self::Things(unit, ..) => format!("{number} {unit}"),
            Self::Text | Self::Choice(_) | Self::Count(..) => number.to_string(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Text => f.write_str("text"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Size(low, high) => {
                write!(f, "a power of two from {} to {}", Bytes(low), Bytes(high))
            }
            Self::Capacity(low, high) => write!(
                f,
                "from {} to {}, which the ways must divide into whole sets",
                Bytes(low),
                Bytes(high)
            ),
            Self::CapacityOrNone(low, high) => write!(f, "none, or {}", Self::Capacity(low, high)),
            Self::Count(low, high)
            | Self::Cycles(low, high)
            | Self::Time(low, high)
            | Self::Frequency(low, high)
            | Self::Things(_, low, high) => {
                write!(f, "from {} to {}", self.show(low), self.show(high))
            }
        }
    }
}

fn things(text: &str, unit: &str) -> Result<u64, String> {
    let wanted = || format!("`{text}` lacks its unit: write a number and `{unit}`");
    let number = text.trim().strip_suffix(unit).ok_or_else(wanted)?;
    number.trim().replace('_', "").parse().map_err(|_| wanted())
}

fn choice_error(text: &str, words: &[&str]) -> String {
    let nearest = servsim_units::nearest::nearest(text, words.iter().copied());
    let hint = nearest.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    format!("`{text}` is none of {}{hint}", words.join(", "))
}
