//! CSV traces with named columns and units, from a heading line or from `--columns`.
//!
//! Without either, five whole numbers a line are read as `arrival_us,op,lba,sectors,completion_us`,
//! and the report says so. A service time without a start is taken from arrival on. Where nothing but
//! arrivals is asked for, nothing has to tell when a request completes.

use super::columns::{parse as parse_columns, Column};
use super::text::{first_line, for_lines, numbers, scaled, Around, Lines, BEFORE};
use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, SECTOR_BYTES};
use std::io::BufRead;

/// Headings of well-known traces, and what they mean. Of SYSTOR '17 (Lee et al.) times are of arrival; without a
/// response nothing stands where the operation and the time would.
const KNOWN: [(&str, &str); 1] =
    [("Timestamp,Response,IOType,LUN,Offset,Size", "arrival_s,response_s,op,device,offset_bytes,bytes")];

const GUESS: &str = "arrival_us,op,lba,sectors,completion_us";

/// CSV with named columns.
pub struct Csv;

impl Importer for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "CSV with named columns and units, from a heading line or --columns"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
            let numbers = fields.iter().filter(|field| scaled(field.as_bytes(), 1).is_some()).count();
            // Arrivals alone have four columns, and only a heading tells what they are.
            let named = fields.iter().any(|field| field.starts_with("arrival"));
            fields.len() >= 5 && numbers >= 4 || fields.len() >= 4 && named || known(line).is_some()
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let arrivals_only = collector.options().arrivals_only;
        let named = collector
            .options()
            .columns
            .as_deref()
            .map(|spec| parse_columns(spec, arrivals_only))
            .transpose()?;
        let is_named = named.is_some();
        let columns = named.unwrap_or_default();
        let mut reader =
            Reader { collector, columns, is_named, quick: None, is_first: true, previous_arrival: 0 };
        for_lines(input, &mut reader)
    }
}

/// What has been found out about the lines, and where their requests go.
struct Reader<'a, 'b> {
    collector: &'a mut Collector<'b>,
    columns: Vec<Column>,
    /// Whether the columns were named by who asked.
    is_named: bool,
    quick: Option<Quick>,
    is_first: bool,
    previous_arrival: i64,
}

impl Lines for Reader<'_, '_> {
    fn one(&mut self, number: u64, line: &[u8]) -> Result<(), ImportError> {
        if line[0] == b'#' {
            return Ok(());
        }
        if std::mem::take(&mut self.is_first) {
            let heading = heading(line, self.is_named, &mut self.columns, self.collector)?;
            self.quick = Quick::of(&self.columns);
            if heading {
                return Ok(());
            }
        }
        self.collector.line(number);
        let row = Row::parse(line, &self.columns).map_err(|problem| ImportError::Malformed {
            format: "csv",
            place: format!("line {number}"),
            problem,
        })?;
        row.emit(&mut self.previous_arrival, self.collector)
    }

    fn several(&mut self, buffer: &[u8], from: usize, number: u64) -> Result<(usize, u64), ImportError> {
        let (mut at, mut taken) = (from, 0);
        let Some(quick) = &self.quick else { return Ok((at, taken)) };
        while let Some(around) = at.checked_sub(BEFORE).and_then(|first| buffer[first..].first_chunk()) {
            let Some((pending, completion_ns, length)) = quick.parse(around) else { break };
            at += length;
            taken += 1;
            self.previous_arrival = pending.arrival_ns;
            self.collector.line(number + taken);
            self.collector.at(pending.arrival_ns);
            let device = Row::NAMELESS.number(self.collector);
            self.collector.emit(device, &pending, completion_ns)?;
        }
        Ok((at, taken))
    }
}

/// What a well-known heading means.
fn known(line: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(heading, _)| *heading == line.trim()).map(|(_, columns)| *columns)
}

