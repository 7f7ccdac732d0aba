//! Runs of hits do what the same references do one by one: to the counters, and to all that the future depends on.

use crate::snapshot::{empty, saved, shapes, CPUS};
use servsim_core::reference::{own_area, KERNEL, PER_CPU};
use servsim_core::{CpuId, LineAddr, Op, RandomStream, Record};
use servsim_mem::protocol::PROTOCOLS;
use servsim_mem::snapshot::Reader;
use servsim_mem::{Access, Follower, Hierarchy, HierarchySpec, Page, RunCounts, Turn, WordMask};

/// log2 of the bytes of the longest lines that sixteen words make.
const SHIFT: u32 = 6;

/// How references are told of.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// log2 of the bytes of a line.
    shift: u32,
    /// Whether records say how many fetches they stand for, and which lie in the processor's own area.
    joined: bool,
}

/// References of one processor and task, mostly to a few lines; some cross into the next.
fn turn(random: &mut RandomStream, task: u32, form: Form) -> Vec<Record> {
    let near = random.below(140);
    let (mut records, mut line, mut op) = (Vec::new(), near, Op::Fetch);
    for _ in 0..random.below(40) {
        // Many fetch where the last one was from.
        if op != Op::Fetch || random.below(2) == 0 {
            line = if random.below(8) == 0 { random.below(150) } else { near + random.below(6) };
        }
        op = [Op::Fetch, Op::Load, Op::Store, Op::Fetch][random.below(4) as usize];
        let start = random.below(1 << form.shift);
        let mut record = Record::new(task, op, line << form.shift | start, 1 + random.below(8) as u8);
        record.flags = if random.below(4) == 0 { KERNEL } else { 0 };
        if form.joined {
            let in_line = start + u64::from(record.size) <= 1 << form.shift;
            record.cpu = 1 + if op == Op::Fetch && in_line { random.below(3) as u8 } else { 0 };
            record.flags |= if random.below(8) == 0 { PER_CPU } else { 0 };
        }
        records.push(record);
    }
    records
}

/// Performs one record, reference by reference and line by line.
fn perform(caches: &mut Hierarchy<u16>, cpu: CpuId, record: &Record, Form { shift, joined }: Form) {
    let own = if record.flags & PER_CPU != 0 { own_area(cpu) } else { 0 };
    let (first, last) = (own | record.address, (own | record.address) + u64::from(record.size) - 1);
    for _ in 0..if joined { record.cpu } else { 1 } {
        for line in first >> shift..=last >> shift {
            let end = (1 << shift) - 1;
            let within = |address: u64| address.clamp(line << shift, line << shift | end) & end;
            let access = Access {
                at: cpu,
                line: LineAddr(line),
                words: u16::of_bytes(within(first), within(last)),
                write: record.op == Op::Store,
                kernel: record.is_kernel(),
                task: record.task,
                slot: record.op as usize,
            };
            caches.access(&access, |_| Page::from(line < 40));
        }
    }
}

/// Of these, how many were performed in runs.
fn compare(spec: &HierarchySpec, protocol: &str, form: Form, random: &mut RandomStream) -> u64 {
    let (mut one_by_one, mut in_runs) = (empty(spec, protocol, false), empty(spec, protocol, false));
    let mut running = [0_u32; CPUS];
    let mut hits = [RunCounts::default(); CPUS];
    for step in 0..300 {
        if step % 10 == 9 {
            // One goes on from its saved state: what frames tell shadows is part of no state, and is found again.
            let state = saved(&in_runs);
            in_runs.restore(&mut Reader::new(&state)).expect("its own state");
        }
        let cpu = CpuId(random.below(CPUS as u64) as usize);
        if random.below(8) == 0 {
            running[cpu.0] = random.below(5) as u32;
        }
        let records = turn(random, running[cpu.0], form);
        for caches in [&mut one_by_one, &mut in_runs] {
            caches.system.run_task(cpu, running[cpu.0]);
        }
        records.iter().for_each(|record| perform(&mut one_by_one, cpu, record, form));
        let mut rest = records.as_slice();
        while !rest.is_empty() {
            let counts = &mut hits[cpu.0];
            let performed = if form.joined {
                in_runs.run_joined_hits(cpu, form.shift, rest, u64::MAX, counts)
            } else {
                in_runs.run_hits(cpu, form.shift, rest, counts)
            };
            rest = &rest[performed..];
            if let Some((record, others)) = rest.split_first() {
                perform(&mut in_runs, cpu, record, form);
                rest = others;
            }
        }
        assert!(saved(&one_by_one) == saved(&in_runs), "{protocol} {form:?} {spec:?}");
    }
    for (cpu, hits) in CpuId::all(CPUS).zip(&hits) {
        in_runs.count_hits(cpu, hits);
    }
    assert_eq!(one_by_one.processor_counters(), in_runs.processor_counters(), "{protocol} {form:?} {spec:?}");
    assert_eq!(one_by_one.counters(), in_runs.counters(), "{protocol} {form:?} {spec:?}");
    hits.as_flattened().as_flattened().iter().sum()
}

