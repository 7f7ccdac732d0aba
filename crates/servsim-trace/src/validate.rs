//! What a trace may claim: the rules that its tables and events must keep, each checked in one place.
//!
//! A checksum says that a file is as it was written, not that what was written makes sense. Engines rely on
//! the rules below without looking again: numbers name things that exist, positions and times have room
//! for arithmetic, and whatever a task waits for happens before it goes on. Tables are checked when a trace
//! is opened, blocks and events by the first walk over it ([`crate::GlobalCursor::new`]), everything at
//! once by [`crate::check()`].
//!
//! Not checked, since no engine relies on it and genuine captures lack it at their edges: that every lock is
//! given up, every request completed, every block woken.

use crate::dictionary::Dictionary;
use crate::error::Fault;
use crate::event::{Event, EventKind, MarkKind, SwitchReason};
use crate::model::{Counts, Meta, Shape, ShapeId, TaskId, TaskInfo, TaskKind};
use crate::writer::WriterTotals;
use std::collections::{HashMap, HashSet};

/// Guest time ends here, in nanoseconds: 104 days, and room to count cycles of any clock in 64 bits.
pub const MAX_TIME_NS: u64 = 1 << 53;
/// Sectors of 512 bytes of the largest device: its last byte has a 64-bit position.
pub const MAX_SECTOR: u64 = 1 << 55;
/// Numbers of blocks end here; engines pack them with the task into one 64-bit number.
pub const MAX_BLOCK: u64 = 0xFFFF_FFFE;
/// Physical addresses end here (Intel SDM volume 3, section 4.1.4: at most 52 bits).
const MAX_PHYSICAL: u64 = 1 << 52;
/// More tasks than this is not a trace: Linux numbers at most 2^22 of them.
const MAX_TASKS: usize = 1 << 22;
/// Numbers of transaction kinds have seven bits.
const MAX_TRANSACTION_KINDS: usize = 128;
/// Devices are counted in 16 bits by whoever models them.
const MAX_DEVICES: usize = 1 << 16;
/// The largest per-CPU area: engines put the areas of all processors side by side.
const MAX_PER_CPU_BYTES: u64 = 1 << 32;

fn fault<T>(what: String) -> Result<T, Fault> {
    Err(Fault(what))
}

/// Checks what a trace says of itself as a whole.
pub fn meta(meta: &Meta) -> Result<(), Fault> {
    let (start, length) = meta.per_cpu_area;
    if length > MAX_PER_CPU_BYTES || start.checked_add(length).is_none() {
        return fault(format!(
            "the per-CPU area of {length} bytes at {start:#x} is larger than any kernel's"
        ));
    }
    if meta.transaction_kinds.len() > MAX_TRANSACTION_KINDS {
        return fault(format!("{} transaction kinds, at most 128 exist", meta.transaction_kinds.len()));
    }
    if meta.devices.len() > MAX_DEVICES {
        return fault(format!("{} block devices, at most {MAX_DEVICES} exist", meta.devices.len()));
    }
    Ok(())
}

/// Checks a task table.
pub fn tasks(tasks: &[TaskInfo]) -> Result<(), Fault> {
    if tasks.len() > MAX_TASKS {
        return fault(format!("{} tasks, Linux has at most {MAX_TASKS}", tasks.len()));
    }
    let handlers = tasks.iter().filter(|task| task.kind == TaskKind::Interrupt).count();
    if handlers > 1 {
        return fault(format!(
            "{handlers} tasks stand for the interrupt handlers, which are one (a trace merged by an old servsim: \
             merge again)"
        ));
    }
    Ok(())
}

/// Checks a block shape.
pub fn shape(shape: &Shape) -> Result<(), Fault> {
    let bytes: u64 = shape.insns.iter().map(|insn| u64::from(insn.len)).sum();
    let bytes = bytes.max(shape.code.len() as u64);
    if shape.vaddr.checked_add(bytes).is_none() {
        return fault(format!("a block at {:#x} runs past the end of the address space", shape.vaddr));
    }
    for page in std::iter::once(shape.paddr).chain(shape.next_page) {
        if page.checked_add(bytes).is_none_or(|end| end > MAX_PHYSICAL) {
            return fault(format!("a block at the physical address {page:#x}, beyond 52 bits"));
        }
    }
    Ok(())
}

