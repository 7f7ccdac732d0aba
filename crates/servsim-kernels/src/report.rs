//! The report of a run as text.

use std::fmt::Write as _;

use serde_json::Value;

/// A run's report for a reader.
pub fn text(report: &Value) -> String {
    let word = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    let mut text = format!(
        "{} of size {}, {} threads, {} iterations: {:.3} s ({:.2} ms each)\n",
        word("kernel"),
        word("size"),
        report["threads"],
        report["iterations"],
        report["seconds"].as_f64().unwrap_or_default(),
        1e3 * report["seconds_per_iteration"].as_f64().unwrap_or_default(),
    );
    for figures in [&report["result"], &report["measured"]] {
        for (name, value) in figures.as_object().into_iter().flatten() {
            let _ = writeln!(text, "  {:<28} {}", name.replace('_', " "), plain(value));
        }
    }
    let _ = writeln!(text, "  {:<28} {}", "digest", word("digest"));
    for check in report["checks"].as_array().into_iter().flatten() {
        let verdict = if check["passed"] == Value::Bool(true) { "ok    " } else { "FAILED" };
        let (value, limit) = (check["value"].as_f64().unwrap_or(f64::NAN), check["limit"].as_f64());
        let name = check["check"].as_str().unwrap_or_default();
        let _ = writeln!(text, "  {verdict} {name}: {value:.3e} (at most {:.1e})", limit.unwrap_or(f64::NAN));
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => real(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let parts =
                fields.iter().map(|(name, value)| format!("{} {}", name.replace('_', " "), plain(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A number with six places, or six digits where those would show none of it.
fn real(number: f64) -> String {
    if number != 0.0 && number.abs() < 1e-3 {
        format!("{number:.5e}")
    } else {
        format!("{number:.6}")
    }
}
