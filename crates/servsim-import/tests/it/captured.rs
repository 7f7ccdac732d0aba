//! References of captured traces, in captured order and by task: every byte, page and flag beside a slow,
//! obvious walk over instructions and accesses.

#[path = "../../../servsim-machine/tests/it/support/small_trace.rs"]
mod small_trace;

use crate::common::records;

use proptest::prelude::*;
use servsim_core::reference::{ATOMIC, CONTINUATION, KERNEL, PER_CPU};
use servsim_core::steps::Steps;
use servsim_core::{Batch, Event, GlobalSource, Op, Record, TaskKind, TaskSource, ANY_CPU};
use servsim_import::captured::{CapturedOrder, CapturedTasks, CodeDetail};
use servsim_trace::{Insn, MemOp, Meta, Ref, Shape, TaskInfo, TraceWriter, WriterOptions};
use std::path::Path;

const PAGE: u64 = 4096;
const LINE: u64 = 64;
/// Virtual pages in use; the first two of the second half are the captured processor's own.
const PAGES: [u64; 2] = [0x7f_0000, 0xf_ffff_8881_0000];
const AREA: (u64, u64) = (PAGES[1] << 12, 2 * PAGE);
/// Their frames: some neighbours are neighbours in memory, others are not.
const FRAMES: [u64; 8] = [0x10, 0x11, 0x30, 0x08, 0x09, 0x0a, 0x77, 0x50];

fn vaddr(page: usize, offset: u64) -> u64 {
    (PAGES[page / 4] + (page % 4) as u64) << 12 | offset
}

fn frame(vaddr: u64) -> u64 {
    let half = usize::from(vaddr >> 63 == 1);
    FRAMES[4 * half + (vaddr / PAGE - PAGES[half]) as usize] * PAGE
}

fn physical(vaddr: u64) -> u64 {
    frame(vaddr) + vaddr % PAGE
}

/// Accesses of up to 64 bytes, near the end of a page more often than not; the last page has none behind it.
fn place(pages: std::ops::Range<usize>) -> impl Strategy<Value = u64> {
    (pages, prop_oneof![0..PAGE - 64, PAGE - 70..PAGE]).prop_map(|(page, offset)| vaddr(page, offset))
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let insns = prop::collection::vec(
        (1..16_u8, any::<bool>(), prop::collection::vec((1..65_u8, any::<bool>()), 0..3)),
        1..12,
    );
    (0..2_usize, insns).prop_flat_map(|(half, insns)| {
        place(4 * half..4 * half + 3).prop_map(move |vaddr| {
            let length: u64 = insns.iter().map(|(len, ..)| u64::from(*len)).sum();
            let ops = insns.iter().enumerate().flat_map(|(insn, (_, _, ops))| {
                ops.iter().map(move |&(size, store)| MemOp {
                    insn: insn as u16,
                    size,
                    store,
                    slot: 0,
                    disp: 0,
                })
            });
            Shape {
                vaddr,
                paddr: physical(vaddr),
                next_page: (vaddr % PAGE + length > PAGE).then(|| frame(vaddr + PAGE)),
                insns: insns.iter().map(|&(len, atomic, _)| Insn { len, atomic }).collect(),
                code: vec![0x90; length as usize].into(),
                ops: ops.collect(),
                stack_step: 0,
            }
        })
    })
}

type Execution = (u32, usize, Vec<u64>);

/// Shapes, and executions of them: the task, the shape, where its accesses are.
fn any_run() -> impl Strategy<Value = (Vec<Shape>, Vec<Execution>)> {
    let places = prop::collection::vec(prop_oneof![place(0..3), place(4..7)], 24);
    let executions = prop::collection::vec((0..3_u32, any::<prop::sample::Index>(), places), 1..40);
    (prop::collection::vec(any_shape(), 1..6), executions).prop_map(|(shapes, executions)| {
        let executions = executions.into_iter().map(|(task, shape, places)| {
            let shape = shape.index(shapes.len());
            (task, shape, places[..shapes[shape].ops.len()].to_vec())
        });
        let executions = executions.collect();
        (shapes, executions)
    })
}

