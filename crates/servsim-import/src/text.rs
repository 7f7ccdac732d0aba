//! The plain-text trace, which anyone can write by hand. One reference a line:
//! `TASK OP HEXADDR [SIZE] [p|s] [u|k] [@CPU]` with OP one of `I` fetch, `L` load, `S` store; `u`/`k`
//! user or kernel mode (user without it); `p`/`s` private or shared (without it a page touched by one
//! task only is private); SIZE in bytes, decimal, 4 without it. `TASK X KIND` ends a transaction. `#`
//! starts a comment.
//!
//! `@CPU` names the processor that makes the reference (modulo the processors of the machine), so
//! that a task can be seen to migrate. Without it the functional engine keeps a task on the processor of its
//! rank: its position among the tasks, sorted by number when all are numbers and by first appearance otherwise,
//! modulo the processors. The timing engine dispatches tasks itself, as the machine's scheduler does, whatever
//! the trace says; `node.threads` may pin them.

use crate::foreign::{Foreign, Pass};
use crate::input::{Input, Lines};
use crate::memory::ListSource;
use crate::survey::Survey;
use servsim_core::reference::{KERNEL, PRIVATE, SHARED};
use servsim_core::{Batch, Event, Op, Record, SourceError, TaskInfo, TaskKind, ANY_CPU};
use std::collections::HashMap;
use std::path::Path;

/// Size of a reference that states none.
const DEFAULT_SIZE: u8 = 4;
/// Lines read at a time.
const BATCH: usize = 8192;

/// What the format is, holds and lacks.
pub const ABOUT: [&str; 3] = [
    "servsim's plain text: TASK OP HEXADDR [SIZE] [p|s] [u|k] [@CPU]",
    "fetches, loads, stores, sizes, tasks, kernel mode, private pages, processors, transactions",
    "blocks and wake-ups, disk requests; an export leaves processors to the rule of ranks",
];

/// Surveys the trace at `path`; its tasks are pinned to so many processors.
///
/// # Errors
/// When the file cannot be read or a line is malformed.
pub fn survey(path: &Path, processors: usize) -> Result<Foreign, SourceError> {
    let owned = path.to_owned();
    let begin = move |_| Ok(Box::new(Text::new(Input::open(&owned)?)) as Box<dyn Pass>);
    let surveyed = Foreign::open(&path.display().to_string(), begin)?;
    Ok(surveyed.pinned(processors, |tasks| pins(tasks, processors)))
}

/// Reads a whole text trace into memory; `name` is used in messages.
///
/// # Errors
/// When a line is malformed, with its number.
pub fn read(text: &[u8], name: &str, processors: usize) -> Result<ListSource, SourceError> {
    let mut pass = Text::new(Input::of_bytes(name, text));
    let (mut items, mut survey, mut batch) = (Vec::new(), Survey::default(), Batch::default());
    while pass.read(&mut batch)? {
        for r in &batch.records {
            let event = (r.op == Op::Event).then(|| batch.events[r.address as usize]);
            if event.is_none() {
                survey.touch(r.task, r.address, r.address + (u64::from(r.size) - 1));
            }
            items.push((*r, event));
        }
        batch.clear();
    }
    let pins = pins(&pass.tasks, processors);
    for (record, _) in &mut items {
        record.cpu = match record.cpu {
            ANY_CPU => pins[record.task as usize],
            stated => (usize::from(stated) % processors) as u8,
        };
    }
    Ok(ListSource::new(pass.tasks, pass.kinds, survey.privacy(), items))
}

/// The processor of each task: its rank modulo the processors.
fn pins(tasks: &[TaskInfo], processors: usize) -> Vec<u8> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    let numbers: Option<Vec<u64>> = tasks.iter().map(|t| t.name.parse().ok()).collect();
    if let Some(numbers) = numbers {
        order.sort_by_key(|&task| numbers[task]);
    }
    let mut pins = vec![0; tasks.len()];
    for (rank, &task) in order.iter().enumerate() {
        pins[task] = (rank % processors) as u8;
    }
    pins
}

/// A pass over a text trace.
struct Text {
    lines: Lines,
    tasks: Vec<TaskInfo>,
    task_of_name: HashMap<String, u32>,
    kinds: Vec<String>,
    /// The task of the line before: mostly that of the next, too.
    last: u32,
}

