//! Runs one processor through hits, up to a time or until something else must happen. This is the
//! inner loop of the timing engine: one pass per reference, no allocation, no virtual call.

use super::processor::{Pending, Processor};
use super::walking::{translate, TranslationTimes};
use crate::place::{address_on, page_of};
use servsim_core::reference::{CONTINUATION, KERNEL, MISPREDICTED};
use servsim_core::{Op, Privacy, Record, PAGE_SHIFT};
use servsim_cpu::Core;
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
    /// A fetch or load that does not hit, and blocks.
    Miss(Pending<W>),
    /// A load that goes on beside execution, after another one if that is given.
    Load {
        /// The access.
        pending: Pending<W>,
        /// The load to wait for.
        after: Option<u64>,
        /// The recorded distance.
        distance: u64,
    },
    /// Loads under way keep the next instruction out.
    Full,
    /// The prefetcher wishes to ask for the bus.
    Prefetch,
    /// A reference to the page tables that does not hit.
    Walk(Pending<W>),
    /// A store that does not hit, or must wait behind others.
    Store(Pending<W>),
}

/// The records to step through.
#[allow(clippy::struct_field_names)] // the records are what it is about
pub struct Records<'a> {
    /// Records.
    pub records: &'a [Record],
    /// Their virtual pages, where addresses are translated.
    pub pages: &'a [u64],
    /// The address space of each task.
    pub spaces: &'a [Option<u32>],
    /// Next one.
    pub position: &'a mut usize,
    /// Which pages are private.
    pub privacy: &'a Privacy,
    /// References per task.
    pub tasks: &'a mut [[[u64; 3]; 2]],
}

/// How far and how fast to step.
#[derive(Debug, Clone, Copy)]
pub struct Pace<'a> {
    /// Time bound.
    pub limit: u64,
    /// log2 of the line size.
    pub shift: u32,
    /// Cycles per reference, of processors without core.
    pub cycles: u64,
    /// Cycles lost at a mispredicted branch.
    pub branch_penalty: u64,
    /// Further cycles of hits beyond the first level.
    pub farther: &'a [u64],
    /// Times of address translation.
    pub translation: Option<TranslationTimes>,
}