fn write(path: &Path, shapes: &[Shape], executions: &[Execution]) {
    let meta = Meta { per_cpu_area: AREA, ..Meta::default() };
    let mut writer = TraceWriter::create(path, &meta, WriterOptions { epoch_bytes: 400 }).unwrap();
    for pid in 1..4 {
        let kind = servsim_trace::TaskKind::User;
        writer.add_task(TaskInfo { pid, tgid: pid, name: format!("task{pid}"), kind, client: false });
    }
    for shape in shapes {
        writer.add_shape(shape.clone());
    }
    for (task, shape, places) in executions {
        let reference = |(op, &vaddr): (&MemOp, &u64)| Ref {
            vaddr,
            paddr: physical(vaddr),
            next_page: if vaddr % PAGE + u64::from(op.size) > PAGE { frame(vaddr + PAGE) } else { 0 },
        };
        let refs: Vec<Ref> = shapes[*shape].ops.iter().zip(places).map(reference).collect();
        writer.switch_to(*task);
        writer.block(*shape as u32, &refs).unwrap();
    }
    writer.finish().unwrap();
}

/// One byte that is touched: by which task, how, where, on which virtual page.
type Touch = (u32, Op, u8, u64, u64);

/// What one execution touches, byte after byte.
fn touches((task, shape, places): &Execution, shapes: &[Shape]) -> Vec<Touch> {
    let shape = &shapes[*shape];
    let mode = if shape.vaddr >> 63 == 1 { KERNEL } else { 0 };
    let (mut all, mut at) = (Vec::new(), shape.vaddr);
    for (index, insn) in shape.insns.iter().enumerate() {
        let flags = mode | if insn.atomic { ATOMIC } else { 0 };
        for byte in at..at + u64::from(insn.len) {
            all.push((*task, Op::Fetch, flags, physical(byte), byte / PAGE));
        }
        at += u64::from(insn.len);
        for (op, &vaddr) in shape.ops.iter().zip(places).filter(|(op, _)| usize::from(op.insn) == index) {
            let kind = if op.store { Op::Store } else { Op::Load };
            for byte in vaddr..vaddr + u64::from(op.size) {
                let own = (AREA.0..AREA.0 + AREA.1).contains(&vaddr);
                let address = if own { byte - AREA.0 } else { physical(byte) };
                all.push((*task, kind, flags | if own { PER_CPU } else { 0 }, address, byte / PAGE));
            }
        }
    }
    all
}

/// What records touch. The page is that of a record's first byte; further pages follow it.
fn touched(records: &[Record], pages: &[u64]) -> Vec<Touch> {
    let bytes = |(record, &page): (&Record, &u64)| {
        let (first, record) = (record.address % PAGE, *record);
        (0..u64::from(record.size)).map(move |byte| {
            let flags = record.flags & !CONTINUATION;
            (record.task, record.op, flags, record.address + byte, page + (first + byte) / PAGE)
        })
    };
    records.iter().zip(pages).filter(|(record, _)| record.op != Op::Event).flat_map(bytes).collect()
}

/// Where the instructions that `task` executes are in the list of the trace's code, one after the other.
fn instructions_of(shapes: &[Shape], executions: &[Execution], task: u32) -> Vec<u32> {
    let before = |shape: usize| shapes[..shape].iter().map(|shape| shape.insns.len() as u32).sum::<u32>();
    let of_block = |shape| (before(shape)..).take(shapes[shape].insns.len());
    executions.iter().filter(|e| e.0 == task).flat_map(|e| of_block(e.1)).collect()
}

/// What records tell of the code, if they stand for `instructions`: fetches where their first one is; an access, and
/// the second part of a fetch, the one behind those fetched so far.
fn pointers(records: &[Record], instructions: &[u32]) -> Vec<u32> {
    let mut fetched = 0;
    let pointer = |record: &Record| {
        if record.op == Op::Fetch && record.flags & CONTINUATION == 0 {
            let first = instructions[fetched];
            fetched += usize::from(record.cpu);
            return first;
        }
        instructions[fetched - 1] + 1
    };
    records.iter().map(pointer).collect()
}

/// Fetches do not tell which of several joined instructions is atomic.
fn without_atomic_fetches(mut touches: Vec<Touch>) -> Vec<Touch> {
    touches.iter_mut().filter(|touch| touch.1 == Op::Fetch).for_each(|touch| touch.2 &= !ATOMIC);
    touches
}

/// All batches of a source in one.
fn whole(mut next: impl FnMut(&mut Batch) -> bool) -> Batch {
    let (mut batch, mut all) = (Batch::default(), Batch::default());
    while next(&mut batch) {
        assert!(batch.pages.is_empty() || batch.pages.len() == batch.records.len());
        all.records.extend_from_slice(&batch.records);
        all.pages.extend_from_slice(&batch.pages);
        all.code.extend_from_slice(&batch.code);
        all.events.extend_from_slice(&batch.events);
    }
    all
}

