//! A captured trace as one stream per task, with the events that order them.
//!
//! Over 400 lines: the trace and the cursor that expands its streams work on the same tables.

use super::code::{fill, BranchPredictor, Code, CodeDetail};
use super::episode::Episode;
use super::files::ranges;
use super::findings::Findings;
use super::plan::{creation_id, wake_id, BlockEnd, EpisodePlacement, Plan};
use super::template::{Expansion, Templates};
use super::{error, go_on, open, spaces_of, tasks_of};
use servsim_core::steps::{Run, Steps};
use servsim_core::{
    Batch, BatchPosition, Event, FileRange, Instruction, Interrupt, Op, Privacy, SourceError, TaskCursor,
    TaskId, TaskInfo, TaskSource, TransactionEnds, WakeId, Watch,
};
use servsim_trace::{
    Claim, EventKind, Item, MarkKind, Ref, ShapeId, Sink, SkimCursor, SwitchReason, TaskKind, TraceReader,
};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Records per batch, about.
const BATCH: usize = 4096;
/// Bytes of memory of a record with its page and its place in the code.
const RECORD_MEMORY: u64 = 32;
/// A mark whose transaction was rolled back on purpose still counts as that kind.
const ROLLED_BACK: u8 = 0x80;

/// A captured trace, split by task.
pub struct CapturedTasks {
    reader: Arc<TraceReader>,
    tasks: Vec<TaskInfo>,
    templates: Templates,
    plan: Plan,
    privacy: Privacy,
    /// Interrupt episodes that run inside tasks, by number; empty for the others.
    inline: Vec<Batch>,
    device: Vec<Interrupt>,
    /// Whether the streams hold lock events.
    locks: bool,
    /// Whether batches hold virtual pages.
    with_pages: bool,
    /// What the records tell of the code, and the code if they do.
    detail: CodeDetail,
    code: Code,
    files: Vec<FileRange>,
    /// Memory of the interrupt handlers.
    handlers: Claim,
    /// Per block shape, what its records do, once somebody has asked.
    sums: OnceLock<Vec<Run>>,
}

