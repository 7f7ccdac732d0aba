//! What a first pass found, kept: the same trace with it and without, and whatever does not fit is made anew.

use servsim_core::{Batch, GlobalSource, Stage, TaskSource, Watch, PAGE_SHIFT};
use servsim_import::captured::{CapturedOrder, CapturedTasks, Findings};
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const HASH: &str = "sha256:00ff";

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt")
}

fn opened(findings: Option<Findings<'_>>) -> CapturedTasks {
    CapturedTasks::open_with(&shipped(), 64, true, findings, None).unwrap()
}

/// All that a source tells: every stream and handler, and all that the plan answers about them.
fn told(source: &CapturedTasks) -> String {
    let mut all = String::new();
    let (mut batch, mut wakes, mut requests) = (Batch::default(), Vec::new(), Vec::new());
    for task in 0..source.tasks().len() as u32 {
        let mut cursor = source.open(task).unwrap();
        let (mut records, mut private) = (crc32c::crc32c(&[]), 0);
        while cursor.next_batch(&mut batch).unwrap() {
            records = crc32c::crc32c_append(records, format!("{:?}", batch.records).as_bytes());
            private += batch.records.iter().filter(|record| source.privacy().is_private(record)).count();
            for event in &batch.events {
                match *event {
                    servsim_core::Event::Wake { wake } => wakes.push(wake),
                    servsim_core::Event::IoSubmit { request, .. } => requests.push(request),
                    _ => {}
                }
            }
            writeln!(all, "{:?}", batch.events).unwrap();
        }
        writeln!(all, "{task}: {records} {private}").unwrap();
    }
    wakes.iter().for_each(|&wake| writeln!(all, "{wake} by {:?}", source.waker(wake)).unwrap());
    requests
        .iter()
        .for_each(|&request| writeln!(all, "{request} of {:?}", source.submitter(request)).unwrap());
    for handler in source.interrupts() {
        writeln!(all, "{:?} {:?} {:?}", handler.requests, handler.batch.events, handler.batch.records.len())
            .unwrap();
    }
    writeln!(all, "{:?}", source.transaction_ends()).unwrap();
    all
}

fn file(findings: &Findings<'_>) -> PathBuf {
    findings.folder.join("sha25600ff.found")
}

#[test]
fn a_first_pass_tells_how_far_it_is_and_ends_where_it_is_stopped() {
    let watch = Watch::default();
    let opened = || CapturedTasks::open_with(&shipped(), 64, true, None, Some(&watch));
    let stage = std::thread::scope(|scope| {
        // A busy host may look too late: then the pass is made again.
        for _ in 0..100 {
            let pass = scope.spawn(|| opened().map(|_| ()));
            let mut last = Stage::default();
            while !pass.is_finished() {
                last = Some(watch.stage()).filter(|stage| stage.done > 0).unwrap_or(last);
            }
            if last.done > 0 {
                return last;
            }
        }
        Stage::default()
    });
    assert_eq!((stage.what, stage.done, stage.of), ("first pass", 1, 2), "the shipped trace has two epochs");
    assert_eq!(watch.stage(), Stage::default(), "it is over");
    watch.stop();
    assert!(opened().is_err_and(|error| error.is_stopped()));
}

#[test]
fn a_trace_is_the_same_with_what_was_found_before_and_the_pass_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let findings = Findings { folder: folder.path(), trace_hash: HASH };
    let without = opened(None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let making = opened(Some(findings));
    let made = std::fs::metadata(file(&findings)).unwrap();
    let with = opened(Some(findings));
    let seen = std::fs::metadata(file(&findings)).unwrap();
    assert_eq!((made.ino(), made.mtime_nsec()), (seen.ino(), seen.mtime_nsec()), "it was not written again");
    assert!(made.len() < without_bytes() / 20, "{} bytes", made.len());
    let expected = told(&without);
    assert!(told(&making) == expected && told(&with) == expected);
    for kernel in [false, true] {
        let private = |source: CapturedTasks| format!("{:?}", ordered(&source.with_private_kernel(kernel)));
        assert_eq!(private(opened(None)), private(opened(Some(findings))));
    }
}

fn without_bytes() -> u64 {
    std::fs::metadata(shipped()).unwrap().len()
}

/// Which pages of the first gigabytes are private, kernel's and users' alike.
fn ordered(source: &CapturedTasks) -> Vec<u64> {
    let page = |number: u64| servsim_core::Record::new(0, servsim_core::Op::Load, number << PAGE_SHIFT, 1);
    let private = |number: &u64| source.privacy().is_private(&page(*number));
    let users = |number: &u64| source.privacy().is_kernels(&page(*number)) == Some(false);
    (0..1 << 19).filter(|number| private(number) != users(number)).collect()
}

#[test]
fn the_captured_order_reads_what_the_streams_kept_and_knows_every_page_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let findings = Findings { folder: folder.path(), trace_hash: HASH };
    let _ = opened(Some(findings));
    let made = std::fs::metadata(file(&findings)).unwrap().ino();
    let (with, without) = (
        CapturedOrder::open_with(&shipped(), Some(findings), None).unwrap(),
        CapturedOrder::open(&shipped()).unwrap(),
    );
    assert_eq!(std::fs::metadata(file(&findings)).unwrap().ino(), made);
    let origins =
        |order: &CapturedOrder| (0..1 << 19).map(|page| order.page_origin(page)).collect::<Vec<_>>();
    assert!(origins(&with).iter().flatten().count() > 1000);
    assert!(origins(&with) == origins(&without));
    assert_eq!(with.transaction_ends(), without.transaction_ends());
}

#[test]
fn what_is_damaged_or_of_another_trace_is_made_anew_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let findings = Findings { folder: folder.path(), trace_hash: HASH };
    let expected = opened(Some(findings)).transaction_ends();
    let whole = std::fs::read(file(&findings)).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        bytes
    };
    let damaged = [
        Vec::new(),
        whole[..20].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        flipped(3),
        flipped(9),
        flipped(30),
        flipped(whole.len() / 2),
        flipped(whole.len() - 2),
    ];
    for bytes in damaged {
        std::fs::write(file(&findings), bytes).unwrap();
        assert_eq!(opened(Some(findings)).transaction_ends(), expected);
        assert!(std::fs::read(file(&findings)).unwrap() == whole, "it is whole again, byte for byte");
    }
    // The file of one trace under the name of another.
    let other = Findings { trace_hash: "sha256:00fe", ..findings };
    std::fs::copy(file(&findings), folder.path().join("sha25600fe.found")).unwrap();
    let _ = opened(Some(other));
    assert!(std::fs::read(folder.path().join("sha25600fe.found")).unwrap() != whole);
}

#[test]
fn a_folder_that_cannot_be_written_keeps_nothing_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    for impossible in [file.clone(), file.join("below")] {
        let source = opened(Some(Findings { folder: &impossible, trace_hash: HASH }));
        assert_eq!(source.transaction_ends(), opened(None).transaction_ends());
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"no folder");
}
