//! A coarse run: the whole trace in time, but from its outline, at a pace for each group of tasks that windows told.
//!
//! It is run by the timing engine, with its scheduler, disks and locks; what a task does between two events are
//! fetches of one line of its own, as many as the cycles that it takes. So a coarse run knows who waits for whom and
//! for how long, and which transactions end first, for a hundredth of the cost of a full run; it knows nothing of
//! caches beyond the paces.

use crate::error::SimulateError;
use crate::timing::{self, Model};
use crate::warm::outline::Outline;
use serde_json::{json, Value};
use servsim_core::random::RandomStream;
use servsim_core::reference::{KERNEL, PRIVATE};
use servsim_core::steps::{Run, Step, Steps};
use servsim_core::{
    Batch, Instruction, Interrupt, Op, Privacy, Record, SourceError, TaskCursor, TaskId, TaskSource,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Cycles of a fetch.
const CYCLES: u64 = 4;
/// Instructions that a fetch in kernel mode stands for: so they are counted, and no processor makes more in its time.
const COUNTED: u64 = 32;
/// Records per batch, about.
const BATCH: usize = 4096;
/// Where the lines of the tasks begin: beyond any that a trace names.
const LINES: u64 = 1 << 50;

/// How fast groups of tasks, by the name of their tasks, work.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Paces {
    /// Seed of the run and of its jitter.
    pub seed: u64,
    /// By how much the pace of a piece of work may differ from its group's, as a share.
    pub jitter: f64,
    /// Cycles for a reference, and further ones for an instruction; those of the empty name hold for all others.
    pub groups: BTreeMap<String, [f64; 2]>,
}

/// A trace at some paces.
struct Coarse<'a> {
    inner: &'a dyn TaskSource,
    outline: &'a Outline,
    /// Per task.
    paces: Vec<[f64; 2]>,
    seed: u64,
    jitter: f64,
    interrupts: Vec<Interrupt>,
    privacy: Privacy,
}

/// Turns runs into records.
struct Pacer {
    task: TaskId,
    pace: [f64; 2],
    jitter: f64,
    random: RandomStream,
    /// Fetches and instructions that no record stands for yet.
    left: (f64, u64),
}

impl Pacer {
    /// Appends the records of a run.
    fn put(&mut self, run: Run, batch: &mut Batch) {
        let (references, instructions) = (run.references as f64, run.instructions as f64);
        // Uniform in -1 to 1.
        let chance = (self.random.next_u64() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let cycles = (self.pace[0] * references + self.pace[1] * instructions) * (1.0 + self.jitter * chance);
        self.left.0 += cycles / CYCLES as f64;
        self.left.1 += run.instructions;
        let counted = self.left.1 / COUNTED;
        let whole = (self.left.0.max(0.0) as u64).max(counted);
        self.left = (self.left.0 - whole as f64, self.left.1 % COUNTED);
        self.fetch(counted, KERNEL, batch);
        self.fetch(whole - counted, 0, batch);
    }

    fn fetch(&self, mut count: u64, mode: u8, batch: &mut Batch) {
        let line = LINES + u64::from(self.task) * 4096 + u64::from(self.task % 64) * 64;
        while count > 0 {
            let some = count.min(255);
            let record = Record::new(self.task, Op::Fetch, line, 1);
            batch.records.push(Record { flags: mode | PRIVATE, cpu: some as u8, ..record });
            count -= some;
        }
    }
}

impl<'a> Coarse<'a> {
    fn new(inner: &'a dyn TaskSource, outline: &'a Outline, paces: &Paces) -> Self {
        let other = paces.groups.get("").copied().unwrap_or([0.0, 1.0]);
        let of = |name: &str| paces.groups.get(name).copied().unwrap_or(other);
        let mut coarse = Self {
            inner,
            outline,
            paces: inner.tasks().iter().map(|task| of(&task.name)).collect(),
            seed: paces.seed,
            jitter: paces.jitter,
            interrupts: Vec::new(),
            privacy: Privacy::default(),
        };
        let handlers = Outline::handlers_of(inner);
        coarse.interrupts = inner
            .interrupts()
            .iter()
            .zip(handlers)
            .map(|(interrupt, steps)| {
                let task = interrupt.batch.records.first().map_or(0, |record| record.task);
                let (mut batch, mut pacer) = (Batch::default(), coarse.pacer(task));
                steps.steps.iter().for_each(|&step| append(step, &mut pacer, &mut batch));
                Interrupt { requests: interrupt.requests.clone(), batch }
            })
            .collect();
        coarse
    }

    fn pacer(&self, task: TaskId) -> Pacer {
        Pacer {
            task,
            pace: self.paces[task as usize],
            jitter: self.jitter,
            random: RandomStream::new(self.seed, &format!("pace of task {task}")),
            left: (0.0, 0),
        }
    }

    /// Cycles of all tasks for a reference of theirs, which their time slices are counted in.
    fn cycles_per_reference(&self) -> f64 {
        let (mut cycles, mut references) = (0.0, 0.0);
        for (steps, pace) in self.outline.tasks.iter().zip(&self.paces) {
            for step in &steps.steps {
                if let Step::Run(run) = step {
                    cycles += pace[0] * run.references as f64 + pace[1] * run.instructions as f64;
                    references += run.references as f64;
                }
            }
        }
        if references > 0.0 {
            cycles / references
        } else {
            1.0
        }
    }
}

fn append(step: Step, pacer: &mut Pacer, batch: &mut Batch) {
    match step {
        Step::Run(run) => pacer.put(run, batch),
        Step::Event(event) => batch.push_event(pacer.task, event),
    }
}

impl TaskSource for Coarse<'_> {
    fn inner(&self) -> Option<&dyn TaskSource> {
        Some(self.inner)
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn code(&self) -> &[Instruction] {
        &[]
    }

    fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        let steps = &self.outline.tasks[task as usize];
        Ok(Box::new(Cursor { steps, next: 0, pacer: self.pacer(task) }))
    }
}

struct Cursor<'a> {
    steps: &'a Steps,
    next: usize,
    pacer: Pacer,
}

impl TaskCursor for Cursor<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.records.len() < BATCH {
            let Some(&step) = self.steps.steps.get(self.next) else { break };
            self.next += 1;
            append(step, &mut self.pacer, batch);
        }
        Ok(!batch.records.is_empty())
    }
}

/// Runs `outline` of `source` on the machine of `model`, which says what is measured.
///
/// # Errors
/// When the trace is damaged, or the run was stopped.
pub fn run(
    (source, outline): (&dyn TaskSource, &Outline),
    model: &Model,
    paces: &Paces,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<Value, SimulateError> {
    let coarse = Coarse::new(source, outline, paces);
    let model = model.coarse(CYCLES, coarse.cycles_per_reference());
    let replication = timing::run(&coarse, &model, paces.seed, stop, done)?;
    let timing =
        replication.timing.as_ref().ok_or_else(|| SimulateError::Internal("a run without time".into()))?;
    let sum = |of: fn(&crate::result::ProcessorTimes) -> u64| timing.processors.iter().map(of).sum::<u64>();
    let instructions = replication.counters.references[1][Op::Fetch as usize] * COUNTED;
    Ok(json!({
        "seed": paces.seed, "paces": paces.groups, "cycles": timing.cycles, "instructions": instructions,
        "transactions": timing.transaction_ends.len(), "idle": sum(|t| t.idle), "lock_spin": sum(|t| t.lock_spin),
        "trace_exhausted": timing.trace_exhausted, "without_work": crate::settled::judge([timing].into_iter()).without_work,
    }))
}
