//! The guest's tasks as the capture sees them: which stream each has, and whether it is blocked.

use crate::facts::Facts;
use crate::guest::Guest;
use servsim_trace::{TaskId, TaskInfo, TaskKind, TraceWriter};
use std::collections::HashMap;

/// Linux `TASK_COMM_LEN` (`include/linux/sched.h`).
const COMM_BYTES: usize = 16;

/// Offsets of the members of `task_struct` that are read.
#[derive(Debug, Clone, Copy)]
struct Members {
    state: u64,
    pid: u64,
    tgid: u64,
    comm: u64,
    mm: u64,
}

/// What is known of one task.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: TaskId,
    /// The number of the block it is in, if it is blocked.
    blocked: Option<u64>,
    /// How many times it has blocked; number zero is a block from before the trace.
    blocks: u64,
}

/// All tasks met so far, by the address of their `task_struct`.
pub struct Tasks {
    members: Members,
    /// The process of the load generator, once one of its threads has executed a mark.
    client: Option<u32>,
    known: HashMap<u64, Known>,
}

impl Tasks {
    /// No task yet.
    pub fn new(facts: &Facts) -> Result<Self, String> {
        let member = |name: &str| facts.offset(&format!("task_struct.{name}"));
        let members = Members {
            state: member("__state")?,
            pid: member("pid")?,
            tgid: member("tgid")?,
            comm: member("comm")?,
            mm: member("mm")?,
        };
        Ok(Tasks { members, client: None, known: HashMap::new() })
    }

    /// Linux task state: 0 when runnable.
    pub fn state(&self, guest: &mut Guest, task: u64) -> u32 {
        guest.read(task + self.members.state, 4) as u32
    }

    /// The stream of the task at address `task`, entered in the table when it is new.
    pub fn id(&mut self, guest: &mut Guest, writer: &mut TraceWriter, task: u64) -> TaskId {
        if let Some(known) = self.known.get(&task) {
            return known.id;
        }
        let id = writer.add_task(self.info(guest, task));
        // Until it is seen running, a task counts as blocked since before the trace.
        self.known.insert(task, Known { id, blocked: Some(0), blocks: 0 });
        id
    }

    fn info(&self, guest: &mut Guest, task: u64) -> TaskInfo {
        let pid = guest.read(task + self.members.pid, 4) as u32;
        let kind = match (pid, guest.read(task + self.members.mm, 8)) {
            (0, _) => TaskKind::Idle,
            (_, 0) => TaskKind::Kernel,
            _ => TaskKind::User,
        };
        let tgid = guest.read(task + self.members.tgid, 4) as u32;
        TaskInfo { pid, tgid, name: self.name(guest, task), kind, client: self.client == Some(tgid) }
    }

    /// Stream `task` executed a mark: it and every other thread of its process, known or yet to
    /// appear, belong to the client, unless the process names itself as the server.
    pub fn marked(&mut self, writer: &mut TraceWriter, task: TaskId, server: u32) {
        let process = writer.tasks()[task as usize].tgid;
        if writer.tasks()[task as usize].client || process == server {
            return;
        }
        self.client = Some(process);
        for other in 0..writer.tasks().len() as TaskId {
            if writer.tasks()[other as usize].tgid == process {
                writer.update_task(other, |task| task.client = true);
            }
        }
    }

    /// Linux `comm`.
    pub fn name(&self, guest: &mut Guest, task: u64) -> String {
        guest.read_text(task + self.members.comm, COMM_BYTES)
    }

    /// A new task has come to this address: whatever was known of its predecessor is void.
    pub fn created(&mut self, guest: &mut Guest, writer: &mut TraceWriter, task: u64) -> TaskId {
        self.known.remove(&task);
        let id = self.id(guest, writer, task);
        self.running(task);
        id
    }

    /// The task has the processor, or waits for it: it is not blocked.
    pub fn running(&mut self, task: u64) {
        if let Some(known) = self.known.get_mut(&task) {
            known.blocked = None;
        }
    }

    /// The task begins to wait; returns the number of this block.
    pub fn block(&mut self, task: u64) -> u64 {
        let Some(known) = self.known.get_mut(&task) else { return 0 };
        known.blocks += 1;
        known.blocked = Some(known.blocks);
        known.blocks
    }

    /// Somebody wakes the task; returns the number of the block this ends, if it was blocked.
    pub fn wake(&mut self, task: u64) -> Option<u64> {
        self.known.get_mut(&task)?.blocked.take()
    }
}
