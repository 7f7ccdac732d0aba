//! Code of a task that interrupts interrupt.

use servsim_core::code::UNKNOWN_CODE;
use servsim_core::{Batch, Op, TaskSource};
use servsim_import::captured::{CapturedTasks, CodeDetail};
use servsim_trace::{Event, EventKind, Insn, Meta, Shape, TaskInfo, TaskKind, TraceWriter, WriterOptions};

/// A handler that does nothing but wake is an episode without a block.
#[test]
fn records_before_an_interrupt_without_code_still_point_to_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    let mut writer = TraceWriter::create(&path, &Meta::default(), WriterOptions::default()).unwrap();
    let (user, handlers) = (0, 1);
    for (pid, kind) in (0..).zip([TaskKind::User, TaskKind::Interrupt]) {
        writer.add_task(TaskInfo { pid, tgid: pid, name: format!("{kind:?}"), kind, client: false });
    }
    writer.add_shape(Shape {
        vaddr: 0x40_1000,
        paddr: 0x1000,
        next_page: None,
        insns: vec![Insn { len: 1, atomic: false }; 2].into(),
        code: vec![0x90; 2].into(),
        ops: Box::default(),
        stack_step: 0,
    });
    let interrupt = [EventKind::InterruptBegin { source: 1, interrupted: user }, EventKind::InterruptEnd];
    writer.switch_to(user);
    writer.block(0, &[]).unwrap();
    writer.switch_to(handlers);
    for (time_ns, kind) in (10..).zip(interrupt) {
        writer.event(Event { time_ns, kind });
    }
    writer.switch_to(user);
    writer.event(Event { time_ns: 20, kind: EventKind::Create { task: user } });
    writer.block(0, &[]).unwrap();
    writer.finish().unwrap();

    let source = CapturedTasks::open(&path, 64, false).unwrap();
    let source = source.with_code(CodeDetail::Instructions, None).unwrap();
    let mut batch = Batch::default();
    assert!(source.open(user).unwrap().next_batch(&mut batch).unwrap());
    assert!(batch.records.iter().map(|record| record.op).eq([Op::Fetch, Op::Event, Op::Fetch]));
    assert_eq!(batch.code, [0, UNKNOWN_CODE, 0]);
}