fn of_task(source: &CapturedTasks, task: u32) -> Batch {
    let mut cursor = source.open(task).unwrap();
    whole(|batch| cursor.next_batch(batch).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 100, ..ProptestConfig::default() })]
    #[test]
    fn every_byte_that_a_trace_touches_is_touched_once_in_its_order_and_on_its_page(
        (shapes, executions) in any_run()
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.svt");
        write(&path, &shapes, &executions);
        let expected: Vec<Touch> = executions.iter().flat_map(|e| touches(e, &shapes)).collect();
        let instructions = |task: Option<u32>| {
            let of = executions.iter().filter(|e| task.is_none_or(|task| e.0 == task));
            of.map(|e| shapes[e.1].insns.len()).sum::<usize>()
        };

        let mut order = CapturedOrder::open(&path).unwrap();
        order.record_pages();
        let all = whole(|batch| order.next_batch(batch).unwrap());
        prop_assert_eq!(touched(&all.records, &all.pages), expected.clone());
        prop_assert!(all.records.iter().all(|record| record.cpu == ANY_CPU));
        let counted = all.records.iter().filter(|r| r.op == Op::Fetch && r.flags & CONTINUATION == 0);
        prop_assert_eq!(counted.count(), instructions(None));
        let plain = records(&mut CapturedOrder::open(&path).unwrap());
        prop_assert!(plain == all.records, "pages change nothing");

        let mut order = CapturedOrder::open(&path).unwrap();
        order.record_pages();
        prop_assert!(order.join_fetches(LINE));
        let joined = whole(|batch| order.next_batch(batch).unwrap());
        prop_assert_eq!(
            without_atomic_fetches(touched(&joined.records, &joined.pages)),
            without_atomic_fetches(expected.clone())
        );
        let stands_for = joined.records.iter().filter(|r| r.op == Op::Fetch && r.flags & CONTINUATION == 0);
        prop_assert_eq!(stands_for.map(|r| usize::from(r.cpu)).sum::<usize>(), instructions(None));

        let mut source =
            CapturedTasks::open(&path, LINE, false).unwrap().with_code(CodeDetail::Instructions, None).unwrap();
        source.record_pages().unwrap();
        for task in 0..3 {
            let own = of_task(&source, task);
            prop_assert_eq!(&own.code, &pointers(&own.records, &instructions_of(&shapes, &executions, task)));
            let expected: Vec<Touch> = expected.iter().filter(|touch| touch.0 == task).copied().collect();
            prop_assert_eq!(
                without_atomic_fetches(touched(&own.records, &own.pages)), without_atomic_fetches(expected)
            );
            let stands_for: usize = own.records.iter()
                .filter(|r| r.op == Op::Fetch && r.flags & CONTINUATION == 0).map(|r| usize::from(r.cpu)).sum();
            prop_assert_eq!(stands_for, instructions(Some(task)));
            for record in own.records.iter().filter(|r| r.op == Op::Fetch && r.cpu > 1) {
                prop_assert_eq!(record.address / LINE, (record.address + u64::from(record.size) - 1) / LINE);
            }
        }
    }
}

#[test]
fn pages_and_code_are_told_beside_the_same_references_in_tasks_and_in_handlers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.svt");
    small_trace::write(&path);
    let plain = CapturedTasks::open(&path, LINE, true).unwrap();
    let mut paged =
        CapturedTasks::open(&path, LINE, true).unwrap().with_code(CodeDetail::Instructions, None).unwrap();
    paged.record_pages().unwrap();

    let has_page = |(record, page): (&Record, &u64)| (record.op == Op::Event) == (*page == 0);
    for task in 0..plain.tasks().len() as u32 {
        let (without, with) = (of_task(&plain, task), of_task(&paged, task));
        let place = |record: &Record| (record.op, record.address, record.size, record.task);
        assert!(without.records.iter().map(place).eq(with.records.iter().map(place)), "task {task}");
        assert_eq!(without.events, with.events, "task {task}");
        assert!(without.pages.is_empty() && without.code.is_empty());
        assert_eq!(with.pages.len(), with.records.len());
        assert!(with.records.iter().zip(&with.pages).all(has_page), "task {task}");
    }
    let (without, with) = (plain.interrupts(), paged.interrupts());
    assert_eq!(without.len(), with.len());
    assert!(without.iter().any(|handler| handler.batch.records.len() > handler.batch.events.len()));
    for (without, with) in without.iter().zip(with) {
        assert_eq!((&without.requests, &without.batch.events), (&with.requests, &with.batch.events));
        assert_eq!(with.batch.pages.len(), without.batch.records.len());
        assert!(with.batch.records.iter().zip(&with.batch.pages).all(has_page));
    }
}

