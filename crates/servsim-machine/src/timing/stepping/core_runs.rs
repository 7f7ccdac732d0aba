//! Runs of plain hits on a processor with a core, which neither prefetches nor translates addresses: instructions enter and
//! loads find their data one after the other, without a look at anything that these cannot change. Stores behind others in
//! the buffer, and loads that wait for their address or for a line that is under way, ask nobody for anything yet: they are
//! put aside, and the run goes on.

#![allow(clippy::inline_always)] // into the loop of hits

use super::enter_instructions;
use super::runs::count_run;
use crate::timing::pending::Pending;
use crate::timing::port::{data_references, MemoryPort};
use crate::timing::processor::Processor;
use crate::timing::stop::{Pace, Records};
use servsim_core::reference::MISPREDICTED;
use servsim_core::{CpuId, Cycles, Instruction, LineAddr, Op, Privacy, Record};
use servsim_mem::{Follower, RunCounts, Turn, WordMask};

/// Runs through plain hits up to the time bound and the end of the slice, if the processor is not within a record;
/// whether there was any. What it leaves behind is what one after the other leaves.
#[inline]
pub(super) fn run_on_core<W: WordMask>(
    cpu: CpuId,
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    work: &mut Records<'_>,
    pace: &Pace,
) -> bool {
    if processor.is_within_record() {
        return false;
    }
    let (records, code) =
        (&work.batch.records[*work.position..], work.batch.code.get(*work.position..).unwrap_or_default());
    let (mut counts, most) = (RunCounts::default(), processor.slice);
    let Some(core) = &processor.core else { return false };
    let is_quiet = processor.stores.is_empty() && !core.is_asking();
    let (Pace { limit, most_stores, .. }, Records { instructions, privacy, .. }) = (*pace, &*work);
    let mut along =
        Along { cpu, processor, is_quiet, limit, most_stores, code, instructions, privacy, aside: 0 };
    let performed = port.run_followed_hits(cpu, (records, most), &mut along, &mut counts);
    let (data, aside) = (data_references(&counts), along.aside);
    // Of a fetch whose instructions are kept out the caches have no more to do.
    let fetches = performed as u64 - data + u64::from(processor.fetched);
    port.count_lookups(cpu, fetches, data - aside);
    if performed == 0 {
        return false;
    }
    *work.position += performed;
    let made: u64 = count_run(processor, &mut work.tasks[records[0].task as usize], &counts).iter().sum();
    processor.slice = processor.slice.saturating_sub(made);
    true
}

/// The core goes along with a run.
struct Along<'a, W> {
    cpu: CpuId,
    processor: &'a mut Processor<W>,
    /// No store waits and no load asks: a run adds none.
    is_quiet: bool,
    /// Time bound.
    limit: u64,
    /// See [`Pace`].
    most_stores: usize,
    /// Where the instructions of the records are in the list, from the first record on.
    code: &'a [u32],
    instructions: &'a [Instruction],
    privacy: &'a Privacy,
    /// Records put aside.
    aside: u64,
}

impl<W: WordMask> Along<'_, W> {
    /// Whether the address of a load of the current instruction is known.
    #[inline]
    fn knows_address(&self) -> bool {
        self.processor.core.as_ref().is_some_and(|core| core.address().is_some())
    }

    /// What is to be done with `op` on `line` while stores wait or loads ask.
    #[inline(never)]
    fn turn_among_others(&self, op: Op, line: LineAddr) -> Turn {
        let is_same = |pending: &Pending<W>| pending.access.line == line;
        let Processor { core: Some(core), stores, .. } = &*self.processor else { return Turn::End };
        match op {
            Op::Store if stores.is_empty() => Turn::Perform,
            Op::Store if stores.len() < self.most_stores => Turn::PutAside,
            Op::Store => Turn::End,
            Op::Load if !self.knows_address() => self.put_load_aside(),
            _ if stores.iter().any(is_same) => Turn::End,
            Op::Load if core.asking(is_same).is_some() => self.put_load_aside(),
            _ => Turn::Perform,
        }
    }

    /// A load that cannot ask yet, unless too many of them wait.
    fn put_load_aside(&self) -> Turn {
        if self.processor.core.as_ref().is_some_and(|core| !core.is_crowded()) {
            Turn::PutAside
        } else {
            Turn::End
        }
    }
}

