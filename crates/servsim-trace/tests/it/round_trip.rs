//! What is written is what is read, item by item, and damage never passes for a trace.

use proptest::prelude::*;
use servsim_trace::*;
use std::path::Path;
use std::sync::Arc;

/// An item as written, owned.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Block(ShapeId, Vec<Ref>),
    Event(Event),
}

fn shape(vaddr: u64, sizes: &[(u8, bool)]) -> Shape {
    let op = |(i, (size, store)): (usize, &(u8, bool))| MemOp {
        insn: i as u16,
        size: *size,
        store: *store,
        slot: [slots::STACK, 0, slots::ABSOLUTE, slots::INDEXED + 7][i % 4],
        disp: i as i64 * 8 - 8,
    };
    let insns: Box<[Insn]> = (0..sizes.len().max(1)).map(|i| Insn { len: 3, atomic: i == 1 }).collect();
    Shape {
        vaddr,
        paddr: vaddr & 0xffff_ffff,
        next_page: (vaddr % 4096 > 4000).then_some(0x7000),
        code: vec![0x90; 3 * insns.len()].into(),
        insns,
        ops: sizes.iter().enumerate().map(op).collect(),
        stack_step: -16,
    }
}

fn task(pid: u32) -> TaskInfo {
    TaskInfo { pid, tgid: pid, name: format!("task{pid}"), kind: TaskKind::User, client: pid == 2 }
}

fn shapes() -> Vec<Shape> {
    vec![
        shape(0x40_1000, &[]),
        shape(0xffff_ffff_8100_0ff8, &[(8, false), (8, true), (4, false), (64, true), (1, false)]),
        shape(0x40_1ffd, &[(16, true), (8, false)]),
    ]
}

fn write(path: &Path, steps: &[(TaskId, Step)], epoch_bytes: usize) -> WriterTotals {
    let mut writer = TraceWriter::create(path, &Meta::default(), WriterOptions { epoch_bytes }).unwrap();
    (1..=3).for_each(|pid| {
        writer.add_task(task(pid));
    });
    shapes().into_iter().for_each(|shape| {
        writer.add_shape(shape);
    });
    for (task, step) in steps {
        writer.switch_to(*task);
        match step {
            Step::Block(shape, refs) => writer.block(*shape, refs).unwrap(),
            Step::Event(event) => writer.event(*event),
        }
    }
    writer.finish().unwrap()
}

fn read(reader: &Arc<TraceReader>) -> Result<Vec<(TaskId, Step)>, TraceError> {
    let mut cursor = GlobalCursor::new(reader.clone());
    let mut steps = Vec::new();
    while let Some(GlobalItem { task, item }) = cursor.next()? {
        steps.push((task, owned(item)));
    }
    Ok(steps)
}

/// What a sink is told, as items.
#[derive(Default)]
struct Told(Vec<(TaskId, Step)>);

impl Sink for Told {
    fn block(&mut self, task: TaskId, shape: ShapeId) {
        self.0.push((task, Step::Block(shape, Vec::new())));
    }

    fn reference(&mut self, index: usize, reference: Ref) {
        let Some((_, Step::Block(_, refs))) = self.0.last_mut() else { panic!("a reference without block") };
        assert_eq!(index, refs.len());
        refs.push(reference);
    }

    fn end_block(&mut self) -> bool {
        // Often enough, in the midst of what the task does.
        self.0.len() % 3 != 0
    }

    fn event(&mut self, task: TaskId, event: Event) -> bool {
        self.0.push((task, Step::Event(event)));
        self.0.len() % 3 != 0
    }
}

/// What the runs of a cursor tell.
fn told(mut run: impl FnMut(&mut Told) -> bool) -> Vec<(TaskId, Step)> {
    let mut told = Told::default();
    loop {
        let before = told.0.len();
        let more = run(&mut told);
        let of_one = |range: &[(TaskId, Step)]| range.iter().all(|(task, _)| *task == range[0].0);
        assert!(of_one(&told.0[before..]), "a run is of one task");
        let full = |length: usize| length % 3 == 0;
        assert!(!(before + 1..told.0.len()).any(full), "it ends when the sink has enough");
        if !more {
            return told.0;
        }
    }
}

/// Per task, the epochs in which it ran.
fn epochs(reader: &Arc<TraceReader>) -> Vec<Vec<u32>> {
    let mut cursor = GlobalCursor::new(reader.clone());
    while cursor.next().unwrap().is_some() {}
    cursor.ran().to_vec()
}

fn owned(item: Item<'_>) -> Step {
    match item {
        Item::Block(block) => Step::Block(block.shape, block.refs.to_vec()),
        Item::Event(event) => Step::Event(event),
    }
}

