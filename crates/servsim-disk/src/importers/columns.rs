//! The named columns of a CSV trace: `arrival_us,op,lba,sectors,completion_us` and their kin.

use crate::error::{suggestion, ImportError};
use std::fmt;

/// What a column holds, with the factor to its base unit (ns, sectors or bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Arrival time; ns per unit.
    Arrival(i64),
    /// Time since the previous arrival; ns per unit.
    SincePrevious(i64),
    /// Start of service; ns per unit.
    Start(i64),
    /// Completion time; ns per unit.
    Completion(i64),
    /// Completion minus start (or arrival, without a start); ns per unit.
    Service(i64),
    /// Completion minus arrival; ns per unit.
    Response(i64),
    /// Operation.
    Op,
    /// First sector; 512-byte sectors.
    Lba,
    /// First byte.
    Offset,
    /// Length in sectors.
    Sectors,
    /// Length in bytes.
    Bytes,
    /// Device name.
    Device,
    /// Ignored.
    Skip,
}

impl fmt::Display for Column {
    /// What a field of this column has to be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |f: &mut fmt::Formatter<'_>, what: &str, scale: i64| {
            let unit = UNITS.iter().find(|(_, ns)| *ns == scale).map_or("", |(unit, _)| unit);
            write!(f, "{what} in {unit}, of at most 9e18 ns")
        };
        match *self {
            Self::Arrival(scale) => time(f, "an arrival time", scale),
            Self::SincePrevious(scale) => time(f, "a time since the previous arrival", scale),
            Self::Start(scale) => time(f, "a start of service", scale),
            Self::Completion(scale) => time(f, "a completion time", scale),
            Self::Service(scale) => time(f, "a service time", scale),
            Self::Response(scale) => time(f, "a response time", scale),
            Self::Op => f.write_str("an operation: 0 or R reads, 1 or W writes"),
            Self::Lba => f.write_str("the number of a sector"),
            Self::Offset => f.write_str("an offset in bytes"),
            Self::Sectors => f.write_str("a number of sectors"),
            Self::Bytes => f.write_str("a number of bytes"),
            Self::Device => f.write_str("the name of a device"),
            Self::Skip => f.write_str("a field"),
        }
    }
}

/// Units of time, with their nanoseconds.
const UNITS: [(&str, i64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];

const TIMES: &[&str] = &[
    "arrival",
    "issue",
    "interarrival",
    "start",
    "completion",
    "complete",
    "done",
    "service",
    "response",
    "latency",
];
const PLAIN: &[&str] = &[
    "op",
    "lba",
    "sector",
    "offset_bytes",
    "sectors",
    "length_sectors",
    "bytes",
    "length_bytes",
    "device",
    "skip",
];

/// Reads column names such as `arrival_us,op,lba,sectors,done_us`; all faults are told at once. With
/// `arrivals_only` nothing has to tell when a request completes.
///
/// # Errors
/// When a name is unknown or lacks its unit, or the columns do not determine a request.
pub fn parse(spec: &str, arrivals_only: bool) -> Result<Vec<Column>, ImportError> {
    let mut problems = Vec::new();
    let mut columns = Vec::new();
    // Some programs put names between quotation marks.
    for name in spec.split(',').map(|name| name.trim().trim_matches('"')) {
        match column(&name.to_ascii_lowercase()) {
            Ok(column) => columns.push(column),
            Err(problem) => problems.push(problem),
        }
    }
    let has = |test: fn(&Column) -> bool| columns.iter().any(test);
    if problems.is_empty() {
        if !has(|c| matches!(c, Column::Arrival(_) | Column::SincePrevious(_))) {
            problems.push("no arrival: add `arrival_us` (or `interarrival_us`)".to_owned());
        }
        if !arrivals_only
            && !has(|c| matches!(c, Column::Completion(_) | Column::Response(_) | Column::Service(_)))
        {
            problems.push("no completion: add `completion_us`, `response_us` or `service_us`".to_owned());
        }
        if !has(|c| *c == Column::Op) {
            problems.push("no operation: add `op` (0 or R reads, 1 or W writes)".to_owned());
        }
        if !has(|c| matches!(c, Column::Lba | Column::Offset)) {
            problems.push("no place: add `lba` (512-byte sectors) or `offset_bytes`".to_owned());
        }
        if !has(|c| matches!(c, Column::Sectors | Column::Bytes)) {
            problems.push("no length: add `sectors` or `bytes`".to_owned());
        }
    }
    if problems.is_empty() {
        Ok(columns)
    } else {
        Err(ImportError::Columns(problems.join("; ")))
    }
}

fn column(name: &str) -> Result<Column, String> {
    let plain = match name {
        "op" => Some(Column::Op),
        "lba" | "sector" => Some(Column::Lba),
        "offset_bytes" => Some(Column::Offset),
        "sectors" | "length_sectors" => Some(Column::Sectors),
        "bytes" | "length_bytes" => Some(Column::Bytes),
        "device" => Some(Column::Device),
        "skip" | "" => Some(Column::Skip),
        _ => None,
    };
    if let Some(column) = plain {
        return Ok(column);
    }
    let (kind, unit) = name.rsplit_once('_').unwrap_or((name, ""));
    let Some(&(_, scale)) = UNITS.iter().find(|(known, _)| *known == unit) else {
        if TIMES.contains(&name) {
            return Err(format!("`{name}` needs its unit: write `{name}_us` (s, ms, us or ns)"));
        }
        return Err(unknown(name));
    };
    match kind {
        "arrival" | "issue" => Ok(Column::Arrival(scale)),
        "interarrival" => Ok(Column::SincePrevious(scale)),
        "start" => Ok(Column::Start(scale)),
        "completion" | "complete" | "done" => Ok(Column::Completion(scale)),
        "service" => Ok(Column::Service(scale)),
        "response" | "latency" => Ok(Column::Response(scale)),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    let timed: Vec<String> = TIMES.iter().map(|time| format!("{time}_us")).collect();
    let all: Vec<&str> = timed.iter().map(String::as_str).chain(PLAIN.iter().copied()).collect();
    format!("no column is called `{name}`{}; accepted: {}", suggestion(name, &all), all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_its_unit_and_a_misspelt_name_are_told_together() {
        let message = parse("arrival,op,lba,sectorz,done_us", false).unwrap_err().to_string();
        assert!(message.contains("`arrival` needs its unit"), "{message}");
        assert!(message.contains("did you mean `sector`"), "{message}");
    }

    #[test]
    fn columns_that_do_not_determine_a_request_are_refused() {
        let message = parse("arrival_us,op,lba,sectors", false).unwrap_err().to_string();
        assert!(parse("arrival_us,op,lba,sectors", true).is_ok());
        assert!(message.contains("no completion"), "{message}");
    }
}