#[test]
fn a_timer_interrupt_runs_in_the_task_that_it_interrupted_and_whom_it_wakes_sleeps_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.svt");
    small_trace::write(&path);
    let source = CapturedTasks::open(&path, LINE, false).unwrap();
    let number_of = |kind| source.tasks().iter().position(|task| task.kind == kind).unwrap() as u32;
    let (handlers, daemon) = (number_of(TaskKind::Interrupt), number_of(TaskKind::Kernel));
    let server = of_task(&source, small_trace::SERVER);
    let inside: Vec<&Record> = server.records.iter().filter(|r| r.task == handlers).collect();
    assert!(!inside.is_empty() && inside.len().is_multiple_of(small_trace::TRANSACTIONS as usize));
    assert!(inside.iter().all(|record| record.op != Op::Event), "the clock wakes, not the handler");
    let sleeps = |event: &&Event| matches!(event, Event::Sleep { nanos } if *nanos > 0);
    assert!(of_task(&source, daemon).events.iter().filter(sleeps).count() > 0);
}

#[test]
fn a_lock_is_told_by_the_word_that_its_taker_touches_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.svt");
    small_trace::write(&path);
    let source = CapturedTasks::open(&path, LINE, true).unwrap();
    let words: Vec<u64> = of_task(&source, small_trace::SERVER)
        .events
        .iter()
        .filter_map(|event| match event {
            Event::LockAcquire { word, .. } | Event::LockRelease { word } => Some(*word),
            _ => None,
        })
        .collect();
    // Frame 0x200, and the word behind the first of the lock.
    assert_eq!(words, [0x20_0008; 2 * small_trace::TRANSACTIONS as usize]);
}

#[test]
fn a_stream_opened_at_a_place_goes_on_as_the_one_that_was_there() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let source = CapturedTasks::open(&path, LINE, true).unwrap();
    let runs = |kind: TaskKind| matches!(kind, TaskKind::User | TaskKind::Kernel);
    let mut later = 0;
    for task in (0..source.tasks().len() as u32).filter(|&task| runs(source.tasks()[task as usize].kind)) {
        let mut cursor = source.open(task).unwrap();
        let (mut batch, mut places) = (Batch::default(), Vec::new());
        assert_eq!(cursor.place(), None, "the beginning needs none");
        let mut all = Vec::new();
        while cursor.next_batch(&mut batch).unwrap() {
            places.push((cursor.place(), all.len()));
            all.extend(batch.records.iter().map(|record| step(&batch, record)));
        }
        // The first, one in the midst and the last; whole streams would take long.
        for at in [0, places.len() / 2, places.len().saturating_sub(1)] {
            let Some(&(Some(place), before)) = places.get(at) else { continue };
            let mut again =
                source.open_at(task, place).unwrap().expect("a captured trace can begin anywhere");
            let mut found = Vec::new();
            while found.len() < 20_000 && again.next_batch(&mut batch).unwrap() {
                found.extend(batch.records.iter().map(|record| step(&batch, record)));
            }
            assert!(!found.is_empty() && all[before..].starts_with(&found), "task {task} at {place:?}");
            later += u32::from(place[0] > 1);
        }
    }
    assert!(later > 0, "no place lies behind the first epoch");
    let nowhere = source.open_at(1, [1, u64::MAX, 0, 0]).err().expect("refused").to_string();
    assert!(nowhere.contains("never at item"), "{nowhere}");
}

#[test]
fn the_steps_of_a_stream_are_those_that_its_records_make() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small.svt");
    small_trace::write(&small);
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    for path in [small, shipped] {
        let source = CapturedTasks::open(&path, LINE, true).unwrap();
        for task in 0..source.tasks().len() as u32 {
            let (mut noted, mut batch) = (Steps::default(), Batch::default());
            let mut cursor = source.open(task).unwrap();
            while cursor.next_batch(&mut batch).unwrap() {
                noted.note(&batch);
            }
            let steps = source.steps(task).unwrap().expect("a captured trace tells");
            let differing = steps.steps.iter().zip(&noted.steps).position(|(told, noted)| told != noted);
            assert_eq!(differing, None, "task {task}");
            assert!(steps == noted, "task {task}: {} and {} steps", steps.steps.len(), noted.steps.len());
        }
    }
}

/// A record, and the event that it is, whose number in the batch says nothing elsewhere.
fn step(batch: &Batch, record: &Record) -> (Record, Option<Event>) {
    if record.op == Op::Event {
        return (Record { address: 0, ..*record }, Some(batch.events[record.address as usize]));
    }
    (*record, None)
}
