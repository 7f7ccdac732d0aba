//! Traces held in memory: the whole list in order, and the same list split by task.
//!
//! The timing engine schedules tasks on its own, so an imported trace that has one order is split
//! into one stream per task first; that takes 16 bytes of memory per reference.

use servsim_core::{
    Batch, Event, GlobalSource, Instruction, Op, Privacy, Record, SourceError, TaskCursor, TaskId, TaskInfo,
    TaskSource, TransactionEnds, WakeId,
};
use std::collections::HashMap;

const BATCH: usize = 8192;

/// A list of records in order.
pub struct ListSource {
    tasks: Vec<TaskInfo>,
    kinds: Vec<String>,
    privacy: Privacy,
    items: Vec<(Record, Option<Event>)>,
    position: usize,
}

impl ListSource {
    /// From its parts; a record with an event stands for that event.
    pub fn new(
        tasks: Vec<TaskInfo>,
        kinds: Vec<String>,
        privacy: Privacy,
        items: Vec<(Record, Option<Event>)>,
    ) -> Self {
        Self { tasks, kinds, privacy, items, position: 0 }
    }

    /// The references, without the events.
    pub fn references(&self) -> impl Iterator<Item = &Record> {
        self.items.iter().filter(|(_, event)| event.is_none()).map(|(record, _)| record)
    }
}

impl GlobalSource for ListSource {
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn transaction_kinds(&self) -> Vec<String> {
        self.kinds.clone()
    }

    fn transaction_ends(&self) -> TransactionEnds {
        counted(self.items.iter().filter_map(|(record, event)| Some((record.task, event.as_ref()?))))
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let end = self.items.len().min(self.position + BATCH);
        for (record, event) in &self.items[self.position..end] {
            match event {
                Some(event) => batch.push_event(record.task, *event),
                None => batch.records.push(*record),
            }
        }
        self.position = end;
        Ok(!batch.records.is_empty())
    }
}

/// A trace split by task.
pub struct InMemory {
    tasks: Vec<TaskInfo>,
    kinds: Vec<String>,
    privacy: Privacy,
    streams: Vec<Batch>,
    code: Vec<Instruction>,
    wakers: HashMap<WakeId, TaskId>,
    submitters: HashMap<u64, TaskId>,
}

/// Which stream has each event that `what` numbers.
fn streams_of(streams: &[Batch], what: fn(&Event) -> Option<u64>) -> HashMap<u64, TaskId> {
    let of = |(task, stream): (TaskId, &Batch)| {
        stream.events.iter().filter_map(what).map(|number| (number, task)).collect::<Vec<_>>()
    };
    (0..).zip(streams).flat_map(of).collect()
}

fn wake_in(event: &Event) -> Option<WakeId> {
    if let Event::Wake { wake } = event {
        Some(*wake)
    } else {
        None
    }
}

/// The ends of transactions among events of tasks.
fn counted<'a>(events: impl Iterator<Item = (TaskId, &'a Event)>) -> TransactionEnds {
    let mut ends = TransactionEnds::new();
    for (task, event) in events {
        if let Event::TransactionEnd { user, .. } = event {
            *ends.entry((task, *user)).or_default() += 1;
        }
    }
    ends
}

fn request_in(event: &Event) -> Option<u64> {
    if let Event::IoSubmit { request, .. } = event {
        Some(*request)
    } else {
        None
    }
}

impl InMemory {
    /// Reads `source` to its end.
    ///
    /// # Errors
    /// When the source is damaged.
    pub fn read(source: &mut dyn GlobalSource) -> Result<Self, SourceError> {
        let mut streams: Vec<Batch> = source.tasks().iter().map(|_| Batch::default()).collect();
        let mut batch = Batch::default();
        while source.next_batch(&mut batch)? {
            for record in &batch.records {
                let stream = &mut streams[record.task as usize];
                if record.op == Op::Event {
                    stream.push_event(record.task, batch.events[record.address as usize]);
                } else {
                    stream.records.push(Record { cpu: 1, ..*record });
                }
            }
        }
        Ok(Self {
            tasks: source.tasks().to_vec(),
            kinds: source.transaction_kinds(),
            privacy: source.privacy().clone(),
            wakers: streams_of(&streams, wake_in),
            submitters: streams_of(&streams, request_in),
            streams,
            code: Vec::new(),
        })
    }

    /// From explicit streams, for tests: the events are the batches' own.
    pub fn from_streams(tasks: Vec<TaskInfo>, kinds: Vec<String>, streams: Vec<Batch>) -> Self {
        let mut survey = crate::Survey::default();
        for (task, stream) in streams.iter().enumerate() {
            for r in stream.records.iter().filter(|r| r.op != Op::Event) {
                survey.touch(task as u32, r.address, r.address + (u64::from(r.size) - 1));
            }
        }
        let wakers = streams_of(&streams, wake_in);
        let submitters = streams_of(&streams, request_in);
        Self { tasks, kinds, privacy: survey.privacy(), wakers, submitters, streams, code: Vec::new() }
    }

    /// The same with the instructions that the streams point to, for tests.
    #[must_use]
    pub fn with_code(mut self, code: Vec<Instruction>) -> Self {
        self.code = code;
        self
    }
}

impl TaskSource for InMemory {
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
        counted(
            (0..)
                .zip(&self.streams)
                .flat_map(|(task, s): (TaskId, &Batch)| s.events.iter().map(move |e| (task, e))),
        )
    }

    fn waker(&self, wake: WakeId) -> Option<TaskId> {
        self.wakers.get(&wake).copied()
    }

    fn submitter(&self, request: u64) -> Option<TaskId> {
        self.submitters.get(&request).copied()
    }

    fn code(&self) -> &[Instruction] {
        &self.code
    }

    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        Ok(Box::new(MemoryCursor { stream: &self.streams[task as usize], position: 0 }))
    }
}

struct MemoryCursor<'a> {
    stream: &'a Batch,
    position: usize,
}

impl TaskCursor for MemoryCursor<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let end = self.stream.records.len().min(self.position + BATCH);
        for record in &self.stream.records[self.position..end] {
            if record.op == Op::Event {
                batch.push_event(record.task, self.stream.events[record.address as usize]);
            } else {
                batch.records.push(*record);
            }
        }
        let known = &self.stream.code;
        batch.code.extend_from_slice(&known[self.position.min(known.len())..end.min(known.len())]);
        self.position = end;
        Ok(!batch.records.is_empty())
    }
}
