//! Malformed and hostile files of every format end in one sentence with the file, the place and
//! what to do.

use crate::common::{at, drm, entry, head, instruction, records, refusal, Folder};

use servsim_core::RandomStream;
use servsim_import::{format_of, FirstPass, FORMATS};
use servsim_oracle::mutation::{number, Mutants};

/// Refused with the name of the file and all of `expected`.
fn refused(folder: &Folder, format: &str, bytes: &[u8], expected: &[&str]) {
    let fault = refusal(&folder.file("bad", bytes), format);
    assert!(fault.contains("bad") && !fault.contains('\n'), "{fault}");
    for part in expected {
        assert!(fault.contains(part), "{format}: `{part}` is not in: {fault}");
    }
}

#[test]
fn malformed_lines_are_refused_with_their_number() {
    let folder = Folder::new();
    let cases: [(&str, &str, &[&str]); 16] = [
        ("din", "0 10\n9 10\n", &["line 2", "`9 10`", "is this a din trace?"]),
        ("din", "0\n", &["line 1", "address is missing"]),
        ("din", "0 xyz\n", &["address `xyz`", "hexadecimal"]),
        ("din", "0 11112222333344445\n", &["at most 64 bits"]),
        ("din", "r 10\n", &["size is missing"]),
        ("din", "r 10 0\n", &["size 0"]),
        ("din", "r ffffffffffffffff 2\n", &["end of the address space"]),
        ("din", "r 10 ffffffff\n", &["no instruction touches"]),
        ("lackey", "I  400,3\nhello\n", &["line 2", "`hello`", "--log-file"]),
        ("lackey", "I  400\n", &["ADDRESS,SIZE"]),
        ("lackey", " L 400,\n", &["ADDRESS,SIZE"]),
        ("lackey", " L zz,4\n", &["ADDRESS,SIZE"]),
        ("lackey", " L 400,0\n", &["size 0"]),
        ("lackey", " L 400,99999999999\n", &["no instruction touches"]),
        ("lackey", " L ffffffffffffffff,8\n", &["end of the address space"]),
        ("lackey", "==1== nothing traced\n", &["no reference in it"]),
    ];
    for (format, text, expected) in cases {
        refused(&folder, format, text.as_bytes(), expected);
    }
    for format in ["din", "lackey"] {
        refused(&folder, format, &vec![b'='; 1_000_000], &["line 1", "longer than"]);
        refused(&folder, format, b"", &["no reference in it"]);
        refused(&folder, format, &[0xff, 0xfe, 0, b'\n'], &["line 1"]);
    }
}

#[test]
fn malformed_champsim_records_are_refused_with_their_place() {
    let folder = Folder::new();
    let good = instruction(0x400, &[], &[0x10]);
    let mut bad = good;
    bad[8] = 2;
    refused(&folder, "champsim", &[good, bad].concat(), &["record 1 (byte 64)", "64-byte records?"]);
    refused(
        &folder,
        "champsim",
        &[good, good].concat()[..100],
        &["truncated: 36 bytes follow record 1", "cut it to 64 bytes"],
    );
    refused(&folder, "champsim", b"", &["no reference in it"]);
}

#[test]
fn malformed_drmemtrace_records_are_refused_with_their_place_and_remedy() {
    let folder = Folder::new();
    let with = |more: &[[u8; 12]]| [head(5, 1, 1), more.to_vec()].concat().concat();
    let cases: [(Vec<u8>, &[&str]); 11] = [
        (entry(drm::HEADER, 0, 0).to_vec(), &["record 0", "version 0 of drmemtrace", "versions 1 to 7"]),
        (entry(drm::HEADER, 0, 8).to_vec(), &["version 8 of drmemtrace", "DynamoRIO of that age"]),
        (entry(drm::HEADER, 0, 0x001c_0000_0004).to_vec(), &["no drmemtrace header of a 64-bit program"]),
        (instruction(0x400, &[], &[])[..60].to_vec(), &["no drmemtrace header", "--format champsim"]),
        (with(&[entry(50, 0, 0)]), &["record 5 (byte 60)", "record type 50", "record_filter"]),
        (with(&[entry(drm::MARKER, drm::VERSION, 9)]), &["version marker says 9"]),
        (with(&[entry(drm::MARKER, drm::FILETYPE, 0x20)]), &["32-bit program"]),
        (with(&[entry(drm::INSTR, 0, 0x10)]), &["size 0"]),
        (with(&[entry(drm::READ, 8, u64::MAX)]), &["end of the address space"]),
        (with(&[entry(drm::BUNDLE, 9, 0)]), &["a bundle of 9 instructions"]),
        (
            [entry(drm::HEADER, 0, 4), at(1), entry(drm::READ, 8, 0x10)].concat(),
            &["record 2", "before the records that name its thread"],
        ),
    ];
    for (bytes, expected) in cases {
        refused(&folder, "drmemtrace", &bytes, expected);
    }
    let whole = with(&[entry(drm::READ, 8, 0x10)]);
    refused(&folder, "drmemtrace", &whole[..whole.len() - 5], &["truncated: 7 bytes follow record 5"]);
    refused(&folder, "drmemtrace", b"", &["no drmemtrace header"]);
    refused(&folder, "drmemtrace", &with(&[]), &["no reference in it"]);
}

