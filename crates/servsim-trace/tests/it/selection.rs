//! Cutting, sampling and merging keep what they say, and leave no task waiting for ever.

use servsim_trace::*;
use std::path::Path;
use std::sync::Arc;

fn shape(vaddr: u64) -> Shape {
    let op = MemOp { insn: 0, size: 8, store: true, slot: 0, disp: 0 };
    Shape {
        vaddr,
        paddr: vaddr,
        next_page: None,
        insns: vec![Insn { len: 4, atomic: false }].into(),
        code: vec![0x90; 4].into(),
        ops: vec![op].into(),
        stack_step: 0,
    }
}

/// Ten transactions by task 1; before each, task 1 waits for task 2, which reads from a disk.
fn source(folder: &Path) -> Arc<TraceReader> {
    let path = folder.join("source.svt");
    let meta = Meta {
        transaction_kinds: vec!["none".into(), "sale".into()],
        devices: vec!["vda".into()],
        ..Meta::default()
    };
    let mut writer = TraceWriter::create(&path, &meta, WriterOptions { epoch_bytes: 64 }).unwrap();
    let names = [("interrupts", TaskKind::Interrupt), ("server", TaskKind::User), ("helper", TaskKind::User)];
    for (pid, (name, kind)) in (0..).zip(names) {
        writer.add_task(TaskInfo { pid, tgid: pid, name: name.into(), kind, client: false });
    }
    let ids = [writer.add_shape(shape(0x1000)), writer.add_shape(shape(0x2000))];
    for i in 0..10_u64 {
        let at = |step: u64| i * 1000 + step;
        writer.switch_to(1);
        let reference = Ref { vaddr: 0x9000 + i * 8, paddr: 0x9000 + i * 8, next_page: 0 };
        writer.block(ids[0], &[reference]).unwrap();
        let blocked = SwitchReason::Blocked { block: i + 1, state: 1 };
        writer.event(Event { time_ns: at(1), kind: EventKind::SwitchOut(blocked) });
        writer.switch_to(2);
        let submit = EventKind::IoSubmit { request: i, device: 0, sector: i * 8, bytes: 4096, write: false };
        writer.event(Event { time_ns: at(2), kind: submit });
        writer.block(ids[1], &[reference]).unwrap();
        writer.switch_to(0);
        let begin = EventKind::InterruptBegin { source: 0, interrupted: 2 };
        for kind in [begin, EventKind::IoComplete { request: i }, EventKind::InterruptEnd] {
            writer.event(Event { time_ns: at(3), kind });
        }
        writer.switch_to(2);
        writer.event(Event { time_ns: at(4), kind: EventKind::Wake { task: 1, block: i + 1 } });
        writer.switch_to(1);
        let mark = EventKind::Mark { kind: MarkKind::TransactionEnd, transaction: 1, sequence: i, server: 1 };
        writer.event(Event { time_ns: at(5), kind: mark });
    }
    writer.finish().unwrap();
    Arc::new(TraceReader::open(&path).unwrap())
}

fn open(path: &Path) -> Statistics {
    statistics(&Arc::new(TraceReader::open(path).unwrap())).unwrap()
}

#[test]
fn a_cut_by_transactions_keeps_exactly_these() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("cut.svt");
    let selection = Selection { transactions: Some(3..7), ..Selection::default() };
    cut(&source(folder.path()), &output, &selection).unwrap();
    let cut = open(&output);
    assert_eq!(cut.transactions["sale"], 4);
    assert_eq!((cut.total.user_instructions, cut.total.user_stores, cut.io_reads), (8, 8, 4));
    assert!(cut.duration_ns < 5000, "time begins anew: {}", cut.duration_ns);
}

#[test]
fn a_cut_by_references_keeps_the_first_of_them_to_the_end_of_a_block() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("cut.svt");
    let source = source(folder.path());
    let first = |references| {
        cut(&source, &output, &Selection { references: Some(references), ..Selection::default() })?;
        let total = open(&output).total;
        Ok::<_, TraceError>(total.instructions() + total.data_references())
    };
    let whole = statistics(&source).unwrap().total;
    let all = whole.instructions() + whole.data_references();
    let half = first(all / 2).unwrap();
    assert!((all / 2..all / 2 + 8).contains(&half), "{half} of {all}");
    assert_eq!(first(10 * all).unwrap(), all);
    assert!(first(0).unwrap_err().to_string().contains("one reference at least"));
}

#[test]
fn a_sample_keeps_the_first_of_every_so_many_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("sample.svt");
    sample(&source(folder.path()), &output, 1, 5).unwrap();
    assert_eq!(open(&output).transactions["sale"], 2);
}

#[test]
fn a_merge_holds_the_sum_with_tasks_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("merged.svt");
    let source = source(folder.path());
    merge(&[source.clone(), source.clone()], &output).unwrap();
    let (one, two) = (statistics(&source).unwrap(), open(&output));
    assert_eq!(two.transactions["sale"], 20);
    assert_eq!(two.total.user_instructions, 2 * one.total.user_instructions);
    let handlers = 1;
    assert_eq!(two.tasks.len(), 2 * one.tasks.len() - handlers, "the machine's handlers are the same");
    assert_eq!(two.io_completed, 20);
}

#[test]
fn without_the_task_that_wakes_it_a_block_becomes_a_preemption() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("alone.svt");
    let selection = Selection { pids: Some(vec![1]), ..Selection::default() };
    cut(&source(folder.path()), &output, &selection).unwrap();
    let cut = open(&output);
    let server = cut.tasks.iter().find(|task| task.task.name == "server").unwrap();
    assert_eq!((server.blocks, server.preemptions), (0, 10));
    assert_eq!(cut.io_completed, 0, "nobody submitted these requests");
}

#[test]
fn tasks_of_a_name_are_counted_to_the_load_generator_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("tier.svt");
    let source = source(folder.path());
    let load = |name: &str| Selection { load: vec![name.to_owned()], ..Selection::default() };
    cut(&source, &output, &load("server")).unwrap();
    let (whole, tier) = (statistics(&source).unwrap(), open(&output));
    assert_eq!(tier.transactions, whole.transactions);
    assert!(tier.tasks.iter().all(|task| task.task.client == (task.task.name == "server")));
    let of_servers: u64 =
        tier.tasks.iter().filter(|task| task.task.client).map(|task| task.counts.user_instructions).sum();
    assert_eq!(tier.total, whole.total, "all of it is there");
    assert!(of_servers > 0);
    assert_eq!(tier.measured.user_instructions, whole.measured.user_instructions - of_servers);
    let error = cut(&source, &output, &load("nobody")).unwrap_err().to_string();
    assert!(error.contains("has the name \"nobody\""), "{error}");
}

#[test]
fn empty_and_contradictory_selections_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(folder.path());
    let output = folder.path().join("none.svt");
    let beyond = Selection { transactions: Some(100..200), ..Selection::default() };
    let error = cut(&source, &output, &beyond).unwrap_err().to_string();
    assert!(error.contains("nothing") && error.contains("trace info"), "{error}");
    assert!(sample(&source, &output, 3, 2).is_err());
    assert!(merge(&[], &output).is_err());
    assert!(!output.exists());
}
