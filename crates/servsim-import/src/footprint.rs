//! The statistics of source traces that papers on caches print: per group of tasks, its references by kind, the distinct
//! blocks that it touches, and how many of them, and of its data references, belong to blocks that several of
//! its tasks reach. A property of the software: nothing here depends on caches or processors.

use servsim_core::reference::CONTINUATION;
use servsim_core::source::PageHash;
use servsim_core::{Batch, GlobalSource, Op, SourceError};
use std::collections::{HashMap, HashSet};

/// What a group of tasks referenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Instruction fetches.
    pub fetches: u64,
    /// Data loads.
    pub loads: u64,
    /// Data stores.
    pub stores: u64,
    /// Distinct blocks of code and data.
    pub blocks: u64,
    /// Blocks of data that several tasks of the group reach.
    pub shared_blocks: u64,
    /// Loads and stores of these.
    pub shared_accesses: u64,
    /// Stores of these.
    pub shared_stores: u64,
}

type Blocks<T> = HashMap<u64, T, PageHash>;

/// Of one task.
#[derive(Debug, Default)]
struct OfTask {
    fetches: u64,
    code: HashSet<u64, PageHash>,
    /// Loads and stores of each block of data.
    data: Blocks<[u64; 2]>,
}

impl OfTask {
    fn touch(&mut self, op: Op, blocks: std::ops::RangeInclusive<u64>, counted: u64) {
        let first = *blocks.start();
        match op {
            Op::Fetch => {
                self.fetches += counted;
                self.code.extend(blocks);
            }
            Op::Load | Op::Store => {
                for block in blocks {
                    let found = self.data.entry(block).or_default();
                    // An access that crosses a border is one reference, of its first block.
                    found[usize::from(op == Op::Store)] += if block == first { counted } else { 0 };
                }
            }
            Op::Event => {}
        }
    }
}

/// Walks a trace, and returns the footprint of each of `groups`, which name tasks by their numbers, in blocks of `line` bytes.
/// `goes_on` takes the references so far now and then, and says whether to go on.
///
/// # Errors
/// When the trace is damaged or cannot be read, a group names a task that it lacks, or the walk does not go on.
pub fn footprints(
    source: &mut dyn GlobalSource,
    line: u64,
    groups: &[Vec<usize>],
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Footprint>, SourceError> {
    let tasks = source.tasks().len();
    if let Some(task) = groups.iter().flatten().find(|&&task| task >= tasks) {
        return Err(SourceError(format!("there is no task {task}: this trace has {tasks}, counted from 0")));
    }
    let mut of_tasks: Vec<OfTask> = (0..tasks).map(|_| OfTask::default()).collect();
    let (mut batch, mut references) = (Batch::default(), 0);
    while source.next_batch(&mut batch)? {
        for record in batch.records.iter().filter(|record| record.op != Op::Event) {
            let last = record.address + (u64::from(record.size) - 1);
            let counted = u64::from(record.flags & CONTINUATION == 0);
            of_tasks[record.task as usize].touch(record.op, record.address / line..=last / line, counted);
            references += counted;
        }
        if !goes_on(references) {
            return Err(SourceError("interrupted".to_owned()));
        }
    }
    Ok(groups.iter().map(|group| of_group(&of_tasks, group)).collect())
}

fn of_group(of_tasks: &[OfTask], group: &[usize]) -> Footprint {
    let mut found = Footprint::default();
    // Per block of data: how many tasks reach it, their loads and stores.
    let mut data: Blocks<(u32, [u64; 2])> = Blocks::default();
    let mut all: HashSet<u64, PageHash> = HashSet::default();
    for task in group.iter().map(|&task| &of_tasks[task]) {
        found.fetches += task.fetches;
        all.extend(task.code.iter().chain(task.data.keys()));
        for (&block, &[loads, stores]) in &task.data {
            let (reach, [all_loads, all_stores]) = data.entry(block).or_default();
            (*reach, *all_loads, *all_stores) = (*reach + 1, *all_loads + loads, *all_stores + stores);
        }
    }
    found.blocks = all.len() as u64;
    for (reach, [loads, stores]) in data.into_values() {
        found.loads += loads;
        found.stores += stores;
        if reach > 1 {
            found.shared_blocks += 1;
            found.shared_accesses += loads + stores;
            found.shared_stores += stores;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListSource;
    use servsim_core::{Privacy, Record, TaskInfo, TaskKind};

    fn reference(task: u32, op: Op, address: u64, size: u8) -> Record {
        Record::new(task, op, address, size)
    }

    fn found(records: &[Record], groups: &[Vec<usize>]) -> Result<Vec<Footprint>, SourceError> {
        walked(records, groups, &mut |_| true)
    }

    fn walked(
        records: &[Record],
        groups: &[Vec<usize>],
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Vec<Footprint>, SourceError> {
        let task = |pid| TaskInfo { name: "t".into(), pid, kind: TaskKind::User, client: false };
        let items = records.iter().map(|&record| (record, None)).collect();
        let mut source = ListSource::new((0..3).map(task).collect(), Vec::new(), Privacy::default(), items);
        footprints(&mut source, 32, groups, goes_on)
    }

    #[test]
    fn blocks_of_two_tasks_of_a_group_are_shared_and_code_is_not() {
        let records = [
            reference(0, Op::Fetch, 0x1000, 4),
            reference(1, Op::Fetch, 0x1004, 4),
            reference(0, Op::Load, 0x2000, 4),
            reference(1, Op::Store, 0x201c, 8),
            reference(2, Op::Load, 0x2020, 4),
            reference(0, Op::Load, 0x3000, 4),
        ];
        let all = found(&records, &[vec![0, 1], vec![1, 2], vec![0]]).unwrap();
        let pair = Footprint {
            fetches: 2,
            loads: 2,
            stores: 1,
            blocks: 4,
            shared_blocks: 1,
            shared_accesses: 2,
            shared_stores: 1,
        };
        assert_eq!(all[0], pair, "the store crosses into a second block, which only its task reaches here");
        // Its second block is shared with task 2; the reference itself is one of the first.
        assert_eq!((all[1].shared_blocks, all[1].shared_accesses, all[1].shared_stores), (1, 1, 0));
        assert_eq!((all[2].fetches, all[2].loads, all[2].blocks, all[2].shared_blocks), (1, 2, 3, 0));
    }

    #[test]
    fn references_so_far_are_told_and_the_walk_ends_where_it_should_not_go_on() {
        let records = [reference(0, Op::Fetch, 0, 4), reference(1, Op::Load, 0x1f, 8)];
        let mut told = Vec::new();
        walked(&records, &[vec![0]], &mut |references| {
            told.push(references);
            true
        })
        .unwrap();
        assert_eq!(told.last(), Some(&2));
        assert_eq!(walked(&records, &[vec![0]], &mut |_| false).unwrap_err().to_string(), "interrupted");
    }

    #[test]
    fn a_task_that_is_not_there_is_refused() {
        let refused = found(&[], &[vec![3]]).unwrap_err().to_string();
        assert!(refused.contains("no task 3") && refused.contains("has 3"), "{refused}");
    }
}
