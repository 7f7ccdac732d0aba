//! fio latency logs with offsets (`--write_lat_log --log_offset=1`): `time_ms, latency_ns, dir, bs,
//! offset[, …]`, one line a completed request; dir 0 read, 1 write, 2 trim. fio stamps the log at
//! completion in whole milliseconds, so arrivals are known to a millisecond only.

use super::text::{first_line, for_each_line, scaled};
use super::{sectors_of, Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, SECTOR_BYTES};
use std::io::BufRead;

/// fio latency logs.
pub struct Fio;

impl Importer for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn about(&self) -> &'static str {
        "fio latency logs with offsets (--write_lat_log --log_offset=1)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let fields: Vec<&str> = line.split(", ").collect();
            (4..=7).contains(&fields.len()) && matches!(fields[2], "0" | "1" | "2")
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let device = collector.device("fio");
        // The fifth column is the place if that is logged, and else the priority class, 0 or 1; the time
        // of issue may follow.
        let mut no_place = None;
        collector
            .report
            .notes
            .push("fio stamps requests in whole milliseconds: idle times are that coarse".to_owned());
        for_each_line(input, &mut |number, line| {
            collector.line(number);
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
            let error = |problem: &str| ImportError::Malformed {
                format: "fio",
                place: format!("line {number}"),
                problem: problem.to_owned(),
            };
            if fields.len() < 5 || fields.len() == 5 && fields[4].starts_with(b"0x") {
                return Err(error("no offset column; record with --log_offset=1"));
            }
            let numbers: Vec<i64> = fields[..5].iter().map_while(|field| scaled(field, 1)).collect();
            let [time_ms, latency_ns, direction, bytes, offset] = numbers[..] else {
                return Err(error("expected `time_ms, latency_ns, dir, bs, offset` in whole numbers"));
            };
            let next = fields.get(5).and_then(|field| scaled(field, 1));
            let is_priority =
                matches!(offset, 0 | 1) && (fields.len() == 5 || next.is_some_and(|next| next > 1));
            no_place = Some(no_place.unwrap_or(true) && is_priority);
            let op = match direction {
                0 => Op::Read,
                1 => Op::Write,
                _ => {
                    collector.report.other_operations += 1;
                    return Ok(());
                }
            };
            let completion_ns = time_ms.saturating_mul(1_000_000);
            collector.at(completion_ns);
            if latency_ns < 0 || bytes < 0 || offset < 0 {
                collector.negative_time();
                return Ok(());
            }
            // The stamp is rounded down: a request of the first millisecond may seem to start before zero.
            let arrival_ns = completion_ns.saturating_sub(latency_ns).max(0);
            let pending = Pending {
                arrival_ns,
                start_ns: None,
                lba: offset as u64 / SECTOR_BYTES,
                sectors: sectors_of(bytes as u64),
                op,
                by_tracer: false,
            };
            collector.emit(device, &pending, arrival_ns.saturating_add(latency_ns))
        })?;
        if no_place == Some(true) {
            return Err(ImportError::Malformed {
                format: "fio",
                place: "column 5".to_owned(),
                problem: "0 or 1 throughout is a priority, not an offset; record with --log_offset=1"
                    .to_owned(),
            });
        }
        Ok(())
    }
}
