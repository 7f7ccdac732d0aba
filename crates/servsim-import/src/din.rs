//! Dinero's `din`: text, one reference a line. Traditional lines are `LABEL ADDRESS` with label 0
//! read, 1 write, 2 instruction fetch, 3 other (Dinero IV counts it as a read); extended lines
//! (`xdin`) are `TYPE ADDRESS SIZE` with type r, w, i, m (other). All numbers are hexadecimal, with
//! or without `0x`; the rest of a line is a comment. Both kinds of line may be mixed.
//!
//! Copy-back (4, c) and invalidation (5, v) are commands to Dinero's cache, not references: they are
//! left out and counted. Format: J. Edler and M. D. Hill, Dinero IV, manual page.

use crate::foreign::{push, single, Foreign, Pass};
use crate::input::{hexadecimal, shown, Input, Lines};
use servsim_core::{Batch, Op, SourceError};
use std::path::Path;

/// References read at a time.
const BATCH: usize = 8192;

/// What the format is, holds and lacks.
pub const ABOUT: [&str; 3] = [
    "Dinero III and IV, traditional and extended lines",
    "fetches, loads, stores; sizes in extended lines",
    "tasks, processors, kernel mode; sizes in traditional lines",
];

/// Surveys the trace at `path`.
///
/// # Errors
/// When it cannot be read or a line is malformed.
pub fn survey(path: &Path) -> Result<Foreign, SourceError> {
    let owned = path.to_owned();
    Foreign::open(&path.display().to_string(), move |_| {
        Ok(Box::new(Din { lines: Lines::new(Input::open(&owned)?), commands: 0 }))
    })
}

struct Din {
    lines: Lines,
    commands: u64,
}

/// What a line says.
enum Line {
    Reference(Op, u64, u64),
    Command,
    Empty,
}

impl Pass for Din {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let out = &mut batch.records;
        let begin = out.len();
        while out.len() < begin + BATCH {
            let Some(line) = self.lines.line()? else { break };
            let result = match parse(line) {
                Ok(Line::Reference(op, address, size)) => push(out, single(op, address), size),
                Ok(Line::Command) => {
                    self.commands += 1;
                    Ok(())
                }
                Ok(Line::Empty) => Ok(()),
                Err(what) => Err(what),
            };
            result.map_err(|what| self.lines.fault(&what))?;
        }
        Ok(out.len() > begin)
    }

    fn notes(&self) -> Vec<String> {
        let left_out = |n| format!("{n} copy-back or invalidation commands of the din trace were left out");
        (self.commands > 0).then(|| left_out(self.commands)).into_iter().collect()
    }
}

fn parse(line: &[u8]) -> Result<Line, String> {
    let mut fields = line.split(|b| b" \t".contains(b)).filter(|field| !field.is_empty());
    let Some(label) = fields.next() else { return Ok(Line::Empty) };
    let (op, extended) = match label {
        b"0" | b"3" => (Op::Load, false),
        b"1" => (Op::Store, false),
        b"2" => (Op::Fetch, false),
        b"r" | b"R" | b"m" | b"M" => (Op::Load, true),
        b"w" | b"W" => (Op::Store, true),
        b"i" | b"I" => (Op::Fetch, true),
        b"4" | b"5" | b"c" | b"C" | b"v" | b"V" => return Ok(Line::Command),
        _ => {
            return Err(format!(
                "`{}` is neither `LABEL ADDRESS` (label 0 read, 1 write, 2 fetch) nor \
                 `TYPE ADDRESS SIZE` (type r, w, i); is this a din trace?",
                shown(line)
            ))
        }
    };
    let address = number(fields.next(), "address")?;
    let size = if extended { number(fields.next(), "size")? } else { 1 };
    Ok(Line::Reference(op, address, size))
}

fn number(field: Option<&[u8]>, what: &str) -> Result<u64, String> {
    let Some(field) = field else { return Err(format!("the {what} is missing")) };
    let digits = field.strip_prefix(b"0x").or_else(|| field.strip_prefix(b"0X")).unwrap_or(field);
    hexadecimal(digits)
        .ok_or_else(|| format!("{what} `{}` is not a hexadecimal number of at most 64 bits", shown(field)))
}
