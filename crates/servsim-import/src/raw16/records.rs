//! Records of a raw16 file: their fields, and how they are decoded and checked in as few host instructions as can be.

// The loops over records are one function each.
#![allow(clippy::inline_always)]

use servsim_core::reference::{CPU_SHIFT, FLAGS_SHIFT, KERNEL, OP_SHIFT, SIZE_SHIFT, SWITCH, TASK_SHIFT};
use servsim_core::{BytesOfShard, Op, Record};

/// Bytes per record.
pub const RECORD: usize = 16;

/// Which records are asked for.
pub(super) trait Asked: Copy {
    /// Whether one is that touches the bytes from `first` to `last`.
    fn has(self, first: u64, last: u64) -> bool;
}

/// All of them.
#[derive(Clone, Copy)]
pub(super) struct All;

impl Asked for All {
    #[inline(always)]
    fn has(self, _: u64, _: u64) -> bool {
        true
    }
}

/// Those that touch a line of a shard.
impl Asked for BytesOfShard {
    #[inline(always)]
    fn has(self, first: u64, last: u64) -> bool {
        self.may_include(first, last)
    }
}

/// Makes `records` of bytes: of every record that is `asked` for, and a [`SWITCH`] where one that is not begins to be of another
/// processor or process. `task_of` is asked for the task where a record is not of the processor and process of the one
/// before it, and `each` is told of all and of their forms.
#[inline(always)]
pub(super) fn decode_each(
    bytes: &[u8],
    records: &mut Vec<Record>,
    asked: impl Asked,
    mut task_of: impl FnMut(Words) -> u32,
    mut each: impl FnMut(Words, u32),
) {
    let (bytes, _) = bytes.as_chunks();
    records.clear();
    // Before every record there may be a switch.
    let most = 2 * bytes.len();
    records.reserve(most);
    let room = &mut records.spare_capacity_mut()[..most];
    let mut made = 0;
    // Of whom the record before is, and what such records have in common.
    let (mut origin, mut common) = (NO_ORIGIN, 0);
    for bytes in bytes {
        let words = Words::of(bytes);
        let has = asked.has(words.address, words.last());
        if words.origin() != origin {
            origin = words.origin();
            let cpu = u64::from(words.cpu()) & 0xFF;
            common = cpu << CPU_SHIFT | u64::from(task_of(words)) << TASK_SHIFT;
            if !has {
                room[made].write(Record::of_words(SWITCH, EVENT | common));
                made += 1;
            }
        }
        let form = words.form();
        each(words, form);
        room[made].write(Record::of_words(words.address, u64::from(form) | common));
        // Which records are asked for is hard for the host to guess, so there is no branch: the next overwrites one that is not.
        made += usize::from(has);
    }
    // SAFETY: `made` grows by one only after the record there was written.
    unsafe { records.set_len(made) }
}

/// The rest of an event of no task and processor.
const EVENT: u64 = (Op::Event as u64) << OP_SHIFT | 1 << SIZE_SHIFT;

/// In [`KINDS`]: no type has this number.
const NO_KIND: u32 = 0x80 << FLAGS_SHIFT;

/// By type: operation and flags in their places in [`Record::rest`].
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

/// The [`Words::origin`] of no record.
pub(super) const NO_ORIGIN: u64 = u64::MAX;

/// A record as its address and the rest: type, size, reserved, processor and process from the
/// lowest byte up.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub address: u64,
    pub rest: u64,
}

impl Words {
    #[inline(always)]
    pub(super) fn of(bytes: &[u8; RECORD]) -> Self {
        let both = u128::from_le_bytes(*bytes);
        Self { address: both as u64, rest: (both >> 64) as u64 }
    }

    #[inline(always)]
    fn kind(self) -> u8 {
        self.rest as u8
    }

    #[inline(always)]
    fn size(self) -> u8 {
        (self.rest >> 8) as u8
    }

    /// Size less one; a size of 0 counts as 256 here and is a fault elsewhere.
    #[inline(always)]
    pub(super) fn bytes_after_first(self) -> u64 {
        u64::from(self.size().wrapping_sub(1))
    }

    /// The address of the last byte, if the record is sound.
    #[inline(always)]
    fn last(self) -> u64 {
        self.address.wrapping_add(u64::from(self.size())).wrapping_sub(1)
    }

    fn reserved(self) -> u16 {
        (self.rest >> 16) as u16
    }

    #[inline(always)]
    fn cpu(self) -> u16 {
        (self.rest >> 32) as u16
    }

    #[inline(always)]
    pub(super) fn pid(self) -> u16 {
        (self.rest >> 48) as u16
    }

    /// Reserved field, processor and process; in most records those of the one before.
    #[inline(always)]
    pub(super) fn origin(self) -> u64 {
        self.rest >> 16
    }

    /// Whether the reserved field is not zero or there is no such processor.
    #[inline(always)]
    pub(super) fn of_nobody(self, processors: usize) -> bool {
        self.reserved() != 0 || usize::from(self.cpu()) >= processors
    }

    /// Operation, flags and size in their places in [`Record::rest`]; with [`NO_KIND`], if there is no such type.
    #[inline(always)]
    pub(super) fn form(self) -> u32 {
        KINDS[usize::from(self.kind())] | u32::from(self.size()) << SIZE_SHIFT
    }
}

/// What a chunk has that is to be looked at, beside records of nobody. Kept with as few instructions a
/// record as can be; so an access near the end of the address space is noted too, though it may be none.
#[derive(Clone, Copy, Default)]
pub(super) struct Odd {
    /// Every bit that some record has in its form, taken one byte off the size: that sets bits above the size if it is 0, and
    /// leaves the others if not.
    forms: u32,
    highest_address: u64,
}

impl Odd {
    #[inline(always)]
    pub(super) fn note(&mut self, words: Words, form: u32) {
        self.forms |= form.wrapping_sub(1 << SIZE_SHIFT);
        self.highest_address = self.highest_address.max(words.address);
    }

    pub(super) fn any(&self) -> bool {
        self.forms & (NO_KIND | 0x100 << SIZE_SHIFT) != 0
            || self.highest_address > u64::MAX - u64::from(u8::MAX)
    }
}

/// What is wrong with a record.
pub(super) fn fault_in(bytes: &[u8; RECORD], processors: usize) -> Option<String> {
    let words = Words::of(bytes);
    let (address, kind, size, reserved, cpu) =
        (words.address, words.kind(), words.size(), words.reserved(), words.cpu());
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
