//! Malformed and hostile imports end in one sentence with the place, and good ones read exactly.

use servsim_core::reference::{KERNEL, PRIVATE, SHARED};
use servsim_core::{Batch, Event, GlobalSource, Op, RandomStream};
use servsim_import::raw16::Raw16;
use servsim_import::{format_of, text, FirstPass};
use std::path::Path;

fn text_fault(input: &str) -> String {
    match text::read(input.as_bytes(), "t.txt", 4) {
        Ok(_) => panic!("accepted: {input:?}"),
        Err(error) => error.0,
    }
}

fn all(source: &mut dyn GlobalSource) -> Batch {
    let (mut whole, mut batch) = (Batch::default(), Batch::default());
    while source.next_batch(&mut batch).unwrap() {
        for record in &batch.records {
            match record.op {
                Op::Event => whole.push_event(record.task, batch.events[record.address as usize]),
                _ => whole.records.push(*record),
            }
        }
    }
    whole
}

#[test]
fn every_form_of_a_text_line_is_understood() {
    let input = "# a comment\n7 I 400000\n7 L 0x10 8 p u # note\n9 S ff 1 s k\n9 X payment\n7 L 20 k\n";
    let mut source = text::read(input.as_bytes(), "t.txt", 4).unwrap();
    assert_eq!(source.transaction_kinds(), ["payment"]);
    let read = all(&mut source);
    let flags: Vec<u8> = read.records.iter().map(|r| r.flags).collect();
    assert_eq!(flags, [0, PRIVATE, SHARED | KERNEL, 0, KERNEL]);
    assert_eq!((read.records[1].address, read.records[1].size), (0x10, 8));
    assert_eq!(read.records[0].size, 4, "without a size, a word");
    assert_eq!(read.events, [Event::TransactionEnd { kind: 0, user: 0 }]);
    assert_eq!((read.records[0].cpu, read.records[2].cpu), (0, 1), "pinned by rank");
}

#[test]
fn tasks_are_ranked_by_number_whatever_their_first_appearance() {
    let mut source = text::read("2 I 0\n0 I 0\n1 I 0\n".as_bytes(), "t.txt", 3).unwrap();
    let cpus: Vec<u8> = all(&mut source).records.iter().map(|r| r.cpu).collect();
    assert_eq!(cpus, [2, 0, 1]);
}

#[test]
fn a_page_touched_by_one_task_only_is_private() {
    let input = "0 L 1000\n1 L 2000\n0 L 2ffe 4\n1 L 3000\n";
    let mut source = text::read(input.as_bytes(), "t.txt", 2).unwrap();
    let records = all(&mut source).records;
    let private: Vec<bool> = records.iter().map(|r| source.privacy().is_private(r)).collect();
    assert_eq!(private, [true, false, false, false], "the third crosses into page 3");
}

#[test]
fn malformed_text_is_refused_with_the_line() {
    let cases = [
        ("0 I\n", "line 1"),
        ("0\n", "line 1"),
        ("0 I 0\n0 Q 0\n", "line 2: unknown operation `Q`"),
        ("0 I zz\n", "hexadecimal"),
        ("0 I +5\n", "hexadecimal"),
        ("0 I 11112222333344445\n", "at most 64 bits"),
        ("0 I 0 0\n", "1 to 255"),
        ("0 I 0 256\n", "1 to 255"),
        ("0 I ffffffffffffffff 2\n", "end of the address space"),
        ("0 I 0 4 u p\n", "out of place"),
        ("0 X\n", "TASK X KIND"),
    ];
    for (input, expected) in cases {
        let fault = text_fault(input);
        assert!(fault.starts_with("t.txt, line") && fault.contains(expected), "{input:?}: {fault}");
    }
    let long = format!("0 I {}\n", "0".repeat(10_000));
    assert!(text_fault(&long).contains("longer than"));
    let binary = text::read(&[0xFF_u8, 0xFE, b'\n'][..], "t.txt", 1);
    assert!(binary.err().unwrap().0.contains("--format raw16"));
}

fn raw(records: &[[u8; 16]]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), records.concat()).unwrap();
    file
}

fn record(address: u64, kind: u8, size: u8, cpu: u16, pid: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    (bytes[8], bytes[9]) = (kind, size);
    bytes[12..14].copy_from_slice(&cpu.to_le_bytes());
    bytes[14..].copy_from_slice(&pid.to_le_bytes());
    bytes
}

#[test]
fn raw16_records_keep_every_field() {
    let file = raw(&[record(0x1234, 0x80, 8, 1, 77), record(1, 1, 1, 0, 5), record(2, 2, 4, 0, 77)]);
    let mut source = Raw16::open(file.path(), 2).unwrap();
    let records = all(&mut source).records;
    let ops: Vec<Op> = records.iter().map(|r| r.op).collect();
    assert_eq!(ops, [Op::Load, Op::Store, Op::Fetch]);
    assert_eq!((records[0].address, records[0].flags, records[0].cpu), (0x1234, KERNEL, 1));
    assert_eq!((records[0].task, records[1].task, records[2].task), (0, 1, 0));
    assert_eq!(source.tasks()[0].pid, 77);
}

#[test]
fn malformed_raw16_is_refused_with_the_record() {
    let good = record(0, 0, 4, 0, 1);
    let mut reserved = good;
    reserved[10] = 1;
    let cases = [
        (record(0, 3, 4, 0, 1), "type 0x3"),
        (record(0, 0, 0, 0, 1), "size 0"),
        (record(u64::MAX, 0, 2, 0, 1), "end of the address space"),
        (record(0, 0, 4, 4, 1), "set processors=5"),
        (record(0, 0, 4, u16::MAX, 1), "set processors=65536"),
        (reserved, "reserved field"),
    ];
    for (bad, expected) in cases {
        let file = raw(&[good, bad]);
        let fault = Raw16::open(file.path(), 4).err().expect("refused").0;
        assert!(fault.contains("record 1 (byte 16)") && fault.contains(expected), "{fault}");
    }
    let file = raw(&[good]);
    std::fs::write(file.path(), &good[..15]).unwrap();
    let fault = Raw16::open(file.path(), 4).err().expect("refused").0;
    assert!(fault.contains("truncated"), "{fault}");
}

#[test]
fn random_bytes_never_panic() {
    let mut random = RandomStream::new(11, "hostile");
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..random.below(400)).map(|_| random.next_u64() as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        for name in ["text", "raw16"] {
            let format = format_of(file.path(), Some(name)).unwrap();
            if let Ok(mut source) = (format.open)(file.path(), 4, FirstPass::ALONE) {
                all(source.as_mut());
            }
            let mut batch = Batch::default();
            if let Ok(mut source) = (format.open)(file.path(), 4, FirstPass::LeftOut) {
                while source.next_batch(&mut batch).is_ok_and(|more| more) {}
            }
        }
    }
}

#[test]
fn an_unknown_format_names_the_known_ones() {
    let fault = format_of(Path::new("x.bin"), None).err().unwrap().0;
    assert!(fault.contains("--format") && fault.contains("raw16"), "{fault}");
    assert!(format_of(Path::new("x"), Some("elf")).is_err());
}
