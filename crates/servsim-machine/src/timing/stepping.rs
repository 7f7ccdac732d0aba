//! Runs one processor through hits, up to a time or until something else must happen. This is the
//! inner loop of the timing engine: one pass per reference, no allocation, no virtual call.

mod core_runs;
#[cfg(test)]
mod drawn;
#[cfg(test)]
mod drawn_traces;
mod loads;
pub(super) mod runs;

use super::pending::Pending;
use super::port::MemoryPort;
use super::processor::Processor;
use super::stop::{Pace, Records, Stop};
use super::walking::translate;
use crate::place::{address_on, page_of};
use loads::{load_on_core, OnCore};
use runs::{run_hits, takes_runs};
use servsim_core::reference::{CONTINUATION, KERNEL, MISPREDICTED};
use servsim_core::{CpuId, Cycles, Instruction, LineAddr, Op, Record, PAGE_SHIFT};
use servsim_cpu::Entry;
use servsim_mem::{Access, WordMask};

#[cfg(test)]
pub(super) fn is_one_by_one() -> bool {
    core_runs::tests::ONE_BY_ONE.get()
}

/// Does something with each reference going the general way, if so.
#[cfg(test)]
fn one_by_one<R>(so: bool, work: impl FnOnce() -> R) -> R {
    core_runs::tests::ONE_BY_ONE.set(so);
    let done = work();
    core_runs::tests::ONE_BY_ONE.set(false);
    done
}