/// How far a task has come with its waits.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    /// The last block that began.
    last: Option<u64>,
    /// The task has run since that block began.
    resumed: bool,
}

/// Follows a walk over a trace in captured order and checks every step.
#[derive(Debug)]
pub struct Validator {
    kinds: Vec<TaskKind>,
    devices: usize,
    transaction_kinds: usize,
    /// Blocks and accesses so far.
    pub counts: Counts,
    /// Transactions ended so far.
    pub transactions: u64,
    waits: Vec<Waits>,
    now_ns: u64,
    /// Requests submitted, and whether they are complete.
    requests: HashMap<u64, bool>,
    /// Requests completed that were under way when the trace began.
    earlier_requests: HashSet<u64>,
    in_episode: bool,
}

impl Validator {
    /// At the beginning of a trace with these tables.
    pub fn new(meta: &Meta, tasks: &[TaskInfo]) -> Self {
        Validator {
            kinds: tasks.iter().map(|task| task.kind).collect(),
            devices: meta.devices.len(),
            transaction_kinds: meta.transaction_kinds.len(),
            counts: Counts::default(),
            transactions: 0,
            waits: vec![Waits::default(); tasks.len()],
            now_ns: 0,
            requests: HashMap::new(),
            earlier_requests: HashSet::new(),
            in_episode: false,
        }
    }

    /// Checks and counts one execution of `shape` by `task`.
    #[inline]
    pub fn block(&mut self, task: TaskId, dictionary: &Dictionary, shape: ShapeId) -> Result<(), Fault> {
        dictionary.count(shape, &mut self.counts);
        self.step(task)
    }

    /// Checks that `task` may go on now.
    #[inline]
    fn step(&mut self, task: TaskId) -> Result<(), Fault> {
        self.waits[task as usize].resumed = true;
        if self.in_episode && self.kinds[task as usize] != TaskKind::Interrupt {
            self.in_episode = false;
            return fault(format!("task {task} goes on within an interrupt handler's run"));
        }
        Ok(())
    }

    /// Compares what was counted with what the writer stated.
    pub fn compare(&self, stated: &WriterTotals) -> Result<(), Fault> {
        if stated.counts != self.counts {
            return fault(format!(
                "the streams hold {:?}, the footer states {:?}",
                self.counts, stated.counts
            ));
        }
        if stated.transactions != self.transactions {
            let (found, stated) = (self.transactions, stated.transactions);
            return fault(format!("the streams hold {found} transactions, the footer states {stated}"));
        }
        Ok(())
    }

