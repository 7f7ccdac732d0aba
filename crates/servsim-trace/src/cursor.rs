//! Walking a trace: one task at a time, or all tasks in the captured order.

use crate::decode::{Decoded, Skimmer, StreamDecoder};
use crate::epoch::{Epoch, StreamEntry};
use crate::error::{Fault, TraceError};
use crate::event::Event;
use crate::item::{Item, OneItem, Sink};
use crate::model::{Segment, ShapeId, TaskId};
use crate::reader::TraceReader;
use crate::validate::Validator;
use std::sync::Arc;

/// The events of epoch `index` that `wanted` accepts, of all tasks, in order of time (events of the
/// same instant in order of task). References are not decoded, which is many times quicker than a walk.
///
/// # Errors
/// When the epoch is damaged.
pub fn epoch_events(
    reader: &TraceReader,
    index: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<Vec<(TaskId, Event)>, TraceError> {
    let fault = |fault| reader.epoch_fault(index, fault);
    let epoch = reader.epoch(index)?;
    let mut found = Vec::new();
    for entry in &epoch.entries {
        let (tokens, events) = epoch.tokens_and_events(entry).map_err(fault)?;
        let keep = &mut |event: Event| {
            if wanted(&event) {
                found.push((entry.task, event));
            }
        };
        crate::decode::events(&tokens, &events, keep).map_err(fault)?;
    }
    found.sort_by_key(|(task, event)| (event.time_ns, *task));
    Ok(found)
}

/// Epochs in which a task ran, in order.
pub type Epochs = Arc<[u32]>;

/// The epochs of one task, one after another.
struct Walk {
    reader: Arc<TraceReader>,
    task: TaskId,
    /// The epochs in which it ran, where they are known: no other is read then.
    epochs: Option<Epochs>,
    next_epoch: usize,
}

impl Walk {
    /// The first epoch from the next one on that may hold items of the task; their number if there is none.
    fn candidate(&self) -> usize {
        let count = self.reader.epoch_count();
        let Some(epochs) = &self.epochs else { return self.next_epoch.min(count) };
        let place = epochs.partition_point(|&epoch| (epoch as usize) < self.next_epoch);
        epochs.get(place).map_or(count, |&epoch| (epoch as usize).min(count))
    }

    /// Goes on to the next epoch in which the task ran, and reads its stream there; `None` behind the last.
    fn next<T>(
        &mut self,
        read: impl Fn(&Epoch, &StreamEntry) -> Result<T, Fault>,
    ) -> Result<Option<T>, TraceError> {
        loop {
            let index = self.candidate();
            self.next_epoch = index;
            if index == self.reader.epoch_count() {
                return Ok(None);
            }
            let epoch = self.reader.epoch(index)?;
            self.next_epoch += 1;
            if let Some(entry) = epoch.entry(self.task) {
                return read(&epoch, entry).map(Some).map_err(|fault| self.fault(fault));
            }
        }
    }

    /// The error of a fault in the epoch that is open.
    #[cold]
    fn fault(&self, fault: Fault) -> TraceError {
        self.reader.epoch_fault(self.next_epoch.saturating_sub(1), fault)
    }
}

/// Walks the stream of one task without its references, which is many times quicker.
pub struct SkimCursor {
    walk: Walk,
    skimmer: Skimmer,
}

impl SkimCursor {
    /// Begins at the first item of `task`, which ran in these epochs ([`GlobalCursor::ran`]).
    pub fn new(reader: Arc<TraceReader>, task: TaskId, epochs: Epochs) -> Self {
        let walk = Walk { reader, task, epochs: Some(epochs), next_epoch: 0 };
        Self { walk, skimmer: Skimmer::default() }
    }

    /// Tells `block` the next blocks, `most` at most and at least one, up to the next event: how many they were, and that
    /// event; neither behind the last.
    ///
    /// # Errors
    /// When the trace is damaged here.
    #[inline]
    pub fn run(
        &mut self,
        most: u64,
        block: &mut impl FnMut(ShapeId),
    ) -> Result<(u64, Option<Event>), TraceError> {
        loop {
            let found = self.skimmer.run(most, block).map_err(|fault| self.walk.fault(fault))?;
            if found != (0, None) {
                return Ok(found);
            }
            match self.walk.next(Epoch::tokens_and_events)? {
                Some(columns) => self.skimmer = Skimmer::new(columns),
                None => return Ok(found),
            }
        }
    }
}

/// Walks the stream of one task through all epochs.
pub struct TaskCursor {
    walk: Walk,
    /// Items read of the epoch before the next one.
    items: u64,
    decoder: StreamDecoder,
    /// What [`TaskCursor::next`] found.
    found: OneItem,
}

impl TaskCursor {
    /// Begins at the first item of `task`.
    pub fn new(reader: Arc<TraceReader>, task: TaskId) -> Self {
        TaskCursor::from_epoch(reader, task, 0)
    }

    /// Begins at the first item of `task` in epoch `first` or later.
    pub fn from_epoch(reader: Arc<TraceReader>, task: TaskId, first: usize) -> Self {
        let walk = Walk { reader, task, epochs: None, next_epoch: first };
        TaskCursor { walk, items: 0, decoder: StreamDecoder::default(), found: OneItem::default() }
    }

    /// The same, reading `epochs` only: all in which the task ran, as a walk over the whole trace found them
    /// ([`GlobalCursor::ran`]).
    #[must_use]
    pub fn within(mut self, epochs: Epochs) -> Self {
        self.walk.epochs = Some(epochs);
        self
    }

    /// Where it is: the epoch to read next, and the items that were read of the one before it.
    pub fn place(&self) -> (usize, u64) {
        (self.walk.next_epoch, self.items)
    }

    /// The next item, or `None` after the last.
    ///
    /// # Errors
    /// When the trace is damaged here.
    #[inline]
    #[allow(clippy::should_implement_trait)] // The item borrows from the cursor.
    pub fn next(&mut self) -> Result<Option<Item<'_>>, TraceError> {
        let mut found = std::mem::take(&mut self.found);
        let more = self.run(&mut found)?;
        self.found = found;
        Ok(more.then(|| self.found.told().1))
    }

    /// Tells `sink` the next items until it has enough of them, and `false` behind the last.
    ///
    /// # Errors
    /// As [`TaskCursor::next`]; what the sink was told is then of no use.
    #[inline]
    pub fn run(&mut self, sink: &mut impl Sink) -> Result<bool, TraceError> {
        loop {
            let Self { walk, items, decoder, .. } = self;
            let (task, dictionary) = (walk.task, walk.reader.dictionary());
            while let Some(decoded) = decoder.step(dictionary).map_err(|fault| walk.fault(fault))? {
                *items += 1;
                let goes_on = match decoded {
                    Decoded::Block(shape) => {
                        sink.block(task, shape);
                        let each = &mut |index, reference| sink.reference(index, reference);
                        decoder.references(dictionary, shape, each).map_err(|fault| walk.fault(fault))?;
                        sink.end_block()
                    }
                    Decoded::Event => sink.event(task, decoder.event().map_err(|fault| walk.fault(fault))?),
                };
                if !goes_on {
                    return Ok(true);
                }
            }
            if !self.open_next_epoch()? {
                return Ok(false);
            }
        }
    }

    /// Loads the task's stream of the next epoch in which it ran.
    #[cold]
    fn open_next_epoch(&mut self) -> Result<bool, TraceError> {
        let columns = self.walk.next(Epoch::columns)?;
        let more = columns.is_some();
        if let Some(columns) = columns {
            (self.decoder, self.items) = (StreamDecoder::new(columns), 0);
        }
        Ok(more)
    }
}

