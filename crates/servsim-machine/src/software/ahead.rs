//! Streams of tasks that one host thread reads while another simulates: decoding costs about as much as the caches do.
//!
//! The reader has the next batches of every stream ready, and knows nothing of the order in which they will be wanted; so
//! what is simulated is the same by construction.

use servsim_core::{Batch, BatchPosition, SourceError, TaskCursor, TaskId, TaskSource};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};

/// Batches of a stream that are read before they are wanted.
const DEPTH: usize = 2;

/// The next batch of a stream, or its end, and where it begins.
type Answer = Result<Option<(Batch, Option<BatchPosition>)>, SourceError>;

/// What the reader is asked.
enum Wanted {
    /// To open a task's stream, the one with the next number, and to answer there from now on.
    Stream(usize, TaskId, Sender<Answer>),
    /// The next batch of the stream with this number; the other one is of no use any more.
    Batch(usize, Batch),
}

/// A source whose streams are read on another thread.
struct Ahead<'a> {
    inner: &'a dyn TaskSource,
    reader: Sender<Wanted>,
    opened: AtomicUsize,
}

/// Calls `perform` with `source`, whose streams another thread reads meanwhile.
pub fn read_ahead<T>(source: &dyn TaskSource, perform: impl FnOnce(&dyn TaskSource) -> T) -> T {
    std::thread::scope(|scope| {
        let (reader, wanted) = channel();
        scope.spawn(move || read(source, &wanted));
        perform(&Ahead { inner: source, reader, opened: AtomicUsize::new(0) })
    })
}

/// Reads what is wanted until nobody is left to want anything.
fn read(source: &dyn TaskSource, wanted: &Receiver<Wanted>) {
    let mut streams: Vec<Option<Read<'_>>> = Vec::new();
    // A batch is made in this thread's own memory and copied: what the other has read lies in the caches of another core,
    // which each small write to it would wait for.
    let mut own = Batch::default();
    for wanted in wanted {
        match wanted {
            Wanted::Stream(number, task, answer) => {
                streams.resize_with(streams.len().max(number + 1), || None);
                let cursor = source.open(task).map(Some);
                streams[number] = Some(Read { cursor, answer });
            }
            Wanted::Batch(number, spare) => {
                if let Some(stream) = streams.get_mut(number).and_then(Option::as_mut) {
                    let next = stream.next(&mut own, spare);
                    // Who does not want it any more has ended.
                    let _ = stream.answer.send(next);
                }
            }
        }
    }
}

/// A stream being read.
struct Read<'a> {
    /// None behind the end.
    cursor: Result<Option<Box<dyn TaskCursor + 'a>>, SourceError>,
    answer: Sender<Answer>,
}

impl Read<'_> {
    fn next(&mut self, own: &mut Batch, mut spare: Batch) -> Answer {
        let Some(cursor) = self.cursor.as_mut().map_err(|fault| fault.clone())? else { return Ok(None) };
        if !cursor.next_batch(own)? {
            self.cursor = Ok(None);
            return Ok(None);
        }
        spare.copy_from(own);
        Ok(Some((spare, cursor.place())))
    }
}

impl TaskSource for Ahead<'_> {
    fn inner(&self) -> Option<&dyn TaskSource> {
        Some(self.inner)
    }

    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        let (answer, answers) = channel();
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let reader = self.reader.clone();
        reader.send(Wanted::Stream(number, task, answer)).map_err(|_| ended())?;
        for _ in 0..DEPTH {
            reader.send(Wanted::Batch(number, Batch::default())).map_err(|_| ended())?;
        }
        Ok(Box::new(Cursor { number, reader, answers, place: None }))
    }
}

struct Cursor {
    number: usize,
    reader: Sender<Wanted>,
    answers: Receiver<Answer>,
    /// Where the batch at hand begins.
    place: Option<BatchPosition>,
}

/// Only when the reader has panicked, which goes on in whoever waits for its thread.
fn ended() -> SourceError {
    SourceError("the thread that reads the trace has ended".into())
}

impl TaskCursor for Cursor {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let Some((next, place)) = self.answers.recv().map_err(|_| ended())?? else {
            batch.clear();
            return Ok(false);
        };
        self.place = place;
        let spare = std::mem::replace(batch, next);
        self.reader.send(Wanted::Batch(self.number, spare)).map_err(|_| ended())?;
        Ok(true)
    }

    fn place(&self) -> Option<BatchPosition> {
        self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::{Op, Privacy, Record, TaskInfo};

    /// Two tasks of so many batches, whose records bear their numbers; the second ends with a fault.
    struct Numbers(u64);

    struct Numbered {
        task: TaskId,
        next: u64,
        length: u64,
    }

    impl TaskSource for Numbers {
        fn tasks(&self) -> &[TaskInfo] {
            &[]
        }
        fn privacy(&self) -> &Privacy {
            unreachable!("nobody asks")
        }
        fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
            if task > 1 {
                return Err(SourceError("no such task".into()));
            }
            Ok(Box::new(Numbered { task, next: 0, length: self.0 }))
        }
    }

    impl TaskCursor for Numbered {
        fn place(&self) -> Option<BatchPosition> {
            (self.next > 1).then_some([self.next, 0, 0, 0])
        }
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            batch.clear();
            if self.next == self.length {
                return if self.task == 1 { Err(SourceError("damaged".into())) } else { Ok(false) };
            }
            self.next += 1;
            batch.records.push(Record::new(self.task, Op::Load, self.next, 1));
            Ok(true)
        }
    }

    /// Numbers, place by place, and how it ended.
    fn walk(source: &dyn TaskSource, task: TaskId) -> (Vec<(u64, Option<BatchPosition>)>, String) {
        let (mut found, mut batch) = (Vec::new(), Batch::default());
        let mut cursor = match source.open(task) {
            Ok(cursor) => cursor,
            Err(fault) => return (found, fault.0),
        };
        loop {
            match cursor.next_batch(&mut batch) {
                Ok(true) => found.push((batch.records[0].address, cursor.place())),
                Ok(false) => return (found, "the end".into()),
                Err(fault) => return (found, fault.0),
            }
        }
    }

    #[test]
    fn batches_places_ends_and_faults_are_those_of_the_source() {
        for length in [0, 1, 2, 3, 50] {
            let source = Numbers(length);
            read_ahead(&source, |ahead| {
                for task in [0, 1, 0] {
                    assert_eq!(walk(ahead, task), walk(&source, task));
                }
                let (none, fault) = walk(ahead, 2);
                assert!(none.is_empty() && fault == "no such task", "{fault}");
            });
        }
    }

    #[test]
    fn streams_that_are_left_before_their_end_keep_nobody_waiting() {
        read_ahead(&Numbers(50), |ahead| {
            let mut batch = Batch::default();
            let mut cursors: Vec<_> = (0..2).map(|task| ahead.open(task).expect("opened")).collect();
            for (task, cursor) in (0..2).zip(&mut cursors) {
                assert_eq!(cursor.next_batch(&mut batch), Ok(true));
                assert_eq!((batch.records[0].task, batch.records[0].address), (task, 1));
            }
        });
    }

    #[test]
    fn a_panic_of_the_reader_is_that_of_the_caller() {
        struct Panics;
        impl TaskSource for Panics {
            fn open(&self, _: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
                panic!("while it opens")
            }
        }
        let caught = std::panic::catch_unwind(|| read_ahead(&Panics, |ahead| walk(ahead, 0).0.len()));
        assert!(caught.is_err());
    }
}
