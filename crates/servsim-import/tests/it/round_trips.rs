//! What is exported and imported again is the same, as far as the format can hold it, and what it
//! cannot hold is said.

use crate::common::{instruction, plain, records, Folder, Plain};

use servsim_core::reference::{CONTINUATION, KERNEL, PER_CPU, PRIVATE};
use servsim_core::{Event, GlobalSource, Op, Privacy, RandomStream, Record, TaskInfo, TaskKind, ANY_CPU};
use servsim_import::export::{export, target_of, Exported, Only, TARGETS};
use servsim_import::{format_of, FirstPass, ListSource, FORMATS};
use std::path::Path;

fn task(name: &str, pid: u32) -> TaskInfo {
    TaskInfo { name: name.into(), pid, kind: TaskKind::User, client: false }
}

/// A list of references of two tasks of processors 0 and 1, with everything a record can have.
fn rich() -> ListSource {
    let mut items = Vec::new();
    let mut random = RandomStream::new(3, "round trips");
    for n in 0..20_000_u64 {
        let task = (n / 7 % 2) as u32;
        let op = [Op::Fetch, Op::Load, Op::Store][random.below(3) as usize];
        let mut record = Record::new(task, op, 1 + random.below(1 << 40), 1 + random.below(64) as u8);
        record.flags = [0, KERNEL, PRIVATE, 0][random.below(4) as usize];
        record.cpu = task as u8;
        items.push((record, None));
        if n % 1000 == 999 {
            items
                .push((Record::new(task, Op::Event, 0, 1), Some(Event::TransactionEnd { kind: 0, user: 0 })));
        }
    }
    ListSource::new(vec![task("4", 40), task("9", 90)], vec!["payment".into()], Privacy::default(), items)
}

fn write(source: &mut dyn GlobalSource, format: &str, only: Only, path: &Path) -> Exported {
    export(source, target_of(format).unwrap(), only, 2, path).unwrap_or_else(|e| panic!("{e}"))
}

fn again(path: &Path, format: &str) -> Vec<Record> {
    let mut source = (format_of(path, Some(format)).unwrap().open)(path, 2, FirstPass::ALONE).unwrap();
    records(source.as_mut())
}

/// What a format is expected to keep of a record.
fn kept(format: &str, r: &Record) -> Plain {
    match format {
        "text" => plain(r),
        "raw16" => (r.task, r.op, r.address, r.size, r.flags & KERNEL),
        _ => (0, r.op, r.address, r.size, 0),
    }
}

#[test]
fn formats_of_single_references_keep_all_they_can_hold() {
    let folder = Folder::new();
    for format in TARGETS.iter().filter(|target| target.holds.single).map(|target| target.name) {
        let original = records(&mut rich());
        for (name, only) in [("all", Only::All), ("fetch", Only::Fetch), ("data", Only::Data)] {
            let path = folder.0.path().join(format!("{name}.{format}"));
            let done = write(&mut rich(), format, only, &path);
            let wanted = |r: &&Record| match only {
                Only::All => true,
                Only::Fetch => r.op == Op::Fetch,
                Only::Data => r.op != Op::Fetch,
            };
            let mut expected: Vec<Plain> = original.iter().filter(wanted).map(|r| kept(format, r)).collect();
            // Importers number tasks in the order of their first reference.
            let first = expected[0].0;
            expected.iter_mut().for_each(|r| r.0 ^= first);
            let read: Vec<Plain> = again(&path, format).iter().map(plain).collect();
            assert!(read == expected, "{format} {name}");
            assert_eq!(done.references, expected.len() as u64);
            assert_eq!(done.bytes, std::fs::metadata(&path).unwrap().len());
        }
    }
}

#[test]
fn text_and_raw16_keep_processors_tasks_and_transactions() {
    let folder = Folder::new();
    for format in ["text", "raw16"] {
        let path = folder.0.path().join(format!("t.{format}"));
        write(&mut rich(), format, Only::All, &path);
        let mut source = (format_of(&path, None).unwrap().open)(&path, 2, FirstPass::ALONE).unwrap();
        let cpus: Vec<u8> = records(source.as_mut()).iter().map(|r| r.cpu).collect();
        let expected: Vec<u8> = records(&mut rich()).iter().map(|r| r.cpu).collect();
        assert!(cpus == expected, "{format}");
        let numbers: Vec<u32> = source.tasks().iter().map(|t| t.pid).collect();
        assert_eq!(numbers, if format == "text" { [4, 9] } else { [40, 90] });
        let kinds = if format == "text" { vec!["payment".to_owned()] } else { Vec::new() };
        assert_eq!(source.transaction_kinds(), kinds);
    }
}

