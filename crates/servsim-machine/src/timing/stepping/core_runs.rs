//! Runs of plain hits on a processor with a core, which neither prefetches nor translates addresses: instructions enter and
//! loads find their data one after the other, without a look at anything that these cannot change.

use super::enter_instructions;
use super::runs::count_run;
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
        (&work.records[*work.position..], work.code.get(*work.position..).unwrap_or_default());
    let (mut counts, most) = (RunCounts::default(), processor.slice);
    let mut along = Along { processor, limit, code, instructions: work.instructions, done: 0 };
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
    /// Time bound.
    limit: u64,
    /// Where the instructions of the records are in the list, from the first record on.
    code: &'a [u32],
    instructions: &'a [Instruction],
    /// Records performed.
    done: usize,
}

impl<W: WordMask> Follower for Along<'_, W> {
    #[inline]
    fn may_perform(&self, record: &Record, line: LineAddr) -> bool {
        let Self { processor, limit, .. } = self;
        let Some(core) = &processor.core else { return false };
        processor.time <= *limit
            && !processor.stores.iter().any(|store| store.access.line == line)
            && match record.op {
                Op::Fetch => record.flags & MISPREDICTED == 0 || processor.branch_paid,
                Op::Load => {
                    core.address().is_some() && core.asking(|other| other.access.line == line).is_none()
                }
                Op::Store => processor.stores.is_empty(),
                Op::Event => false,
            }
    }

    #[inline]
    fn performed(&mut self, record: &Record, line: LineAddr) -> bool {
        let Self { processor, code, instructions, done, .. } = self;
        let code = code.get(*done);
        *done += 1;
        match (record.op, &mut processor.core) {
            (Op::Fetch, _) => enter_instructions(processor, record, code, instructions),
            (Op::Load, Some(core)) => {
                core.hit(line, processor.time, Cycles(0));
                true
            }
            _ => true,
        }
    }
}