impl CapturedTasks {
    /// Opens the trace at `path` and makes its plan, in one pass; fetches are grouped for caches
    /// with lines of `line` bytes. Keeps the interrupt handlers in memory. With `locks` the streams
    /// hold the lock events.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn open(path: &Path, line: u64, locks: bool) -> Result<Self, SourceError> {
        Self::open_with(path, line, locks, None, None)
    }

    /// The same, without the pass where `findings` keep what it found; they keep it from then on. `watch` is told how far
    /// it is, and may stop it.
    ///
    /// # Errors
    /// As [`CapturedTasks::open`], and when it was stopped.
    pub fn open_with(
        path: &Path,
        line: u64,
        locks: bool,
        findings: Option<Findings<'_>>,
        watch: Option<&Watch>,
    ) -> Result<Self, SourceError> {
        let reader = open(path)?;
        let templates = Templates::new(reader.dictionary(), reader.meta().per_cpu_area, Some(line));
        let plan = Plan::of(&reader, findings, watch)?;
        let tasks = tasks_of(&reader);
        let privacy = plan.pages.privacy(false);
        let (inline, device) = (Vec::new(), Vec::new());
        let (detail, code) = (CodeDetail::None, Code::default());
        let files = ranges(&reader.meta().files, &reader.meta().devices)?;
        let handlers = reader.budget().claim(0).map_err(SourceError)?;
        let mut source = Self {
            handlers,
            reader,
            tasks,
            templates,
            plan,
            privacy,
            inline,
            device,
            locks,
            with_pages: false,
            detail,
            code,
            files,
            sums: OnceLock::new(),
        };
        source.read_interrupts(watch)?;
        Ok(source)
    }

    /// The same; if `yes`, the kernel's data of one process are private.
    #[must_use]
    pub fn with_private_kernel(mut self, yes: bool) -> Self {
        self.privacy = self.plan.pages.privacy(yes);
        self
    }

    /// The same, with what processor cores want to know of the code.
    ///
    /// # Errors
    /// When the file is damaged, or `watch` stopped it.
    pub fn with_code(mut self, detail: CodeDetail, watch: Option<&Watch>) -> Result<Self, SourceError> {
        self.detail = detail;
        if detail == CodeDetail::Instructions {
            self.code = Code::of(self.reader.dictionary().shapes().iter());
            self.templates.point_to(&self.code);
            (self.inline, self.device) = (Vec::new(), Vec::new());
            self.read_interrupts(watch)?;
        }
        Ok(self)
    }

    /// The items of `task` from epoch `first` on.
    fn stream(&self, task: TaskId, first: usize) -> servsim_trace::TaskCursor {
        let stream = servsim_trace::TaskCursor::from_epoch(self.reader.clone(), task, first);
        stream.within(self.plan.ran[task as usize].clone())
    }

    /// Points the records from `first` on, one execution of `shape`, to their instructions.
    fn point(&self, shape: ShapeId, batch: &mut Batch, first: usize) {
        if self.detail == CodeDetail::Instructions {
            fill(&mut batch.code, first);
            self.code.point(shape, &batch.records[first..], &mut batch.code);
        }
    }

    /// A block of `task` that ends with wake-up `wake`.
    fn wait(&self, task: TaskId, wake: WakeId) -> Event {
        match self.plan.lock_waits.get(&wake) {
            Some(lock) if self.locks && self.plan.locks.knows(task, lock.address) => {
                Event::LockWait { wake, class: lock.class }
            }
            _ => Event::Block { wake: Some(wake) },
        }
    }

    /// Appends the wait before the first item of `task`, if there is one.
    fn push_first_wait(&self, task: TaskId, batch: &mut Batch) {
        if let Some(wake) = self.plan.first_wait[task as usize] {
            match self.plan.ends.get(&wake) {
                Some(BlockEnd::Sleep(nanos)) => batch.push_event(task, Event::Sleep { nanos: *nanos }),
                _ => batch.push_event(task, Event::Block { wake: Some(wake) }),
            }
        }
    }

    /// Appends an event of `task`, if it orders anything.
    fn push_event(&self, task: TaskId, kind: EventKind, batch: &mut Batch) {
        let EventKind::SwitchOut(SwitchReason::Blocked { block, .. }) = kind else {
            return push(batch, task, kind, &self.plan, self.locks);
        };
        let id = wake_id(task, block);
        let event = match self.plan.ends.get(&id) {
            Some(BlockEnd::Sleep(nanos)) => Event::Sleep { nanos: *nanos },
            Some(BlockEnd::Stream | BlockEnd::Disk) => self.wait(task, id),
            None => Event::Block { wake: None },
        };
        batch.push_event(task, event);
    }

    fn read_interrupts(&mut self, watch: Option<&Watch>) -> Result<(), SourceError> {
        let kinds = self.reader.tasks();
        let Some(task) = kinds.iter().position(|t| t.kind == TaskKind::Interrupt) else {
            return Ok(());
        };
        let mut cursor = self.stream(task as TaskId, 0);
        let mut episode = Episode::default();
        let (mut number, mut begun) = (0, false);
        let mut records = 0;
        while let Some(item) = cursor.next().map_err(|e| error(&e))? {
            let batch = episode.batch();
            match item {
                Item::Block(block) => {
                    let first = batch.records.len();
                    let pages = self.with_pages.then_some(&mut batch.pages);
                    self.templates.expand(block.shape, block.refs, task as u32, &mut batch.records, pages);
                    self.point(block.shape, batch, first);
                }
                Item::Event(event) => match event.kind {
                    EventKind::InterruptBegin { .. } => {
                        go_on(watch)?;
                        episode = Episode::default();
                        begun = true;
                    }
                    EventKind::IoComplete { request } => {
                        if let Some(&(_, submitter)) = self.plan.submitted.get(&request) {
                            episode.complete(request, submitter);
                        }
                    }
                    // The plan numbers runs by their beginnings: one that began before the trace has none.
                    EventKind::InterruptEnd if !std::mem::take(&mut begun) => {}
                    EventKind::InterruptEnd => {
                        records += batch.records.len() as u64;
                        self.claim_handlers(records)?;
                        self.keep(number, std::mem::take(&mut episode).finish());
                        number += 1;
                    }
                    kind => push(batch, task as u32, kind, &self.plan, self.locks),
                },
            }
        }
        self.wake_with_the_disk(task as u32);
        if self.with_pages {
            self.device.iter_mut().for_each(|handler| fill_pages(&mut handler.batch));
        }
        Ok(())
    }

    /// Takes the memory of handlers with so many records.
    fn claim_handlers(&mut self, records: u64) -> Result<(), SourceError> {
        let claimed = self.handlers.grow_to(records.saturating_mul(RECORD_MEMORY));
        claimed.map_err(|what| SourceError(format!("{}: {what}", self.reader.path().display())))
    }

    /// Handlers without references for tasks that the disk itself wakes.
    fn wake_with_the_disk(&mut self, task: u32) {
        for (&wake, requests) in &self.plan.completions {
            let mut handler = Interrupt { requests: requests.clone(), ..Interrupt::default() };
            handler.batch.push_event(task, Event::Wake { wake });
            self.device.push(handler);
        }
    }

    /// Keeps the parts of an episode where their episode is placed; only one of a device has several.
    fn keep(&mut self, number: usize, mut parts: Vec<Interrupt>) {
        let placement = self.plan.placements.get(number).copied().unwrap_or(EpisodePlacement::Dropped);
        let mut inline = Batch::default();
        match placement {
            EpisodePlacement::Device => self.device.extend(parts),
            EpisodePlacement::Inline => inline = parts.swap_remove(0).batch,
            EpisodePlacement::Dropped => {}
        }
        self.inline.push(inline);
    }
}

