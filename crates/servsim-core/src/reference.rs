//! Memory references as the engines consume them: 16 bytes each, in batches.
//!
//! Half of a simulation's memory traffic is reading the trace, so a record is packed: address,
//! task, size, operation, flags and processor. Everything that is not a reference (marks, blocks,
//! wake-ups) is a record of kind [`Op::Event`] whose address indexes the batch's event list; it
//! keeps its place in the order without widening every reference.

use crate::event::Event;
use crate::ids::CpuId;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Instruction fetch.
    Fetch = 0,
    /// Data load.
    Load = 1,
    /// Data store.
    Store = 2,
    /// Not a reference: `address` is an index into [`Batch::events`].
    Event = 3,
}

/// The reference was made in kernel mode.
pub const KERNEL: u8 = 1;
/// The trace states that the page is private to its task.
pub const PRIVATE: u8 = 2;
/// The trace states that the page is shared.
pub const SHARED: u8 = 4;
/// The address lies in the per-processor area of the kernel, as an offset from the area's start:
/// it names the simulated processor's own copy.
pub const PER_CPU: u8 = 8;
/// The instruction that made the reference is atomic.
pub const ATOMIC: u8 = 16;

/// The second part of an access whose pages are not adjacent in physical memory: touched like the
/// rest of it, but not counted and not timed as a reference of its own.
pub const CONTINUATION: u8 = 32;

/// A mispredicted branch leads to the instruction.
pub const MISPREDICTED: u8 = 64;

/// `cpu` of a record that is not bound to a processor.
pub const ANY_CPU: u8 = u8::MAX;

/// The `address` of an event that is in no list: the task runs on the processor from here on. Who is given a part of the references
/// is told of switches to tasks whose references it does not see.
pub const SWITCH: u64 = u64::MAX;

/// Where [`Record::rest`] holds the size.
pub const SIZE_SHIFT: u32 = 0;
/// Where [`Record::rest`] holds the processor.
pub const CPU_SHIFT: u32 = 8;
/// Where [`Record::rest`] holds the operation.
pub const OP_SHIFT: u32 = 16;
/// Where [`Record::rest`] holds the flags.
pub const FLAGS_SHIFT: u32 = 24;
/// Where [`Record::rest`] holds the task.
pub const TASK_SHIFT: u32 = 32;

/// One memory reference, or the place of an event in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Physical byte address (the sharing key), or event index.
    pub address: u64,
    /// Size in bytes, at least 1.
    pub size: u8,
    /// In the order of a whole trace: the processor that the trace binds the reference to, or
    /// [`ANY_CPU`]. In the stream of one task and where a source joins fetches, so that nothing is bound to
    /// a processor: how many consecutive fetches within one line the record stands for, at least 1; of others 1.
    pub cpu: u8,
    /// What it is.
    pub op: Op,
    /// Union of [`KERNEL`], [`PRIVATE`], [`SHARED`], [`PER_CPU`], [`ATOMIC`].
    pub flags: u8,
    /// The task, as an index into the source's task table.
    pub task: u32,
}

impl Record {
    /// A reference of user mode, not bound to a processor.
    pub fn new(task: u32, op: Op, address: u64, size: u8) -> Self {
        Self { address, task, size, op, flags: 0, cpu: ANY_CPU }
    }

    /// Everything but the address as one number: the size, the processor, the operation, the flags and the task from the
    /// lowest bits up, in as many bytes as their fields have. So records that differ in their sizes alone differ by less
    /// than 256, and their difference is the size that one of them has and the other lacks.
    #[inline]
    pub fn rest(&self) -> u64 {
        // SAFETY: the fields fill the sixteen bytes of a record, and a number may have any bits.
        let [_, rest] = unsafe { std::mem::transmute::<Self, [u64; 2]>(*self) };
        if cfg!(target_endian = "little") {
            rest
        } else {
            rest.swap_bytes() & u64::from(u32::MAX) | u64::from(self.task) << TASK_SHIFT
        }
    }

