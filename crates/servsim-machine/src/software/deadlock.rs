//! What to say when no task can go on although some have not finished: whether the trace never ends a wait, or the
//! simulator lost the wake-up that does.

use crate::error::SimulateError;
use servsim_core::{Event, TaskSource, WakeId};

/// Tasks named in the message.
const NAMED: usize = 5;

/// The error for a run of `source` in which only `waiting` tasks are left.
pub fn error(now: u64, waiting: &[(u32, WakeId)], source: &dyn TaskSource) -> SimulateError {
    let never: Vec<_> = waiting.iter().copied().filter(|&(_, wake)| !is_delivered(wake, source)).collect();
    if never.is_empty() {
        let tasks = names(waiting, source);
        return SimulateError::Internal(format!(
            "dead-lock at cycle {now}: no task can run; waiting are {tasks}; the simulator lost a wake-up"
        ));
    }
    let tasks = names(&never, source);
    SimulateError::Usage(format!(
        "the trace never wakes {tasks}, so the run cannot end: capture it again, or, if `servsim trace check` finds \
         nothing wrong with it, report this"
    ))
}

/// Whether a task or an interrupt handler of the trace causes `wake`.
fn is_delivered(wake: WakeId, source: &dyn TaskSource) -> bool {
    let by_handler = |event: &Event| *event == Event::Wake { wake };
    source.waker(wake).is_some()
        || source.interrupts().iter().any(|handler| handler.batch.events.iter().any(by_handler))
}

/// The first few of these tasks, with what they wait for.
fn names(waiting: &[(u32, WakeId)], source: &dyn TaskSource) -> String {
    let name = |&(task, wake): &(u32, WakeId)| {
        let info = &source.tasks()[task as usize];
        format!("{} (pid {}) from wait {wake:#x}", info.name, info.pid)
    };
    let first: Vec<String> = waiting.iter().take(NAMED).map(name).collect();
    let more = waiting.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}
