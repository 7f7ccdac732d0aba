//! Conditions of a consistent database, asked of it by a program of the workload's folder in SQL of its own.

use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};

use crate::{Error, Result};

/// Asks the database whether it is consistent, by a program that prints a line for each condition: its name, how many rows
/// break it, and what it means, separated by tabs. It finds the counts of its environment, `servsim_NAME`: what the
/// population was (`size_...`) and what was done since (`done_...`).
///
/// # Errors
/// [`Error::Environment`] when the program fails.
pub fn asked(program: &Path, counts: &[(&str, u64)]) -> Result<Vec<Value>> {
    let failed =
        |why: String| Error::Environment(format!("{} did not check the database: {why}", program.display()));
    let counts = counts.iter().map(|(name, count)| (format!("servsim_{name}"), count.to_string()));
    let output = Command::new(program).envs(counts).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.lines().last().unwrap_or("it says nothing").to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let (name, found, meaning) = (fields.next()?, fields.next()?.parse::<u64>().ok()?, fields.next()?);
        Some(json!({"condition": name, "meaning": meaning, "found": found, "limit": 0, "holds": found == 0}))
    };
    let conditions: Vec<Value> = text
        .lines()
        .map(|said| line(said).ok_or_else(|| failed(format!("{said:?} is no condition"))))
        .collect::<Result<_>>()?;
    if conditions.is_empty() {
        return Err(failed("it says nothing".to_owned()));
    }
    Ok(conditions)
}

/// A sentence for each condition that does not hold.
pub fn broken(conditions: &[Value]) -> Vec<String> {
    let broken = conditions.iter().filter(|condition| condition["holds"] != json!(true));
    let sentence = |condition: &Value| {
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        format!(
            "the condition {} does not hold: {} of: {}",
            text("condition"),
            condition["found"],
            text("meaning")
        )
    };
    broken.map(sentence).collect()
}
