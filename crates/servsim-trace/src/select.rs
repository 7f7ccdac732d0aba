//! Making traces from traces: a part of one (`cut`), regular windows of one (`sample`), several in
//! a row (`merge`).
//!
//! What is left out must not leave a task waiting for ever: a block whose wake is not kept becomes
//! a preemption, so that the task simply goes on. A wake whose block is not kept ends a wait from
//! before the trace, as the format says. Completions of requests that are not kept are dropped.

use crate::cursor::{GlobalCursor, GlobalItem, Item};
use crate::error::TraceError;
use crate::event::{Event, EventKind, MarkKind, SwitchReason};
use crate::model::{ShapeId, TaskId, TaskKind};
use crate::reader::TraceReader;
use crate::writer::{TraceWriter, WriterOptions, WriterTotals};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Which part of a trace to keep; each condition that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Keep what lies between the ends of these transactions, numbered from zero.
    pub transactions: Option<Range<u64>>,
    /// Keep what lies in this stretch of guest time, in nanoseconds since the trace began.
    pub time_ns: Option<Range<u64>>,
    /// Keep these tasks only, by Linux `pid`; interrupts stay.
    pub pids: Option<Vec<u32>>,
    /// Keep the first `.0` of every `.1` transactions.
    pub windows: Option<(u64, u64)>,
}

/// Where a walk through a trace is.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    transactions: u64,
    time_ns: u64,
}

impl Selection {
    fn keeps(&self, position: Position, task: &crate::TaskInfo) -> bool {
        let in_range =
            |range: &Option<Range<u64>>, value| range.as_ref().is_none_or(|range| range.contains(&value));
        let own = self
            .pids
            .as_ref()
            .is_none_or(|pids| pids.contains(&task.pid) || task.kind == TaskKind::Interrupt);
        let window = self.windows.is_none_or(|(keep, of)| position.transactions % of < keep);
        own && window
            && in_range(&self.transactions, position.transactions)
            && in_range(&self.time_ns, position.time_ns)
    }

    fn validate(&self) -> Result<(), TraceError> {
        let bad = |what: &str| Err(TraceError::Request(what.to_owned()));
        let empty = |range: &Option<Range<u64>>| range.as_ref().is_some_and(Range::is_empty);
        match self.windows {
            Some((keep, of)) if keep == 0 || keep > of => {
                return bad("a sample keeps K of every N, 1 <= K <= N")
            }
            _ => {}
        }
        if empty(&self.transactions) || empty(&self.time_ns) {
            return bad("the selected range is empty: its end must be greater than its beginning");
        }
        Ok(())
    }
}

/// Writes the selected part of a trace to `output`.
///
/// # Errors
/// When the selection is contradictory or keeps nothing, or a trace cannot be read or written.
pub fn cut(
    reader: &Arc<TraceReader>,
    output: &Path,
    selection: &Selection,
) -> Result<WriterTotals, TraceError> {
    selection.validate()?;
    let mut copy = Copy::begin(reader, output)?;
    copy.append(reader, selection)?;
    let totals = copy.writer.totals();
    if totals.counts.instructions() == 0 {
        return Err(TraceError::Request(format!(
            "nothing in {} matches the selection; `trace info` prints what it holds",
            reader.path().display()
        )));
    }
    copy.writer.finish()
}

/// Writes the first `keep` of every `of` transactions to `output`.
///
/// # Errors
/// As [`cut`].
pub fn sample(
    reader: &Arc<TraceReader>,
    output: &Path,
    keep: u64,
    of: u64,
) -> Result<WriterTotals, TraceError> {
    cut(reader, output, &Selection { windows: Some((keep, of)), ..Selection::default() })
}

/// Writes several traces in a row to `output`: the tasks of each stay tasks of their own.
///
/// # Errors
/// When there is none, or a trace cannot be read or written.
pub fn merge(readers: &[Arc<TraceReader>], output: &Path) -> Result<WriterTotals, TraceError> {
    let first =
        readers.first().ok_or_else(|| TraceError::Request("name at least one trace to merge".to_owned()))?;
    if readers.iter().any(|reader| reader.meta().transaction_kinds != first.meta().transaction_kinds) {
        return Err(TraceError::Request(
            "the traces are of different workloads and cannot be merged".to_owned(),
        ));
    }
    let mut copy = Copy::begin(first, output)?;
    for reader in readers {
        copy.append(reader, &Selection::default())?;
    }
    copy.writer.finish()
}

/// A trace being written from others.
struct Copy {
    writer: TraceWriter,
    /// Time and requests of the next source begin here.
    base_ns: u64,
    base_request: u64,
}

/// What the first walk finds out, so that the second can keep the copy consistent.
#[derive(Default)]
struct SelectedEvents {
    wakes: HashSet<(TaskId, u64)>,
    requests: HashSet<u64>,
    start_ns: Option<u64>,
}

