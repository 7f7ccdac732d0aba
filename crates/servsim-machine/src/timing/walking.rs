//! The timing engine's side of address translation: a processor that misses in its first-level TLB waits
//! for the second level, or reads table entries one after the other, each through its caches and, on a
//! miss, over the bus. Every processor model waits; walks do not overlap with execution.

use super::pending::Pending;
use super::port::MemoryPort;
use super::processor::Processor;
use super::stop::{Pace, Records, Stop};
use super::translator::TranslationTimes;
use crate::translation::{look_up, process_of, table_access, TABLE_PAGE};
use servsim_core::{CpuId, Cycles, Op};
use servsim_mem::{Translated, WordMask};

impl<W: WordMask> Processor<W> {
    /// Whether it walks the page tables.
    pub fn is_walking(&self) -> bool {
        self.translator.as_ref().is_some_and(|translator| translator.walk.is_some())
    }

    fn wait_for_translation(&mut self, span: Cycles) {
        let from = self.time;
        self.time += span;
        self.stall(from, self.time, false, None);
    }

    /// The data of a table entry arrived over the bus, if it was `read`.
    pub(super) fn table_returned(&mut self, read: bool, times: TranslationTimes) {
        if let (true, Some(translator)) = (read, &mut self.translator) {
            translator.read();
            self.wait_for_translation(times.step);
        }
    }
}

/// Takes one step of the translation of the record at hand: the look-up, or one reference of its walk.
pub(super) fn translate<W: WordMask>(
    cpu: CpuId,
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    work: &Records<'_>,
    pace: &Pace,
) -> Option<Stop<W>> {
    let (Some(times), Some(translator)) = (pace.translation, &mut processor.translator) else { return None };
    let record = &work.batch.records[*work.position];
    let Some((walk, kernel)) = translator.walk else {
        if let Some(process) = process_of(work.spaces, record.task) {
            translator.mmu.enter(process);
        }
        let count = if record.op == Op::Fetch && processor.offset == 0 { u64::from(record.cpu) } else { 1 };
        let asked = look_up(record, cpu, work.batch.pages[*work.position], processor.offset, count);
        match translator.mmu.translate(&asked) {
            Translated::First => translator.done = true,
            Translated::Second => {
                translator.done = true;
                processor.wait_for_translation(times.second);
            }
            Translated::Walk(walk) => translator.walk = Some((walk, asked.kernel)),
        }
        return None;
    };
    let address = walk.next_address()?;
    let access = table_access(cpu, address, record.task, pace.shift);
    let Some(depth) = port.try_hit(&access, processor.time) else {
        translator.mmu.counters.walk_misses[usize::from(kernel)] += 1;
        return Some(Stop::Walk(Pending { access, page: TABLE_PAGE, fetching: false }));
    };
    translator.read();
    processor.wait_for_translation(times.step + port.beyond_first(depth));
    None
}
