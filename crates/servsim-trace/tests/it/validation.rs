//! What a trace claims is checked where it is opened and walked over for the first time.

use servsim_trace::*;
use std::path::Path;
use std::sync::Arc;

/// Items of a sink.
struct Counted(u64);

impl Sink for Counted {
    fn block(&mut self, _: TaskId, _: ShapeId) {}

    fn reference(&mut self, _: usize, _: Ref) {}

    fn end_block(&mut self) -> bool {
        self.0 += 1;
        true
    }

    fn event(&mut self, _: TaskId, _: Event) -> bool {
        self.0 += 1;
        true
    }
}

/// Walks item by item and by runs, which find the same.
fn walk(path: &Path) -> Result<u64, TraceError> {
    let reader = Arc::new(TraceReader::open(path)?);
    let (mut cursor, mut items) = (GlobalCursor::new(reader.clone()), 0);
    let by_item = loop {
        match cursor.next() {
            Ok(Some(_)) => items += 1,
            Ok(None) => break Ok(items),
            Err(error) => break Err(error),
        }
    };
    let (mut cursor, mut sink) = (GlobalCursor::new(reader), Counted(0));
    let by_run = loop {
        match cursor.run(&mut sink) {
            Ok(true) => {}
            Ok(false) => break Ok(sink.0),
            Err(error) => break Err(error),
        }
    };
    let word = |walk: &Result<u64, TraceError>| walk.as_ref().map_err(TraceError::to_string).copied();
    assert_eq!(word(&by_run), word(&by_item));
    by_item
}

/// Those of the folder `SERVSIM_TRACES` too, when it is named.
#[test]
fn genuine_traces_keep_every_rule() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let folder = std::env::var_os("SERVSIM_TRACES");
    let named = folder.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    for path in std::iter::once(shipped).chain(named.map(|entry| entry.unwrap().path())) {
        let report = check(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.findings, [""; 0], "{}", path.display());
        assert!(report.items > 1_000_000, "{}", path.display());
    }
}

const IDLE: TaskId = 0;
const HANDLERS: TaskId = 1;
const ONE: TaskId = 2;
const TWO: TaskId = 3;

fn info(pid: u32, kind: TaskKind) -> TaskInfo {
    TaskInfo { pid, tgid: pid, name: format!("task{pid}"), kind, client: false }
}

fn meta() -> Meta {
    Meta {
        transaction_kinds: vec!["none".into(), "sale".into()],
        devices: vec!["vda".into()],
        ..Meta::default()
    }
}

fn shape(vaddr: u64, paddr: u64) -> Shape {
    Shape {
        vaddr,
        paddr,
        next_page: None,
        insns: vec![Insn { len: 4, atomic: false }].into(),
        code: vec![0x90; 4].into(),
        ops: Box::default(),
        stack_step: 0,
    }
}

/// Writes a trace of these events, a nanosecond apart; the last task is `kind`.
fn write(path: &Path, meta: &Meta, kind: TaskKind, shape: Shape, events: &[(TaskId, EventKind)]) {
    let mut writer = TraceWriter::create(path, meta, WriterOptions { epoch_bytes: 40 }).unwrap();
    for (pid, kind) in (0..).zip([TaskKind::Idle, TaskKind::Interrupt, TaskKind::User, TaskKind::User, kind])
    {
        writer.add_task(info(pid, kind));
    }
    let shape = writer.add_shape(shape);
    for (time_ns, (task, kind)) in (1..).zip(events) {
        writer.switch_to(*task);
        writer.event(Event { time_ns, kind: *kind });
        writer.block(shape, &[]).unwrap();
    }
    writer.finish().unwrap();
}

fn blocked(block: u64) -> EventKind {
    EventKind::SwitchOut(SwitchReason::Blocked { block, state: 1 })
}

fn submit(request: u64, device: u32, sector: u64) -> EventKind {
    EventKind::IoSubmit { request, device, sector, bytes: 4096, write: false }
}

/// Refused, with a sentence that names the file and blames the trace.
fn refused(path: &Path, expected: &str) {
    let error = walk(path).expect_err(expected);
    let text = error.to_string();
    let named = text.contains(&path.display().to_string());
    assert!(named && text.contains(expected) && !text.contains('\n'), "`{expected}` is not in: {text}");
}