/// Steps `processor` (number `cpu`) until `limit` or another stop.
pub fn step<W: WordMask>(
    cpu: usize,
    processor: &mut Processor<W>,
    caches: &mut Hierarchy<W>,
    work: &mut Records<'_>,
    pace: Pace<'_>,
) -> Stop<W> {
    let Pace { limit, shift, cycles, branch_penalty, farther, .. } = pace;
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
        if processor.core.is_some() {
            if let Some(stop) = before_entry(processor, record, branch_penalty) {
                return stop;
            }
        }
        if processor.has_more {
            if processor.prefetching.as_ref().is_some_and(|prefetching| prefetching.has_wishes()) {
                return Stop::Prefetch;
            }
            if processor.translator.as_ref().is_some_and(|translator| !translator.done) {
                match translate(cpu, processor, caches, work, &pace) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
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
        if processor.has_more {
            if processor.waits_for_prefetch(line, access.slot) {
                continue;
            }
            caches.system.trigger = None;
        }
        if record.op == Op::Load && processor.core.is_some() {
            match load_on_core(processor, caches, &access, record) {
                OnCore::Hit { depth } => {
                    wait_for_level(processor, depth, access.slot, farther);
                    note_first_use(processor, caches, &access, work, start);
                    advance(processor, work, shift, cycles, cpu);
                    continue;
                }
                OnCore::Goes { after, distance } => {
                    let page = page_of(work.privacy, &Record { address: start, ..*record });
                    return Stop::Load {
                        pending: Pending { access, page, fetching: false },
                        after,
                        distance,
                    };
                }
                OnCore::Blocks => {}
            }
        }
        let behind_others = access.write && !processor.stores.is_empty();
        let waits = behind_others || is_on_its_way(processor, &access);
        let Some(depth) = (if waits { None } else { caches.try_hit(&access) }) else {
            let page = page_of(work.privacy, &Record { address: start, ..*record });
            let pending = Pending { access, page, fetching: false };
            return if access.write { Stop::Store(pending) } else { Stop::Miss(pending) };
        };
        // The store buffer hides how far out a store finds its line.
        if !access.write {
            wait_for_level(processor, depth, access.slot, farther);
        }
        note_first_use(processor, caches, &access, work, start);
        advance(processor, work, shift, cycles, cpu);
    }
    if processor.time > limit {
        Stop::Limit
    } else {
        Stop::End
    }
}

/// Tells the prefetcher if the access at physical address `start` hit a prefetched copy for the first time.
#[inline]
fn note_first_use<W: WordMask>(
    processor: &mut Processor<W>,
    caches: &mut Hierarchy<W>,
    access: &Access<W>,
    work: &Records<'_>,
    start: u64,
) {
    if !processor.has_more {
        return;
    }
    if let Some((_, line)) = caches.system.trigger.take() {
        let page = page_of(work.privacy, &Record { address: start, ..work.records[*work.position] });
        processor.prefetch_after(line, &Pending { access: *access, page, fetching: false });
    }
}

/// What must happen before the instructions of a record enter the core.
fn before_entry<W: WordMask>(
    processor: &mut Processor<W>,
    record: &Record,
    branch_penalty: u64,
) -> Option<Stop<W>> {
    if record.op != Op::Fetch || processor.offset != 0 || record.flags & CONTINUATION != 0 {
        return None;
    }
    if processor.core.as_ref().is_some_and(Core::is_full) {
        return Some(Stop::Full);
    }
    if record.flags & MISPREDICTED != 0 && !processor.branch_paid {
        processor.branch_paid = true;
        processor.time += branch_penalty;
        processor.times.branch += branch_penalty;
        return Some(Stop::Limit);
    }
    None
}

/// What a load does on a core.
enum OnCore {
    /// It hits, or takes its words from the store buffer.
    Hit { depth: usize },
    /// It is under way from now on.
    Goes { after: Option<u64>, distance: u64 },
    /// It needs words of a line that a store of the own buffer fetches.
    Blocks,
}

fn load_on_core<W: WordMask>(
    processor: &Processor<W>,
    caches: &mut Hierarchy<W>,
    access: &Access<W>,
    record: &Record,
) -> OnCore {
    let Some(core) = &processor.core else { return OnCore::Blocks };
    if processor.stores.iter().any(|store| store.access.line == access.line) {
        return OnCore::Blocks;
    }
    let distance = u64::from(record.cpu).saturating_sub(1);
    let after = if core.is_empty() {
        None
    } else {
        core.producer(distance).or_else(|| core.find(|other| other.access.line == access.line))
    };
    if after.is_none() {
        if let Some(depth) = caches.try_hit(access) {
            return OnCore::Hit { depth };
        }
    }
    OnCore::Goes { after, distance }
}

/// Waits for a level outside the first. A core waits as well: latencies of caches are not overlapped.
#[inline]
fn wait_for_level<W>(processor: &mut Processor<W>, depth: usize, slot: usize, farther: &[u64]) {
    if depth != 0 {
        processor.time += farther[depth - 1];
        processor.times.memory_stall += farther[depth - 1];
        processor.times.stalls[slot] += farther[depth - 1];
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
pub fn advance<W: WordMask>(
    processor: &mut Processor<W>,
    work: &mut Records<'_>,
    shift: u32,
    cycles: u64,
    cpu: usize,
) {
    let record = &work.records[*work.position];
    let address = address_on(record, cpu);
    let next_line = ((address + processor.offset) >> shift).wrapping_add(1) << shift;
    // Wrapping: the last line of the address space has no next one.
    let covered = next_line.wrapping_sub(address);
    let more = covered < u64::from(record.size);
    if processor.has_more {
        let first = processor.offset == 0;
        processor.performed(cpu, record, first, work.privacy);
        if let Some(translator) = &mut processor.translator {
            translator.done = more && (address + covered) & ((1 << PAGE_SHIFT) - 1) != 0;
        }
    }
    if more {
        processor.offset = covered;
        return;
    }
    processor.offset = 0;
    *work.position += 1;
    if record.flags & CONTINUATION != 0 {
        return;
    }
    let mut count = u64::from(record.cpu);
    let mode = usize::from(record.flags & KERNEL);
    let taken = match &mut processor.core {
        None => cycles * count,
        Some(core) if record.op == Op::Fetch => core.enter(count),
        Some(core) => {
            count = 1;
            core.count_load(record.op == Op::Load);
            0
        }
    };
    processor.branch_paid = false;
    processor.time += taken;
    if mode == 0 {
        processor.times.user += taken;
    } else {
        processor.times.kernel += taken;
    }
    processor.references[mode][record.op as usize] += count;
    work.tasks[record.task as usize][mode][record.op as usize] += count;
    processor.slice = processor.slice.saturating_sub(count);
}
