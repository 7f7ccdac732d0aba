//! Fewer users than the trace has: who goes, who stays, and when that is refused.

use servsim_core::{Batch, Event, Op, Record, SourceError, TaskCursor, TaskInfo, TaskKind, TaskSource};
use servsim_import::InMemory;
use servsim_machine::users::UserSubset;

/// Two servers (pids 70 and 71) with a client's task each, and a third client task that serves both.
fn tasks() -> Vec<TaskInfo> {
    let task = |name: &str, pid, client| TaskInfo { name: name.into(), pid, kind: TaskKind::User, client };
    let kernel = TaskInfo { name: "kworker".into(), pid: 9, kind: TaskKind::Kernel, client: false };
    vec![
        task("server", 70, false),
        task("server", 71, false),
        task("client", 50, true),
        task("client", 51, true),
        task("client", 52, true),
        kernel,
    ]
}

fn stream(task: u32, events: &[Event]) -> Batch {
    let mut batch = Batch::default();
    let mut record = Record::new(task, Op::Load, u64::from(task) << 12, 4);
    record.cpu = 1;
    for &event in events {
        batch.records.push(record);
        batch.push_event(task, event);
    }
    batch
}

/// Each client task wakes its server and ends its transactions; `more` is what else the tasks do.
fn source(more: &[(u32, Event)]) -> Box<dyn TaskSource> {
    let end = |user| Event::TransactionEnd { kind: 0, user };
    let mut events = [
        vec![Event::Block { wake: Some(1) }],
        vec![Event::Block { wake: Some(2) }],
        vec![Event::Wake { wake: 1 }, end(70)],
        vec![Event::Wake { wake: 2 }, end(71)],
        vec![end(70), end(71)],
        vec![],
    ];
    for &(task, event) in more {
        events[task as usize].push(event);
    }
    let streams = (0..).zip(&events).map(|(task, events)| stream(task, events)).collect();
    Box::new(InMemory::from_streams(tasks(), vec!["tx".into()], streams))
}

fn length(source: &dyn TaskSource, task: u32) -> Result<usize, SourceError> {
    let mut cursor: Box<dyn TaskCursor> = source.open(task)?;
    let (mut batch, mut length) = (Batch::default(), 0);
    while cursor.next_batch(&mut batch)? {
        length += batch.records.len();
    }
    Ok(length)
}

#[test]
fn a_user_goes_with_the_tasks_that_serve_nobody_else() {
    let source = source(&[(5, Event::Sleep { nanos: 5 })]);
    let fewer = UserSubset::of(source.as_ref(), 1).unwrap().by_task(source);
    let lengths: Vec<usize> = (0..6).map(|task| length(fewer.as_ref(), task).unwrap()).collect();
    assert_eq!(lengths, [2, 0, 4, 0, 4, 2], "server 71 and its client's task are gone, kernel tasks stay");
}

#[test]
fn all_users_are_the_whole_trace() {
    let all = UserSubset::of(source(&[]).as_ref(), 2).unwrap().by_task(source(&[]));
    for task in 0..6 {
        assert_eq!(length(all.as_ref(), task), length(source(&[]).as_ref(), task));
    }
}

#[test]
fn a_wait_that_a_left_out_task_ends_is_refused_with_the_names_and_the_remedy() {
    let waits = source(&[(0, Event::Block { wake: Some(7) }), (1, Event::Wake { wake: 7 })]);
    let why = UserSubset::of(waits.as_ref(), 1).unwrap_err().0;
    assert!(why.contains("server (pid 70) is woken 1 times by server (pid 71)"), "{why}");
    assert!(why.contains("capture the workload with 1 users"), "{why}");
    assert!(UserSubset::of(waits.as_ref(), 2).is_ok());
    // The other way round nobody waits in vain.
    let wakes = source(&[(0, Event::Wake { wake: 7 }), (1, Event::Block { wake: Some(7) })]);
    assert!(UserSubset::of(wakes.as_ref(), 1).is_ok());
}

#[test]
fn more_users_than_the_trace_has_are_refused_with_their_number() {
    for users in [0, 3] {
        let why = UserSubset::of(source(&[]).as_ref(), users).unwrap_err().0;
        assert!(why.contains("this trace has 2 users"), "{why}");
    }
}

#[test]
fn without_marks_every_user_task_is_a_user() {
    let streams = (0..6).map(|task| stream(task, &[Event::Sleep { nanos: 1 }])).collect();
    let source: Box<dyn TaskSource> = Box::new(InMemory::from_streams(tasks(), Vec::new(), streams));
    let fewer = UserSubset::of(source.as_ref(), 2).unwrap().by_task(source);
    let lengths: Vec<usize> = (0..6).map(|task| length(fewer.as_ref(), task).unwrap()).collect();
    assert_eq!(lengths, [2, 2, 0, 0, 0, 2]);
}