/// One step of the captured order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalItem<'a> {
    /// Whose step.
    pub task: TaskId,
    /// What it did.
    pub item: Item<'a>,
}

/// Walks all tasks in the order in which they were captured.
pub struct GlobalCursor {
    reader: Arc<TraceReader>,
    next_epoch: usize,
    segments: std::vec::IntoIter<Segment>,
    segment: Segment,
    decoders: Vec<Option<StreamDecoder>>,
    /// What [`GlobalCursor::next`] found.
    found: OneItem,
    /// Per task: the epochs in which it ran, as far as the walk is.
    ran: Vec<Vec<u32>>,
    /// Checks what the trace claims; not in a walk over a trace that was checked before.
    validator: Option<Validator>,
}

impl GlobalCursor {
    /// Begins at the start of the trace; the walk checks every rule of [`crate::check()`].
    pub fn new(reader: Arc<TraceReader>) -> Self {
        let validator = Validator::new(reader.meta(), reader.tasks());
        GlobalCursor { validator: Some(validator), ..GlobalCursor::unchecked(reader) }
    }

    /// Begins at the start of a trace that was walked over, and so checked, before.
    pub fn unchecked(reader: Arc<TraceReader>) -> Self {
        let tasks = reader.tasks().len();
        let decoders = std::iter::repeat_with(|| None).take(tasks).collect();
        GlobalCursor {
            reader,
            next_epoch: 0,
            segments: Vec::new().into_iter(),
            segment: Segment { task: 0, items: 0 },
            decoders,
            found: OneItem::default(),
            ran: vec![Vec::new(); tasks],
            validator: None,
        }
    }

