//! The position of every task in its stream.

use std::collections::BTreeMap;

use servsim_core::{Batch, SourceError, TaskCursor, TaskId, TaskKind, TaskSource};

/// A task's stream being executed.
pub struct Stream<'a> {
    cursor: Option<Box<dyn TaskCursor + 'a>>,
    /// Records at hand.
    pub batch: Batch,
    /// Next record of the batch.
    pub position: usize,
    /// When the task last ended a transaction, for each of its users.
    pub last_mark: BTreeMap<u32, u64>,
}

impl Stream<'_> {
    /// Loads further records when the batch is used up; `false` at the end of the stream.
    pub fn refill(&mut self) -> Result<bool, SourceError> {
        let Some(cursor) = &mut self.cursor else { return Ok(false) };
        self.position = 0;
        if cursor.next_batch(&mut self.batch)? {
            return Ok(true);
        }
        self.cursor = None;
        self.batch = Batch::default();
        Ok(false)
    }
}

/// Opens the streams of the tasks that the scheduler runs; the others stay empty.
pub fn open_all(source: &dyn TaskSource) -> Result<Vec<Stream<'_>>, SourceError> {
    let runs = |kind| matches!(kind, TaskKind::User | TaskKind::Kernel);
    let tasks = source.tasks().iter().enumerate();
    tasks
        .map(|(task, info)| {
            let cursor = if runs(info.kind) { Some(source.open(task as TaskId)?) } else { None };
            Ok(Stream { cursor, batch: Batch::default(), position: 0, last_mark: BTreeMap::new() })
        })
        .collect()
}