impl TaskSource for CapturedTasks {
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn transaction_kinds(&self) -> Vec<String> {
        self.reader.meta().transaction_kinds.clone()
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn transaction_ends(&self) -> TransactionEnds {
        self.plan.transaction_ends.clone()
    }

    fn notes(&self) -> Vec<String> {
        self.reader.truncated().map(str::to_owned).into_iter().collect()
    }

    fn waker(&self, wake: WakeId) -> Option<TaskId> {
        self.plan.wakers.get(&wake).copied()
    }

    fn submitter(&self, request: u64) -> Option<TaskId> {
        self.plan.submitted.get(&request).map(|&(_, task)| task)
    }

    fn record_pages(&mut self) -> Result<bool, SourceError> {
        self.with_pages = true;
        // The handlers were read without.
        self.inline.clear();
        self.device.clear();
        self.read_interrupts(None)?;
        Ok(true)
    }

    fn spaces(&self) -> Vec<Option<u32>> {
        spaces_of(&self.reader)
    }

    fn interrupts(&self) -> &[Interrupt] {
        &self.device
    }

    fn files(&self) -> &[FileRange] {
        &self.files
    }

    fn devices(&self) -> &[String] {
        &self.reader.meta().devices
    }

    fn code(&self) -> &[Instruction] {
        &self.code.instructions
    }

    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        Ok(Box::new(Cursor {
            source: self,
            stream: self.stream(task, 0),
            task,
            begun: false,
            items: 0,
            next_inline: 0,
            place: None,
            predictor: BranchPredictor::new(self.detail),
        }))
    }

