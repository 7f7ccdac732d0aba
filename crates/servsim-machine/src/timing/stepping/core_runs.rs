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

#[cfg(test)]
pub(super) mod tests {
    use crate::timing::{run, Model};
    use crate::Setup;
    use servsim_config::Machine;
    use servsim_core::code::{Class, Instruction};
    use servsim_core::reference::{KERNEL, MISPREDICTED};
    use servsim_core::{Batch, Op, RandomStream, Record, TaskInfo, TaskKind};
    use servsim_import::InMemory;
    use servsim_mem::protocol::{by_name, Options};
    use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const MODELS: [&str; 3] = ["fixed", "inorder", "ooo"];

    thread_local! {
        /// Every reference goes the general way.
        pub(in crate::timing) static ONE_BY_ONE: Cell<bool> = const { Cell::new(false) };
    }

    /// A stream that hits mostly, in lines that few or all tasks use, some of them across two.
    fn stream(random: &mut RandomStream, task: u32) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..4000 {
            let line = |random: &mut RandomStream| match random.below(30) {
                0 => random.below(200),
                1..4 => 300 + random.below(4),
                _ => 400 + u64::from(task) * 8 + random.below(5),
            };
            let mut record = |random: &mut RandomStream, op, base: u64, joined| {
                let address = base + line(random) * 64 + random.below(61);
                let mut record = Record::new(task, op, address, 1 + random.below(6) as u8);
                record.cpu = joined;
                record.flags = if random.below(9) == 0 { KERNEL } else { 0 };
                batch.code.push(random.below(50) as u32);
                batch.records.push(record);
            };
            let joined = 1 + random.below(4) as u8;
            record(random, Op::Fetch, 1 << 20, joined);
            for _ in 0..random.below(3) {
                let op = if random.below(3) == 0 { Op::Store } else { Op::Load };
                // Some of it in lines with code.
                let base = if random.below(6) == 0 { 1 << 20 } else { 0 };
                record(random, op, base, 1);
            }
            if random.below(20) == 0 {
                record(random, Op::Fetch, 1 << 20, 1);
                batch.records.last_mut().unwrap().flags |= MISPREDICTED;
            }
        }
        batch
    }

    /// All that a run counts.
    fn result(model: &str, split: bool, one_by_one: bool) -> String {
        let mut random = RandomStream::new(5, model);
        let register = |random: &mut RandomStream| 1 << random.below(6);
        let code = (0..54).map(|_| Instruction {
            address: if random.below(2) == 0 { 0 } else { register(&mut random) },
            reads: register(&mut random),
            writes: register(&mut random),
            class: [Class::Integer, Class::Multiply, Class::Divide][random.below(3) as usize],
        });
        let code: Vec<_> = code.collect();
        let streams: Vec<_> = (0..4).map(|task| stream(&mut random, task)).collect();
        let info = TaskInfo { name: "t".into(), pid: 0, kind: TaskKind::User, client: false };
        let source = InMemory::from_streams(vec![info; 4], Vec::new(), streams).with_code(code);
        let settings =
            ["processors=3", "scheduler.time_slice=700 references", "processor.store_buffer=3 words"];
        let mut overrides: Vec<String> = settings.map(Into::into).into();
        overrides.extend(["cache.size=4 KiB", "l2.size=16 KiB", "l2.latency=12 cycles"].map(Into::into));
        overrides.push(format!("processor.model={model}"));
        let machine = Machine::from_toml("", "test", &overrides).unwrap();
        let geometry = Geometry { size: 4096, ways: 2, line: 64 };
        let protocol = by_name(&machine.protocol.name, &Options::default()).unwrap();
        let setup = Setup { processors: 3, geometry, protocol, shadow: true };
        let level = LevelSpec {
            geometry: Geometry { size: 16 << 10, ..geometry },
            replacement: "lru".into(),
            inclusion: Inclusion::Inclusive,
            write_around: false,
        };
        let levels = HierarchySpec { split, private: vec![level], ..HierarchySpec::default() };
        let model = Model::new(&machine, &setup, None, 0).with_hierarchy(levels);
        ONE_BY_ONE.set(one_by_one);
        let result = run(&source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
        ONE_BY_ONE.set(false);
        format!("{result:?}")
    }

    #[test]
    fn a_run_leaves_what_its_references_leave_one_by_one() {
        for (model, split) in MODELS.map(|model| [(model, false), (model, true)]).into_iter().flatten() {
            assert!(result(model, split, false) == result(model, split, true), "{model}, split: {split}");
        }
    }
}
