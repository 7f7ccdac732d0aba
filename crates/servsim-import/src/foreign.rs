//! Foreign traces that are decoded anew in every pass, so that memory does not grow with the file:
//! a format gives a [`Pass`], and everything else is here: the first pass that learns tasks and
//! private pages, the order of the whole trace, and the stream of one task.

use crate::Survey;
use servsim_core::{
    Batch, Event, GlobalSource, Op, Privacy, Record, SourceError, TaskCursor, TaskId, TaskInfo, TaskKind,
    TaskSource, TransactionEnds, ANY_CPU,
};

/// Longest access that is believed: the longest ones of real instructions, the saving of all
/// registers, take some 11 KiB (Intel SDM volume 1, section 13.5); DynamoRIO stores 16 bits.
const LONGEST: u64 = 1 << 16;

/// One pass over a foreign trace.
pub trait Pass {
    /// Appends the next references and events, some thousands; `false` when there were none left.
    ///
    /// # Errors
    /// When the trace is damaged or malformed, with the place and the remedy.
    fn read(&mut self, out: &mut Batch) -> Result<bool, SourceError>;

    /// The tasks met so far; one nameless task in formats that know none.
    fn tasks(&self) -> Vec<TaskInfo> {
        vec![TaskInfo { name: "task".into(), pid: 0, kind: TaskKind::User, client: false }]
    }

    /// The transaction kinds met so far.
    fn kinds(&self) -> Vec<String> {
        Vec::new()
    }

    /// What was left out or assumed so far, one sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Begins a pass over the whole trace, or over what holds one task of it.
type Begin = Box<dyn Fn(Option<TaskId>) -> Result<Box<dyn Pass>, SourceError> + Send + Sync>;

/// A surveyed foreign trace.
pub struct Foreign {
    begin: Begin,
    tasks: Vec<TaskInfo>,
    kinds: Vec<String>,
    privacy: Privacy,
    notes: Vec<String>,
    ends: TransactionEnds,
    /// The processor of each task, in formats that bind them; otherwise empty.
    pins: Vec<u8>,
    /// Processors, in those formats.
    processors: usize,
}

impl Foreign {
    /// Checks and surveys a trace in a first pass.
    ///
    /// # Errors
    /// When the trace is damaged, malformed or empty.
    pub fn open(
        name: &str,
        begin: impl Fn(Option<TaskId>) -> Result<Box<dyn Pass>, SourceError> + Send + Sync + 'static,
    ) -> Result<Self, SourceError> {
        let mut pass = begin(None)?;
        let (mut survey, mut batch) = (Survey::default(), Batch::default());
        let (mut any, mut ends) = (false, TransactionEnds::new());
        while pass.read(&mut batch)? {
            for r in &batch.records {
                if r.op == Op::Event {
                    if let Event::TransactionEnd { user, .. } = batch.events[r.address as usize] {
                        *ends.entry((r.task, user)).or_default() += 1;
                    }
                    continue;
                }
                any = true;
                survey.touch(r.task, r.address, r.address + (u64::from(r.size) - 1));
            }
            batch.clear();
        }
        if !any {
            return Err(crate::no_reference(name));
        }
        Ok(Self {
            begin: Box::new(begin),
            tasks: pass.tasks(),
            kinds: pass.kinds(),
            privacy: survey.privacy(),
            notes: pass.notes(),
            ends,
            pins: Vec::new(),
            processors: 1,
        })
    }

    /// Binds each task to one of so many processors in the order of the whole trace; a processor
    /// that a reference names itself goes first.
    #[must_use]
    pub fn pinned(mut self, processors: usize, pin: impl Fn(&[TaskInfo]) -> Vec<u8>) -> Self {
        (self.pins, self.processors) = (pin(&self.tasks), processors);
        self
    }

    /// The trace in its own order.
    ///
    /// # Errors
    /// When the trace cannot be opened again.
    pub fn in_order(self) -> Result<InOrder, SourceError> {
        Ok(InOrder { pass: (self.begin)(None)?, foreign: self })
    }

    /// Whether the file is still the one that was surveyed, as far as its tasks tell.
    fn known(&self, records: &[Record]) -> Result<(), SourceError> {
        if records.iter().any(|r| r.task as usize >= self.tasks.len()) {
            return Err(SourceError("the trace changed while being read; run again".into()));
        }
        Ok(())
    }
}

/// A foreign trace in its own order.
pub struct InOrder {
    foreign: Foreign,
    pass: Box<dyn Pass>,
}

impl GlobalSource for InOrder {
    fn tasks(&self) -> &[TaskInfo] {
        &self.foreign.tasks
    }

    fn transaction_kinds(&self) -> Vec<String> {
        self.foreign.kinds.clone()
    }

    fn transaction_ends(&self) -> TransactionEnds {
        self.foreign.ends.clone()
    }

    fn privacy(&self) -> &Privacy {
        &self.foreign.privacy
    }

    fn notes(&self) -> Vec<String> {
        self.foreign.notes.clone()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.records.is_empty() {
            if !self.pass.read(batch)? {
                return Ok(false);
            }
        }
        self.foreign.known(&batch.records)?;
        if !self.foreign.pins.is_empty() {
            for record in &mut batch.records {
                record.cpu = match record.cpu {
                    ANY_CPU => self.foreign.pins[record.task as usize],
                    stated => (usize::from(stated) % self.foreign.processors) as u8,
                };
            }
        }
        Ok(true)
    }
}

impl TaskSource for Foreign {
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn transaction_kinds(&self) -> Vec<String> {
        self.kinds.clone()
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn transaction_ends(&self) -> TransactionEnds {
        self.ends.clone()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        Ok(Box::new(OneTask { foreign: self, pass: (self.begin)(Some(task))?, task }))
    }
}

/// The stream of one task.
struct OneTask<'a> {
    foreign: &'a Foreign,
    pass: Box<dyn Pass>,
    task: TaskId,
}

impl TaskCursor for OneTask<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.records.is_empty() {
            batch.clear();
            if !self.pass.read(batch)? {
                return Ok(false);
            }
            self.foreign.known(&batch.records)?;
            batch.records.retain(|r| r.task == self.task);
        }
        for record in &mut batch.records {
            record.cpu = 1;
        }
        Ok(true)
    }
}

/// Appends one access of `size` bytes under the rules of the crate's documentation: at most 255
/// bytes to a record, the rest as continuations that are touched and not counted again.
///
/// # Errors
/// When the size is 0, absurd, or leads past the end of the address space.
#[inline]
pub fn push(out: &mut Vec<Record>, first: Record, size: u64) -> Result<(), String> {
    if size == 0 {
        return Err("size 0; a reference touches at least one byte".into());
    }
    if first.address.checked_add(size - 1).is_none() {
        return Err("the access runs past the end of the address space".into());
    }
    if size <= 255 {
        out.push(Record { size: size as u8, ..first });
        return Ok(());
    }
    long(out, first, size)
}

#[cold]
fn long(out: &mut Vec<Record>, first: Record, size: u64) -> Result<(), String> {
    if size > LONGEST {
        return Err(format!("an access of {size} bytes; no instruction touches more than {LONGEST}"));
    }
    let (mut done, mut flags) = (0, first.flags);
    while done < size {
        let piece = (size - done).min(255);
        out.push(Record { address: first.address + done, size: piece as u8, flags, ..first });
        flags |= servsim_core::reference::CONTINUATION;
        done += piece;
    }
    Ok(())
}

/// A user-mode reference of the only task, not bound to a processor.
pub fn single(op: Op, address: u64) -> Record {
    Record { cpu: ANY_CPU, ..Record::new(0, op, address, 1) }
}
