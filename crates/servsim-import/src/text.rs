//! The plain-text trace, which anyone can write by hand. One reference a line:
//! `TASK OP HEXADDR [SIZE] [p|s] [u|k]` with OP one of `I` fetch, `L` load, `S` store; `u`/`k` user or
//! kernel mode (user without it); `p`/`s` private or shared (without it a page touched by one task
//! only is private); SIZE in bytes, decimal, 4 without it. `TASK X KIND` ends a transaction. `#`
//! starts a comment.
//!
//! Each task is pinned to the processor of its rank: its position among the tasks, sorted by number
//! when all are numbers and by first appearance otherwise, modulo the processors.

use crate::survey::Survey;
use crate::{io_error, memory::ListSource};
use servsim_core::reference::{KERNEL, PRIVATE, SHARED};
use servsim_core::{Event, GlobalSource, Op, Record, SourceError, TaskInfo, TaskKind};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Size of a reference that states none.
const DEFAULT_SIZE: u8 = 4;
/// Longest accepted line; a hostile file cannot make the reader buffer more.
const MAX_LINE: usize = 4096;

/// What the format is, holds and lacks.
pub const ABOUT: [&str; 3] = [
    "servsim's plain text: TASK OP HEXADDR [SIZE] [p|s] [u|k]",
    "fetches, loads, stores, sizes, tasks, kernel mode, private pages, transactions",
    "processors, blocks and wake-ups, disk requests",
];

/// Opens `path`.
///
/// # Errors
/// When the file cannot be read or a line is malformed.
pub fn open(path: &Path, processors: usize) -> Result<Box<dyn GlobalSource>, SourceError> {
    let file = std::fs::File::open(path).map_err(|e| io_error(path, &e))?;
    Ok(Box::new(read(BufReader::new(file), &path.display().to_string(), processors)?))
}

/// Reads a whole text trace; `name` is used in messages.
///
/// # Errors
/// When a line is malformed, with its number.
pub fn read(mut input: impl BufRead, name: &str, processors: usize) -> Result<ListSource, SourceError> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let taken = std::io::Read::take(&mut input, MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(|e| SourceError(format!("{name}: {e}")))?;
        if taken == 0 {
            break;
        }
        let fault = |what: String| SourceError(format!("{name}, line {number}: {what}"));
        if line.len() > MAX_LINE {
            return Err(fault(format!("longer than {MAX_LINE} bytes; is this a text trace?")));
        }
        let text = std::str::from_utf8(&line)
            .map_err(|_| fault("not text; for a binary trace say --format raw16".into()))?;
        reader.line(text).map_err(fault)?;
    }
    Ok(reader.finish(processors))
}

#[derive(Default)]
struct Reader {
    tasks: Vec<TaskInfo>,
    task_of_name: HashMap<String, u32>,
    kinds: Vec<String>,
    items: Vec<(Record, Option<Event>)>,
    survey: Survey,
}

impl Reader {
    fn line(&mut self, text: &str) -> Result<(), String> {
        let text = text.split('#').next().unwrap_or("").trim();
        if text.is_empty() {
            return Ok(());
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [task, op, rest @ ..] = fields.as_slice() else {
            return Err(format!("`{text}` is not `TASK OP HEXADDR [SIZE] [p|s] [u|k]`"));
        };
        let op = match *op {
            "I" => Op::Fetch,
            "L" => Op::Load,
            "S" => Op::Store,
            "X" => return self.mark(task, rest),
            other => {
                return Err(format!(
                    "operation `{other}` is none of I fetch, L load, S store, X end of transaction"
                ))
            }
        };
        let task = self.task(task);
        let record = reference(task, op, rest)?;
        self.survey.touch(task, record.address, record.address + (u64::from(record.size) - 1));
        self.items.push((record, None));
        Ok(())
    }

    fn mark(&mut self, task: &str, rest: &[&str]) -> Result<(), String> {
        let [kind] = rest else {
            return Err("a transaction's end is written `TASK X KIND`".into());
        };
        let kind = self.kinds.iter().position(|k| k == kind).unwrap_or_else(|| {
            self.kinds.push((*kind).to_owned());
            self.kinds.len() - 1
        });
        let task = self.task(task);
        let event = Event::TransactionEnd { kind: kind as u32, user: 0 };
        self.items.push((Record::new(task, Op::Event, 0, 1), Some(event)));
        Ok(())
    }

    fn task(&mut self, name: &str) -> u32 {
        if let Some(&task) = self.task_of_name.get(name) {
            return task;
        }
        let task = self.tasks.len() as u32;
        self.task_of_name.insert(name.to_owned(), task);
        self.tasks.push(TaskInfo {
            name: name.to_owned(),
            pid: name.parse().unwrap_or(task),
            kind: TaskKind::User,
            client: false,
        });
        task
    }

    fn finish(mut self, processors: usize) -> ListSource {
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        let numbers: Option<Vec<u64>> = self.tasks.iter().map(|t| t.name.parse().ok()).collect();
        if let Some(numbers) = numbers {
            order.sort_by_key(|&task| numbers[task]);
        }
        let mut cpu_of = vec![0; self.tasks.len()];
        for (rank, &task) in order.iter().enumerate() {
            cpu_of[task] = (rank % processors) as u8;
        }
        for (record, _) in &mut self.items {
            record.cpu = cpu_of[record.task as usize];
        }
        ListSource::new(self.tasks, self.kinds, self.survey.privacy(), self.items)
    }
}

fn reference(task: u32, op: Op, fields: &[&str]) -> Result<Record, String> {
    let [address, rest @ ..] = fields else {
        return Err("the address is missing".into());
    };
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let parsed = u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or_else(|| format!("`{address}` is not a hexadecimal address of at most 64 bits"))?;
    let mut record = Record::new(task, op, parsed, DEFAULT_SIZE);
    let mut rest = rest.iter().copied().peekable();
    if let Some(size) = rest.next_if(|f| f.bytes().all(|b| b.is_ascii_digit())) {
        record.size = size
            .parse()
            .ok()
            .filter(|&s: &u8| s > 0)
            .ok_or_else(|| format!("size {size} is not from 1 to 255 bytes"))?;
    }
    if let Some(word) = rest.next_if(|f| ["p", "s"].contains(f)) {
        record.flags |= if word == "p" { PRIVATE } else { SHARED };
    }
    if let Some(word) = rest.next_if(|f| ["u", "k"].contains(f)) {
        record.flags |= if word == "k" { KERNEL } else { 0 };
    }
    if let Some(extra) = rest.next() {
        return Err(format!("`{extra}` is out of place in `TASK OP HEXADDR [SIZE] [p|s] [u|k]`"));
    }
    if parsed.checked_add(u64::from(record.size) - 1).is_none() {
        return Err("the access runs past the end of the address space".into());
    }
    Ok(record)
}
