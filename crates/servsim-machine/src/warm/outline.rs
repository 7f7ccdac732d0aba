//! The outline of a trace: what every task does between the events that order it, as sums of instructions and
//! references. At a pace for each task it can be run in time again ([`crate::sampling`]): no caches, but every wait, lock,
//! sleep and disk request of the whole trace.

use crate::error::SimulateError;
use crate::software::runs;
use servsim_core::steps::{Run, Step, Steps};
use servsim_core::{Batch, Event, LockClass, TaskId, TaskSource};
use servsim_mem::snapshot::{Damaged, Reader, Writer};

/// What all tasks do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// Per task.
    pub tasks: Vec<Steps>,
}

impl Outline {
    /// Of the whole of `source`; `goes_on` is asked now and then.
    ///
    /// # Errors
    /// When the trace is damaged, or it does not go on.
    pub fn of(source: &dyn TaskSource, goes_on: &dyn Fn() -> bool) -> Result<Self, SimulateError> {
        let mut tasks = Vec::new();
        for (task, info) in (0..).zip(source.tasks()) {
            if !runs(info.kind) {
                tasks.push(Steps::default());
                continue;
            }
            let go = || goes_on().then_some(()).ok_or(SimulateError::Interrupted);
            go()?;
            let known = source.steps(task)?;
            let mut steps = known.map_or_else(|| Self::read(source, task, &go), Ok)?;
            steps.end_run();
            tasks.push(steps);
        }
        Ok(Self { tasks })
    }

    /// The steps of a stream that has to be read for them.
    fn read(
        source: &dyn TaskSource,
        task: TaskId,
        go: &dyn Fn() -> Result<(), SimulateError>,
    ) -> Result<Steps, SimulateError> {
        let (mut steps, mut batch) = (Steps::default(), Batch::default());
        let mut cursor = source.open(task)?;
        while cursor.next_batch(&mut batch)? {
            go()?;
            steps.note(&batch);
        }
        Ok(steps)
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
    pub fn save(&self, out: &mut Writer) {
        out.put(self.tasks.len() as u64);
        for task in &self.tasks {
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
            tasks.push(Steps::of(steps));
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
        let outline = Outline { tasks: vec![Steps::of(steps)] };
        let mut bytes = Writer::default();
        outline.save(&mut bytes);
        assert_eq!(Outline::restore(&mut Reader::new(&bytes.into_bytes())), Ok(outline));
        assert!(Outline::restore(&mut Reader::new(&[1, 1, 10])).is_err());
        assert!(Outline::restore(&mut Reader::new(&[1, 1, 3, 0, 6])).is_err(), "no such class of locks");
    }
}