/// Steps `processor` (number `cpu`) until `limit` or another stop; `ran` if a run of hits has just ended at its position.
pub fn step<W: WordMask>(
    cpu: CpuId,
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    work: &mut Records<'_>,
    pace: &Pace,
    mut ran: bool,
) -> Stop<W> {
    let Pace { limit, shift, cycles, branch_penalty, .. } = *pace;
    let line_mask = (1_u64 << shift) - 1;
    let in_runs = takes_runs(processor);
    while let Some(record) = work.batch.records.get(*work.position) {
        if port.take_posted() {
            return Stop::Posted;
        }
        if let Some(stop) = stop_before(processor, record, limit) {
            return stop;
        }
        ran = in_runs && !ran && run_hits(cpu, processor, port, work, pace);
        if ran {
            continue;
        }
        if processor.core.is_some() && record.op == Op::Fetch {
            if let Some(stop) = await_branch(processor, record, branch_penalty) {
                return stop;
            }
            if processor.fetched {
                if enter(processor, work) {
                    continue;
                }
                return Stop::Full;
            }
        }
        if processor.has_more {
            if processor.prefetching.as_ref().is_some_and(|prefetching| prefetching.has_wishes()) {
                return Stop::Prefetch;
            }
            if processor.translator.as_ref().is_some_and(|translator| !translator.done) {
                match translate(cpu, processor, port, work, pace) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
        }
        let address = address_on(record, cpu);
        let last = address + (u64::from(record.size) - 1);
        let start = address + processor.offset;
        let line = LineAddr::of(start, shift);
        let crosses = line != LineAddr::of(last, shift);
        let end = if crosses { line_mask } else { last & line_mask };
        let access = Access {
            at: cpu,
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
            port.forget_trigger();
        }
        if record.op == Op::Load && processor.core.is_some() {
            match load_on_core(processor, port, &access) {
                OnCore::Hit => {
                    note_first_use(processor, port, &access, work, start);
                    advance(processor, work, shift, cycles, cpu);
                    continue;
                }
                OnCore::Goes(way) => {
                    let page = page_of(work.privacy, &Record { address: start, ..*record });
                    return Stop::Load(Pending { access, page, fetching: false }, way);
                }
                OnCore::Busy => return Stop::Busy,
                OnCore::Blocks => {}
            }
        }
        let behind_others = access.write && !processor.stores.is_empty();
        let waits = behind_others || is_on_its_way(processor, &access);
        let Some(depth) = (if waits { None } else { port.try_hit(&access, processor.time) }) else {
            let page = page_of(work.privacy, &Record { address: start, ..*record });
            let pending = Pending { access, page, fetching: false };
            return if access.write { Stop::Store(pending) } else { Stop::Miss(pending) };
        };
        processor.repeats_store &= !access.write;
        match (record.op, &mut processor.core) {
            // The store buffer of the model `fixed` hides how far out a store finds its line.
            (Op::Store, None) => {}
            (Op::Store, Some(_)) if depth == 0 => {}
            (Op::Store, Some(_)) => {
                note_first_use(processor, port, &access, work, start);
                let page = page_of(work.privacy, &Record { address: start, ..*record });
                return Stop::FarStore(Pending { access, page, fetching: false }, port.beyond_first(depth));
            }
            (Op::Load, Some(core)) => core.hit(line, processor.time, port.beyond_first(depth)),
            _ => wait_for_level(processor, port.beyond_first(depth), access.slot),
        }
        note_first_use(processor, port, &access, work, start);
        advance(processor, work, shift, cycles, cpu);
    }
    if processor.time > limit {
        Stop::Limit
    } else {
        Stop::End
    }
}

/// Why the processor does not begin with `record` now, if so.
#[inline]
fn stop_before<W>(processor: &Processor<W>, record: &Record, limit: u64) -> Option<Stop<W>> {
    if processor.time > limit {
        Some(Stop::Limit)
    } else if processor.slice == 0 {
        Some(Stop::Slice)
    } else {
        (record.op == Op::Event).then_some(Stop::Event)
    }
}

/// Tells the prefetcher if the access at physical address `start` hit a prefetched copy for the first time.
#[inline]
fn note_first_use<W: WordMask>(
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    access: &Access<W>,
    work: &Records<'_>,
    start: u64,
) {
    if !processor.has_more {
        return;
    }
    if let Some(line) = port.take_trigger() {
        let page = page_of(work.privacy, &Record { address: start, ..work.batch.records[*work.position] });
        processor.prefetch_after(line, &Pending { access: *access, page, fetching: false });
    }
}

/// The way from a mispredicted branch to the record is known only when the branch has executed.
fn await_branch<W: WordMask>(
    processor: &mut Processor<W>,
    record: &Record,
    branch_penalty: Cycles,
) -> Option<Stop<W>> {
    if record.flags & (MISPREDICTED | CONTINUATION) != MISPREDICTED || processor.branch_paid {
        return None;
    }
    let core = processor.core.as_mut()?;
    let Some(resolved) = core.resolved() else { return Some(Stop::Full) };
    let until = processor.time.max(resolved) + branch_penalty;
    processor.branch_paid = true;
    processor.times.branch += until - processor.time;
    processor.time = until;
    processor.note(until);
    Some(Stop::Limit)
}

/// The instructions of the record at hand, which has been fetched, enter the core; `false` when a load
/// under way keeps one out.
#[inline]
fn enter<W: Copy>(processor: &mut Processor<W>, work: &mut Records<'_>) -> bool {
    let record = &work.batch.records[*work.position];
    if !enter_instructions(processor, record, work.batch.code.get(*work.position), work.instructions) {
        return false;
    }
    *work.position += 1;
    count(processor, work, record, u64::from(record.cpu));
    true
}

/// The same of `record`, whose instructions begin at `code` in the list. Nobody else sees any of it, so no time bound is
/// looked at.
#[inline]
fn enter_instructions<W: Copy>(
    processor: &mut Processor<W>,
    record: &Record,
    code: Option<&u32>,
    instructions: &[Instruction],
) -> bool {
    let Processor { core, times, history, .. } = processor;
    let Some(core) = core else { return true };
    let first = code.map_or(usize::MAX, |&code| code as usize);
    let in_kernel = record.flags & KERNEL != 0;
    let (mut time, mut entered, mut executed) = (processor.time, processor.entered, 0);
    while entered < record.cpu {
        let instruction = instructions.get(first.wrapping_add(usize::from(entered)));
        // Loads of others would end the record.
        match core.enter(time, instruction, entered + 1 == record.cpu) {
            Entry::Entered(next) => {
                executed += next - time;
                time = next;
                entered += 1;
            }
            Entry::Later { at, load } => {
                let waited = at - time;
                time = at;
                if load {
                    times.memory_stall += waited;
                    times.stalls[Op::Load as usize] += waited;
                } else {
                    executed += waited;
                    times.dependence += waited;
                }
            }
            Entry::Blocked => break,
        }
        if let Some(history) = history {
            times.execute(in_kernel, std::mem::take(&mut executed));
            history.note(time, *times);
        }
    }
    times.execute(in_kernel, executed);
    processor.time = time;
    processor.fetched = entered < record.cpu;
    processor.entered = if processor.fetched { entered } else { 0 };
    processor.branch_paid &= processor.fetched;
    !processor.fetched
}

/// Counts `count` references of `record`.
#[inline]
fn count<W: Copy>(processor: &mut Processor<W>, work: &mut Records<'_>, record: &Record, count: u64) {
    let mode = usize::from(record.flags & KERNEL);
    processor.references[mode][record.op as usize] += count;
    work.tasks[record.task as usize][mode][record.op as usize] += count;
    processor.slice = processor.slice.saturating_sub(count);
}

/// Waits for a level outside the first, if the line was there.
#[inline]
fn wait_for_level<W: WordMask>(processor: &mut Processor<W>, span: Cycles, slot: usize) {
    if span != Cycles(0) {
        let from = processor.time;
        processor.time += span;
        processor.stall(from, processor.time, false, Some(slot));
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
    cycles: Cycles,
    cpu: CpuId,
) {
    let record = &work.batch.records[*work.position];
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
    if processor.core.is_some() && record.op == Op::Fetch && record.flags & CONTINUATION == 0 {
        processor.fetched = true;
        return;
    }
    *work.position += 1;
    if record.flags & CONTINUATION != 0 {
        return;
    }
    let references = u64::from(record.cpu);
    if processor.core.is_none() {
        let taken = cycles.0 * references;
        processor.time += taken;
        processor.times.execute(record.flags & KERNEL != 0, taken);
        if processor.has_more {
            processor.note(processor.time);
        }
    }
    count(processor, work, record, references);
}