    /// References are not decoded: how many a block has is known.
    fn steps(&self, task: TaskId) -> Result<Option<Steps>, SourceError> {
        let (mut steps, mut batch) = (Steps::default(), Batch::default());
        self.push_first_wait(task, &mut batch);
        let mut inline = self.plan.inline[task as usize].iter().peekable();
        let sums = self.sums.get_or_init(|| sums(&self.reader, &self.templates));
        let mut cursor = SkimCursor::new(self.reader.clone(), task, self.plan.ran[task as usize].clone());
        let mut items = 0;
        loop {
            steps.note(&batch);
            batch.clear();
            while let Some(&(_, number)) = inline.next_if(|&&(at, _)| at <= items) {
                self.inline.get(number).into_iter().for_each(|episode| steps.note(episode));
            }
            // An episode belongs before the item of its number.
            let most = inline.peek().map_or(u64::MAX, |&&(at, _)| at - items);
            let mut block = |shape| steps.block(sums[shape as usize], || self.templates.records(shape));
            let (blocks, event) = cursor.run(most, &mut block).map_err(|e| error(&e))?;
            items += blocks;
            match event {
                Some(event) => {
                    items += 1;
                    self.push_event(task, event.kind, &mut batch);
                }
                None if blocks == 0 => break,
                None => {}
            }
        }
        Ok(Some(steps))
    }

    fn open_at(
        &self,
        task: TaskId,
        place: BatchPosition,
    ) -> Result<Option<Box<dyn TaskCursor + '_>>, SourceError> {
        let [epoch, of_epoch, items, next_inline] = place;
        let epoch = usize::try_from(epoch).unwrap_or(usize::MAX);
        let begin = if of_epoch == 0 { epoch } else { epoch.saturating_sub(1) };
        let mut stream = self.stream(task, begin);
        // A predictor has learnt at least what the epoch teaches until there.
        let mut predictor = BranchPredictor::new(self.detail);
        while stream.place() != (epoch, of_epoch) {
            match stream.next().map_err(|e| error(&e))? {
                Some(Item::Block(block)) if self.detail == CodeDetail::Instructions => {
                    predictor.block(&self.code, block.shape, &mut []);
                }
                Some(_) => {}
                None => {
                    return Err(SourceError(format!("task {task} of the trace is never at item {items}")))
                }
            }
        }
        let next_inline = usize::try_from(next_inline).unwrap_or(usize::MAX);
        Ok(Some(Box::new(Cursor {
            source: self,
            stream,
            task,
            begun: true,
            items,
            next_inline,
            place: None,
            predictor,
        })))
    }
}

struct Cursor<'a> {
    source: &'a CapturedTasks,
    stream: servsim_trace::TaskCursor,
    task: TaskId,
    /// The wait before its first item has been delivered.
    begun: bool,
    items: u64,
    next_inline: usize,
    /// Where the batch at hand begins, unless that is the beginning.
    place: Option<BatchPosition>,
    predictor: BranchPredictor,
}

impl Cursor<'_> {
    /// Appends the interrupt episodes that belong before the next item.
    fn splice(&mut self, batch: &mut Batch) {
        let source = self.source;
        let inline = &source.plan.inline[self.task as usize];
        while let Some(&(at, number)) = inline.get(self.next_inline) {
            if at > self.items {
                return;
            }
            self.next_inline += 1;
            let Some(episode) = source.inline.get(number) else { continue };
            let first = batch.records.len();
            if !episode.code.is_empty() {
                fill(&mut batch.code, first);
                batch.code.extend_from_slice(&episode.code);
            }
            if source.with_pages {
                batch.pages.resize(first, 0);
                batch.pages.extend_from_slice(&episode.pages);
            }
            for record in &episode.records {
                if record.op == Op::Event {
                    batch.push_event(record.task, episode.events[record.address as usize]);
                } else {
                    batch.records.push(*record);
                }
            }
        }
    }
}