/// All shapes and protocols.
fn compare_all(form: Form) {
    let inclusive = shapes().into_iter().find(|spec| !spec.private.is_empty());
    let around = inclusive.map(|spec| HierarchySpec { write_around: true, ..spec });
    for spec in &shapes().into_iter().chain(around).collect::<Vec<_>>() {
        for (number, (protocol, _)) in PROTOCOLS.iter().enumerate() {
            let mut random = RandomStream::new(number as u64, "hits");
            let in_runs = compare(spec, protocol, form, &mut random);
            assert!(in_runs > 1_000, "{protocol} {form:?} {spec:?}: {in_runs} in runs");
        }
    }
}

#[test]
fn a_run_of_hits_does_what_its_references_do_one_by_one() {
    compare_all(Form { shift: SHIFT, joined: false });
}

#[test]
fn so_does_one_of_lines_that_have_fewer_words_than_their_sets() {
    compare_all(Form { shift: SHIFT - 1, joined: false });
}

#[test]
fn so_does_one_of_joined_fetches_and_own_areas() {
    compare_all(Form { shift: SHIFT, joined: true });
    compare_all(Form { shift: SHIFT - 1, joined: true });
}

/// Lets so many records be performed, and ends the run behind one more.
#[derive(Default)]
struct Counted {
    left: usize,
    /// Lines of the record at hand.
    lines: Vec<LineAddr>,
    seen: Vec<(usize, Vec<LineAddr>)>,
}

impl Follower<u16> for Counted {
    fn turn(&self, record: &Record, _: LineAddr) -> Turn {
        match record.op {
            Op::Store => Turn::End,
            Op::Load => Turn::PutAside,
            _ => Turn::Perform,
        }
    }

    fn put_aside(&mut self, record: &Record, address: u64, line: LineAddr, words: u16) {
        assert_eq!((address, line, words), (record.address, LineAddr(9), 1));
        self.lines.push(line);
    }

    fn hit(&mut self, _: &Record, line: LineAddr) {
        self.lines.push(line);
    }

    fn performed(&mut self, position: usize, _: &Record) -> bool {
        self.seen.push((position, std::mem::take(&mut self.lines)));
        self.left = self.left.wrapping_sub(1);
        self.left != usize::MAX
    }
}

#[test]
fn who_goes_along_keeps_records_out_of_a_run_and_ends_it_behind_one() {
    for spec in &shapes() {
        let (mut with, mut without) = (empty(spec, "mesi", false), empty(spec, "mesi", false));
        let one = Form { shift: SHIFT, joined: false };
        let fetch = |line: u64| Record { cpu: 2, ..Record::new(0, Op::Fetch, line << SHIFT, 4) };
        let store = Record { op: Op::Store, cpu: 1, ..fetch(3) };
        let across = Record { address: (2 << SHIFT) - 2, ..fetch(1) };
        let load = Record { op: Op::Load, cpu: 1, ..fetch(9) };
        let records = [fetch(1), fetch(2), across, load, store, fetch(2)];
        for caches in [&mut with, &mut without] {
            caches.system.run_task(CpuId(0), 0);
            records.iter().for_each(|record| perform(caches, CpuId(0), record, one));
        }
        for (left, length, performed) in [(9, 4, 4), (1, 1, 2), (0, 0, 1)] {
            let (mut follower, mut counts) = (Counted { left, ..Counted::default() }, RunCounts::default());
            let all = (records.as_slice(), u64::MAX);
            assert_eq!(with.run_followed_hits(CpuId(0), SHIFT, all, &mut follower, &mut counts), length);
            let fetches = 2 * length.min(3) as u64;
            assert_eq!(counts, [[fetches, u64::from(length > 3), 0, 0], [0; 4]], "each fetch stands for two");
            let lines =
                [vec![1], vec![2], vec![1, 2], vec![9]].map(|of| of.into_iter().map(LineAddr).collect());
            let seen: Vec<_> = (0..).zip(lines).take(performed).collect();
            assert_eq!(follower.seen, seen);
            // The one that ended the run was performed all the same, and what was put aside was not.
            records[..performed.min(3)]
                .iter()
                .for_each(|record| perform(&mut without, CpuId(0), record, one));
            assert!(saved(&with) == saved(&without), "{spec:?}");
        }
    }
}
