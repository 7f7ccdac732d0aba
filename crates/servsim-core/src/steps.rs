//! What a task does between the events that order it, as sums of instructions and references: its part of the outline of
//! a trace.

use crate::reference::CONTINUATION;
use crate::{Batch, Event, Op, Record};

/// Instructions of a run at most: paces vary along longer ones.
const LONGEST: u64 = 1 << 14;

/// References that a record of a task's stream stands for.
fn weight(record: &Record) -> u8 {
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

impl Run {
    /// Work of `records`, no events among them.
    pub fn of(records: &[Record]) -> Self {
        let mut run = Self::default();
        records.iter().for_each(|record| run.add(record));
        run
    }

    /// Adds the work of `record`, which is no event.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        let references = u64::from(weight(record));
        self.references += references;
        self.instructions += if record.op == Op::Fetch { references } else { 0 };
    }
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
    /// These.
    pub fn of(steps: Vec<Step>) -> Self {
        Self { steps, under_way: Run::default() }
    }

    /// Adds what the records of a batch do.
    pub fn note(&mut self, batch: &Batch) {
        for record in &batch.records {
            if record.op == Op::Event {
                self.end_run();
                self.steps.push(Step::Event(batch.events[record.address as usize]));
            } else {
                self.reference(record);
            }
        }
    }

    /// Adds what `records`, no events among them, do in all: `sum`. They are seldom asked for.
    #[inline]
    pub fn block<'a>(&mut self, sum: Run, records: impl FnOnce() -> &'a [Record]) {
        if self.under_way.instructions + sum.instructions < LONGEST {
            self.under_way.instructions += sum.instructions;
            self.under_way.references += sum.references;
        } else {
            records().iter().for_each(|record| self.reference(record));
        }
    }

    #[inline]
    fn reference(&mut self, record: &Record) {
        self.under_way.add(record);
        if record.op == Op::Fetch && self.under_way.instructions >= LONGEST {
            self.end_run();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    #[test]
    fn work_is_summed_between_events_and_long_work_is_cut_where_its_records_say() {
        let mut batch = Batch::default();
        let fetch = |count: u8| Record { cpu: count, ..Record::new(1, Op::Fetch, 64, 4) };
        let load = Record { cpu: 1, ..Record::new(1, Op::Load, 128, 8) };
        batch.records.extend([fetch(10), load, load]);
        batch.push_event(1, Event::Wake { wake: 7 });
        let long: Vec<Record> = [fetch(200), load, fetch(100), fetch(100)].repeat(50);
        batch.records.extend(&long);
        let mut steps = Steps::default();
        steps.note(&batch);
        steps.note(&Batch { records: vec![load], ..Batch::default() });
        steps.end_run();
        let run = |instructions, references| Step::Run(Run { instructions, references });
        let wanted =
            [run(10, 12), Step::Event(Event::Wake { wake: 7 }), run(16_400, 16_441), run(3_600, 3_610)];
        assert_eq!(steps.steps, wanted);

        // The same by blocks whose sums are known.
        let mut by_blocks = Steps::default();
        for records in long.chunks(4) {
            by_blocks.block(Run::of(records), || records);
        }
        let last = [load];
        by_blocks.block(Run::of(&last), || &last);
        by_blocks.end_run();
        assert_eq!(by_blocks.steps, wanted[2..]);
    }
}
