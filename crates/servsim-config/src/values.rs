//! The values of a description: those that it gives, and the defaults of the others.

use crate::read::Given;
use crate::setting::Value;
use crate::settings::setting_named;

/// The values of a description, defaults included.
pub(crate) struct Values<'a>(pub &'a Given);

impl Values<'_> {
    /// A number.
    pub(crate) fn number(&self, key: &str) -> u64 {
        match value(self.0, key) {
            Value::Number(number) => number,
            Value::Text(text) => unreachable!("{key} is a number, not `{text}`"),
        }
    }

    /// A word or another text.
    pub(crate) fn text(&self, key: &str) -> String {
        match value(self.0, key) {
            Value::Text(text) => text,
            Value::Number(number) => unreachable!("{key} is text, not {number}"),
        }
    }

    /// Whether the text is `word`.
    pub(crate) fn is(&self, key: &str, word: &str) -> bool {
        self.text(key) == word
    }
}

pub(crate) fn value(given: &Given, key: &str) -> Value {
    if let Some((value, _)) = given.get(key) {
        return value.clone();
    }
    setting_named(key).expect("a registered key").default_value()
}

pub(crate) fn written(given: &Given, key: &str) -> String {
    match value(given, key) {
        Value::Text(text) => text,
        Value::Number(number) => setting_named(key).expect("a registered key").kind.show(number),
    }
}

/// Whether a description gives a setting another value than its default: a complete description, as results hold it,
/// gives every setting, those included that mean nothing beside the others.
pub(crate) fn differs(given: &Given, key: &str) -> bool {
    let default = setting_named(key).map(|setting| setting.default);
    given.contains_key(key) && Some(written(given, key).as_str()) != default
}
