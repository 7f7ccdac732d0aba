//! Reads measured throughputs and utilisations.

use super::node::{Problems, Reader};
use crate::fit::{Measurements, Sample};

/// Servers of a station at most.
const MOST: f64 = 1e6;
const ROOT: &[&str] = &["name", "classes", "stations", "servers", "population", "think", "sample"];

/// Reads measurements from TOML or JSON.
///
/// # Errors
/// All problems found, with their lines. Contradictions between figures are found later, by
/// [`Measurements::check`].
pub fn read_measurements(text: &str, json: bool) -> Result<Measurements, Problems> {
    let mut reader = Reader::default();
    let Some(root) = reader.parse(text, json) else { return reader.finish(None) };
    reader.only(&root, "the measurements", ROOT);
    for key in ["classes", "stations", "sample"] {
        if root.get(key).is_none() {
            reader.problem(0, format!("`{key}` is missing"));
        }
    }
    let names =
        |list: Option<Vec<(usize, String)>>| list.unwrap_or_default().into_iter().map(|(_, n)| n).collect();
    let classes: Vec<String> = names(reader.texts(&root, "classes"));
    let stations: Vec<String> = names(reader.texts(&root, "stations"));
    let mut samples = Vec::new();
    for node in reader.tables(&root, "sample") {
        reader.only(node, "this sample", &["throughput", "utilization", "response"]);
        for key in ["throughput", "utilization"] {
            if node.get(key).is_none() {
                reader.problem(node.line, format!("this sample has no `{key}`"));
            }
        }
        samples.push(Sample {
            throughput: reader.numbers(node, "throughput").unwrap_or_default(),
            utilization: reader.numbers(node, "utilization").unwrap_or_default(),
            response: reader.time(node, "response"),
        });
    }
    let measurements = Measurements {
        classes,
        stations,
        servers: reader.counts(&root, "servers", MOST).unwrap_or_default(),
        population: reader.number(&root, "population"),
        think: reader.time(&root, "think").unwrap_or(0.0),
        samples,
    };
    reader.finish(Some(measurements))
}
