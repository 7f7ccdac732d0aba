//! What lies where in the memory that a server's processes share, told by a program of the workload's folder.
//!
//! With the argument `before` it keeps what it wants to compare; without, behind the run, it prints a line for each range:
//! address, bytes, and name, separated by tabs. The first line names the program whose processes share the memory.

use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};

use crate::{Error, Result};

fn said(program: &Path, step: Option<&str>) -> Result<String> {
    let failed = |why: String| {
        Error::Environment(format!("{} did not tell what lies where in memory: {why}", program.display()))
    };
    let output = Command::new(program).args(step).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(said.lines().last().unwrap_or("it says nothing").to_owned()))
}

/// Lets the program keep what it wants to compare behind the run.
///
/// # Errors
/// [`Error::Environment`] when it fails.
pub fn keep(program: &Path) -> Result<()> {
    said(program, Some("before")).map(drop)
}

/// What the program tells behind the run, as a trace describes it: a program, and named ranges.
///
/// # Errors
/// [`Error::Environment`] when it fails, or says something else.
pub fn described(program: &Path) -> Result<Value> {
    read(&said(program, None)?)
        .map_err(|line| Error::Environment(format!("{}: {line:?} is no range of memory", program.display())))
}

/// Reads what a program has said; an error is the line that it cannot read.
fn read(text: &str) -> std::result::Result<Value, String> {
    let mut lines = text.lines();
    let name = lines.next().unwrap_or_default();
    if name.is_empty() || name.contains('\t') {
        return Err(name.to_owned());
    }
    let range = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let (at, bytes, name) = (fields.next()?, fields.next()?, fields.next()?);
        Some(json!([name, at.parse::<u64>().ok()?, bytes.parse::<u64>().ok()?]))
    };
    let ranges: Vec<Value> = lines
        .map(|line| range(line).ok_or_else(|| line.to_owned()))
        .collect::<std::result::Result<_, _>>()?;
    Ok(json!({"program": name, "ranges": ranges}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_anything_else_is_named() {
        let told = read("postgres\n4096\t8192\tstories\n12288\t16\tXLOG Ctl\n").unwrap();
        let expected =
            json!({"program": "postgres", "ranges": [["stories", 4096, 8192], ["XLOG Ctl", 12288, 16]]});
        assert_eq!(told, expected);
        for wrong in ["", "4096\t8192\tstories", "postgres\n4096\tstories", "postgres\n4096\t-1\tstories"] {
            assert_eq!(read(wrong).unwrap_err(), wrong.lines().last().unwrap_or_default());
        }
    }
}