/// Settles the columns on the first line; true if that line was a heading.
fn heading(
    line: &[u8],
    named: bool,
    columns: &mut Vec<Column>,
    collector: &mut Collector<'_>,
) -> Result<bool, ImportError> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
    let numeric = fields.iter().filter(|field| scaled(field, 1).is_some()).count();
    let is_heading = numeric == 0;
    if named {
        return Ok(is_heading);
    }
    if is_heading {
        let line = String::from_utf8_lossy(line);
        *columns = parse_columns(known(&line).unwrap_or(&line), collector.options().arrivals_only)?;
    } else if fields.len() == 5 {
        *columns = parse_columns(GUESS, false)?;
        collector.report.notes.push(format!("no heading: columns read as {GUESS}; name them with --columns"));
    } else {
        return Err(ImportError::Columns(format!(
            "{} columns without a heading; name them with --columns, for example {GUESS}",
            fields.len()
        )));
    }
    Ok(is_heading)
}

/// Most columns of a line that is read the quick way.
const QUICK_COLUMNS: usize = 16;

/// Where each thing stands in lines that hold nothing but whole numbers, as those of most traces do: all are read, then
/// each is taken from its place, and nothing branches on what it is.
struct Quick {
    columns: usize,
    arrival: (usize, i64),
    /// Completion, or response.
    end: (usize, i64),
    end_is_response: bool,
    op: usize,
    lba: usize,
    sectors: usize,
}

impl Quick {
    /// `None` where the columns are not an arrival, an end, an operation, a sector and a length, once each.
    fn of(columns: &[Column]) -> Option<Quick> {
        let only = |is: &dyn Fn(&Column) -> bool| {
            let mut places = (0..columns.len()).filter(|&at| is(&columns[at]));
            places.next().filter(|_| places.next().is_none())
        };
        let arrival = only(&|column| matches!(column, Column::Arrival(_)))?;
        let end = only(&|column| matches!(column, Column::Completion(_) | Column::Response(_)))?;
        let (Column::Arrival(unit), Column::Completion(end_unit) | Column::Response(end_unit)) =
            (columns[arrival], columns[end])
        else {
            return None;
        };
        let quick = Quick {
            columns: columns.len(),
            arrival: (arrival, unit),
            end: (end, end_unit),
            end_is_response: matches!(columns[end], Column::Response(_)),
            op: only(&|column| *column == Column::Op)?,
            lba: only(&|column| *column == Column::Lba)?,
            sectors: only(&|column| *column == Column::Sectors)?,
        };
        let skipped = columns.iter().filter(|column| **column == Column::Skip).count();
        (columns.len() <= QUICK_COLUMNS && columns.len() == 5 + skipped).then_some(quick)
    }

    /// The request of a line, when it completes, and the length of the line; `None` for anything that needs the general way.
    #[inline(always)]
    fn parse(&self, around: &Around) -> Option<(Pending, i64, usize)> {
        let mut values = [0; QUICK_COLUMNS];
        // The usual number of columns is known where the loop over them is made.
        let length = if self.columns == 5 {
            numbers(around, &mut values[..5])?
        } else {
            numbers(around, &mut values[..self.columns])?
        };
        // Fewer than 16 digits each: no sign is lost.
        let time = |(at, unit): (usize, i64)| (values[at % QUICK_COLUMNS] as i64).checked_mul(unit);
        let value = |at: usize| values[at % QUICK_COLUMNS];
        let (arrival_ns, end_ns) = (time(self.arrival)?, time(self.end)?);
        let completion_ns = if self.end_is_response { arrival_ns.saturating_add(end_ns) } else { end_ns };
        if value(self.op) > 1 {
            return None;
        }
        let op = if value(self.op) == 0 { Op::Read } else { Op::Write };
        let sectors = u32::try_from(value(self.sectors)).unwrap_or(u32::MAX);
        let pending =
            Pending { arrival_ns, start_ns: None, lba: value(self.lba), sectors, op, by_tracer: false };
        Some((pending, completion_ns, length))
    }
}

/// One line, in base units.
struct Row<'a> {
    arrival: Option<i64>,
    since_previous: i64,
    start: Option<i64>,
    completion: Option<i64>,
    service: Option<i64>,
    response: Option<i64>,
    op: Option<Op>,
    lba: u64,
    sectors: u64,
    device: &'a [u8],
    /// Nothing stands where an operation or a completion should.
    unanswered: bool,
}

impl Row<'static> {
    /// A line that tells nothing.
    const NAMELESS: Self = Row {
        arrival: None,
        since_previous: 0,
        start: None,
        completion: None,
        service: None,
        response: None,
        op: None,
        lba: 0,
        sectors: 0,
        device: b"disk0",
        unanswered: false,
    };
}