    /// The record with this address, and this rest as [`Record::rest`] gives it; of the operation the lowest two bits count.
    #[inline]
    pub fn of_words(address: u64, rest: u64) -> Self {
        let mut rest = rest & !(0xFC << OP_SHIFT);
        if !cfg!(target_endian = "little") {
            rest = rest.swap_bytes() & u64::from(u32::MAX) | rest << 32;
        }
        // SAFETY: the fields fill the sixteen bytes of a record, and each may have any bits: the operation has two.
        unsafe { std::mem::transmute::<[u64; 2], Self>([address, rest]) }
    }

    /// Whether the reference was made in kernel mode.
    #[inline]
    pub fn is_kernel(&self) -> bool {
        self.flags & KERNEL != 0
    }
}

/// Beyond any physical address: where the processors' own areas begin.
const PER_CPU_BASE: u64 = 1 << 60;
/// log2 of the distance between two processors' areas.
const PER_CPU_SHIFT: u32 = 40;

/// The address of `record` when processor `cpu` makes it: references to the kernel's per-processor
/// area go to that processor's own copy.
#[inline]
pub fn address_on(record: &Record, cpu: CpuId) -> u64 {
    if record.flags & PER_CPU == 0 {
        record.address
    } else {
        own_area(cpu) | record.address
    }
}

/// What [`address_on`] adds to addresses in the area of processor `cpu`: they have none of its bits.
#[inline]
pub fn own_area(cpu: CpuId) -> u64 {
    PER_CPU_BASE | (cpu.0 as u64) << PER_CPU_SHIFT
}

/// The offset in the per-processor area that an address made by [`address_on`] stands for.
pub fn per_cpu_offset(address: u64) -> Option<u64> {
    (address >= PER_CPU_BASE).then_some(address & ((1 << PER_CPU_SHIFT) - 1))
}

/// A run of consecutive records with the events they name.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Records in order.
    pub records: Vec<Record>,
    /// Events that records of kind [`Op::Event`] point to.
    pub events: Vec<Event>,
    /// For each record, where its first instruction lies in the source's list of instructions; those of
    /// a run of fetches follow one another. Records beyond its end have [`crate::code::UNKNOWN_CODE`],
    /// so it is empty where the source does not know the code.
    pub code: Vec<u32>,
    /// The virtual page of each record's first byte (0 for events); empty unless it was asked for.
    pub pages: Vec<u64>,
    /// In the order of a whole trace: the references that it stands for beyond one for each record, where the source joins
    /// fetches or leaves out what is of other shards.
    pub beyond: u64,
}

impl Batch {
    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.events.clear();
        self.code.clear();
        self.pages.clear();
        self.beyond = 0;
    }

    /// Becomes the same as `other`, keeping its memory.
    pub fn copy_from(&mut self, other: &Self) {
        let Self { records, events, code, pages, beyond } = self;
        records.clone_from(&other.records);
        events.clone_from(&other.events);
        code.clone_from(&other.code);
        pages.clone_from(&other.pages);
        *beyond = other.beyond;
    }

    /// Records, and the references that the batch stands for beyond one each.
    pub fn len_apart(&self) -> u64 {
        self.records.len() as u64 + self.beyond
    }

    /// Appends an event of `task`.
    pub fn push_event(&mut self, task: u32, event: Event) {
        let mut record = Record::new(task, Op::Event, self.events.len() as u64, 1);
        record.cpu = 1;
        self.events.push(event);
        self.records.push(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_record_holds_its_fields_where_it_says() {
        let record = Record { flags: KERNEL | ATOMIC, cpu: 9, ..Record::new(77, Op::Store, 5, 200) };
        let field = |shift: u32, bits: u32| record.rest() >> shift & ((1 << bits) - 1);
        assert_eq!((field(TASK_SHIFT, 32), field(SIZE_SHIFT, 8)), (77, 200));
        assert_eq!((field(OP_SHIFT, 8), field(FLAGS_SHIFT, 8), field(CPU_SHIFT, 8)), (2, 17, 9));
        assert_eq!(Record::of_words(record.address, record.rest()), record);
        assert_eq!(Record::of_words(record.address, record.rest() | 0xFC << OP_SHIFT), record);
    }
}