impl<W: WordMask> Follower<W> for Along<'_, W> {
    #[inline(always)]
    fn turn(&self, record: &Record, line: LineAddr) -> Turn {
        let processor = &self.processor;
        if processor.time > self.limit {
            return Turn::End;
        }
        match record.op {
            Op::Fetch if record.flags & MISPREDICTED != 0 && !processor.branch_paid => return Turn::End,
            Op::Event => return Turn::End,
            _ => {}
        }
        if self.is_quiet {
            debug_assert!(self.knows_address(), "no load that misses decides it");
            Turn::Perform
        } else {
            self.turn_among_others(record.op, line)
        }
    }

    #[inline(never)]
    fn put_aside(&mut self, record: &Record, address: u64, line: LineAddr, words: W) {
        let pending = Pending::aside(self.cpu, record, (address, line, words), self.privacy);
        self.aside += 1;
        if pending.access.write {
            self.processor.stores.push_back(pending);
        } else if let Some(core) = &mut self.processor.core {
            match core.address().and_then(|_| core.asking(|other| other.access.line == line)) {
                Some(other) => core.merge(pending, other),
                None => core.wait_for_address(pending),
            };
        }
    }

    #[inline(always)]
    fn hit(&mut self, record: &Record, line: LineAddr) {
        let now = self.processor.time;
        if let (Op::Load, Some(core)) = (record.op, &mut self.processor.core) {
            core.hit(line, now, Cycles(0));
        }
    }

    #[inline(always)]
    fn performed(&mut self, position: usize, record: &Record) -> bool {
        let Self { processor, code, instructions, .. } = self;
        record.op != Op::Fetch || enter_instructions(processor, record, code.get(position), instructions)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use crate::result::Replication;
    use crate::timing::{run, Model};
    use crate::Setup;
    use servsim_config::Machine;
    use servsim_core::code::{Class, Instruction};
    use servsim_core::reference::{KERNEL, MISPREDICTED, PER_CPU};
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

    /// The task of the handler that runs within streams.
    const HANDLER: u32 = 4;

    /// A stream that hits mostly, in lines that few or all tasks use, some of them across two; now and then a handler runs in it.
    fn stream(random: &mut RandomStream, of_task: u32) -> Batch {
        let mut batch = Batch::default();
        let mut handled = 0;
        for _ in 0..4000 {
            handled = if random.below(40) == 0 { 1 + random.below(5) } else { handled.max(1) - 1 };
            let task = if handled > 0 { HANDLER } else { of_task };
            let line = |random: &mut RandomStream| match random.below(30) {
                0 => random.below(200),
                1..4 => 300 + random.below(4),
                _ => 400 + u64::from(of_task) * 8 + random.below(5),
            };
            let mut record = |random: &mut RandomStream, op, base: u64, joined| {
                let address = base + line(random) * 64 + random.below(61);
                let mut record = Record::new(task, op, address, 1 + random.below(6) as u8);
                record.cpu = joined;
                record.flags = if random.below(9) == 0 { KERNEL } else { 0 };
                record.flags |= if op != Op::Fetch && random.below(9) == 0 { PER_CPU } else { 0 };
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

    /// All that a run counts, of so many references if a number is given.
    fn result(model: &str, split: bool, one_by_one: bool, references: Option<u64>) -> Replication {
        let mut random = RandomStream::new(5, model);
        let register = |random: &mut RandomStream| 1 << random.below(6);
        let code = (0..54).map(|_| Instruction {
            address: if random.below(2) == 0 { 0 } else { register(&mut random) },
            reads: register(&mut random),
            writes: register(&mut random),
            class: [Class::Integer, Class::Multiply, Class::Divide][random.below(3) as usize],
        });
        let code: Vec<_> = code.collect();
        let mut streams: Vec<_> = (0..HANDLER).map(|task| stream(&mut random, task)).collect();
        streams.push(Batch::default());
        let info = |kind| TaskInfo { name: "t".into(), pid: 0, kind, client: false };
        let mut infos = vec![info(TaskKind::User); HANDLER as usize];
        infos.push(info(TaskKind::Interrupt));
        let source = InMemory::from_streams(infos, Vec::new(), streams).with_code(code);
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
        let model = Model { references, ..Model::new(&machine, &setup, None, 0).with_hierarchy(levels) };
        ONE_BY_ONE.set(one_by_one);
        let result = run(&source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
        ONE_BY_ONE.set(false);
        result
    }

    #[test]
    fn a_run_leaves_what_its_references_leave_one_by_one() {
        for (model, split) in MODELS.map(|model| [(model, false), (model, true)]).into_iter().flatten() {
            let result = |one_by_one| format!("{:?}", result(model, split, one_by_one, None));
            assert!(result(false) == result(true), "{model}, split: {split}");
        }
    }

    #[test]
    fn a_window_of_references_ends_few_records_late() {
        for wanted in [1, 1000, 5000, 20_000] {
            let made: u64 =
                result("fixed", false, false, Some(wanted)).counters.references.iter().flatten().sum();
            // A record stands for four references at most, and they are counted every 16 turns.
            assert!((wanted..=wanted + 64).contains(&made), "{made} of {wanted}");
        }
    }
}