#[test]
fn events_that_cannot_be_are_refused() {
    use EventKind::{Create, InterruptBegin, InterruptEnd, IoComplete, SwitchIn, Wake};
    let begin = |interrupted| InterruptBegin { source: 0, interrupted };
    let sale =
        |transaction| EventKind::Mark { kind: MarkKind::TransactionEnd, transaction, sequence: 0, server: 0 };
    let cases: &[(&[(TaskId, EventKind)], &str)] = &[
        (&[(ONE, Wake { task: 9, block: 1 })], "wakes task 9; there are 5 tasks"),
        (&[(ONE, Create { task: 5 })], "creates task 5; there are 5 tasks"),
        (&[(ONE, Wake { task: HANDLERS, block: 1 })], "wakes task 1, the interrupt handlers"),
        (&[(HANDLERS, begin(7)), (HANDLERS, InterruptEnd)], "interrupts task 7"),
        (&[(HANDLERS, begin(HANDLERS)), (HANDLERS, InterruptEnd)], "interrupts task 1"),
        (&[(ONE, begin(TWO))], "task 2, not the interrupt handlers, begins"),
        (&[(ONE, InterruptEnd)], "task 2, not the interrupt handlers, ends"),
        (&[(HANDLERS, begin(IDLE)), (HANDLERS, begin(IDLE))], "begins within another"),
        (&[(HANDLERS, begin(IDLE)), (ONE, SwitchIn)], "task 2 goes on within an interrupt"),
        (&[(ONE, blocked(3)), (ONE, blocked(3))], "block 3 of task 2 comes after its block 3"),
        (&[(ONE, blocked(u64::MAX))], "blocks for the"),
        (&[(ONE, blocked(1)), (ONE, SwitchIn), (TWO, Wake { task: ONE, block: 1 })], "which has gone on"),
        (&[(TWO, Wake { task: ONE, block: 1 << 40 })], "ends block 1099511627776"),
        (&[(ONE, submit(1, 1, 0))], "device 1 of 1"),
        (&[(ONE, submit(1, 0, u64::MAX - 3))], "beyond any device"),
        (&[(ONE, submit(1, 0, 0)), (TWO, submit(1, 0, 8))], "submitted twice"),
        (&[(ONE, IoComplete { request: 1 }), (TWO, submit(1, 0, 8))], "complete before it is submitted"),
        (&[(ONE, IoComplete { request: 1 }), (TWO, IoComplete { request: 1 })], "complete twice"),
        (&[(ONE, sale(2))], "transaction kind 2, the trace names 2"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    for (events, expected) in cases {
        // The block that follows a wait in this trace would be the task going on: a wait ends its case.
        write(&path, &meta(), TaskKind::Kernel, shape(0x1000, 0x1000), events);
        refused(&path, expected);
    }
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    let events = [(ONE, EventKind::SwitchIn)];
    let sound = shape(0x1000, 0x1000);
    write(&path, &meta(), TaskKind::Kernel, sound.clone(), &events);
    assert_eq!(walk(&path).unwrap(), 2);
    write(&path, &meta(), TaskKind::Interrupt, sound.clone(), &events);
    refused(&path, "2 tasks stand for the interrupt handlers");
    let area = Meta { per_cpu_area: (u64::MAX - 8, 4096), ..meta() };
    write(&path, &area, TaskKind::Kernel, sound, &events);
    refused(&path, "per-CPU area");
    write(&path, &meta(), TaskKind::Kernel, shape(u64::MAX - 2, 0), &events);
    refused(&path, "past the end of the address space");
    write(&path, &meta(), TaskKind::Kernel, shape(0, 1 << 60), &events);
    refused(&path, "beyond 52 bits");
}

#[test]
fn time_that_goes_back_or_never_ends_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    for (times, expected) in [([5, 4], "time goes back from 5 ns to 4 ns"), ([1, 1 << 60], "104 days")] {
        let mut writer = TraceWriter::create(&path, &meta(), WriterOptions::default()).unwrap();
        writer.add_task(info(1, TaskKind::User));
        for time_ns in times {
            writer.event(Event { time_ns, kind: EventKind::SwitchIn });
        }
        writer.finish().unwrap();
        refused(&path, expected);
    }
}

/// A trace of several epochs, and where each of its chunks begins.
fn several_chunks(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let events: Vec<_> = (0..60).map(|_| (ONE, EventKind::SwitchIn)).collect();
    write(path, &meta(), TaskKind::Kernel, shape(0x1000, 0x1000), &events);
    let bytes = std::fs::read(path).unwrap();
    let mut starts = vec![16];
    while let Some(&at) = starts.last().filter(|at| **at < bytes.len()) {
        starts.push(at + 24 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize);
    }
    starts.pop();
    (bytes, starts)
}

#[test]
fn a_flipped_bit_in_the_header_of_any_chunk_is_damage_and_not_a_short_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    let (whole, starts) = several_chunks(&path);
    assert!(starts.len() > 6, "{starts:?}");
    for start in starts {
        for byte in 0..24 {
            let mut bytes = whole.clone();
            bytes[start + byte] ^= 0x10;
            std::fs::write(&path, &bytes).unwrap();
            let error = walk(&path).expect_err("damage").to_string();
            assert!(error.contains(&format!("damaged at byte {start}")), "{error}");
        }
    }
}

