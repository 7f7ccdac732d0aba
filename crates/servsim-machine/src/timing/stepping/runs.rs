//! Runs of plain hits on a processor that nothing looks at reference by reference: one that neither prefetches nor
//! translates addresses. Those of one with a core are in `core_runs.rs`.

#![allow(clippy::inline_always)] // into the loop of hits

use super::core_runs::run_on_core;
use crate::timing::pending::Pending;
use crate::timing::port::{data_references, references, MemoryPort};
use crate::timing::processor::Processor;
use crate::timing::stop::{Pace, Records};
use servsim_core::{CpuId, Cycles, LineAddr, Op, Privacy, Record, TaskId};
use servsim_mem::{Follower, RunCounts, Turn, WordMask};
use std::collections::VecDeque;

/// Whether the processor is of that kind.
pub(in crate::timing) fn takes_runs<W>(processor: &Processor<W>) -> bool {
    #[cfg(test)]
    if super::core_runs::tests::ONE_BY_ONE.get() {
        return false;
    }
    processor.prefetching.is_none() && processor.translator.is_none() && !processor.repeats_store
}

/// What runs of one task on one processor did that nobody looks at before they are counted.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::timing) struct Unaccounted {
    /// Whose records, if there are any.
    task: TaskId,
    records: u64,
    counts: RunCounts,
    /// Records put aside.
    aside: u64,
}

impl Unaccounted {
    /// Whether records of another task than that of `next` are among it.
    #[inline]
    pub fn is_of_another(&self, next: &Record) -> bool {
        self.records > 0 && self.task != next.task
    }

    /// Counts what was done, and charges the processor for it.
    #[inline]
    pub fn charge<W: WordMask>(
        &self,
        cpu: CpuId,
        processor: &mut Processor<W>,
        port: &mut MemoryPort<W>,
        tasks: &mut [[[u64; 3]; 2]],
        cycles: Cycles,
    ) {
        let data = data_references(&self.counts);
        port.count_lookups(cpu, self.records - data, data - self.aside);
        let [user, kernel] = count_run(processor, &mut tasks[self.task as usize], &self.counts);
        if processor.history.is_none() {
            processor.times.execute(false, cycles.0 * user);
            processor.times.execute(true, cycles.0 * kernel);
        }
    }
}

/// Charges `processor`, which keeps its charges, for `records` performed from `time` on: a moment within the run is to find
/// what was charged by then, so each stretch of one mode is a charge.
#[cold]
fn charge_stretches<W: WordMask>(
    processor: &mut Processor<W>,
    records: &[Record],
    mut time: u64,
    cycles: Cycles,
) {
    for stretch in records.chunk_by(|a, b| a.is_kernel() == b.is_kernel()) {
        let taken = cycles.0 * stretch.iter().map(|record| u64::from(record.cpu)).sum::<u64>();
        time += taken;
        processor.times.execute(stretch[0].is_kernel(), taken);
        processor.note(time);
    }
}

/// Runs through plain hits up to the time bound and the end of the slice, if the processor is not within a record; whether
/// there was any. What it leaves behind is what one after the other leaves.
#[inline]
pub(super) fn run_hits<W: WordMask>(
    cpu: CpuId,
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    work: &mut Records<'_>,
    pace: &Pace,
) -> bool {
    if processor.core.is_some() {
        return run_on_core(cpu, processor, port, work, pace);
    }
    if processor.offset != 0 {
        return false;
    }
    let records = &work.batch.records[*work.position..];
    let mut unaccounted = Unaccounted::default();
    let (performed, _) =
        run_at_fixed_pace(cpu, processor, port, (records, work.privacy), pace, &mut unaccounted);
    if performed == 0 {
        return false;
    }
    *work.position += performed;
    unaccounted.charge(cpu, processor, port, work.tasks, pace.cycles);
    true
}

