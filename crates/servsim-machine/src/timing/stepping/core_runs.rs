//! Runs of plain hits on a processor with a core, which neither prefetches nor translates addresses: instructions enter and
//! loads find their data one after the other, without a look at anything that these cannot change.

#![allow(clippy::inline_always)] // into the loop of hits

use super::enter_instructions;
use super::runs::count_run;
use crate::timing::pending::Pending;
use crate::timing::port::MemoryPort;
use crate::timing::processor::Processor;
use crate::timing::stop::Records;
use servsim_core::reference::MISPREDICTED;
use servsim_core::{CpuId, Cycles, Instruction, LineAddr, Op, Record};
use servsim_mem::{Follower, RunCounts, WordMask};

/// Runs through plain hits up to the time bound and the end of the slice, if the processor is not within a record;
/// whether there was any. What it leaves behind is what one after the other leaves.
#[inline]
pub(super) fn run_on_core<W: WordMask>(
    cpu: CpuId,
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    work: &mut Records<'_>,
    limit: u64,
) -> bool {
    if processor.is_within_record() {
        return false;
    }
    let (records, code) =
        (&work.batch.records[*work.position..], work.batch.code.get(*work.position..).unwrap_or_default());
    let (mut counts, most) = (RunCounts::default(), processor.slice);
    let Some(core) = &processor.core else { return false };
    let is_quiet = processor.stores.is_empty() && !core.is_asking();
    let mut along = Along { processor, is_quiet, limit, code, instructions: work.instructions };
    let performed = port.run_followed_hits(cpu, (records, most), &mut along, &mut counts);
    // Of a fetch whose instructions are kept out the caches have no more to do.
    let fetched = usize::from(processor.fetched);
    port.count_lookups(cpu, performed + fetched, &counts);
    if performed == 0 {
        return false;
    }
    *work.position += performed;
    count_run(processor, work, records[0].task, &counts);
    true
}

/// The core goes along with a run.
struct Along<'a, W> {
    processor: &'a mut Processor<W>,
    /// No store waits and no load asks: plain hits add none.
    is_quiet: bool,
    /// Time bound.
    limit: u64,
    /// Where the instructions of the records are in the list, from the first record on.
    code: &'a [u32],
    instructions: &'a [Instruction],
}

impl<W: WordMask> Along<'_, W> {
    /// Whether `op` on `line` has nothing to do with stores that wait and loads that ask.
    fn is_apart(&self, op: Op, line: LineAddr) -> bool {
        let is_same = |pending: &Pending<W>| pending.access.line == line;
        let Processor { core, stores, .. } = &*self.processor;
        let asked_for = || core.as_ref().is_some_and(|core| core.asking(is_same).is_some());
        match op {
            Op::Store => stores.is_empty(),
            Op::Load => !stores.iter().any(is_same) && !asked_for(),
            _ => !stores.iter().any(is_same),
        }
    }
}

impl<W: WordMask> Follower for Along<'_, W> {
    #[inline(always)]
    fn may_perform(&self, record: &Record, line: LineAddr) -> bool {
        let processor = &self.processor;
        let may = match record.op {
            Op::Fetch => record.flags & MISPREDICTED == 0 || processor.branch_paid,
            Op::Load => processor.core.as_ref().is_some_and(|core| core.address().is_some()),
            Op::Store => true,
            Op::Event => false,
        };
        may && processor.time <= self.limit && (self.is_quiet || self.is_apart(record.op, line))
    }

    #[inline(always)]
    fn performed(&mut self, position: usize, record: &Record, line: LineAddr) -> bool {
        let Self { processor, code, instructions, .. } = self;
        match (record.op, &mut processor.core) {
            (Op::Fetch, _) => enter_instructions(processor, record, code.get(position), instructions),
            (Op::Load, Some(core)) => {
                core.hit(line, processor.time, Cycles(0));
                true
            }
            _ => true,
        }
    }
}
