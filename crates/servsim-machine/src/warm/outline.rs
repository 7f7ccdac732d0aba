//! The outline of a trace: what every task does between the events that order it, as sums of instructions and
//! references. A functional pass notes it beside its own work. At a pace for each task it can be run in time again
//! ([`crate::sampling`]): no caches, but every wait, lock, sleep and disk request of the whole trace.

use servsim_core::reference::CONTINUATION;
use servsim_core::{Batch, Event, LockClass, Op, Record, TaskId, TaskSource};
use servsim_mem::snapshot::{Damaged, Reader, Writer};

/// Instructions of a run at most: paces vary along longer ones.
const LONGEST: u64 = 1 << 14;

/// References that a record of a task's stream stands for.
pub fn weight(record: &Record) -> u8 {
    match record.op {
        Op::Event => 0,
        _ if record.flags & CONTINUATION != 0 => 0,
        Op::Fetch => record.cpu,
        Op::Load | Op::Store => 1,
    }
}

/// Work without events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Its instructions.
    pub instructions: u64,
    /// Its references, those of instructions among them.
    pub references: u64,
}

/// What a task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Work.
    Run(Run),
    /// What orders it.
    Event(Event),
}

/// The steps of a stream, while they are noted and afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steps {
    /// In order; the run under way is none of them yet.
    pub steps: Vec<Step>,
    under_way: Run,
}

impl Steps {
    /// Adds what the records of a batch do.
    pub fn note(&mut self, batch: &Batch) {
        for record in &batch.records {
            if record.op == Op::Event {
                self.end_run();
                self.steps.push(Step::Event(batch.events[record.address as usize]));
                continue;
            }
            let references = u64::from(weight(record));
            self.under_way.references += references;
            if record.op == Op::Fetch {
                self.under_way.instructions += references;
                if self.under_way.instructions >= LONGEST {
                    self.end_run();
                }
            }
        }
    }

    /// The run under way ends here.
    pub fn end_run(&mut self) {
        let run = std::mem::take(&mut self.under_way);
        if run.references > 0 {
            self.steps.push(Step::Run(run));
        }
    }
}

/// What all tasks do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// Per task.
    pub tasks: Vec<Steps>,
}

impl Outline {
    /// Nothing noted, of so many tasks.
    pub fn new(tasks: usize) -> Self {
        Self { tasks: vec![Steps::default(); tasks] }
    }

    /// Adds the next batch of a task.
    pub fn note(&mut self, task: TaskId, batch: &Batch) {
        self.tasks[task as usize].note(batch);
    }

    /// The same of every interrupt handler of `source`.
    pub fn handlers_of(source: &dyn TaskSource) -> Vec<Steps> {
        let of = |batch: &Batch| {
            let mut steps = Steps::default();
            steps.note(batch);
            steps.end_run();
            steps
        };
        source.interrupts().iter().map(|handler| of(&handler.batch)).collect()
    }

    /// Writes it.
    pub fn save(&mut self, out: &mut Writer) {
        out.put(self.tasks.len() as u64);
        for task in &mut self.tasks {
            task.end_run();
            out.put(task.steps.len() as u64);
            task.steps.iter().for_each(|step| put(step, out));
        }
    }

    /// Reads what [`Outline::save`] wrote.
    ///
    /// # Errors
    /// When the bytes are no outline.
    pub fn restore(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut tasks = Vec::new();
        for _ in 0..from.length()? {
            let mut steps = Vec::new();
            for _ in 0..from.length()? {
                steps.push(take(from)?);
            }
            tasks.push(Steps { steps, under_way: Run::default() });
        }
        Ok(Self { tasks })
    }
}