/// The same on a processor without core, which is not within a record: passes time and slice, and leaves the rest to be
/// accounted. Returns how many records were performed, and how many references these stand for.
#[inline]
pub(in crate::timing) fn run_at_fixed_pace<W: WordMask>(
    cpu: CpuId,
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    (records, privacy): (&[Record], &Privacy),
    pace: &Pace,
    unaccounted: &mut Unaccounted,
) -> (usize, u64) {
    let Some(first) = records.first() else { return (0, 0) };
    let (from, cycles) = (processor.time, pace.cycles.0);
    let (performed, made) = if processor.stores.is_empty() {
        let left = pace.limit - processor.time;
        // Mostly one, and a division takes the host as long as a hit.
        let most = if cycles == 1 { left } else { left / cycles };
        let most = most.saturating_add(1).min(processor.slice);
        port.run_hits(cpu, records, most, &mut unaccounted.counts)
    } else {
        run_behind_stores(cpu, processor, port, (records, privacy), pace, unaccounted)
    };
    unaccounted.task = first.task;
    unaccounted.records += performed as u64;
    processor.time += cycles * made;
    processor.slice = processor.slice.saturating_sub(made);
    if processor.history.is_some() {
        charge_stretches(processor, &records[..performed], from, pace.cycles);
    }
    (performed, made)
}

/// The same while stores wait, behind which further ones are put; passes no time.
#[inline(never)]
fn run_behind_stores<W: WordMask>(
    cpu: CpuId,
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    (records, privacy): (&[Record], &Privacy),
    pace: &Pace,
    unaccounted: &mut Unaccounted,
) -> (usize, u64) {
    let before = references(&unaccounted.counts);
    let (most, time) = (processor.slice, processor.time);
    let fetched = processor.stores.front().filter(|store| store.fetching).map(|store| store.access.line);
    let mut behind = Behind { cpu, stores: &mut processor.stores, fetched, time, pace, privacy, aside: 0 };
    let performed = port.run_followed_hits(cpu, (records, most), &mut behind, &mut unaccounted.counts);
    unaccounted.aside += behind.aside;
    (performed, references(&unaccounted.counts) - before)
}

/// Stores wait along a run.
struct Behind<'a, W> {
    cpu: CpuId,
    stores: &'a mut VecDeque<Pending<W>>,
    /// The line whose data are on the way: the oldest store's, whose other words cannot be read yet.
    fetched: Option<LineAddr>,
    time: u64,
    pace: &'a Pace,
    privacy: &'a Privacy,
    /// Records put aside.
    aside: u64,
}

impl<W: WordMask> Follower<W> for Behind<'_, W> {
    #[inline(always)]
    fn turn(&self, record: &Record, line: LineAddr) -> Turn {
        if self.time > self.pace.limit || record.op == Op::Event {
            Turn::End
        } else if record.op == Op::Store {
            // Full, or not for every store: the general way knows.
            if self.stores.len() < self.pace.most_stores {
                Turn::PutAside
            } else {
                Turn::End
            }
        } else if self.fetched == Some(line) {
            Turn::End
        } else {
            Turn::Perform
        }
    }

    #[inline(always)]
    fn hit(&mut self, _: &Record, _: LineAddr) {}

    fn put_aside(&mut self, record: &Record, address: u64, line: LineAddr, words: W) {
        self.stores.push_back(Pending::aside(self.cpu, record, (address, line, words), self.privacy));
        self.aside += 1;
    }

    #[inline(always)]
    fn performed(&mut self, _: usize, record: &Record) -> bool {
        self.time += self.pace.cycles.0 * u64::from(record.cpu);
        true
    }
}

/// Counts the references of a run; how many were made in each mode.
#[inline]
pub(super) fn count_run<W>(
    processor: &mut Processor<W>,
    of_task: &mut [[u64; 3]; 2],
    counts: &RunCounts,
) -> [u64; 2] {
    for ((sums, of_task), counts) in processor.references.iter_mut().zip(of_task).zip(counts) {
        for ((sum, of_task), count) in sums.iter_mut().zip(of_task).zip(counts) {
            *sum += count;
            *of_task += count;
        }
    }
    counts.map(|of_mode| of_mode.iter().sum())
}