#[test]
fn the_footer_is_compared_and_nothing_may_follow_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    let (whole, starts) = several_chunks(&path);
    let footer = *starts.last().unwrap();
    let epoch = starts[starts.len() - 2];
    // An epoch behind the footer, one left out, one twice.
    let behind = [&whole[..], &whole[epoch..footer]].concat();
    let less = [&whole[..epoch], &whole[footer..]].concat();
    let twice = [&whole[..footer], &whole[epoch..]].concat();
    for (bytes, expected) in
        [(behind, "a chunk behind the footer"), (less, "its footer states"), (twice, "its footer states")]
    {
        std::fs::write(&path, &bytes).unwrap();
        refused(&path, expected);
    }
    // The same number of epochs, another content.
    let other =
        [&whole[..starts[2]], &whole[starts[3]..epoch], &whole[starts[3]..starts[4]], &whole[epoch..]];
    std::fs::write(&path, other.concat()).unwrap();
    assert!(walk(&path).is_err());
}

#[test]
fn what_is_made_from_a_trace_that_ends_early_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (path, output) = (folder.path().join("short.svt"), folder.path().join("made.svt"));
    let (whole, starts) = several_chunks(&path);
    std::fs::write(&path, &whole[..starts[5] + 7]).unwrap();
    let short = Arc::new(TraceReader::open(&path).unwrap());
    cut(&short, &output, &Selection::default()).unwrap();
    for round in 0..2 {
        let made = Arc::new(TraceReader::open(&output).unwrap());
        let sentence = made.truncated().expect("carried on").to_owned();
        assert!(sentence.contains("short.svt is not whole"), "round {round}: {sentence}");
        merge(&[made], &output).unwrap();
    }
}

/// A few kilobytes that stand for two million blocks, and for a thousand shapes.
fn larger_than_it_looks(path: &Path) {
    let mut writer = TraceWriter::create(path, &meta(), WriterOptions::default()).unwrap();
    writer.add_task(info(1, TaskKind::User));
    let ids: Vec<ShapeId> = (0..1000).map(|i| writer.add_shape(shape(0x1000 + 64 * i, 0x1000))).collect();
    for _ in 0..2_000_000 {
        writer.block(ids[0], &[]).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn a_small_file_gets_no_more_memory_than_one_file_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    larger_than_it_looks(&path);
    assert!(std::fs::metadata(&path).unwrap().len() < 20_000);
    let within = |bytes: u64| -> Result<u64, TraceError> {
        let mut cursor = GlobalCursor::new(Arc::new(TraceReader::open_within(&path, Budget::new(bytes))?));
        let mut items = 0;
        while cursor.next()?.is_some() {
            items += 1;
        }
        Ok(items)
    };
    assert_eq!(within(64 << 20).unwrap(), 2_000_000);
    for bytes in [100_000, 1 << 20] {
        let error = within(bytes).expect_err("more memory than allowed").to_string();
        assert!(error.contains("t.svt") && error.contains("SERVSIM_FILE_MEMORY"), "{error}");
    }
}

#[test]
fn a_check_lists_everything_that_is_wrong_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svt");
    let (whole, starts) = several_chunks(&path);
    let report = check(&path).unwrap();
    assert_eq!((report.findings.len(), report.items, report.tasks), (0, 120, 5), "{report:?}");
    std::fs::write(&path, &whole[..starts[5] + 7]).unwrap();
    assert!(check(&path).unwrap().findings[0].contains("is not whole"));
    let events = [(ONE, submit(1, 4, 0)), (TWO, EventKind::Create { task: 77 }), (TWO, blocked(u64::MAX))];
    write(&path, &meta(), TaskKind::Kernel, shape(0x1000, 0x1000), &events);
    let findings = check(&path).unwrap().findings;
    assert_eq!(findings.len(), 3, "{findings:?}");
    assert!(findings[0].contains("device 4") && findings[1].contains("task 77"), "{findings:?}");
    std::fs::write(&path, "no trace at all").unwrap();
    assert!(matches!(check(&path), Err(TraceError::NotATrace(_))));
}