impl Pass for Text {
    fn read(&mut self, out: &mut Batch) -> Result<bool, SourceError> {
        let end = out.records.len() + BATCH;
        while out.records.len() < end {
            // Taken out so that a line may be parsed while the names are changed.
            let Some(line) = self.lines.line()? else { return Ok(out.records.len() + BATCH > end) };
            let parsed = match std::str::from_utf8(line) {
                Ok(text) => parse(text),
                Err(_) => Err("not text; for a binary trace say --format raw16".into()),
            };
            let (task, what) = match parsed {
                Ok(None) => continue,
                Ok(Some(parsed)) => parsed,
                Err(what) => return Err(self.lines.fault(&what)),
            };
            let task = task_of(task, &mut self.last, &mut self.task_of_name, &mut self.tasks);
            match what {
                What::Reference(record) => out.records.push(Record { task, ..record }),
                What::Transaction(kind) => {
                    let kind = self.kinds.iter().position(|k| k == kind).unwrap_or_else(|| {
                        self.kinds.push(kind.to_owned());
                        self.kinds.len() - 1
                    });
                    out.push_event(task, Event::TransactionEnd { kind: kind as u32, user: 0 });
                }
            }
        }
        Ok(true)
    }

    fn tasks(&self) -> Vec<TaskInfo> {
        self.tasks.clone()
    }

    fn kinds(&self) -> Vec<String> {
        self.kinds.clone()
    }
}

impl Text {
    fn new(input: Input) -> Self {
        Self {
            lines: Lines::new(input),
            tasks: Vec::new(),
            task_of_name: HashMap::new(),
            kinds: Vec::new(),
            last: 0,
        }
    }
}

/// What a line says of its task.
enum What<'a> {
    Reference(Record),
    Transaction(&'a str),
}

/// The task and the rest of a line; `None` for an empty one.
fn parse(text: &str) -> Result<Option<(&str, What<'_>)>, String> {
    let text = memchr::memchr(b'#', text.as_bytes()).map_or(text, |comment| &text[..comment]);
    let mut fields = text.split_ascii_whitespace();
    let Some(task) = fields.next() else { return Ok(None) };
    let op = match fields.next() {
        Some("I") => Op::Fetch,
        Some("L") => Op::Load,
        Some("S") => Op::Store,
        Some("X") => {
            let (Some(kind), None) = (fields.next(), fields.next()) else {
                return Err("a transaction's end is written `TASK X KIND`".into());
            };
            return Ok(Some((task, What::Transaction(kind))));
        }
        Some(other) => {
            return Err(format!(
                "unknown operation `{other}`; accepted are I fetch, L load, S store, X end of transaction"
            ))
        }
        None => return Err(format!("`{}` is not `TASK OP HEXADDR [SIZE] [p|s] [u|k] [@CPU]`", text.trim())),
    };
    Ok(Some((task, What::Reference(reference(op, fields)?))))
}

fn task_of(
    name: &str,
    last: &mut u32,
    task_of_name: &mut HashMap<String, u32>,
    tasks: &mut Vec<TaskInfo>,
) -> u32 {
    if tasks.get(*last as usize).is_some_and(|task| task.name == name) {
        return *last;
    }
    *last = task_of_name.get(name).copied().unwrap_or_else(|| {
        let task = tasks.len() as u32;
        task_of_name.insert(name.to_owned(), task);
        let pid = name.parse().unwrap_or(task);
        tasks.push(TaskInfo { name: name.to_owned(), pid, kind: TaskKind::User, client: false });
        task
    });
    *last
}

fn reference<'a>(op: Op, mut fields: impl Iterator<Item = &'a str>) -> Result<Record, String> {
    let address = fields.next().ok_or("the address is missing")?;
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let parsed = crate::input::hexadecimal(digits.as_bytes())
        .ok_or_else(|| format!("`{address}` is not a hexadecimal address of at most 64 bits"))?;
    let mut record = Record::new(0, op, parsed, DEFAULT_SIZE);
    let mut rest = fields.peekable();
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
    if let Some(word) = rest.next_if(|f| f.starts_with('@')) {
        let cpu = word[1..].parse().ok().filter(|&cpu: &u8| cpu < ANY_CPU);
        record.cpu = cpu.ok_or_else(|| format!("`{word}` is not @ and the number of a processor"))?;
    }
    if let Some(extra) = rest.next() {
        return Err(format!("`{extra}` is out of place in `TASK OP HEXADDR [SIZE] [p|s] [u|k] [@CPU]`"));
    }
    if parsed.checked_add(u64::from(record.size) - 1).is_none() {
        return Err("the access runs past the end of the address space".into());
    }
    Ok(record)
}
