//! Reads formats that tell when requests arrive and not when they complete, a request a line.

use super::text::for_each_line;
use super::{Collector, Pending};
use crate::error::ImportError;
use std::borrow::Cow;
use std::io::BufRead;

/// What a line says.
pub(super) struct Arrival<'a> {
    /// Name of the device.
    pub device: Cow<'a, str>,
    /// Who asked, where that is told.
    pub process: Option<&'a str>,
    /// The request.
    pub request: Pending,
}

/// Hands on the requests of all lines; `fields` are what a line must have.
pub(super) fn read(
    input: &mut dyn BufRead,
    collector: &mut Collector<'_>,
    fields: &str,
    parse: fn(&[u8]) -> Option<Arrival<'_>>,
) -> Result<(), ImportError> {
    collector.arrivals_only()?;
    for_each_line(input, &mut |number, line| {
        collector.line(number);
        let arrival = parse(line).ok_or_else(|| ImportError::Malformed {
            format: collector.report.format,
            place: format!("line {number}"),
            problem: format!("expected {fields}"),
        })?;
        let mut request = arrival.request;
        request.by_tracer = arrival.process.is_some_and(|process| collector.is_tracer(process));
        collector.at(request.arrival_ns);
        let device = collector.device(&arrival.device);
        collector.emit(device, &request, request.arrival_ns)
    })
}