    /// Checks an event of `task`.
    pub fn event(&mut self, task: TaskId, event: &Event) -> Result<(), Fault> {
        self.step(task)?;
        let before = self.now_ns;
        self.now_ns = before.max(event.time_ns);
        if event.time_ns > MAX_TIME_NS {
            return fault(format!(
                "an event of task {task} happens after {} ns, 104 days at most",
                event.time_ns
            ));
        }
        if event.time_ns < before {
            return fault(format!("time goes back from {before} ns to {} ns in task {task}", event.time_ns));
        }
        match event.kind {
            EventKind::SwitchOut(SwitchReason::Blocked { block, .. }) => self.wait(task, block),
            EventKind::Wake { task: woken, block } => self.wake(task, woken, block),
            EventKind::Create { task: created } => self.schedulable(created, "creates").map(drop),
            EventKind::InterruptBegin { interrupted, .. } => self.begin_episode(task, interrupted),
            EventKind::InterruptEnd => self.end_episode(task),
            EventKind::IoSubmit { request, device, sector, bytes, .. } => {
                self.submit(request, device, sector, bytes)
            }
            EventKind::IoComplete { request } => self.complete(request),
            EventKind::Mark { kind: MarkKind::TransactionEnd, transaction, .. } => {
                self.transactions += 1;
                let kind = usize::from(transaction & 0x7f);
                if kind >= self.transaction_kinds.max(1) && self.transaction_kinds > 0 {
                    return fault(format!(
                        "transaction kind {kind}, the trace names {}",
                        self.transaction_kinds
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn wait(&mut self, task: TaskId, block: u64) -> Result<(), Fault> {
        if block > MAX_BLOCK {
            return fault(format!(
                "task {task} blocks for the {block}th time, at most {MAX_BLOCK} are counted"
            ));
        }
        let waits = &mut self.waits[task as usize];
        let before = waits.last.replace(block);
        waits.resumed = false;
        match before.filter(|before| *before >= block) {
            Some(before) => fault(format!("block {block} of task {task} comes after its block {before}")),
            None => Ok(()),
        }
    }

    fn wake(&mut self, waker: TaskId, woken: TaskId, block: u64) -> Result<(), Fault> {
        let waits = self.schedulable(woken, "wakes")?;
        if waits.last.is_some_and(|last| block < last || block == last && waits.resumed) {
            return fault(format!(
                "task {waker} ends block {block} of task {woken}, which has gone on already"
            ));
        }
        if block > MAX_BLOCK {
            return fault(format!(
                "task {waker} ends block {block} of task {woken}, at most {MAX_BLOCK} exist"
            ));
        }
        Ok(())
    }

    /// The waits of a task that a scheduler runs.
    fn schedulable(&self, task: TaskId, what: &str) -> Result<Waits, Fault> {
        match self.kinds.get(task as usize) {
            None => fault(format!("an event {what} task {task}; there are {} tasks", self.kinds.len())),
            Some(TaskKind::Interrupt) => {
                fault(format!("an event {what} task {task}, the interrupt handlers"))
            }
            Some(_) => Ok(self.waits[task as usize]),
        }
    }

    fn begin_episode(&mut self, task: TaskId, interrupted: TaskId) -> Result<(), Fault> {
        if self.kinds[task as usize] != TaskKind::Interrupt {
            return fault(format!("task {task}, not the interrupt handlers, begins an interrupt"));
        }
        if self.kinds.get(interrupted as usize).is_none_or(|kind| *kind == TaskKind::Interrupt) {
            return fault(format!("an interrupt interrupts task {interrupted}, which is no task that runs"));
        }
        if std::mem::replace(&mut self.in_episode, true) {
            return fault("an interrupt handler's run begins within another".to_owned());
        }
        Ok(())
    }

    fn end_episode(&mut self, task: TaskId) -> Result<(), Fault> {
        if self.kinds[task as usize] != TaskKind::Interrupt {
            return fault(format!("task {task}, not the interrupt handlers, ends an interrupt"));
        }
        self.in_episode = false;
        Ok(())
    }

    fn submit(&mut self, request: u64, device: u32, sector: u64, bytes: u32) -> Result<(), Fault> {
        if device as usize >= self.devices {
            return fault(format!("disk request {request} goes to device {device} of {}", self.devices));
        }
        if sector.checked_add(u64::from(bytes).div_ceil(512)).is_none_or(|end| end > MAX_SECTOR) {
            return fault(format!("disk request {request} at sector {sector} is beyond any device"));
        }
        if self.earlier_requests.contains(&request) {
            return fault(format!("disk request {request} is complete before it is submitted"));
        }
        if self.requests.insert(request, false).is_some() {
            return fault(format!("disk request {request} is submitted twice"));
        }
        Ok(())
    }

    fn complete(&mut self, request: u64) -> Result<(), Fault> {
        let again = match self.requests.get_mut(&request) {
            Some(complete) => std::mem::replace(complete, true),
            None => !self.earlier_requests.insert(request),
        };
        if again {
            return fault(format!("disk request {request} is complete twice"));
        }
        Ok(())
    }
}
