//! From TOML or JSON text to the tree of `node`, keeping line numbers where the source has them.

use super::node::{Node, Value};

/// Parses JSON; the line and message of the first fault otherwise.
pub(super) fn parse_json(text: &str) -> Result<Node, (usize, String)> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => Ok(from_json(&value)),
        Err(error) => Err((error.line(), format!("not JSON: {error}"))),
    }
}

/// Parses TOML; the line and message of the first fault otherwise.
pub(super) fn parse_toml(text: &str) -> Result<Node, (usize, String)> {
    match toml_edit::ImDocument::parse(text) {
        Ok(document) => Ok(from_table(document.as_table(), text, 1)),
        Err(error) => {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            Err((line, format!("not TOML: {}", error.message().replace('\n', ", "))))
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().fold(0, |n, b| n + usize::from(*b == b'\n'))
}

fn from_json(value: &serde_json::Value) -> Node {
    use serde_json::Value as Json;
    let value = match value {
        Json::Null => Value::Nothing,
        Json::Bool(flag) => Value::Flag(*flag),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect()),
        Json::Object(map) => Value::Table(map.iter().map(|(k, v)| (k.clone(), from_json(v))).collect()),
    };
    Node { line: 0, value }
}

fn from_table(table: &dyn toml_edit::TableLike, text: &str, line: usize) -> Node {
    let entry = |(key, item): (&str, &toml_edit::Item)| {
        let span = table.get_key_value(key).and_then(|(k, _)| k.span());
        let line = span.map_or(line, |s| line_of(text, s.start));
        (key.to_owned(), from_item(item, text, line))
    };
    Node { line, value: Value::Table(table.iter().map(entry).collect()) }
}

fn from_item(item: &toml_edit::Item, text: &str, line: usize) -> Node {
    let line = item.span().map_or(line, |s| line_of(text, s.start));
    match item {
        toml_edit::Item::Table(table) => from_table(table, text, line),
        toml_edit::Item::ArrayOfTables(tables) => {
            let of =
                |t: &toml_edit::Table| from_table(t, text, t.span().map_or(line, |s| line_of(text, s.start)));
            Node { line, value: Value::List(tables.iter().map(of).collect()) }
        }
        toml_edit::Item::Value(value) => from_value(value, text, line),
        toml_edit::Item::None => Node { line, value: Value::Nothing },
    }
}

fn from_value(value: &toml_edit::Value, text: &str, line: usize) -> Node {
    let line = value.span().map_or(line, |s| line_of(text, s.start));
    let value = match value {
        toml_edit::Value::String(s) => Value::Text(s.value().clone()),
        toml_edit::Value::Integer(n) => Value::Number(*n.value() as f64),
        toml_edit::Value::Float(x) => Value::Number(*x.value()),
        toml_edit::Value::Boolean(b) => Value::Flag(*b.value()),
        toml_edit::Value::Datetime(d) => Value::Text(d.value().to_string()),
        toml_edit::Value::Array(items) => {
            Value::List(items.iter().map(|v| from_value(v, text, line)).collect())
        }
        toml_edit::Value::InlineTable(table) => return from_table(table, text, line),
    };
    Node { line, value }
}
