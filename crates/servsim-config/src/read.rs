//! Reads a TOML description into values: every error of the file at once, each with its line, what
//! is accepted and the nearest name.

use crate::setting::{Kind, Setting, Value};
use crate::settings::{setting_named, SETTINGS};
use servsim_units::nearest::nearest;
use std::collections::BTreeMap;
use toml_edit::{ImDocument, Item, TableLike};

/// Values by key: only those that were given.
pub(crate) type Given = BTreeMap<&'static str, (Value, SourceLocation)>;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceLocation(pub String);

/// Every fault of a description, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub Vec<String>);

impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Faults {}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    given: Given,
    faults: Vec<String>,
}

/// The line of a text in which a byte stands, from 1.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

/// Reads `text`; `file` is used in messages.
pub(crate) fn read(text: &str, file: &str) -> (Given, Vec<String>) {
    let mut reader = Reader { file, text, given: Given::new(), faults: Vec::new() };
    match ImDocument::parse(text) {
        Ok(document) => reader.table(document.as_table(), ""),
        Err(error) => {
            let line = error.span().map(|span| reader.line(span.start));
            let first = error.message().lines().next().unwrap_or("malformed TOML").to_owned();
            let place = line.map_or(file.to_owned(), |line| format!("{file}, line {line}"));
            reader.faults.push(format!(
                "{place}: not TOML: {first}; a machine is a TOML description (docs/machines.md), or the name of a \
                 shipped one"
            ));
        }
    }
    (reader.given, reader.faults)
}

/// Reads overrides of the form `key=value`, which were given with `option`.
pub(crate) fn read_overrides(
    option: &str,
    overrides: &[String],
    given: &mut Given,
    faults: &mut Vec<String>,
) {
    for text in overrides {
        let place = format!("{option} {text}");
        let Some((key, value)) = text.split_once('=') else {
            faults.push(format!("{place}: write {option} KEY=VALUE, for example {option} processors=8"));
            continue;
        };
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        let Some(setting) = setting_named(key) else {
            faults.push(format!("{place}: {}", unknown(key)));
            continue;
        };
        let quoted = !matches!(setting.kind, Kind::Count(..));
        match setting.kind.read(value, quoted) {
            Ok(value) => {
                given.insert(setting.key, (value, SourceLocation(place)));
            }
            Err(why) => {
                faults.push(format!("{place}: {why}"));
                give_default(given, setting, SourceLocation(place));
            }
        }
    }
}

/// A value that cannot be read was given nevertheless: what is checked later must not call it missing.
fn give_default(given: &mut Given, setting: &'static Setting, location: SourceLocation) {
    given.entry(setting.key).or_insert_with(|| (setting.default_value(), location));
}

/// The first setting of a table.
fn first_in(table: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')))
}

/// Says that there is no such key, with the nearest one or where they are listed.
pub(crate) fn unknown(key: &str) -> String {
    if matches!(key, "l2.line" | "l3.line") {
        return format!(
            "{key}: cache.line is that of every level; a line size of its own for a level is not simulated"
        );
    }
    if let Some(first) = first_in(key) {
        return format!("`{key}` is a table of settings: give one of them, for example `{}`", first.key);
    }
    let full = nearest(key, SETTINGS.iter().map(|s| s.key));
    let last = key.rsplit('.').next().unwrap_or(key);
    let by_last = || {
        let same = |s: &&Setting| s.key.rsplit('.').next() == Some(last);
        SETTINGS.iter().find(same).map(|s| s.key)
    };
    match full.or_else(by_last) {
        Some(name) => format!("unknown key `{key}`; did you mean `{name}`?"),
        None => format!("unknown key `{key}`; `servsim explain` lists every key"),
    }
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        line_at(self.text, offset)
    }

    fn table(&mut self, table: &dyn TableLike, prefix: &str) {
        for (key, item) in table.iter() {
            let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
            let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
            let line = span.map_or(1, |span| self.line(span.start));
            if let Some(inner) = item.as_table_like() {
                if first_in(&path).is_none() {
                    let sections = SETTINGS.iter().filter_map(|s| Some(s.key.split_once('.')?.0));
                    let hint = nearest(&path, sections)
                        .map(|name| format!("; did you mean `[{name}]`?"))
                        .unwrap_or_default();
                    self.fault(line, &format!("unknown section `[{path}]`{hint}"));
                    continue;
                }
                self.table(inner, &path);
            } else {
                self.value(&path, item, line);
            }
        }
    }

    fn value(&mut self, path: &str, item: &Item, line: usize) {
        let Some(setting) = setting_named(path) else {
            return self.fault(line, &unknown(path));
        };
        let (text, quoted) = match item.as_value() {
            Some(toml_edit::Value::String(text)) => (text.value().clone(), true),
            Some(toml_edit::Value::Integer(number)) => (number.value().to_string(), false),
            Some(other) => {
                let written = other.span().and_then(|span| self.text.get(span));
                (written.unwrap_or("this value").to_owned(), false)
            }
            None => (String::new(), false),
        };
        match setting.kind.read(&text, quoted) {
            Ok(value) => {
                let place = SourceLocation(format!("{}, line {line}", self.file));
                self.given.insert(setting.key, (value, place));
            }
            Err(why) => {
                self.fault(line, &format!("{path}: {why}"));
                let location = SourceLocation(format!("{}, line {line}", self.file));
                give_default(&mut self.given, setting, location);
            }
        }
    }

    fn fault(&mut self, line: usize, what: &str) {
        self.faults.push(format!("{}, line {line}: {what}", self.file));
    }
}
