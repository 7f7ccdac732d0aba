//! Making traces from traces: a part of one (`cut`), regular windows of one (`sample`), several as one
//! (`merge`): in the file one after the other, but of tasks that do not wait for one another.
//!
//! What is left out must not leave a task waiting for ever: a block whose wake is not kept becomes
//! a preemption, so that the task simply goes on. A wake whose block is not kept ends a wait from
//! before the trace, as the format says. Completions of requests that are not kept are dropped. What is made
//! from a trace that ends early says so of itself.

use crate::cursor::{GlobalCursor, GlobalItem};
use crate::error::TraceError;
use crate::event::{Event, EventKind, MarkKind, SwitchReason};
use crate::item::Item;
use crate::model::{ShapeId, TaskId, TaskInfo, TaskKind};
use crate::reader::TraceReader;
use crate::validate::MAX_TIME_NS;
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
    /// Keep what lies before so many references, to the end of a block; the rest is not even read.
    pub references: Option<u64>,
    /// Keep these tasks only, by Linux `pid`; interrupts stay.
    pub pids: Option<Vec<u32>>,
    /// Keep the first `.0` of every `.1` transactions.
    pub windows: Option<(u64, u64)>,
    /// Count tasks of these names to the load generator, which figures of the server exclude: the tiers that another
    /// machine would run.
    pub load: Vec<String>,
}

/// Where a walk through a trace is.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    transactions: u64,
    time_ns: u64,
    references: u64,
}