/// Addresses as a program makes them: few pages, some crossing, translations that change from
/// block to block (never within one: what changes a mapping ends a block).
fn references(shape: ShapeId, seeds: &[(u64, u64)]) -> Vec<Ref> {
    let ops = shapes()[shape as usize].ops.clone();
    ops.iter()
        .zip(seeds)
        .map(|(op, (place, salt))| {
            let vaddr = [0x7fff_0000_0000, 0xffff_8880_0000_0000][(salt % 2) as usize] + place % 20_000;
            let physical = |page: u64| (page & 0xff) * 4096 + (seeds[0].1 % 3) * 0x10_0000;
            let crosses = vaddr % 4096 + u64::from(op.size) > 4096;
            let next_page = if crosses { physical(vaddr / 4096 + 1) } else { 0 };
            Ref { vaddr, paddr: physical(vaddr / 4096) + vaddr % 4096, next_page }
        })
        .collect()
}

fn any_step() -> impl Strategy<Value = (TaskId, Step)> {
    let block = (0..3_u32, prop::collection::vec((any::<u64>(), any::<u64>()), 5))
        .prop_map(|(shape, seeds)| Step::Block(shape, references(shape, &seeds)));
    let event = (0..1_000_000_u64, 0..3_u32).prop_map(|(time_ns, task)| {
        Step::Event(Event { time_ns, kind: EventKind::Wake { task, block: time_ns } })
    });
    (0..3_u32, prop_oneof![4 => block, 1 => event])
}

/// Steps in the order of their times, as whoever reads a trace may expect.
fn any_steps() -> impl Strategy<Value = Vec<(TaskId, Step)>> {
    prop::collection::vec(any_step(), 1..400).prop_map(|mut steps| {
        let mut now = 0;
        for (_, step) in &mut steps {
            if let Step::Event(event) = step {
                now += event.time_ns;
                event.time_ns = now;
            }
        }
        steps
    })
}

/// Blocks and events of `task`, of which `most` blocks are told at once.
fn skimmed(reader: &Arc<TraceReader>, task: TaskId, most: u64) -> Vec<Result<ShapeId, Event>> {
    let epochs: Epochs = epochs(reader)[task as usize].as_slice().into();
    let mut cursor = SkimCursor::new(reader.clone(), task, epochs);
    let mut found = Vec::new();
    loop {
        let before = found.len() as u64;
        let (blocks, event) = cursor.run(most, &mut |shape| found.push(Ok(shape))).unwrap();
        assert!(blocks <= most && blocks == found.len() as u64 - before);
        if blocks == 0 && event.is_none() {
            return found;
        }
        found.extend(event.map(Err));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_item_is_read_back_in_order_and_per_task(
        steps in any_steps(), epoch_bytes in 16_usize..5000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.svt");
        let totals = write(&path, &steps, epoch_bytes);
        let reader = Arc::new(TraceReader::open(&path).unwrap());
        prop_assert_eq!(&read(&reader).unwrap(), &steps);
        let mut cursor = GlobalCursor::new(reader.clone());
        prop_assert_eq!(&told(|sink| cursor.run(sink).unwrap()), &steps);
        for task in 0..3 {
            let own: Vec<(TaskId, Step)> = steps.iter().filter(|(t, _)| *t == task).cloned().collect();
            let mut cursor = TaskCursor::new(reader.clone(), task);
            for (_, step) in &own {
                let item = cursor.next().unwrap().map(owned);
                prop_assert_eq!(item.as_ref(), Some(step));
            }
            prop_assert!(cursor.next().unwrap().is_none());
            let mut cursor = TaskCursor::new(reader.clone(), task);
            prop_assert_eq!(&told(|sink| cursor.run(sink).unwrap()), &own);
        }
        let ran = epochs(&reader);
        for task in 0..3 {
            let epochs: Epochs = ran[task as usize].as_slice().into();
            let mut cursor = TaskCursor::new(reader.clone(), task).within(epochs.clone());
            for (_, step) in steps.iter().filter(|(t, _)| *t == task) {
                let item = cursor.next().unwrap().map(owned);
                prop_assert_eq!(item.as_ref(), Some(step));
            }
            prop_assert!(cursor.next().unwrap().is_none());
            let own = steps.iter().filter(|(t, _)| *t == task).map(|(_, step)| match step {
                Step::Block(shape, _) => Ok(*shape),
                Step::Event(event) => Err(*event),
            });
            let own: Vec<_> = own.collect();
            for most in [1, 2, 3, u64::MAX] {
                prop_assert_eq!(&skimmed(&reader, task, most), &own);
            }
        }
        let statistics = statistics(&reader).unwrap();
        prop_assert_eq!(statistics.total, totals.counts);
        prop_assert_eq!(totals.file_bytes, std::fs::metadata(&path).unwrap().len());
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the trace is left");
    }

    #[test]
    fn a_flipped_bit_is_noticed_and_never_panics(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let (folder, bytes, steps) = sample();
        let path = folder.path().join("flipped.svt");
        let mut bytes = bytes;
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(reader) = TraceReader::open(&path) {
            let reader = Arc::new(reader);
            let whole = read(&reader).is_ok_and(|read| read == steps) && reader.truncated().is_none();
            prop_assert!(!whole, "a flip at byte {} went unnoticed", at);
        }
    }

    #[test]
    fn a_truncated_trace_is_read_up_to_its_last_good_chunk(cut in any::<prop::sample::Index>()) {
        let (folder, bytes, steps) = sample();
        let path = folder.path().join("cut.svt");
        let keep = cut.index(bytes.len());
        std::fs::write(&path, &bytes[..keep]).unwrap();
        if let Ok(reader) = TraceReader::open(&path) {
            let reader = Arc::new(reader);
            prop_assert!(reader.truncated().is_some());
            let read = read(&reader).unwrap();
            prop_assert_eq!(&read[..], &steps[..read.len()]);
        }
    }
}

fn sample() -> (tempfile::TempDir, Vec<u8>, Vec<(TaskId, Step)>) {
    let folder = tempfile::tempdir().unwrap();
    let steps: Vec<(TaskId, Step)> = (0..300_u64)
        .map(|i| (i as u32 % 3, Step::Block(i as u32 % 2, references(i as u32 % 2, &[(i * 37, i / 7); 5]))))
        .collect();
    let path = folder.path().join("t.svt");
    write(&path, &steps, 200);
    let bytes = std::fs::read(&path).unwrap();
    (folder, bytes, steps)
}

#[test]
fn epochs_in_which_a_task_is_known_not_to_have_run_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    // Task 1 runs first and last, task 0 for many epochs between.
    let turn = |i: u64| u32::from(!(3..=296).contains(&i));
    let block = |i: u64| Step::Block(1, references(1, &[(i * 4096, i); 5]));
    let steps: Vec<(TaskId, Step)> = (0..300).map(|i| (turn(i), block(i))).collect();
    write(&path, &steps, 200);
    let ran = epochs(&Arc::new(TraceReader::open(&path).unwrap()));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let reader = Arc::new(TraceReader::open(&path).unwrap());
    let walk = |mut cursor: TaskCursor| {
        let mut items = 0;
        while cursor.next()?.is_some() {
            items += 1;
        }
        Ok::<_, TraceError>(items)
    };
    let within =
        |task: TaskId| TaskCursor::new(reader.clone(), task).within(ran[task as usize].as_slice().into());
    assert!(ran[1].len() <= 4 && ran[0].len() > 10, "{ran:?}");
    assert!(walk(TaskCursor::new(reader.clone(), 1)).is_err(), "all epochs are read");
    assert_eq!(walk(within(1)).unwrap(), 6);
    assert!(walk(within(0)).is_err(), "the damaged epoch is one of its own");
}