fn put(step: &Step, out: &mut Writer) {
    let mut numbers = |numbers: &[u64]| numbers.iter().for_each(|&number| out.put(number));
    match *step {
        Step::Run(Run { instructions, references }) => numbers(&[0, instructions, references]),
        Step::Event(Event::Block { wake: None }) => numbers(&[1]),
        Step::Event(Event::Block { wake: Some(wake) }) => numbers(&[2, wake]),
        Step::Event(Event::LockWait { wake, class }) => numbers(&[3, wake, class as u64]),
        Step::Event(Event::Wake { wake }) => numbers(&[4, wake]),
        Step::Event(Event::Sleep { nanos }) => numbers(&[5, nanos]),
        Step::Event(Event::IoSubmit { request, device, sector, bytes, write }) => {
            numbers(&[6, request, u64::from(device), sector, u64::from(bytes), u64::from(write)]);
        }
        Step::Event(Event::LockAcquire { class, word }) => numbers(&[7, class as u64, word]),
        Step::Event(Event::LockRelease { word }) => numbers(&[8, word]),
        Step::Event(Event::TransactionEnd { kind, user }) => {
            numbers(&[9, u64::from(kind), u64::from(user)]);
        }
    }
}

fn take(from: &mut Reader<'_>) -> Result<Step, Damaged> {
    let class = |number: u64| LockClass::ALL[number as usize];
    let classes = LockClass::ALL.len() as u64;
    Ok(Step::Event(match from.below(10)? {
        0 => return Ok(Step::Run(Run { instructions: from.take()?, references: from.take()? })),
        1 => Event::Block { wake: None },
        2 => Event::Block { wake: Some(from.take()?) },
        3 => Event::LockWait { wake: from.take()?, class: class(from.below(classes)?) },
        4 => Event::Wake { wake: from.take()? },
        5 => Event::Sleep { nanos: from.take()? },
        6 => Event::IoSubmit {
            request: from.take()?,
            device: from.short()?,
            sector: from.take()?,
            bytes: from.short()?,
            write: from.below(2)? == 1,
        },
        7 => Event::LockAcquire { class: class(from.below(classes)?), word: from.take()? },
        8 => Event::LockRelease { word: from.take()? },
        _ => Event::TransactionEnd { kind: from.short()?, user: from.short()? },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_summed_between_events_and_long_work_is_cut() {
        let mut batch = Batch::default();
        let fetch = |count: u8| Record { cpu: count, ..Record::new(1, Op::Fetch, 64, 4) };
        let load = Record { cpu: 1, ..Record::new(1, Op::Load, 128, 8) };
        batch.records.extend([fetch(10), load, load]);
        batch.push_event(1, Event::Wake { wake: 7 });
        batch.records.extend(std::iter::repeat_n(fetch(200), 100));
        let mut outline = Outline::new(2);
        outline.note(1, &batch);
        outline.note(1, &Batch { records: vec![load], ..Batch::default() });
        let mut bytes = Writer::default();
        outline.save(&mut bytes);
        let run = |instructions, references| Step::Run(Run { instructions, references });
        let wanted =
            [run(10, 12), Step::Event(Event::Wake { wake: 7 }), run(16_400, 16_400), run(3_600, 3_601)];
        assert_eq!(outline.tasks[1].steps, wanted);
        assert!(outline.tasks[0].steps.is_empty());
        let bytes = bytes.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(Outline::restore(&mut reader), Ok(outline));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn every_event_is_read_as_it_was_written_and_an_unknown_one_is_refused() {
        let (class, write) = (LockClass::UserSpin, true);
        let events = [
            Event::Block { wake: None },
            Event::Block { wake: Some(1 << 40) },
            Event::LockWait { wake: 3, class },
            Event::Wake { wake: 4 },
            Event::Sleep { nanos: 5 },
            Event::IoSubmit { request: 6, device: 1, sector: 8, bytes: 4096, write },
            Event::LockAcquire { class, word: 9 },
            Event::LockRelease { word: 9 },
            Event::TransactionEnd { kind: 2, user: 11 },
        ];
        let steps: Vec<Step> = events.map(Step::Event).to_vec();
        let mut outline = Outline { tasks: vec![Steps { steps, under_way: Run::default() }] };
        let mut bytes = Writer::default();
        outline.save(&mut bytes);
        assert_eq!(Outline::restore(&mut Reader::new(&bytes.into_bytes())), Ok(outline));
        assert!(Outline::restore(&mut Reader::new(&[1, 1, 10])).is_err());
        assert!(Outline::restore(&mut Reader::new(&[1, 1, 3, 0, 6])).is_err(), "no such class of locks");
    }
}