    /// How many epochs the walk has left behind it.
    pub fn epochs_read(&self) -> u64 {
        self.next_epoch.saturating_sub(1) as u64
    }

    /// Per task, the epochs in which it ran, as far as the walk is.
    pub fn ran(&self) -> &[Vec<u32>] {
        &self.ran
    }

    /// The next item, or `None` after the last.
    ///
    /// # Errors
    /// When the trace is damaged here, or claims what cannot be.
    #[inline]
    #[allow(clippy::should_implement_trait)] // The item borrows from the cursor.
    pub fn next(&mut self) -> Result<Option<GlobalItem<'_>>, TraceError> {
        let mut found = std::mem::take(&mut self.found);
        let more = self.run(&mut found)?;
        self.found = found;
        let item = |(task, item)| GlobalItem { task, item };
        Ok(more.then(|| item(self.found.told())))
    }

    /// Tells `sink` the next items of one task until it has enough of them, and `false` behind the last of the trace.
    ///
    /// # Errors
    /// As [`GlobalCursor::next`]; what the sink was told is then of no use.
    #[inline]
    pub fn run(&mut self, sink: &mut impl Sink) -> Result<bool, TraceError> {
        if self.segment.items == 0 && !self.open_next_segment()? {
            return Ok(false);
        }
        let Self { reader, segment, decoders, next_epoch, validator, .. } = self;
        let (task, dictionary) = (segment.task, reader.dictionary());
        let fault = |fault| reader.epoch_fault(*next_epoch - 1, fault);
        let contradiction = |fault| reader.contradiction(*next_epoch - 1, fault);
        let decoder = decoders.get_mut(task as usize).and_then(Option::as_mut);
        let decoder =
            decoder.ok_or_else(|| fault("the captured order names a task without stream".into()))?;
        while segment.items > 0 {
            segment.items -= 1;
            let goes_on = match decoder.step(dictionary).map_err(fault)? {
                None => return Err(fault("the captured order is longer than the streams".into())),
                Some(Decoded::Block(shape)) => {
                    sink.block(task, shape);
                    let each = &mut |index, reference| sink.reference(index, reference);
                    decoder.references(dictionary, shape, each).map_err(fault)?;
                    if let Some(validator) = validator {
                        validator.block(task, dictionary, shape).map_err(contradiction)?;
                    }
                    sink.end_block()
                }
                Some(Decoded::Event) => {
                    let event = decoder.event().map_err(fault)?;
                    if let Some(validator) = validator {
                        validator.event(task, &event).map_err(contradiction)?;
                    }
                    sink.event(task, event)
                }
            };
            if !goes_on {
                break;
            }
        }
        Ok(true)
    }

    /// Begins the next segment that has items; `false` at the end.
    #[cold]
    fn open_next_segment(&mut self) -> Result<bool, TraceError> {
        while self.segment.items == 0 {
            if let Some(segment) = self.segments.next() {
                self.segment = segment;
                continue;
            }
            self.end_epoch()?;
            if self.next_epoch == self.reader.epoch_count() {
                return self.end().map(|()| false);
            }
            self.open_next_epoch()?;
        }
        Ok(true)
    }

    /// Checks that the captured order held every item of the epoch that is over.
    fn end_epoch(&mut self) -> Result<(), TraceError> {
        let whole = |decoder: &StreamDecoder| decoder.at_end();
        if self.decoders.iter().flatten().all(whole) {
            return Ok(());
        }
        let what = "the captured order is shorter than the streams".into();
        Err(self.reader.epoch_fault(self.next_epoch - 1, what))
    }

    /// Compares what was found with what the writer stated.
    fn end(&self) -> Result<(), TraceError> {
        match (&self.validator, self.reader.totals()) {
            (Some(found), Some(stated)) => found.compare(stated).map_err(|f| self.reader.footer_fault(f)),
            _ => Ok(()),
        }
    }

    fn open_next_epoch(&mut self) -> Result<(), TraceError> {
        let index = self.next_epoch;
        let epoch = self.reader.epoch(index)?;
        self.next_epoch += 1;
        self.decoders.iter_mut().for_each(|decoder| *decoder = None);
        for entry in &epoch.entries {
            let columns = epoch.columns(entry).map_err(|fault| self.reader.epoch_fault(index, fault))?;
            self.decoders[entry.task as usize] = Some(StreamDecoder::new(columns));
            self.ran[entry.task as usize].push(index as u32);
        }
        self.segments = epoch.segments.clone().into_iter();
        Ok(())
    }
}
