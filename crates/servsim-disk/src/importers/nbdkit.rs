//! nbdkit's `log` filter: `DATE TIME [connection=N] Read id=1 offset=0x0 count=0x1000 …` when a
//! request arrives and `DATE TIME [connection=N] ...Read id=1 return=0 …` when it is answered.
//! Flush, Trim, Zero, Extents and Cache are counted and left out.

use super::text::{first_line, for_each_line, scaled, whole, words};
use super::{sectors_of, Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, SECTOR_BYTES};
use std::io::BufRead;

/// nbdkit's log filter.
pub struct Nbdkit;

impl Importer for Nbdkit {
    fn name(&self) -> &'static str {
        "nbdkit"
    }

    fn about(&self) -> &'static str {
        "nbdkit --filter=log"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let mut fields = line.split_whitespace();
            fields.next().is_some_and(|date| date.len() == 10 && date.as_bytes()[4] == b'-')
                && fields.next().is_some_and(|time| time.len() >= 8 && time.as_bytes()[2] == b':')
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        for_each_line(input, &mut |number, line| {
            collector.line(number);
            let fields: Vec<&str> = words(line).collect();
            let time = fields.first().zip(fields.get(1)).and_then(|(date, time)| nanoseconds(date, time));
            let Some(time_ns) = time else {
                return Err(ImportError::Malformed {
                    format: "nbdkit",
                    place: format!("line {number}"),
                    problem: "expected `YYYY-MM-DD HH:MM:SS.micros …`".to_owned(),
                });
            };
            collector.at(time_ns);
            event(time_ns, &fields[2..], collector)
        })
    }
}

/// Value of `key=value` among the words of a line.
fn value<'a>(fields: &[&'a str], key: &str) -> Option<&'a str> {
    fields.iter().find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
}

fn event(time_ns: i64, fields: &[&str], collector: &mut Collector<'_>) -> Result<(), ImportError> {
    let action = fields.iter().find(|field| !field.contains('=')).copied().unwrap_or("");
    let connection = value(fields, "connection").unwrap_or("0");
    let Some(id) = value(fields, "id").and_then(whole) else {
        collector.report.unrecognised_lines += 1;
        return Ok(());
    };
    let (name, answered) = match action.strip_prefix("...") {
        Some(name) => (name, true),
        None => (action, false),
    };
    let op = match name {
        "Read" => Op::Read,
        "Write" => Op::Write,
        "Flush" => {
            collector.report.zero_length += u64::from(!answered);
            return Ok(());
        }
        _ => {
            collector.report.other_operations += u64::from(!answered);
            return Ok(());
        }
    };
    // One device; connections share it, and each numbers its own requests.
    let device = collector.device("nbd");
    let key = id << 16 | (whole(connection).unwrap_or(0) & 0xffff);
    if answered {
        return collector.complete(device, key, time_ns);
    }
    let (Some(offset), Some(count)) =
        (value(fields, "offset").and_then(whole), value(fields, "count").and_then(whole))
    else {
        collector.report.unrecognised_lines += 1;
        return Ok(());
    };
    let pending = Pending {
        arrival_ns: time_ns,
        start_ns: None,
        lba: offset / SECTOR_BYTES,
        sectors: sectors_of(count),
        op,
        by_tracer: false,
    };
    collector.issue(device, key, pending);
    Ok(())
}

/// Nanoseconds since 1970 of a date and a time of day (the log has no zone; none is needed).
fn nanoseconds(date: &str, time: &str) -> Option<i64> {
    let part = |text: Option<&str>| text?.parse::<i64>().ok();
    let mut date = date.split('-');
    let (year, month, day) = (part(date.next())?, part(date.next())?, part(date.next())?);
    let mut time = time.split(':');
    let (hour, minute) = (part(time.next())?, part(time.next())?);
    let second_ns = scaled(time.next()?.as_bytes(), 1_000_000_000)?;
    // 64 bits of nanoseconds end in the year 2262.
    let real = (1..=12).contains(&month) && (1..=31).contains(&day) && (0..24).contains(&hour);
    if !(1970..2262).contains(&year) || !real || !(0..60).contains(&minute) {
        return None;
    }
    // Days from the civil calendar, with years that begin in March so that leap days come last.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days =
        365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 719_469;
    (((days * 24 + hour) * 60 + minute) * 60_000_000_000).checked_add(second_ns)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_day_of_1970_is_time_zero() {
        assert_eq!(super::nanoseconds("1970-01-01", "00:00:01.5"), Some(1_500_000_000));
        assert_eq!(super::nanoseconds("2000-03-01", "00:00:00"), Some(951_868_800_000_000_000));
    }
}