impl Selection {
    fn keeps(&self, position: Position, task: &TaskInfo) -> bool {
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
        if self.references == Some(0) {
            return bad("a cut keeps one reference at least");
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
    let unknown = |name: &&String| !reader.tasks().iter().any(|task| task.name == **name);
    if let Some(name) = selection.load.iter().find(unknown) {
        return Err(TraceError::Request(format!(
            "no task of {} has the name {name:?}",
            reader.path().display()
        )));
    }
    let mut copy = Copy::begin(std::slice::from_ref(reader), output)?;
    copy.load.clone_from(&selection.load);
    copy.append(reader, selection)?;
    if copy.writer.is_empty() {
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

/// Writes several traces to `output`, one after the other: the tasks of each stay tasks of their own, but for the
/// interrupt handlers and the idle tasks, which are the machine's. As nothing makes tasks of one trace wait for those
/// of another, a simulation runs all of them side by side. The same address is the same memory, and the same lock, in all.
///
/// # Errors
/// When there is none, they do not fit together, or a trace cannot be read or written.
pub fn merge(readers: &[Arc<TraceReader>], output: &Path) -> Result<WriterTotals, TraceError> {
    let first =
        readers.first().ok_or_else(|| TraceError::Request("name at least one trace to merge".to_owned()))?;
    for reader in readers {
        let (one, other) = (first.meta(), reader.meta());
        let different = if one.transaction_kinds != other.transaction_kinds {
            "workloads"
        } else if (one.per_cpu_area, &one.devices) != (other.per_cpu_area, &other.devices) {
            "guests (other block devices, or another place of the kernel's per-CPU data)"
        } else {
            continue;
        };
        let (one, other) = (first.path().display(), reader.path().display());
        return Err(TraceError::Request(format!(
            "{one} and {other} are of different {different} and cannot be merged"
        )));
    }
    let mut copy = Copy::begin(readers, output)?;
    for reader in readers {
        copy.append(reader, &Selection::default())?;
    }
    copy.writer.finish()
}

/// A trace being written from others.
struct Copy {
    writer: TraceWriter,
    /// Time of the next source begins here.
    base_ns: u64,
    /// Requests copied so far.
    requests: u64,
    /// Names of tasks that belong to the load generator in the copy.
    load: Vec<String>,
}

/// What the first walk finds out, so that the second can keep the copy consistent.
#[derive(Default)]
struct SelectedEvents {
    wakes: HashSet<(TaskId, u64)>,
    start_ns: Option<u64>,
}

/// Numbers of one source in the copy.
#[derive(Default)]
struct Numbers {
    tasks: HashMap<TaskId, TaskId>,
    shapes: HashMap<ShapeId, ShapeId>,
    /// Of the requests that the copy submits.
    requests: HashMap<u64, u64>,
}

impl Copy {
    fn begin(readers: &[Arc<TraceReader>], output: &Path) -> Result<Self, TraceError> {
        let mut meta = readers[0].meta().clone();
        meta.truncated = readers.iter().find_map(|reader| reader.truncated().map(str::to_owned));
        let writer = TraceWriter::create(output, &meta, WriterOptions::default())?;
        Ok(Copy { writer, base_ns: 0, requests: 0, load: Vec::new() })
    }

    /// Appends the selected items of one source.
    fn append(&mut self, reader: &Arc<TraceReader>, selection: &Selection) -> Result<(), TraceError> {
        let mut selected = SelectedEvents::default();
        walk(reader, selection, |position, step| {
            if let Item::Event(event) = step.item {
                selected.start_ns.get_or_insert(position.time_ns);
                if let EventKind::Wake { task, block } = event.kind {
                    selected.wakes.insert((task, block));
                }
            }
            Ok(())
        })?;
        let mut numbers = Numbers::default();
        let start_ns = selected.start_ns.unwrap_or(0);
        let base_ns = self.base_ns;
        walk(reader, selection, |_, step| {
            let task = self.task(&mut numbers, reader, step.task);
            self.writer.switch_to(task);
            match step.item {
                Item::Block(block) => {
                    let shape = *numbers.shapes.entry(block.shape).or_insert_with(|| {
                        self.writer.add_shape(reader.dictionary().shape(block.shape).clone())
                    });
                    self.writer.block(shape, block.refs)?;
                }
                Item::Event(event) => {
                    let time_ns = base_ns + event.time_ns.saturating_sub(start_ns);
                    self.base_ns = self.base_ns.max(time_ns);
                    let kind = selected.without_lost_wait(step.task, event.kind);
                    if let Some(kind) = self.translate(&mut numbers, reader, kind) {
                        self.writer.switch_to(task);
                        self.writer.event(Event { time_ns, kind });
                    }
                }
            }
            Ok(())
        })?;
        if self.base_ns > MAX_TIME_NS {
            return Err(TraceError::Request("together the traces last longer than 104 days".to_owned()));
        }
        Ok(())
    }

    /// The copy's number of a source's task. Handlers and idle tasks are the same in all sources.
    fn task(&mut self, numbers: &mut Numbers, reader: &TraceReader, task: TaskId) -> TaskId {
        *numbers.tasks.entry(task).or_insert_with(|| {
            let info = &reader.tasks()[task as usize];
            let of_machine = matches!(info.kind, TaskKind::Interrupt | TaskKind::Idle);
            let same = |other: &TaskInfo| {
                other.kind == info.kind && (info.kind == TaskKind::Interrupt || other.name == info.name)
            };
            if let Some(known) = self.writer.tasks().iter().position(same).filter(|_| of_machine) {
                known as TaskId
            } else {
                let client = info.client || self.load.contains(&info.name);
                self.writer.add_task(TaskInfo { client, ..info.clone() })
            }
        })
    }

    /// The event in the copy's numbers; `None` when it refers to something that is not kept.
    fn translate(
        &mut self,
        numbers: &mut Numbers,
        reader: &TraceReader,
        kind: EventKind,
    ) -> Option<EventKind> {
        Some(match kind {
            EventKind::Wake { task, block } => {
                EventKind::Wake { task: self.task(numbers, reader, task), block }
            }
            EventKind::Create { task } => EventKind::Create { task: self.task(numbers, reader, task) },
            EventKind::InterruptBegin { source, interrupted } => {
                EventKind::InterruptBegin { source, interrupted: self.task(numbers, reader, interrupted) }
            }
            EventKind::IoSubmit { request, device, sector, bytes, write } => {
                let copied = self.requests;
                self.requests += 1;
                numbers.requests.insert(request, copied);
                EventKind::IoSubmit { request: copied, device, sector, bytes, write }
            }
            EventKind::IoComplete { request } => {
                EventKind::IoComplete { request: *numbers.requests.get(&request)? }
            }
            other => other,
        })
    }
}

impl SelectedEvents {
    /// A block that nothing selected will end becomes a preemption.
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

/// Calls `visit` with every selected item, in the captured order. Of an interrupt handler's run that lies
/// across the edge of the selection the part before its beginning is left out, and its end is added.
fn walk(
    reader: &Arc<TraceReader>,
    selection: &Selection,
    mut visit: impl FnMut(Position, GlobalItem<'_>) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut position = Position::default();
    let mut cursor = GlobalCursor::new(reader.clone());
    let mut in_handler: Option<TaskId> = None;
    while let Some(step) = cursor.next()? {
        if selection.references.is_some_and(|most| position.references >= most) {
            break;
        }
        if let Item::Event(event) = step.item {
            position.time_ns = position.time_ns.max(event.time_ns);
        }
        let info = &reader.tasks()[step.task as usize];
        if selection.keeps(position, info) {
            let begins = is_event(step.item, |kind| matches!(kind, EventKind::InterruptBegin { .. }));
            if begins || info.kind != TaskKind::Interrupt {
                if let Some(task) = in_handler.take() {
                    visit(position, end_of_handler(task, position))?;
                }
            }
            if begins {
                in_handler = Some(step.task);
            }
            if info.kind != TaskKind::Interrupt || in_handler.is_some() {
                visit(position, step)?;
            }
            if is_event(step.item, |kind| kind == EventKind::InterruptEnd) {
                in_handler = None;
            }
        }
        if is_event(step.item, |kind| matches!(kind, EventKind::Mark { kind: MarkKind::TransactionEnd, .. }))
        {
            position.transactions += 1;
        }
        if let Item::Block(block) = step.item {
            let shape = reader.dictionary().shape(block.shape);
            position.references += (shape.insns.len() + block.refs.len()) as u64;
        }
    }
    in_handler.map_or(Ok(()), |task| visit(position, end_of_handler(task, position)))
}

/// Whether `item` is an event of a kind that `is` accepts.
fn is_event(item: Item<'_>, is: impl FnOnce(EventKind) -> bool) -> bool {
    matches!(item, Item::Event(event) if is(event.kind))
}

fn end_of_handler(task: TaskId, position: Position) -> GlobalItem<'static> {
    GlobalItem { task, item: Item::Event(Event { time_ns: position.time_ns, kind: EventKind::InterruptEnd }) }
}