impl TaskCursor for Cursor<'_> {
    fn place(&self) -> Option<BatchPosition> {
        self.place
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        self.place = self.begun.then(|| {
            let (epoch, items) = self.stream.place();
            [epoch as u64, items, self.items, self.next_inline as u64]
        });
        // Once only: a task that is woken and then does nothing more in the trace has no items.
        if !std::mem::replace(&mut self.begun, true) {
            self.source.push_first_wait(self.task, batch);
        }
        let source = self.source;
        while batch.records.len() < BATCH {
            self.splice(batch);
            // The next episode belongs before an item further on.
            let next = source.plan.inline[self.task as usize].get(self.next_inline);
            let Self { stream, items, predictor, .. } = self;
            let mut sink = Records {
                source,
                expansion: Expansion::new(&source.templates),
                predictor,
                batch,
                items: *items,
                until: next.map_or(u64::MAX, |&(at, _)| at),
            };
            let more = stream.run(&mut sink).map_err(|e| error(&e))?;
            *items = sink.items;
            if !more {
                break;
            }
        }
        if source.with_pages {
            fill_pages(batch);
        }
        Ok(!batch.records.is_empty())
    }
}

/// Makes records of what is decoded.
struct Records<'a, 'b> {
    source: &'a CapturedTasks,
    expansion: Expansion<'a>,
    predictor: &'b mut BranchPredictor,
    batch: &'b mut Batch,
    /// Items so far, and at which number to stop.
    items: u64,
    until: u64,
}

impl Records<'_, '_> {
    /// Another item was told; whether there is room for the next.
    #[inline]
    fn count_item(&mut self) -> bool {
        self.items += 1;
        self.batch.records.len() < BATCH && self.items < self.until
    }
}

impl Sink for Records<'_, '_> {
    #[inline]
    fn block(&mut self, task: TaskId, shape: ShapeId) {
        let Batch { records, pages, code, .. } = &mut *self.batch;
        let first = records.len();
        self.expansion.begin(shape, task, records, self.source.with_pages.then_some(pages));
        if self.source.detail == CodeDetail::Instructions {
            self.expansion.point(shape, code);
            self.predictor.block(&self.source.code, shape, &mut records[first..]);
        }
    }

    #[inline]
    fn reference(&mut self, index: usize, reference: Ref) {
        let Batch { records, pages, .. } = &mut *self.batch;
        self.expansion.reference(index, reference, records, self.source.with_pages.then_some(pages));
    }

    #[inline]
    fn end_block(&mut self) -> bool {
        let Batch { records, pages, code, .. } = &mut *self.batch;
        if self.expansion.end(records, self.source.with_pages.then_some(pages)) && !code.is_empty() {
            self.expansion.point_rests(records, code);
        }
        self.count_item()
    }

    fn event(&mut self, task: TaskId, event: servsim_trace::Event) -> bool {
        self.source.push_event(task, event.kind, self.batch);
        self.count_item()
    }
}

/// Gives the events behind the last reference the page that all events have.
fn fill_pages(batch: &mut Batch) {
    batch.pages.resize(batch.records.len(), 0);
}

/// What the records of each shape do.
fn sums(reader: &TraceReader, templates: &Templates) -> Vec<Run> {
    (0..reader.dictionary().len()).map(|shape| Run::of(templates.records(shape as ShapeId))).collect()
}

/// Appends the events that mean the same in every stream.
fn push(batch: &mut Batch, task: TaskId, kind: EventKind, plan: &Plan, locks: bool) {
    let event = match kind {
        EventKind::Wake { task, block } => {
            let wake = wake_id(task, block);
            if plan.ends.get(&wake) != Some(&BlockEnd::Stream) {
                return;
            }
            Event::Wake { wake }
        }
        EventKind::Create { task } => Event::Wake { wake: creation_id(task) },
        EventKind::IoSubmit { request, device, sector, bytes, write } => {
            Event::IoSubmit { request, device, sector, bytes, write }
        }
        EventKind::Mark { kind: MarkKind::TransactionEnd, transaction, server: user, .. } => {
            Event::TransactionEnd { kind: u32::from(transaction & !ROLLED_BACK), user }
        }
        EventKind::LockAcquire { .. } | EventKind::LockRelease { .. } if locks => {
            let Some(event) = plan.locks.event(task, kind) else { return };
            event
        }
        _ => return,
    };
    batch.push_event(task, event);
}