#[test]
fn records_of_drmemtrace_that_are_no_references_are_left_out_and_counted() {
    let folder = Folder::new();
    for version in [1, 7] {
        let mut all = head(version, 1, 1);
        all.extend([entry(drm::MARKER, 40, 1), entry(drm::MARKER, 41, 2), entry(drm::INSTR, 4, 0x400)]);
        all.extend([entry(drm::WRITE, 0, 0x9000), entry(drm::READ, 8, 0x9000), entry(drm::FOOTER, 0, 0)]);
        let path = folder.file("t.memtrace", &all.concat());
        let mut source = (format_of(&path, None).unwrap().open)(&path, 4, FirstPass::ALONE)
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(records(source.as_mut()).len(), 2, "version {version}");
        let notes = source.notes().join("; ");
        assert!(notes.contains("1 loads and stores of no bytes"), "{notes}");
        assert!(notes.contains("2 markers of types unknown here"), "{notes}");
    }
}

#[test]
fn a_directory_without_traces_and_one_of_another_format_are_refused() {
    let folder = Folder::new();
    folder.file("raw/modules.log", b"");
    let fault = refusal(folder.0.path(), "drmemtrace");
    assert!(fault.contains("drrun -t drmemtrace"), "{fault}");
    let fault = refusal(folder.0.path(), "din");
    assert!(fault.contains("a directory") && fault.contains("--format drmemtrace"), "{fault}");
    let missing = folder.0.path().join("missing");
    for format in FORMATS {
        assert!(refusal(&missing, format.name).contains("missing"), "{}", format.name);
    }
}

/// Random bytes, and mutants of a good file of every format, never crash and never give a reference
/// beyond the task table.
#[test]
fn random_changes_never_panic() {
    let folder = Folder::new();
    let mut random = RandomStream::new(12, "hostile formats");
    let good_drmemtrace = {
        let mut all = head(6, 1, 1);
        all.extend([at(5), entry(drm::INSTR, 4, 0x400), entry(drm::READ, 8, 0x9000)]);
        all.extend([entry(drm::BUNDLE, 3, 0x0004_0302), entry(drm::FOOTER, 0, 0)]);
        all.concat()
    };
    let record = |op: u8| [0x40, 0x10, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8, op, 0, 0];
    let good: [(&str, Vec<u8>); 6] = [
        ("raw16", [record(0), record(1), record(2)].concat()),
        ("din", b"0 1003\n1 20\nr 10 8\n".to_vec()),
        ("lackey", b"I  400,3\n M 1000,8\n".to_vec()),
        ("champsim", [instruction(1, &[2], &[3]); 3].concat()),
        ("drmemtrace", good_drmemtrace),
        ("text", b"0 I 400 4\n1 L 10\n".to_vec()),
    ];
    let (mut read, mut refusals) = (0, 0);
    for format in FORMATS {
        assert!(good.iter().any(|(name, _)| *name == format.name), "{} has a file to change", format.name);
    }
    let mut mutants = Mutants::new(12);
    let mut open = |name: &str, bytes: &[u8]| {
        let path = folder.file("random", bytes);
        match (format_of(&path, Some(name)).unwrap().open)(&path, 4, FirstPass::ALONE) {
            Ok(mut source) => {
                let tasks = source.tasks().len();
                assert!(records(source.as_mut()).iter().all(|r| (r.task as usize) < tasks && r.size > 0));
                read += 1;
            }
            Err(error) => {
                assert!(!error.0.contains('\n'), "{error}");
                refusals += 1;
            }
        }
    };
    for (name, whole) in &good {
        for mutant in mutants.trials(env!("CARGO_MANIFEST_DIR"), name, whole, 300) {
            open(name, &mutant);
        }
        for _ in 0..number(40) {
            open(name, &(0..random.below(400)).map(|_| random.next_u64() as u8).collect::<Vec<u8>>());
        }
    }
    assert!(read > 50 && refusals > 50, "both happen: {read} read, {refusals} refused");
}
