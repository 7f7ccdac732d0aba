//! What to say when no task can go on although some have not finished: whether the trace never ends a wait, or the
//! simulator lost the wake-up that does.

use super::Software;
use crate::error::SimulateError;
use servsim_core::{Batch, Event, Op, SourceError, TaskId, TaskSource, WakeId};

/// Tasks named in the message.
const NAMED: usize = 5;

/// Why a wait does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Its wake-up was caused, and did not arrive.
    Lost,
    /// Nothing in the trace causes its wake-up.
    Never,
    /// Its wake-up has ended a wait of the task before.
    Again,
    /// The task that causes its wake-up waits itself.
    Behind,
}

/// The error for a run in which only tasks are left that wait.
pub fn error(now: u64, software: &Software<'_>) -> SimulateError {
    let mut waits = Vec::new();
    for (task, wake) in software.wakeups.waiting() {
        match cause(task, wake, software) {
            Ok(cause) => waits.push((task, wake, cause)),
            Err(error) => return error.into(),
        }
    }
    let of = |wanted: Cause| {
        let found: Vec<_> = waits.iter().filter(|(_, _, cause)| *cause == wanted).collect();
        let tasks = names(found.iter().map(|(task, wake, _)| (*task, *wake)), software.source);
        (!found.is_empty()).then_some(tasks)
    };
    if let Some(tasks) = of(Cause::Lost) {
        return SimulateError::Internal(format!(
            "deadlock at cycle {now}: no task can run, and the simulator lost the wake-up of {tasks}"
        ));
    }
    let what = if let Some(tasks) = of(Cause::Never) {
        format!("the trace never wakes {tasks}")
    } else if let Some(tasks) = of(Cause::Again) {
        format!("the trace has tasks wait twice for a wake-up that comes once: {tasks}")
    } else {
        format!("the trace has tasks wait for one another: {}", of(Cause::Behind).unwrap_or_default())
    };
    SimulateError::Usage(format!(
        "{what}; so the run cannot end: capture it again, or, if `servsim trace check` finds nothing wrong with it, \
         report this"
    ))
}

/// Why `task` still waits for `wake`.
fn cause(task: TaskId, wake: WakeId, software: &Software<'_>) -> Result<Cause, SourceError> {
    let caused = |event: &Event| *event == Event::Wake { wake };
    let handler = software.interrupts.iter().position(|handler| handler.batch.events.iter().any(caused));
    let came = match (software.source.waker(wake), handler) {
        (Some(waker), _) => passed(waker, software, caused)? > 0,
        // Handlers whose requests never come have been run for want of anything else.
        (None, Some(_)) => true,
        (None, None) => return Ok(Cause::Never),
    };
    let waits = |event: &Event| match event {
        Event::Block { wake: Some(other) } | Event::LockWait { wake: other, .. } => *other == wake,
        _ => false,
    };
    Ok(match came {
        false => Cause::Behind,
        true if passed(task, software, waits)? > 1 => Cause::Again,
        true => Cause::Lost,
    })
}

/// How many such events the stream of `task` has behind it.
fn passed(
    task: TaskId,
    software: &Software<'_>,
    such: impl Fn(&Event) -> bool,
) -> Result<usize, SourceError> {
    let mut left = software.streams[task as usize].done();
    let (mut cursor, mut batch, mut found) = (software.source.open(task)?, Batch::default(), 0);
    while left > 0 && cursor.next_batch(&mut batch)? {
        let records = batch.records.iter().take(usize::try_from(left).unwrap_or(usize::MAX));
        let events = records.filter(|record| record.op == Op::Event);
        found += events.filter(|record| such(&batch.events[record.address as usize])).count();
        left = left.saturating_sub(batch.records.len() as u64);
    }
    Ok(found)
}

/// The first few of these tasks, with what they wait for.
fn names(waits: impl ExactSizeIterator<Item = (TaskId, WakeId)>, source: &dyn TaskSource) -> String {
    let more = waits.len().saturating_sub(NAMED);
    let name = |(task, wake): (TaskId, WakeId)| {
        let info = &source.tasks()[task as usize];
        format!("{} (pid {}) from wait {wake:#x}", info.name, info.pid)
    };
    let first: Vec<String> = waits.take(NAMED).map(name).collect();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}
