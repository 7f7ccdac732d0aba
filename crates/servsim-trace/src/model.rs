//! The nouns of a trace: tasks, block shapes, references, segments, counts.

use crate::predict::Slot;
use serde::{Deserialize, Serialize};

/// Index of a task in the trace's task table.
pub type TaskId = u32;
/// Index of a block shape in the trace's dictionary.
pub type ShapeId = u32;

/// Bytes of a guest page.
pub const PAGE_BYTES: u64 = 4096;

/// One instruction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Insn {
    /// Length in bytes.
    pub len: u8,
    /// Reads and writes memory indivisibly (`lock` prefix or `xchg` with memory).
    pub atomic: bool,
}

/// One memory access that a block makes each time it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemOp {
    /// Index of the instruction that makes it.
    pub insn: u16,
    /// Bytes accessed.
    pub size: u8,
    /// A store; otherwise a load.
    pub store: bool,
    /// Which predicted base value the address is relative to.
    pub slot: Slot,
    /// Constant part of the address relative to that base, in bytes.
    pub disp: i64,
}

/// A straight run of instructions together with the exact accesses it makes.
///
/// The same code that ran differently (cut short by a fault, a conditional access) is another
/// shape, so that a shape always means the same references up to their addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Virtual address of the first instruction.
    pub vaddr: u64,
    /// Guest-physical address of the first instruction.
    pub paddr: u64,
    /// Guest-physical address of the byte after the first page boundary, when the block crosses one.
    pub next_page: Option<u64>,
    /// Instructions in order.
    pub insns: Box<[Insn]>,
    /// Machine code of the instructions.
    pub code: Box<[u8]>,
    /// Accesses in program order.
    pub ops: Box<[MemOp]>,
    /// What the block as a whole adds to the stack pointer, in bytes, where that is known.
    pub stack_step: i64,
}

impl Shape {
    /// Whether the block ran in kernel mode (x86-64: the upper half of the address space).
    pub fn is_kernel(&self) -> bool {
        self.vaddr >> 63 == 1
    }

    /// Guest-physical address of the byte at `offset` from the start of the block.
    pub fn physical(&self, offset: u64) -> u64 {
        let to_boundary = PAGE_BYTES - self.vaddr % PAGE_BYTES;
        match self.next_page {
            Some(next) if offset >= to_boundary => next + (offset - to_boundary),
            _ => self.paddr + offset,
        }
    }
}

/// The addresses of one access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ref {
    /// Virtual address.
    pub vaddr: u64,
    /// Guest-physical address of the first byte.
    pub paddr: u64,
    /// Guest-physical address of the first byte of the second page, when the access crosses into
    /// one; zero otherwise.
    pub next_page: u64,
}

/// What kind of stream a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A process or thread with an address space of its own.
    User,
    /// A kernel thread.
    Kernel,
    /// Interrupt handlers: one stream of episodes, whatever task they interrupted.
    Interrupt,
    /// The idle task. Its loop is not recorded.
    Idle,
}

/// One task (process or thread), or one of the two pseudo-tasks for interrupts and idling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Process identifier of the thread (Linux `pid`).
    pub pid: u32,
    /// Identifier of the process (Linux `tgid`).
    pub tgid: u32,
    /// Name (Linux `comm`).
    pub name: String,
    /// Kind of stream.
    pub kind: TaskKind,
    /// Belongs to the load generator, which statistics exclude.
    pub client: bool,
}

/// A run of consecutive items of one task in the captured order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Whose items.
    pub task: TaskId,
    /// How many items (blocks and events) of its stream.
    pub items: u64,
}

/// Instructions and data references, by mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions executed in user mode.
    pub user_instructions: u64,
    /// Instructions executed in kernel mode.
    pub kernel_instructions: u64,
    /// Loads in user mode.
    pub user_loads: u64,
    /// Stores in user mode.
    pub user_stores: u64,
    /// Loads in kernel mode.
    pub kernel_loads: u64,
    /// Stores in kernel mode.
    pub kernel_stores: u64,
}

impl Counts {
    /// Every field, in the order in which the format stores them.
    pub fn to_array(self) -> [u64; 6] {
        [
            self.user_instructions,
            self.kernel_instructions,
            self.user_loads,
            self.user_stores,
            self.kernel_loads,
            self.kernel_stores,
        ]
    }

    /// The inverse of [`Counts::to_array`].
    pub fn from_array(a: [u64; 6]) -> Self {
        Counts {
            user_instructions: a[0],
            kernel_instructions: a[1],
            user_loads: a[2],
            user_stores: a[3],
            kernel_loads: a[4],
            kernel_stores: a[5],
        }
    }

    /// Instructions in either mode.
    pub fn instructions(&self) -> u64 {
        self.user_instructions + self.kernel_instructions
    }

    /// Loads and stores in either mode.
    pub fn data_references(&self) -> u64 {
        self.user_loads + self.user_stores + self.kernel_loads + self.kernel_stores
    }

    /// Adds one execution of `shape`.
    #[inline]
    pub fn add_block(&mut self, kernel: bool, instructions: u64, loads: u64, stores: u64) {
        if kernel {
            self.kernel_instructions += instructions;
            self.kernel_loads += loads;
            self.kernel_stores += stores;
        } else {
            self.user_instructions += instructions;
            self.user_loads += loads;
            self.user_stores += stores;
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        let (mut a, b) = (self.to_array(), other.to_array());
        for (x, y) in a.iter_mut().zip(b) {
            *x += y;
        }
        *self = Counts::from_array(a);
    }
}

/// What is known about the trace as a whole, fixed when it is begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Meta {
    /// Name of the workload.
    pub workload: String,
    /// How it was captured: emulator, guest, driver, seeds. Free-form, printed by `trace info`.
    pub provenance: serde_json::Value,
    /// First virtual address and length in bytes of the captured processor's per-CPU area, which
    /// a simulator relocates to each simulated processor; zero length when there is none.
    pub per_cpu_area: (u64, u64),
    /// Names of the transaction kinds, indexed by the `txtype` of a mark.
    pub transaction_kinds: Vec<String>,
    /// Names of the block devices, indexed by the device number in disk events.
    pub devices: Vec<String>,
    /// The guest kernel's symbols of data, as lines `ADDRESS TYPE NAME` of `/proc/kallsyms`; empty
    /// in traces made before they were kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel_symbols: String,
    /// What lies in memory that processes or threads share: a first line `program NAME` (all processes of
    /// that name) or `process NUMBER`, then lines `ADDRESS SIZE NAME` (hexadecimal virtual address and
    /// bytes), ascending; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shared_data: String,
    /// Where files lie on the block devices: lines `DEVICE SECTOR SECTORS FILE [RELATION]` (name of the
    /// device, sectors of 512 bytes, the database relation that the file holds); empty where it is not
    /// known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub files: String,
    /// Why a trace from which this one was cut, sampled or merged was not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<String>,
}