#[test]
fn another_version_and_another_kind_of_file_are_named() {
    let (folder, mut bytes, _) = sample();
    let path = folder.path().join("other.svt");
    std::fs::write(&path, b"I 1000\nL 2000\n and some more text").unwrap();
    assert!(matches!(TraceReader::open(&path), Err(TraceError::NotATrace(_))));
    bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let crc = crc32c::crc32c(&99_u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = TraceReader::open(&path).err().unwrap().to_string();
    assert!(error.contains("version 99") && error.contains("reads version 1"), "{error}");
}

#[test]
fn an_unfinished_trace_leaves_nothing_that_passes_for_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    let writer = TraceWriter::create(&path, &Meta::default(), WriterOptions::default()).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_link_beside_the_trace_is_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("t.svt"), folder.path().join("other"));
    std::fs::write(&other, "other").unwrap();
    std::os::unix::fs::symlink(&other, folder.path().join("t.svt.partial")).unwrap();
    write(&path, &[(0, Step::Block(0, Vec::new()))], 1 << 20);
    assert_eq!(std::fs::read(&other).unwrap(), b"other");
    assert!(TraceReader::open(&path).unwrap().truncated().is_none());
}

#[test]
fn a_second_page_that_was_guessed_wrong_spoils_nothing_behind_it() {
    let access = |vaddr: u64, paddr: u64, next_page: u64| Ref { vaddr, paddr, next_page };
    let block = |second_page: u64| {
        let refs = vec![
            access(0x5ffc, 0x1_0ffc, second_page),
            access(0x6010, 0x9_9010, 0),
            access(0x8000, 0x3_0000, 0),
            access(0x9000, 0x4_0000, 0),
            access(0xa000, 0x5_0000, 0),
        ];
        (0, Step::Block(1, refs))
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guess.svt");
    // Guessed as the neighbour of the first page; the next access tells better, and the next block knows.
    let steps = vec![block(0x1_1000), block(0x9_9000)];
    write(&path, &steps, 1 << 20);
    let found = read(&TraceReader::open(&path).map(Arc::new).unwrap()).unwrap();
    let Step::Block(_, first) = &found[0].1 else { panic!("{found:?}") };
    assert_eq!(first[1].paddr, 0x1_1010, "one translation holds for the whole block");
    assert_eq!((found.len(), &found[1]), (2, &steps[1]), "the block behind it is as written");
}
