//! The position of every task in its stream.

use servsim_core::{Batch, BatchPosition, SourceError, TaskCursor, TaskId, TaskKind, TaskSource};
use std::collections::BTreeMap;

/// A task's stream being executed.
pub struct Stream<'a> {
    cursor: Option<Box<dyn TaskCursor + 'a>>,
    /// Records at hand.
    pub batch: Batch,
    /// Next record of the batch.
    pub position: usize,
    /// Records of the batches before.
    before: u64,
    /// When the task last ended a transaction, for each of its users.
    pub last_mark: BTreeMap<u32, u64>,
}

/// A batch of a stream: records before it, and where it begins.
pub type Bookmark = (u64, BatchPosition);

impl<'a> Stream<'a> {
    /// Loads further records when the batch is used up; `false` at the end of the stream.
    pub fn refill(&mut self) -> Result<bool, SourceError> {
        let Some(cursor) = &mut self.cursor else { return Ok(false) };
        self.before += self.batch.records.len() as u64;
        self.position = 0;
        if cursor.next_batch(&mut self.batch)? {
            return Ok(true);
        }
        self.cursor = None;
        self.batch = Batch::default();
        Ok(false)
    }

    /// Passes over the first `records` records; at least one is at hand then, unless the stream ended.
    pub fn pass(&mut self, records: u64) -> Result<(), SourceError> {
        while self.refill()? {
            let left = records.saturating_sub(self.before);
            if left < self.batch.records.len() as u64 {
                self.position = left as usize;
                break;
            }
        }
        Ok(())
    }

    /// Passes over the first `records` records as [`Stream::pass`] does, but begins to read at `bookmark`, if the
    /// source can.
    pub fn pass_from(
        &mut self,
        bookmark: Option<Bookmark>,
        records: u64,
        (source, task): (&'a dyn TaskSource, TaskId),
    ) -> Result<(), SourceError> {
        if let Some((before, place)) = bookmark {
            if let Some(cursor) = source.open_at(task, place)? {
                (self.cursor, self.before) = (Some(cursor), before);
            }
        }
        self.pass(records)
    }

    /// The batch at hand.
    pub fn bookmark(&self) -> Option<Bookmark> {
        Some((self.before, self.cursor.as_ref()?.place()?))
    }

    /// Ends the stream here.
    pub fn close(&mut self) {
        self.cursor = None;
    }

    /// Records that are done.
    pub fn done(&self) -> u64 {
        self.before + self.position as u64
    }

    /// Whether it is over, or was never opened.
    pub fn is_over(&self) -> bool {
        self.cursor.is_none()
    }
}

/// Whether the scheduler runs tasks of this kind.
pub fn runs(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::User | TaskKind::Kernel)
}

/// Opens the streams of the tasks that the scheduler runs; the others stay empty.
pub fn open_all(source: &dyn TaskSource) -> Result<Vec<Stream<'_>>, SourceError> {
    let tasks = source.tasks().iter().enumerate();
    tasks
        .map(|(task, info)| {
            let cursor = if runs(info.kind) { Some(source.open(task as TaskId)?) } else { None };
            Ok(Stream { cursor, batch: Batch::default(), position: 0, before: 0, last_mark: BTreeMap::new() })
        })
        .collect()
}