impl Copy {
    fn begin(reader: &TraceReader, output: &Path) -> Result<Self, TraceError> {
        let writer = TraceWriter::create(output, reader.meta(), WriterOptions::default())?;
        Ok(Copy { writer, base_ns: 0, base_request: 0 })
    }

    /// Appends the selected items of one source.
    fn append(&mut self, reader: &Arc<TraceReader>, selection: &Selection) -> Result<(), TraceError> {
        let mut selected = SelectedEvents::default();
        walk(reader, selection, |position, step| {
            if let Item::Event(event) = step.item {
                selected.start_ns.get_or_insert(position.time_ns);
                selected.note(event.kind);
            }
            Ok(())
        })?;
        let mut tasks: HashMap<TaskId, TaskId> = HashMap::new();
        let mut shapes: HashMap<ShapeId, ShapeId> = HashMap::new();
        let start_ns = selected.start_ns.unwrap_or(0);
        let (base_ns, base_request) = (self.base_ns, self.base_request);
        walk(reader, selection, |_, step| {
            let task = self.task(&mut tasks, reader, step.task);
            self.writer.switch_to(task);
            match step.item {
                Item::Block(block) => {
                    let shape = *shapes.entry(block.shape).or_insert_with(|| {
                        self.writer.add_shape(reader.dictionary().shape(block.shape).clone())
                    });
                    self.writer.block(shape, block.refs)?;
                }
                Item::Event(event) => {
                    let time_ns = base_ns + event.time_ns.saturating_sub(start_ns);
                    self.base_ns = self.base_ns.max(time_ns);
                    let kind = selected.without_lost_wait(step.task, event.kind);
                    if let Some(kind) = self.translate(&mut tasks, reader, &selected, kind, base_request) {
                        self.writer.switch_to(task);
                        self.writer.event(Event { time_ns, kind });
                    }
                }
            }
            Ok(())
        })
    }

    /// The copy's number of a source's task.
    fn task(&mut self, tasks: &mut HashMap<TaskId, TaskId>, reader: &TraceReader, task: TaskId) -> TaskId {
        *tasks.entry(task).or_insert_with(|| self.writer.add_task(reader.tasks()[task as usize].clone()))
    }

    /// The event in the copy's numbers; `None` when it refers to something that is not kept.
    fn translate(
        &mut self,
        tasks: &mut HashMap<TaskId, TaskId>,
        reader: &TraceReader,
        selected: &SelectedEvents,
        kind: EventKind,
        base_request: u64,
    ) -> Option<EventKind> {
        Some(match kind {
            EventKind::Wake { task, block } => {
                EventKind::Wake { task: self.task(tasks, reader, task), block }
            }
            EventKind::Create { task } => EventKind::Create { task: self.task(tasks, reader, task) },
            EventKind::InterruptBegin { source, interrupted } => {
                EventKind::InterruptBegin { source, interrupted: self.task(tasks, reader, interrupted) }
            }
            EventKind::IoSubmit { request, device, sector, bytes, write } => {
                self.base_request = self.base_request.max(base_request + request + 1);
                EventKind::IoSubmit { request: base_request + request, device, sector, bytes, write }
            }
            EventKind::IoComplete { request } if selected.requests.contains(&request) => {
                EventKind::IoComplete { request: base_request + request }
            }
            EventKind::IoComplete { .. } => return None,
            other => other,
        })
    }
}

impl SelectedEvents {
    fn note(&mut self, kind: EventKind) {
        match kind {
            EventKind::Wake { task, block } => {
                self.wakes.insert((task, block));
            }
            EventKind::IoSubmit { request, .. } => {
                self.requests.insert(request);
            }
            _ => {}
        }
    }

    /// A block that nothing kept will end becomes a preemption.
    fn without_lost_wait(&self, task: TaskId, kind: EventKind) -> EventKind {
        match kind {
            EventKind::SwitchOut(SwitchReason::Blocked { block, .. })
                if !self.wakes.contains(&(task, block)) =>
            {
                EventKind::SwitchOut(SwitchReason::Preempted)
            }
            other => other,
        }
    }
}

/// Calls `visit` with every selected item, in the captured order.
fn walk(
    reader: &Arc<TraceReader>,
    selection: &Selection,
    mut visit: impl FnMut(Position, GlobalItem<'_>) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut position = Position::default();
    let mut cursor = GlobalCursor::new(reader.clone());
    while let Some(step) = cursor.next()? {
        if let Item::Event(event) = step.item {
            position.time_ns = position.time_ns.max(event.time_ns);
        }
        if selection.keeps(position, &reader.tasks()[step.task as usize]) {
            visit(position, step)?;
        }
        if let Item::Event(Event { kind: EventKind::Mark { kind: MarkKind::TransactionEnd, .. }, .. }) =
            step.item
        {
            position.transactions += 1;
        }
    }
    Ok(())
}
