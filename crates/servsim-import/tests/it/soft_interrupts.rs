//! A kernel thread that completes disk requests waits for the disk, whatever interrupt woke it.

use servsim_core::{Batch, Event, TaskSource};
use servsim_import::captured::CapturedTasks;
use servsim_trace::EventKind::{
    InterruptBegin, InterruptEnd, IoComplete, IoSubmit, SwitchIn, SwitchOut, Wake,
};
use servsim_trace::{EventKind, Meta, SwitchReason, TaskInfo, TaskKind, TraceWriter, WriterOptions};

const IDLE: u32 = 0;
const INTERRUPTS: u32 = 1;
const DAEMON: u32 = 2;
const USER: u32 = 3;
/// Number of the local timer among interrupt sources.
const TIMER: u32 = 1;
/// The daemon's first wait, as the engines know it.
const FIRST_WAIT: u64 = (DAEMON as u64) << 32 | 1;

fn blocked(block: u64) -> EventKind {
    SwitchOut(SwitchReason::Blocked { block, state: 1 })
}

/// The user waits for request 7; 90 ms later the timer interrupts the idle loop and wakes the daemon,
/// which completes the request and wakes the user. The request is submitted before, or by the daemon.
fn trace(submitted_before: bool) -> CapturedTasks {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("soft.svt");
    let meta = Meta { devices: vec!["vda".into()], ..Meta::default() };
    let mut writer = TraceWriter::create(&path, &meta, WriterOptions::default()).unwrap();
    let tasks = [TaskKind::Idle, TaskKind::Interrupt, TaskKind::Kernel, TaskKind::User];
    for (pid, kind) in (0..).zip(tasks) {
        writer.add_task(TaskInfo { pid, tgid: pid, name: format!("{kind:?}"), kind, client: false });
    }
    let submit = IoSubmit { request: 7, device: 0, sector: 8, bytes: 4096, write: false };
    let mut steps = vec![(DAEMON, 100, SwitchIn), (DAEMON, 200, blocked(1)), (USER, 300, SwitchIn)];
    if submitted_before {
        steps.push((USER, 1_000, submit));
    }
    steps.extend([
        (USER, 2_000, blocked(1)),
        (IDLE, 2_100, SwitchIn),
        (INTERRUPTS, 90_000_000, InterruptBegin { source: TIMER, interrupted: IDLE }),
        (INTERRUPTS, 90_000_010, Wake { task: DAEMON, block: 1 }),
        (INTERRUPTS, 90_000_020, InterruptEnd),
        (DAEMON, 90_000_100, SwitchIn),
    ]);
    if !submitted_before {
        steps.push((DAEMON, 90_000_150, submit));
    }
    steps.extend([
        (DAEMON, 90_000_200, IoComplete { request: 7 }),
        (DAEMON, 90_000_300, Wake { task: USER, block: 1 }),
        (DAEMON, 90_000_400, blocked(2)),
        (USER, 90_000_500, SwitchIn),
    ]);
    for (task, time_ns, kind) in steps {
        writer.switch_to(task);
        writer.event(servsim_trace::Event { time_ns, kind });
    }
    writer.finish().unwrap();
    CapturedTasks::open(&path, 64, false).unwrap()
}

fn events(source: &CapturedTasks, task: u32) -> Vec<Event> {
    let (mut cursor, mut batch, mut all) = (source.open(task).unwrap(), Batch::default(), Vec::new());
    while cursor.next_batch(&mut batch).unwrap() {
        all.extend_from_slice(&batch.events);
    }
    all
}

#[test]
fn the_daemon_of_soft_interrupts_waits_for_the_requests_that_it_completes() {
    let source = trace(true);
    assert_eq!(events(&source, DAEMON)[0], Event::Block { wake: Some(FIRST_WAIT) });
    let handlers = source.interrupts();
    assert_eq!(handlers.len(), 1);
    assert_eq!(handlers[0].requests, [7]);
    assert_eq!(handlers[0].batch.events, [Event::Wake { wake: FIRST_WAIT }]);
}

#[test]
fn a_request_submitted_after_the_daemon_ran_is_not_what_it_waited_for() {
    let source = trace(false);
    assert_eq!(events(&source, DAEMON)[0], Event::Sleep { nanos: 90_000_010 - 200 });
    assert!(source.interrupts().is_empty());
}
