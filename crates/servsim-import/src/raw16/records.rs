//! Records of a raw16 file: their fields, and how they are decoded and checked in as few host instructions as can be.

// The loops over records are one function each.
#![allow(clippy::inline_always)]

use servsim_core::reference::{CPU_SHIFT, FLAGS_SHIFT, KERNEL, OP_SHIFT, SIZE_SHIFT, TASK_SHIFT};
use servsim_core::{Op, Record};

/// Bytes per record.
pub const RECORD: usize = 16;

/// Has `decode` make every one of `records` of the bytes of one.
#[inline(always)]
pub(super) fn for_each_record(
    bytes: &[u8],
    records: &mut Vec<Record>,
    mut decode: impl FnMut(&[u8; RECORD]) -> Record,
) {
    let (bytes, _) = bytes.as_chunks();
    records.resize(bytes.len(), Record::new(0, Op::Load, 0, 1));
    records.iter_mut().zip(bytes).for_each(|(record, bytes)| *record = decode(bytes));
}

/// In [`KINDS`]: no type has this number.
const NO_KIND: u32 = 0x80 << FLAGS_SHIFT;

/// By type: operation and flags in their places in the lower half of [`Record::rest`].
static KINDS: [u32; 256] = {
    let mut kinds = [NO_KIND; 256];
    let mut kernel = 0;
    while kernel < 2 {
        let flags = (kernel as u32 * KERNEL as u32) << FLAGS_SHIFT;
        kinds[kernel << 7] = flags | (Op::Load as u32) << OP_SHIFT;
        kinds[kernel << 7 | 1] = flags | (Op::Store as u32) << OP_SHIFT;
        kinds[kernel << 7 | 2] = flags | (Op::Fetch as u32) << OP_SHIFT;
        kernel += 1;
    }
    kinds
};

/// A record's fields, from the first byte on.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    address: u64,
    kind: u8,
    size: u8,
    reserved: u16,
    cpu: u16,
    pub pid: u16,
}

impl Fields {
    #[inline(always)]
    pub(super) fn of(r: &[u8; RECORD]) -> Self {
        let who = u32::from_le_bytes([r[12], r[13], r[14], r[15]]);
        Self {
            address: u64::from_le_bytes([r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]]),
            kind: r[8],
            size: r[9],
            reserved: u16::from_le_bytes([r[10], r[11]]),
            cpu: who as u16,
            pid: (who >> 16) as u16,
        }
    }

    /// The lower half of [`Record::rest`]; with [`NO_KIND`], if there is no such type.
    #[inline(always)]
    pub(super) fn lower(self) -> u32 {
        KINDS[usize::from(self.kind)] | u32::from(self.size) << SIZE_SHIFT | u32::from(self.cpu) << CPU_SHIFT
    }

    /// The record, whose process is task `task`.
    #[inline(always)]
    pub(super) fn record(self, lower: u32, task: u32) -> Record {
        Record::of_words(self.address, u64::from(lower) | u64::from(task) << TASK_SHIFT)
    }
}

/// What a chunk has that is to be looked at: faults, and processes without a number. Kept with as few instructions a
/// record as can be; so an access near the end of the address space is noted too, though it may be none.
#[derive(Clone, Copy, Default)]
pub(super) struct Odd {
    /// Every bit that some record has: in the lower half of its rest, in its reserved field, in the number of its task.
    bits: (u32, u16, u32),
    /// The highest bit is set where a size is 0.
    sizes: u32,
    highest_cpu: u16,
    highest_address: u64,
}

impl Odd {
    #[inline(always)]
    pub(super) fn note(&mut self, fields: Fields, lower: u32, task: u32) {
        self.bits.0 |= lower;
        self.bits.1 |= fields.reserved;
        self.bits.2 |= task;
        self.sizes |= u32::from(fields.size).wrapping_sub(1);
        self.highest_cpu = self.highest_cpu.max(fields.cpu);
        self.highest_address = self.highest_address.max(fields.address);
    }

    pub(super) fn any(&self, processors: usize) -> bool {
        let (lower, reserved, tasks) = self.bits;
        let unknown = tasks > u32::from(u16::MAX);
        let near_end = self.highest_address > u64::MAX - u64::from(u8::MAX);
        let processor = usize::from(self.highest_cpu) >= processors;
        lower & NO_KIND != 0 || reserved != 0 || self.sizes >> 31 != 0 || unknown || near_end || processor
    }
}

/// What is wrong with a record.
pub(super) fn fault_in(bytes: &[u8; RECORD], processors: usize) -> Option<String> {
    let Fields { address, kind, size, reserved, cpu, pid: _ } = Fields::of(bytes);
    if kind & 0x7F > 2 {
        return Some(format!(
            "unknown type {kind:#x}; accepted are 0 read, 1 write, 2 fetch, each with bit 7 in kernel mode"
        ));
    }
    if size == 0 {
        return Some("size 0; a reference touches at least one byte".into());
    }
    if address.checked_add(u64::from(size) - 1).is_none() {
        return Some("the access runs past the end of the address space".into());
    }
    if reserved != 0 {
        return Some("the reserved field is not zero; is this a raw16 file?".into());
    }
    if usize::from(cpu) >= processors {
        return Some(format!(
            "processor {cpu}, but the machine has {processors}; set processors={} or more",
            u32::from(cpu) + 1
        ));
    }
    None
}
