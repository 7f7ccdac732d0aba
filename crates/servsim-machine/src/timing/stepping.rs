//! Runs one processor through hits, up to a time or until something else must happen. This is the
//! inner loop of the timing engine: one pass per reference, no allocation, no virtual call.

use super::processor::{Pending, Processor};
use crate::place::{address_on, page_of};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Op, Privacy, Record};
use servsim_mem::{Access, Hierarchy, WordMask};

/// Why stepping stopped.
#[derive(Debug, Clone, Copy)]
pub enum Stop<W> {
    /// The time bound was passed.
    Limit,
    /// The time slice is over.
    Slice,
    /// The record at the position is an event.
    Event,
    /// All records are done.
    End,
    /// A fetch or load that does not hit.
    Miss(Pending<W>),
    /// A store that does not hit, or must wait behind others.
    Store(Pending<W>),
}

/// The records to step through.
#[allow(clippy::struct_field_names)] // the records are what it is about
pub struct Records<'a> {
    /// Records.
    pub records: &'a [Record],
    /// Next one.
    pub position: &'a mut usize,
    /// Which pages are private.
    pub privacy: &'a Privacy,
    /// References per task.
    pub tasks: &'a mut [[[u64; 3]; 2]],
}

/// Steps `processor` (number `cpu`) until `limit` or another stop; `farther` are the further cycles
/// of hits beyond the first level.
pub fn step<W: WordMask>(
    cpu: usize,
    processor: &mut Processor<W>,
    caches: &mut Hierarchy<W>,
    work: &mut Records<'_>,
    (limit, shift, cycles, farther): (u64, u32, u64, &[u64]),
) -> Stop<W> {
    let line_mask = (1_u64 << shift) - 1;
    while let Some(record) = work.records.get(*work.position) {
        if processor.time > limit {
            return Stop::Limit;
        }
        if processor.slice == 0 {
            return Stop::Slice;
        }
        if record.op == Op::Event {
            return Stop::Event;
        }
        let address = address_on(record, cpu);
        let last = address + (u64::from(record.size) - 1);
        let start = address + processor.offset;
        let line = start >> shift;
        let crosses = line != last >> shift;
        let end = if crosses { line_mask } else { last & line_mask };
        let access = Access {
            cpu,
            line,
            words: W::of_bytes(start & line_mask, end),
            write: record.op == Op::Store,
            kernel: record.flags & KERNEL != 0,
            task: record.task,
            slot: record.op as usize,
        };
        let behind_others = access.write && !processor.stores.is_empty();
        let waits = behind_others || is_on_its_way(processor, &access);
        let Some(depth) = (if waits { None } else { caches.try_hit(&access) }) else {
            let page = page_of(work.privacy, &Record { address: start, ..*record });
            let pending = Pending { access, page, fetching: false };
            return if access.write { Stop::Store(pending) } else { Stop::Miss(pending) };
        };
        // The store buffer hides how far out a store finds its line.
        if depth != 0 && !access.write {
            processor.time += farther[depth - 1];
            processor.times.memory_stall += farther[depth - 1];
        }
        advance(processor, work, shift, cycles, cpu);
    }
    if processor.time > limit {
        Stop::Limit
    } else {
        Stop::End
    }
}

/// Whether the block was granted to a store of the own buffer but its data have not arrived, and
/// the access needs other words than that store wrote.
#[inline]
fn is_on_its_way<W: WordMask>(processor: &Processor<W>, access: &Access<W>) -> bool {
    let waits = |store: &Pending<W>| {
        store.fetching && store.access.line == access.line && !store.access.words.covers(access.words)
    };
    !processor.stores.is_empty() && processor.stores.iter().any(waits)
}

/// Completes the current line's share of the current record.
#[inline]
pub fn advance<W>(processor: &mut Processor<W>, work: &mut Records<'_>, shift: u32, cycles: u64, cpu: usize) {
    let record = &work.records[*work.position];
    let address = address_on(record, cpu);
    let next_line = ((address + processor.offset) >> shift).wrapping_add(1) << shift;
    // Wrapping: the last line of the address space has no next one.
    let covered = next_line.wrapping_sub(address);
    if covered < u64::from(record.size) {
        processor.offset = covered;
        return;
    }
    processor.offset = 0;
    *work.position += 1;
    if record.flags & CONTINUATION != 0 {
        return;
    }
    let count = u64::from(record.cpu);
    let mode = usize::from(record.flags & KERNEL);
    processor.time += cycles * count;
    if mode == 0 {
        processor.times.user += cycles * count;
    } else {
        processor.times.kernel += cycles * count;
    }
    processor.references[mode][record.op as usize] += count;
    work.tasks[record.task as usize][mode][record.op as usize] += count;
    processor.slice = processor.slice.saturating_sub(count);
}
