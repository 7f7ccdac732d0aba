//! What to say when no task can go on although some have not finished.

use servsim_core::{TaskInfo, WakeId};

/// Tasks named in the message.
const NAMED: usize = 5;

/// One sentence that names the first few waiting tasks.
pub fn message(now: u64, waiting: &[(u32, WakeId)], tasks: &[TaskInfo]) -> String {
    let name = |&(task, wake): &(u32, WakeId)| {
        let info = &tasks[task as usize];
        format!("{} (pid {}) for wake-up {wake:#x}", info.name, info.pid)
    };
    let first: Vec<String> = waiting.iter().take(NAMED).map(name).collect();
    let more = waiting.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "dead-lock at cycle {now}: no task can run; waiting are {}{rest}; \
         the trace or the simulator lost a wake-up",
        first.join(", ")
    )
}
