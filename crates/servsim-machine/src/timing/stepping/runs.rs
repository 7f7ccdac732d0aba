//! Runs of plain hits on a processor that nothing looks at reference by reference: one that neither prefetches nor
//! translates addresses. Those of one with a core are in `core_runs.rs`.

use super::core_runs::run_on_core;
use crate::timing::port::MemoryPort;
use crate::timing::processor::Processor;
use crate::timing::stop::{Pace, Records};
use servsim_core::{CpuId, TaskId};
use servsim_mem::{RunCounts, WordMask};

/// Whether the processor is of that kind.
pub(super) fn takes_runs<W>(processor: &Processor<W>) -> bool {
    #[cfg(test)]
    if super::core_runs::tests::ONE_BY_ONE.get() {
        return false;
    }
    processor.prefetching.is_none() && processor.translator.is_none()
}

/// Runs through plain hits up to the time bound and the end of the slice, if the processor is not within a record and no
/// store waits; whether there was any. What it leaves behind is what one after the other leaves.
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
    if processor.offset != 0 || !processor.stores.is_empty() {
        return false;
    }
    let records = &work.batch.records[*work.position..];
    let cycles = pace.cycles.0;
    let most = ((pace.limit - processor.time) / cycles).saturating_add(1).min(processor.slice);
    let mut counts = RunCounts::default();
    let performed = port.run_hits(cpu, records, most, &mut counts);
    if performed == 0 {
        return false;
    }
    *work.position += performed;
    let from = processor.time;
    let [user, kernel] = count_run(processor, work, records[0].task, &counts);
    processor.time += cycles * (user + kernel);
    if processor.history.is_none() {
        processor.times.execute(false, cycles * user);
        processor.times.execute(true, cycles * kernel);
        return true;
    }
    // A moment within the run is to find what was charged by then, so each stretch of one mode is a charge.
    let mut time = from;
    for stretch in records[..performed].chunk_by(|a, b| a.is_kernel() == b.is_kernel()) {
        let taken = cycles * stretch.iter().map(|record| u64::from(record.cpu)).sum::<u64>();
        time += taken;
        processor.times.execute(stretch[0].is_kernel(), taken);
        processor.note(time);
    }
    true
}

/// Counts the references of a run of `task`; how many were made in each mode.
#[inline]
pub(super) fn count_run<W>(
    processor: &mut Processor<W>,
    work: &mut Records<'_>,
    task: TaskId,
    counts: &RunCounts,
) -> [u64; 2] {
    let of_task = &mut work.tasks[task as usize];
    for ((sums, of_task), counts) in processor.references.iter_mut().zip(of_task).zip(counts) {
        for ((sum, of_task), count) in sums.iter_mut().zip(of_task).zip(counts) {
            *sum += count;
            *of_task += count;
        }
    }
    let in_modes = counts.map(|of_mode| of_mode.iter().sum::<u64>());
    processor.slice = processor.slice.saturating_sub(in_modes.iter().sum());
    in_modes
}
