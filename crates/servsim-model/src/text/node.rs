//! A description as a tree with line numbers, from TOML or JSON, and the reader that collects every
//! problem before giving up: line, offending text, accepted values and the nearest known name.
//!
//! TOML is for people: times carry units ("12 ms"). JSON is for programs: plain numbers are seconds
//! or requests per second.

use super::source::{parse_json, parse_toml};
use servsim_units::Picos;
use std::fmt;

/// A value and the line it stands on (0 when the source has no lines).
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Line, from 1.
    pub line: usize,
    /// The value.
    pub value: Value,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A number.
    Number(f64),
    /// A truth value.
    Flag(bool),
    /// An array.
    List(Vec<Node>),
    /// A table; keys in order of appearance.
    Table(Vec<(String, Node)>),
    /// JSON null, treated as absent.
    Nothing,
}

/// One thing wrong with a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1; 0 when unknown.
    pub line: usize,
    /// What, and the remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "{}", self.message);
        }
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Everything wrong with a description, in order of lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

/// Reads values out of the tree and collects problems.
#[derive(Debug, Default)]
pub struct Reader {
    /// Found so far.
    pub problems: Vec<Problem>,
    /// True for JSON: bare numbers are in base units.
    pub bare_numbers: bool,
}

impl Node {
    /// The entry called `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => {
                entries.iter().find(|(k, v)| k == key && v.value != Value::Nothing).map(|(_, v)| v)
            }
            _ => None,
        }
    }

    /// Entries of a table.
    pub fn entries(&self) -> &[(String, Node)] {
        if let Value::Table(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    /// Strings of a list of nothing else, with their lines.
    pub fn texts(&self) -> Option<Vec<(usize, String)>> {
        let Value::List(items) = &self.value else { return None };
        let text = |node: &Node| if let Value::Text(text) = &node.value { Some(text.clone()) } else { None };
        items.iter().map(|item| Some((item.line, text(item)?))).collect()
    }

    fn numbers(&self) -> Option<Vec<f64>> {
        let Value::List(items) = &self.value else { return None };
        let number = |node: &Node| if let Value::Number(x) = node.value { Some(x) } else { None };
        items.iter().map(|item| number(item).filter(|x| x.is_finite())).collect()
    }

    fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("\"{text}\""),
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(_) => "a list".into(),
            Value::Table(_) => "a table".into(),
            Value::Nothing => "nothing".into(),
        }
    }
}

impl Reader {
    /// Parses TOML (or JSON when `json`); `None` with a problem recorded when it is neither.
    pub fn parse(&mut self, text: &str, json: bool) -> Option<Node> {
        self.bare_numbers = json;
        let parsed = if json { parse_json(text) } else { parse_toml(text) };
        parsed.map_err(|(line, message)| self.problem(line, message)).ok()
    }

    /// Records a problem.
    pub fn problem(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(Problem { line, message: message.into() });
    }

    fn none<T>(&mut self, line: usize, message: String) -> Option<T> {
        self.problem(line, message);
        None
    }