impl<'a> Row<'a> {
    fn parse(line: &'a [u8], columns: &[Column]) -> Result<Self, String> {
        let mut row = Row::NAMELESS;
        // Past the end by one when the line has no further field.
        let mut from = 0;
        for (at, column) in columns.iter().enumerate() {
            if from > line.len() {
                return Err(format!("{at} columns, expected {}", columns.len()));
            }
            let rest = &line[from..];
            let field = &rest[..rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len())];
            from += field.len() + 1;
            row.set(*column, field).ok_or_else(|| {
                format!("column {}: `{}` is not {column}", at + 1, String::from_utf8_lossy(field))
            })?;
        }
        Ok(row)
    }

    fn set(&mut self, column: Column, field: &'a [u8]) -> Option<()> {
        if field.is_empty() && matches!(column, Column::Op | Column::Completion(_) | Column::Response(_)) {
            self.unanswered = true;
            return Some(());
        }
        let natural = |scale: i64| scaled(field, scale).and_then(|value| u64::try_from(value).ok());
        match column {
            Column::Arrival(scale) => self.arrival = Some(scaled(field, scale)?),
            Column::SincePrevious(scale) => self.since_previous = scaled(field, scale)?,
            Column::Start(scale) => self.start = Some(scaled(field, scale)?),
            Column::Completion(scale) => self.completion = Some(scaled(field, scale)?),
            Column::Service(scale) => self.service = Some(scaled(field, scale)?),
            Column::Response(scale) => self.response = Some(scaled(field, scale)?),
            Column::Op => self.op = operation(field)?,
            Column::Lba => self.lba = natural(1)?,
            Column::Offset => self.lba = natural(1)? / SECTOR_BYTES,
            Column::Sectors => self.sectors = natural(1)?,
            Column::Bytes => self.sectors = natural(1)?.div_ceil(SECTOR_BYTES),
            Column::Device => self.device = field.trim_ascii(),
            Column::Skip => {}
        }
        Some(())
    }

    /// The number of its device.
    #[inline]
    fn number(&self, collector: &mut Collector<'_>) -> u16 {
        if self.device == b"disk0" && collector.report.devices.len() == 1 {
            return 0;
        }
        collector.device(&String::from_utf8_lossy(self.device))
    }

    fn emit(self, previous_arrival: &mut i64, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let arrival_ns = self.arrival.unwrap_or(previous_arrival.saturating_add(self.since_previous));
        *previous_arrival = arrival_ns;
        collector.at(arrival_ns);
        if self.unanswered {
            collector.report.without_completion += 1;
            return Ok(());
        }
        let Some(op) = self.op else {
            collector.report.other_operations += 1;
            return Ok(());
        };
        let served = self.service.map(|service| self.start.unwrap_or(arrival_ns).saturating_add(service));
        let completion =
            self.completion.or(self.response.map(|response| arrival_ns.saturating_add(response))).or(served);
        if completion.is_none() && !collector.report.arrivals_only {
            collector.arrivals_only()?;
        }
        let completion_ns = completion.unwrap_or(arrival_ns);
        let start_ns = self.start.or(self
            .service
            .filter(|&service| service >= 0)
            .map(|service| completion_ns.saturating_sub(service)));
        let device = self.number(collector);
        let sectors = u32::try_from(self.sectors).unwrap_or(u32::MAX);
        let pending = Pending { arrival_ns, start_ns, lba: self.lba, sectors, op, by_tracer: false };
        collector.emit(device, &pending, completion_ns)
    }
}

/// `Some(None)` for operations that neither read nor write, `None` for nonsense.
#[allow(clippy::option_option)] // Unreadable, readable but of no interest, or an operation.
fn operation(field: &[u8]) -> Option<Option<Op>> {
    match field.trim_ascii() {
        b"0" | b"R" | b"r" | b"RS" | b"read" | b"Read" | b"READ" => Some(Some(Op::Read)),
        b"1" | b"W" | b"w" | b"WS" | b"write" | b"Write" | b"WRITE" => Some(Some(Op::Write)),
        b"2" | b"D" | b"F" | b"trim" | b"discard" | b"flush" | b"Trim" | b"Flush" => Some(None),
        _ => None,
    }
}
