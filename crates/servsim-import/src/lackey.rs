//! Valgrind's `lackey --trace-mem=yes`: text, one access a line: `I  ADDRESS,SIZE` an instruction
//! fetch, ` L` a load, ` S` a store, ` M` a load and a store of the same bytes by one instruction,
//! which become two references. The address is hexadecimal, the size decimal. Valgrind's own lines
//! (`==PID== ...`) and marks of superblocks (`SB ADDRESS`) are left out. One task, user mode.
//!
//! Format: Valgrind manual, chapter "Lackey: an example tool".

use crate::foreign::{push, single, Foreign, Pass};
use crate::input::{decimal, hexadecimal, shown, Input, Lines};
use servsim_core::{Batch, Op, Record, SourceError};
use std::path::Path;

/// References read at a time.
const BATCH: usize = 8192;

/// What the format is, holds and lacks.
pub const ABOUT: [&str; 3] = [
    "Valgrind: --tool=lackey --trace-mem=yes",
    "fetches, loads, stores, sizes",
    "tasks, processors, kernel mode",
];

/// Surveys the trace at `path`.
///
/// # Errors
/// When it cannot be read or a line is malformed.
pub fn survey(path: &Path) -> Result<Foreign, SourceError> {
    let owned = path.to_owned();
    Foreign::open(&path.display().to_string(), move |_| {
        Ok(Box::new(Lackey { lines: Lines::new(Input::open(&owned)?) }))
    })
}

struct Lackey {
    lines: Lines,
}

impl Pass for Lackey {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let out = &mut batch.records;
        let begin = out.len();
        while out.len() < begin + BATCH {
            let Some(line) = self.lines.line()? else { break };
            parse(line, out).map_err(|what| self.lines.fault(&what))?;
        }
        Ok(out.len() > begin)
    }
}

fn parse(line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
    let ops: &[Op] = match line {
        [b'I', b' ', ..] => &[Op::Fetch],
        [b' ', b'L', b' ', ..] => &[Op::Load],
        [b' ', b'S', b' ', ..] => &[Op::Store],
        [b' ', b'M', b' ', ..] => &[Op::Load, Op::Store],
        [] | [b'S', b'B', b' ', ..] => return Ok(()),
        _ if is_message(line) => return Ok(()),
        _ => {
            return Err(format!(
                "`{}` is no access of lackey (I, L, S, M); keep the program's own output out of the \
                 trace with valgrind --log-file=FILE",
                shown(line)
            ))
        }
    };
    let place = line[2..].trim_ascii_start();
    let (address, size) = memchr::memchr(b',', place)
        .and_then(|comma| Some((hexadecimal(&place[..comma])?, decimal(&place[comma + 1..])?)))
        .ok_or_else(|| {
            format!("`{}` is not `ADDRESS,SIZE` with a hexadecimal address and a decimal size", shown(place))
        })?;
    ops.iter().try_for_each(|&op| push(out, single(op, address), size))
}

/// Whether a line is Valgrind speaking: `==PID==`, or `--PID--` when it is verbose.
fn is_message(line: &[u8]) -> bool {
    let mark = match line {
        [b'=', b'=', ..] => b"==",
        [b'-', b'-', ..] => b"--",
        [b'*', b'*', ..] => b"**",
        _ => return false,
    };
    let digits = line[2..].iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && line[2 + digits..].starts_with(mark)
}
