//! Tables of a TOML file that is no machine description, and everything that is wrong with them.

use crate::read::{line_at, Faults};
use servsim_units::nearest::suggestion;
use toml_edit::{ImDocument, TableLike};

/// What was found wrong so far; whoever reads a file adds to it and goes on.
#[derive(Default)]
pub(crate) struct Tables {
    faults: Vec<String>,
}

/// The text as TOML.
///
/// # Errors
/// With the line of the fault; `file` is used in messages.
pub(crate) fn parse<'t>(text: &'t str, file: &str) -> Result<ImDocument<&'t str>, Faults> {
    ImDocument::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let what = error.message().lines().next().unwrap_or("malformed TOML");
        Faults(vec![format!("{file}, line {line}: {what}")])
    })
}

/// A number, decimal or hexadecimal with `0x`.
pub(crate) fn address(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The words of a list.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',']).filter(|word| !word.is_empty())
}

impl Tables {
    /// What was read, unless something was wrong.
    pub fn finish<T>(self, read: T) -> Result<T, Faults> {
        if self.faults.is_empty() {
            Ok(read)
        } else {
            Err(Faults(self.faults))
        }
    }

    /// How many faults there are.
    pub fn count(&self) -> usize {
        self.faults.len()
    }

    pub fn fault(&mut self, place: &str, what: &str) {
        self.faults.push(format!("{place}: {what}"));
    }

    /// The tables of `[[name]]`.
    pub fn all<'t>(&mut self, table: &'t dyn TableLike, name: &str, place: &str) -> Vec<&'t dyn TableLike> {
        let Some(item) = table.get(name) else { return Vec::new() };
        let Some(tables) = item.as_array_of_tables() else {
            self.fault(place, &format!("write [[{name}]] for each {name}"));
            return Vec::new();
        };
        tables.iter().map(|table| table as &dyn TableLike).collect()
    }

    pub fn check_keys(&mut self, table: &dyn TableLike, accepted: &[&str], place: &str) {
        for (key, _) in table.iter().filter(|(key, _)| !accepted.contains(key)) {
            let hint = suggestion(key, accepted.iter().copied());
            self.fault(place, &format!("unknown key `{key}`{hint}; accepted are {}", accepted.join(", ")));
        }
    }

    /// A name or a number, as text.
    pub fn text(&mut self, table: &dyn TableLike, key: &str, place: &str) -> Option<String> {
        let item = table.get(key)?;
        let text = item.as_str().map(str::to_owned).or_else(|| item.as_integer().map(|n| n.to_string()));
        if text.is_none() {
            self.fault(place, &format!("{key}: write a text in quotes, or a number"));
        }
        text
    }
}
