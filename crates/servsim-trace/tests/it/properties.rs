//! Every kind of event with any numbers, and any block shape, are read back as they were written: locks, I/O,
//! waits, marks, and the dictionary. Whether an order of events makes sense is another matter (`validation.rs`).

use proptest::prelude::*;
use servsim_trace::*;
use std::path::Path;
use std::sync::Arc;

fn any_lock() -> impl Strategy<Value = (LockClass, u64)> {
    let classes = [
        LockClass::KernelSpin,
        LockClass::KernelMutex,
        LockClass::LightweightExclusive,
        LockClass::LightweightShared,
        LockClass::UserSpin,
        LockClass::LightweightOrWait,
    ];
    (prop::sample::select(classes.to_vec()), any::<u64>())
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let submit = (any::<u64>(), any::<u32>(), any::<u64>(), any::<u32>(), any::<bool>());
    let mark = (any::<u8>(), any::<u8>(), any::<u64>(), any::<u32>());
    prop_oneof![
        any::<u32>().prop_map(|number| EventKind::SyscallEnter { number }),
        Just(EventKind::SyscallExit),
        Just(EventKind::SwitchOut(SwitchReason::Preempted)),
        (any::<u64>(), any::<u32>())
            .prop_map(|(block, state)| EventKind::SwitchOut(SwitchReason::Blocked { block, state })),
        Just(EventKind::SwitchOut(SwitchReason::Exited)),
        Just(EventKind::SwitchIn),
        (any::<u32>(), any::<u64>()).prop_map(|(task, block)| EventKind::Wake { task, block }),
        any::<u32>().prop_map(|task| EventKind::Create { task }),
        any::<[u32; 2]>().prop_map(|[source, interrupted]| EventKind::InterruptBegin { source, interrupted }),
        Just(EventKind::InterruptEnd),
        submit.prop_map(|(request, device, sector, bytes, write)| EventKind::IoSubmit {
            request,
            device,
            sector,
            bytes,
            write
        }),
        any::<u64>().prop_map(|request| EventKind::IoComplete { request }),
        mark.prop_map(|(kind, transaction, sequence, server)| EventKind::Mark {
            kind: MarkKind::from_code(kind),
            transaction,
            sequence,
            server
        }),
        any_lock().prop_map(|(class, address)| EventKind::LockAcquire { class, address }),
        any_lock().prop_map(|(class, address)| EventKind::LockRelease { class, address }),
        any::<u64>().prop_map(|address| EventKind::FutexWait { address }),
        any::<u64>().prop_map(|address| EventKind::FutexWake { address }),
    ]
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let op = (1..128_u8, any::<bool>(), 0..slots::COUNT as u8, any::<i64>());
    let insn = (1..16_u8, any::<bool>(), prop::collection::vec(op, 0..4));
    let insns = prop::collection::vec(insn, 1..20);
    // Half of the addresses are the kernel's; all leave room for the longest block.
    let place = (any::<bool>(), 0..1_u64 << 47, 0..1_u64 << 51, prop::option::of(0..1_u64 << 39));
    (place, insns, any::<i64>()).prop_map(|((kernel, vaddr, paddr, next), insns, stack_step)| {
        let length: usize = insns.iter().map(|(len, ..)| usize::from(*len)).sum();
        let ops = insns.iter().enumerate().flat_map(|(at, (_, _, ops))| {
            let op = move |&(size, store, slot, disp): &_| MemOp { insn: at as u16, size, store, slot, disp };
            ops.iter().map(op)
        });
        Shape {
            vaddr: vaddr | if kernel { 0xffff_8000_0000_0000 } else { 0 },
            paddr,
            next_page: next.map(|page| page * PAGE),
            ops: ops.collect(),
            insns: insns.iter().map(|&(len, atomic, _)| Insn { len, atomic }).collect(),
            code: (0..length).map(|at| (at * 37) as u8).collect(),
            stack_step,
        }
    })
}

const PAGE: u64 = 4096;

fn write(path: &Path, shapes: &[Shape], events: &[(TaskId, Event)], epoch_bytes: usize) -> Arc<TraceReader> {
    let mut writer = TraceWriter::create(path, &Meta::default(), WriterOptions { epoch_bytes }).unwrap();
    for pid in 1..=3 {
        let name = format!("task{pid}");
        writer.add_task(TaskInfo { pid, tgid: pid, name, kind: TaskKind::User, client: false });
    }
    for shape in shapes {
        writer.add_shape(shape.clone());
    }
    for &(task, event) in events {
        writer.switch_to(task);
        writer.event(event);
    }
    writer.finish().unwrap();
    Arc::new(TraceReader::open(path).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_kind_of_event_is_read_back_in_its_order(
        events in prop::collection::vec((0..3_u32, any::<u64>(), any_kind()), 1..200), epoch_bytes in 16_usize..2000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let events: Vec<(TaskId, Event)> =
            events.into_iter().map(|(task, time_ns, kind)| (task, Event { time_ns, kind })).collect();
        let reader = write(&folder.path().join("t.svt"), &[], &events, epoch_bytes);
        let mut cursor = GlobalCursor::unchecked(reader);
        for &(task, event) in &events {
            let found = cursor.next().unwrap().map(|GlobalItem { task, item }| match item {
                Item::Event(event) => (task, Some(event)),
                Item::Block(_) => (task, None),
            });
            prop_assert_eq!(found, Some((task, Some(event))));
        }
        prop_assert!(cursor.next().unwrap().is_none());
    }

    #[test]
    fn every_block_shape_is_read_back(shapes in prop::collection::vec(any_shape(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let reader = write(&folder.path().join("t.svt"), &shapes, &[], 1000);
        prop_assert_eq!(reader.dictionary().shapes(), &shapes[..]);
    }
}
