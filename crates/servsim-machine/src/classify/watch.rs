//! Every transition of the copies of one line.

use super::follow::ReferenceObserver;
use servsim_core::{CacheId, LineAddr, Record};
use servsim_mem::protocol::{BusOp, Table};
use servsim_mem::{By, CoherenceClass, MissClass, Observer, StateEvent, Transition};

/// Most steps that are kept.
const MOST_STEPS: usize = 1_000_000;
/// Class of a miss that is told later.
const TO_BE_JUDGED: &str = "to be judged";

/// One step, ready to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Number of the reference, from 1.
    pub reference: u64,
    /// Whose copy.
    pub cache: CacheId,
    /// Who made the reference, at which cache, in which mode.
    pub by: By,
    /// State before, event, transaction, state after; nothing when an earlier miss is judged.
    pub change: Option<Change>,
    /// Class of the miss or of the coherence transaction.
    pub class: Option<&'static str>,
}

/// A transition by names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// State before.
    pub from: &'static str,
    /// Column of the table.
    pub event: &'static str,
    /// Bus transaction of the own processor.
    pub transaction: Option<&'static str>,
    /// State after.
    pub to: &'static str,
}

/// The observer.
#[derive(Debug)]
pub struct Watch {
    line: LineAddr,
    table: Table,
    number: u64,
    task: u32,
    kernel: bool,
    class: Option<&'static str>,
    /// Steps so far.
    pub steps: Vec<Step>,
    /// Steps beyond the most that are kept.
    pub left_out: u64,
}

impl Watch {
    /// Watches `line` under the protocol of `table`.
    pub fn new(line: LineAddr, table: &Table) -> Self {
        Self {
            line,
            table: table.clone(),
            number: 0,
            task: 0,
            kernel: false,
            class: None,
            steps: Vec::new(),
            left_out: 0,
        }
    }

    fn push(&mut self, step: Step) {
        if self.steps.len() < MOST_STEPS {
            self.steps.push(step);
        } else {
            self.left_out += 1;
        }
    }
}

impl ReferenceObserver for Watch {
    fn reference(&mut self, number: u64, record: &Record) {
        (self.number, self.task, self.kernel) = (number, record.task, record.is_kernel());
    }

    fn transaction_end(&mut self, _: u32, _: u32, _: u32) {}

    fn begin(&mut self) {}
}

impl Observer for Watch {
    fn miss(&mut self, by: &By, class: Option<MissClass>) {
        if by.line == self.line {
            self.class = Some(class.map_or(TO_BE_JUDGED, |class| MissClass::NAMES[class as usize]));
        }
    }

    fn judged(&mut self, cache: CacheId, line: LineAddr, class: MissClass) {
        if line == self.line {
            // The miss of this copy is told by what happens now: by whom is who acts now.
            let (task, kernel) = (self.task, self.kernel);
            let by = By { cache, line, task, kernel, write: false, slot: 1 };
            let class = Some(MissClass::NAMES[class as usize]);
            self.push(Step { reference: self.number, cache, by, change: None, class });
        }
    }

    fn coherence(&mut self, by: &By, _: BusOp, class: CoherenceClass) {
        if by.line == self.line {
            self.class = Some(CoherenceClass::NAMES[class as usize]);
        }
    }

    fn transition(&mut self, by: &By, step: &Transition) {
        if step.line != self.line {
            return;
        }
        let transaction = match step.event {
            StateEvent::Read(op) | StateEvent::Write(op) => op.map(BusOp::short),
            StateEvent::Evict | StateEvent::Flush | StateEvent::Snoop(_) => None,
        };
        let class = if transaction.is_some() { self.class.take() } else { None };
        let change = Change {
            from: self.table.state_name(step.from),
            event: step.event.heading(),
            transaction,
            to: self.table.state_name(step.to),
        };
        self.push(Step { reference: self.number, cache: step.cache, by: *by, change: Some(change), class });
    }
}