#[test]
fn champsim_keeps_instructions_that_fit_and_says_the_rest() {
    let folder = Folder::new();
    let bytes = [
        instruction(0x401, &[0x20, 0x30], &[0x1003, 0x2000, 5, 6]),
        instruction(0x405, &[], &[]),
        instruction(0x406, &[0x99], &[]),
    ]
    .concat();
    let original = folder.file("a.champsim", &bytes);
    let mut source = (format_of(&original, None).unwrap().open)(&original, 1, FirstPass::ALONE).unwrap();
    let path = folder.0.path().join("b.champsim");
    let done = write(source.as_mut(), "champsim", Only::All, &path);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(done.lost, ["branches and registers, which the trace does not tell"]);

    let crowded = folder.file("c.lackey", b"I  400,3\n S 10,8\n S 20,8\n L 30,8\n S 40,8\n L 0,4\n");
    let mut source = (format_of(&crowded, None).unwrap().open)(&crowded, 1, FirstPass::ALONE).unwrap();
    let done = write(source.as_mut(), "champsim", Only::All, &path);
    let read: Vec<(Op, u64)> = again(&path, "champsim").iter().map(|r| (r.op, r.address)).collect();
    let fetch = (Op::Fetch, 0x400);
    let stores = [(Op::Store, 0x10), (Op::Store, 0x20), fetch, (Op::Store, 0x40)];
    assert_eq!(read, [&[fetch, (Op::Load, 0x30)], &stores[..]].concat());
    let said = done.lost.join("; ");
    for part in
        ["the size of 6", "1 instructions with more", "1 accesses to address 0", "1 loads that followed"]
    {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
    let fault = export(source.as_mut(), target_of("champsim").unwrap(), Only::Data, 1, &path);
    assert!(fault.unwrap_err().to_string().contains("whole instructions"));
}

#[test]
fn what_a_format_cannot_hold_is_said_once_each() {
    let folder = Folder::new();
    let said = |format: &str| {
        let path = folder.0.path().join(format!("t.{format}"));
        write(&mut rich(), format, Only::All, &path).lost.join("; ")
    };
    let (din, raw16, text) = (said("din"), said("raw16"), said("text"));
    for part in ["which of the 2 tasks", "the kernel mode of", "the stated privacy of", "20 transactions"] {
        assert!(din.contains(part), "`{part}` is not in: {din}");
    }
    assert!(!raw16.contains("tasks") && !raw16.contains("kernel") && raw16.contains("20 transactions"));
    assert_eq!(text, "");
}

#[test]
fn long_accesses_and_those_of_the_processors_own_area_are_written_where_they_are() {
    let folder = Folder::new();
    let long = folder.file("long.lackey", b" S 1000,512\n L 5,1\n");
    for (format, expected, pieces) in [("lackey", vec![512], 0), ("raw16", vec![255, 255, 2], 2)] {
        let mut source = (format_of(&long, None).unwrap().open)(&long, 1, FirstPass::ALONE).unwrap();
        let path = folder.0.path().join(format!("copy.{format}"));
        let done = write(source.as_mut(), format, Only::All, &path);
        assert_eq!(done.references, expected.len() as u64 + 1);
        let sizes: Vec<u64> = again(&path, format).iter().map(|r| u64::from(r.size)).collect();
        assert_eq!(sizes, [255, 255, 2, 1]);
        let counted = again(&path, format).iter().filter(|r| r.flags & CONTINUATION == 0).count();
        assert_eq!(counted as u64, done.references);
        let said = format!("that {pieces} references are parts of longer ones");
        assert_eq!(done.lost.contains(&said), pieces > 0);
    }
    let own = |task| Record { flags: PER_CPU, cpu: ANY_CPU, ..Record::new(task, Op::Load, 0x40, 8) };
    let items = (0..3).map(|n| (own(n), None)).collect();
    let tasks = vec![task("a", 1), task("b", 2), task("c", 3)];
    let mut source = ListSource::new(tasks, Vec::new(), Privacy::default(), items);
    let path = folder.0.path().join("own.raw16");
    write(&mut source, "raw16", Only::All, &path);
    let places: Vec<u64> = again(&path, "raw16").iter().map(|r| r.address).collect();
    assert!(
        places[0] == places[2] && places[0] != places[1],
        "tasks 0 and 2 run on processor 0: {places:x?}"
    );
}

#[test]
fn compressed_exports_read_back_and_a_failed_one_leaves_nothing() {
    let folder = Folder::new();
    let plain_path = folder.0.path().join("t.lackey");
    write(&mut rich(), "lackey", Only::All, &plain_path);
    for extension in ["gz", "xz", "zst"] {
        let path = folder.0.path().join(format!("t.lackey.{extension}"));
        let done = write(&mut rich(), "lackey", Only::All, &path);
        assert!(again(&path, "lackey") == again(&plain_path, "lackey"), "{extension}");
        assert!(done.bytes < std::fs::metadata(&plain_path).unwrap().len(), "{extension}");
    }
    let broken = Folder::new();
    let mut source = (format_of(&plain_path, None).unwrap().open)(&plain_path, 1, FirstPass::ALONE).unwrap();
    std::fs::write(&plain_path, b"I  400,3\nno line of lackey\n").unwrap();
    // The pass that is open still sees the old beginning or the new file: both end in a fault.
    let done =
        export(source.as_mut(), target_of("din").unwrap(), Only::All, 1, &broken.0.path().join("x.din"));
    assert!(done.is_err());
    assert_eq!(std::fs::read_dir(broken.0.path()).unwrap().count(), 0, "no file is left");
}

#[test]
fn every_target_is_a_format_that_is_read() {
    // Formats of single references are written and read back above, all of them; others by a test of their own.
    let others: Vec<&str> = TARGETS.iter().filter(|t| !t.holds.single).map(|t| t.name).collect();
    assert_eq!(others, ["champsim"]);
    for target in TARGETS {
        assert!(FORMATS.iter().any(|format| format.name == target.name), "{}", target.name);
    }
    let fault = target_of("champsin").err().unwrap().0;
    assert!(fault.contains("did you mean `champsim`?") && fault.contains("raw16"), "{fault}");
}