    /// The problems in order of lines, or `value` when there are none.
    ///
    /// # Errors
    /// All problems.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<T, Problems> {
        self.problems.sort_by_key(|p| p.line);
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => Err(Problems(self.problems)),
        }
    }

    /// Flags keys that are not `known`.
    pub fn only(&mut self, node: &Node, place: &str, known: &[&str]) {
        for (key, value) in node.entries().iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let hint = nearest(key, known.iter().copied());
            self.problem(
                value.line,
                format!("unknown key `{key}` in {place}{hint}; accepted: {}", known.join(", ")),
            );
        }
    }

    /// A list of tables, such as `[[station]]`; empty when absent.
    pub fn tables<'a>(&mut self, node: &'a Node, key: &str) -> Vec<&'a Node> {
        match node.get(key).map(|n| (&n.value, n.line)) {
            None => Vec::new(),
            Some((Value::List(items), _)) if items.iter().all(|n| matches!(n.value, Value::Table(_))) => {
                items.iter().collect()
            }
            Some((_, line)) => {
                self.problem(line, format!("`{key}` must be a list of tables: write [[{key}]]"));
                Vec::new()
            }
        }
    }

    /// Entries of the table `key`, if present.
    pub fn entries<'a>(&mut self, node: &'a Node, key: &str, example: &str) -> &'a [(String, Node)] {
        let Some(found) = node.get(key) else { return &[] };
        if !matches!(found.value, Value::Table(_)) {
            let what = found.describe();
            self.problem(
                found.line,
                format!("`{key}` must be a table such as {key} = {example}, not {what}"),
            );
        }
        found.entries()
    }

    /// A string, if present.
    pub fn text(&mut self, node: &Node, key: &str) -> Option<String> {
        let found = node.get(key)?;
        match &found.value {
            Value::Text(text) => Some(text.clone()),
            _ => self.none(found.line, format!("`{key}` must be text, not {}", found.describe())),
        }
    }

    /// A string that must be there.
    pub fn name(&mut self, node: &Node, place: &str) -> String {
        if node.get("name").is_none() {
            self.problem(node.line, format!("{place} has no name; add name = \"...\""));
        }
        self.text(node, "name").unwrap_or_default()
    }

    /// A finite number, if present.
    pub fn number(&mut self, node: &Node, key: &str) -> Option<f64> {
        let found = node.get(key)?;
        match found.value {
            Value::Number(number) if number.is_finite() => Some(number),
            _ => self.none(found.line, format!("`{key}` must be a finite number, not {}", found.describe())),
        }
    }

    /// A whole number of at least `least`, if present.
    pub fn count(&mut self, node: &Node, key: &str, least: usize) -> Option<usize> {
        let line = node.get(key)?.line;
        let number = self.number(node, key)?;
        if number.fract() != 0.0 || number < least as f64 || number > 1e15 {
            return self
                .none(line, format!("`{key}` must be a whole number of at least {least}, not {number}"));
        }
        Some(number as usize)
    }

    /// A whole number of either sign, if present.
    pub fn integer(&mut self, node: &Node, key: &str) -> Option<i32> {
        let line = node.get(key)?.line;
        let number = self.number(node, key)?;
        if number.fract() != 0.0 || number.abs() > f64::from(i32::MAX) {
            return self.none(line, format!("`{key}` must be a whole number, not {number}"));
        }
        Some(number as i32)
    }

    /// A truth value, if present.
    pub fn flag(&mut self, node: &Node, key: &str) -> Option<bool> {
        let found = node.get(key)?;
        match found.value {
            Value::Flag(flag) => Some(flag),
            _ => self.none(found.line, format!("`{key}` must be true or false, not {}", found.describe())),
        }
    }

    /// A time in seconds, if present.
    pub fn time(&mut self, node: &Node, key: &str) -> Option<f64> {
        let found = node.get(key)?;
        self.time_of(found, key)
    }

    /// The time that a node states, in seconds.
    pub fn time_of(&mut self, node: &Node, key: &str) -> Option<f64> {
        match &node.value {
            Value::Number(number) if self.bare_numbers && *number >= 0.0 && number.is_finite() => {
                Some(*number)
            }
            Value::Number(number) if !self.bare_numbers && *number >= 0.0 => self.none(
                node.line,
                format!("`{key}` = {number} has no unit; write for example \"{number} ms\""),
            ),
            Value::Number(number) => {
                self.none(node.line, format!("`{key}` = {number} is not a usable time; give zero or more"))
            }
            Value::Text(text) => match text.parse::<Picos>() {
                Ok(picos) => Some(picos.0 as f64 / 1e12),
                Err(error) => self.none(node.line, format!("`{key}`: {error}")),
            },
            _ => self.none(
                node.line,
                format!("`{key}` must be a time such as \"12 ms\", not {}", node.describe()),
            ),
        }
    }

    /// A rate per second, if present: "12 /s", "300 /min", "1000 /h".
    pub fn rate(&mut self, node: &Node, key: &str) -> Option<f64> {
        let found = node.get(key)?;
        let rate = match &found.value {
            Value::Number(number) if self.bare_numbers => Some(*number),
            Value::Text(text) => parse_rate(text),
            _ => None,
        };
        match rate {
            Some(rate) if rate.is_finite() && rate > 0.0 => Some(rate),
            _ => {
                let message = format!(
                    "`{key}` must be a positive rate such as \"12 /s\" (/s, /min, /h), not {}",
                    found.describe()
                );
                self.none(found.line, message)
            }
        }
    }

    /// A list of finite numbers, if present.
    pub fn numbers(&mut self, node: &Node, key: &str) -> Option<Vec<f64>> {
        let found = node.get(key)?;
        let message = || format!("`{key}` must be a list of finite numbers, not {}", found.describe());
        found.numbers().or_else(|| self.none(found.line, message()))
    }

    /// A list of whole numbers from 1 to `most`, if present.
    pub fn counts(&mut self, node: &Node, key: &str, most: f64) -> Option<Vec<usize>> {
        let line = node.get(key)?.line;
        let numbers = self.numbers(node, key)?;
        if numbers.iter().any(|n| n.fract() != 0.0 || *n < 1.0 || *n > most) {
            return self.none(line, format!("`{key}` must list whole numbers from 1 to {most}"));
        }
        Some(numbers.iter().map(|n| *n as usize).collect())
    }

    /// A list of lists of finite numbers, if present.
    pub fn rows(&mut self, node: &Node, key: &str) -> Option<Vec<Vec<f64>>> {
        let found = node.get(key)?;
        let rows = if let Value::List(rows) = &found.value {
            rows.iter().map(Node::numbers).collect()
        } else {
            None
        };
        rows.or_else(|| {
            let what = found.describe();
            self.none(found.line, format!("`{key}` must be a list of lists of finite numbers, not {what}"))
        })
    }

    /// A list of strings, if present.
    pub fn texts(&mut self, node: &Node, key: &str) -> Option<Vec<(usize, String)>> {
        let found = node.get(key)?;
        let message = || format!("`{key}` must be a list of names, not {}", found.describe());
        found.texts().or_else(|| self.none(found.line, message()))
    }

    /// Position of `name` among `known`.
    pub fn index(&mut self, line: usize, name: &str, kind: &str, known: &[String]) -> Option<usize> {
        if let Some(index) = known.iter().position(|k| k == name) {
            return Some(index);
        }
        let hint = nearest(name, known.iter().map(String::as_str));
        self.none(line, format!("unknown {kind} `{name}`{hint}; known: {}", known.join(", ")))
    }

    /// Flags names that occur twice.
    pub fn unique(&mut self, nodes: &[&Node], names: &[String], kind: &str) {
        for (i, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if names[..i].contains(name) {
                self.problem(nodes[i].line, format!("{kind} `{name}` is described twice; rename one"));
            }
        }
    }
}

fn parse_rate(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once('/')?;
    let scale = match unit.trim() {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number.trim().parse::<f64>().ok()? / scale)
}

/// `", did you mean ...?"` for the closest of `known`, or nothing when none is close.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    servsim_units::nearest::nearest(name, known)
        .map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}
