//! Each foreign format reads exactly, whole or task by task, raw or compressed.

use crate::common::{self, at, drm, entry, head, instruction, plain, read, records, Folder, Plain};

use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Batch, GlobalSource, Op, TaskSource};
use servsim_import::captured::CodeDetail;
use servsim_import::{din, drmemtrace, format_of, lackey, open_by_task, Reading, TraceFile};
use std::io::Write;
use std::path::Path;

const LACKEY: &str = "==12== Lackey, an example Valgrind tool\n--12-- Valgrind options:\n\
    I  04016a40,3\n S 1ffefffbd8,8\n M 0421c7cc,4\nSB 04016a40\n L 1000,16\n==12== Exit code:       0\n";

fn lackey_plain() -> Vec<Plain> {
    vec![
        (0, Op::Fetch, 0x0401_6a40, 3, 0),
        (0, Op::Store, 0x1f_fefffbd8, 8, 0),
        (0, Op::Load, 0x0421_c7cc, 4, 0),
        (0, Op::Store, 0x0421_c7cc, 4, 0),
        (0, Op::Load, 0x1000, 16, 0),
    ]
}

const READING: Reading =
    Reading { processors: 4, line: 64, private_kernel: false, locks: true, code: CodeDetail::None };

#[test]
fn every_line_of_lackey_is_understood() {
    let folder = Folder::new();
    assert_eq!(read(&folder.file("t.lackey", LACKEY.as_bytes()), None), lackey_plain());
}

#[test]
fn both_kinds_of_din_lines_are_understood() {
    let folder = Folder::new();
    let text =
        "0 1003 a comment\n1 0X20\n2\t400\n3 7\r\n4 0\nr 0x10 8 # twice\nW ff 1\ni 401 f\nm 12 10\nv 40 1\n\n";
    let path = folder.file("t.din", text.as_bytes());
    let expected: Vec<Plain> = vec![
        (0, Op::Load, 0x1003, 1, 0),
        (0, Op::Store, 0x20, 1, 0),
        (0, Op::Fetch, 0x400, 1, 0),
        (0, Op::Load, 7, 1, 0),
        (0, Op::Load, 0x10, 8, 0),
        (0, Op::Store, 0xff, 1, 0),
        (0, Op::Fetch, 0x401, 15, 0),
        (0, Op::Load, 0x12, 16, 0),
    ];
    assert_eq!(read(&path, None), expected);
    let notes = TaskSource::notes(&din::survey(&path).unwrap());
    assert!(notes.len() == 1 && notes[0].starts_with("2 copy-back"), "{notes:?}");
}

#[test]
fn an_access_longer_than_a_record_continues_without_being_counted_again() {
    let folder = Folder::new();
    let path = folder.file("t.lackey", b" L 1000,512\n");
    let expected: Vec<Plain> = vec![
        (0, Op::Load, 0x1000, 255, 0),
        (0, Op::Load, 0x10ff, 255, CONTINUATION),
        (0, Op::Load, 0x11fe, 2, CONTINUATION),
    ];
    assert_eq!(read(&path, None), expected);
}

#[test]
fn a_champsim_instruction_is_its_fetch_its_loads_and_its_stores() {
    let folder = Folder::new();
    let bytes = [instruction(0x401, &[0x20], &[0x1003, 0, 0x2000]), instruction(0x405, &[], &[])].concat();
    let expected: Vec<Plain> = vec![
        (0, Op::Fetch, 0x401, 1, 0),
        (0, Op::Load, 0x1003, 1, 0),
        (0, Op::Load, 0x2000, 1, 0),
        (0, Op::Store, 0x20, 1, 0),
        (0, Op::Fetch, 0x405, 1, 0),
    ];
    assert_eq!(read(&folder.file("t.champsimtrace", &bytes), None), expected);
}

fn two_threads() -> [Vec<u8>; 2] {
    let mut first = head(6, 7, 70);
    first.extend([at(100), entry(drm::INSTR, 4, 0x400), entry(drm::READ, 8, 0x9000)]);
    first.extend([at(300), entry(drm::TAKEN_JUMP, 2, 0x404), entry(drm::THREAD_EXIT, 0, 70)]);
    first.push(entry(drm::FOOTER, 0, 0));
    let mut second = head(6, 7, 71);
    second.extend([at(200), entry(drm::ENCODING, 3, 0xdead), entry(drm::INSTR, 3, 0x500)]);
    second.extend([entry(drm::MARKER, drm::SYSCALL_START, 1), entry(drm::INSTR, 5, 0xffff_8000_0000_1000)]);
    second.extend([entry(drm::WRITE, 4, 0xffff_8000_0000_2000), entry(drm::MARKER, drm::SYSCALL_END, 1)]);
    second.extend([entry(drm::PREFETCHT0, 1, 0x77), entry(drm::DATA_FLUSH, 64, 0x40)]);
    second.extend([entry(drm::NO_FETCH, 2, 0x503), entry(drm::WRITE, 4, 0x9004)]);
    second.extend([entry(drm::BUNDLE, 2, 0x0302), entry(drm::MARKER, 100, 5), entry(drm::FOOTER, 0, 0)]);
    [first.concat(), second.concat()]
}

fn two_threads_merged() -> Vec<Plain> {
    vec![
        (0, Op::Fetch, 0x400, 4, 0),
        (0, Op::Load, 0x9000, 8, 0),
        (1, Op::Fetch, 0x500, 3, 0),
        (1, Op::Fetch, 0xffff_8000_0000_1000, 5, KERNEL),
        (1, Op::Store, 0xffff_8000_0000_2000, 4, KERNEL),
        (1, Op::Store, 0x9004, 4, 0),
        (1, Op::Fetch, 0xffff_8000_0000_1005, 2, 0),
        (1, Op::Fetch, 0xffff_8000_0000_1007, 3, 0),
        (0, Op::Fetch, 0x404, 2, 0),
    ]
}

/// A trace as DynamoRIO leaves it, with the schedules beside it that are no traces.
fn directory(folder: &Folder) -> &Path {
    let [first, second] = two_threads();
    folder.file("trace/drmemtrace.app.70.1234.trace", &first);
    folder.file("trace/drmemtrace.app.71.0042.trace.gz", &gzip(&second));
    folder.file("trace/serial_schedule.bin.gz", b"no trace");
    folder.file("trace/cpu_schedule.bin.zip", b"no trace");
    folder.file("raw/modules.log", b"no trace");
    folder.0.path()
}

#[test]
fn threads_of_a_drmemtrace_directory_are_merged_by_their_timestamps() {
    let folder = Folder::new();
    let path = directory(&folder);
    assert_eq!(read(path, None), two_threads_merged());
    let source = drmemtrace::survey(path).unwrap();
    let names: Vec<&str> = TaskSource::tasks(&source).iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["process 7, thread 70", "process 7, thread 71"]);
    let notes = TaskSource::notes(&source);
    assert_eq!(
        notes,
        ["1 prefetches of the trace were left out", "1 cache flushes of the trace were left out"]
    );
}

#[test]
fn the_stream_of_a_task_is_its_part_of_the_whole() {
    let folder = Folder::new();
    let split = open_by_task(&TraceFile::new(directory(&folder), None), &READING).unwrap();
    for task in 0..2 {
        let (mut cursor, mut batch, mut seen) =
            (split.open(task).unwrap(), Batch::default(), Vec::<Plain>::new());
        while cursor.next_batch(&mut batch).unwrap() {
            assert!(batch.records.iter().all(|r| r.cpu == 1), "one fetch per record");
            seen.extend(batch.records.iter().map(plain));
        }
        let expected: Vec<Plain> = two_threads_merged().into_iter().filter(|r| r.0 == task).collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn processes_of_a_drmemtrace_do_not_share_their_user_addresses() {
    let folder = Folder::new();
    for (pid, version) in [(5_u64, 2_u64), (6, 7)] {
        let mut thread = head(version, pid, pid);
        thread.extend([at(pid), entry(drm::READ, 8, 0x9000), entry(drm::READ, 8, 0xffff_8000_0000_0000)]);
        thread.push(entry(drm::FOOTER, 0, 0));
        folder.file(&format!("{pid}.memtrace"), &thread.concat());
    }
    let addresses: Vec<u64> = read(folder.0.path(), None).iter().map(|r| r.2).collect();
    let kernel = 0xffff_8000_0000_0000;
    assert_eq!(addresses, [0x9000, kernel, 1 << 48 | 0x9000, kernel]);
    let mut source = drmemtrace::survey(folder.0.path()).unwrap().in_order().unwrap();
    assert!(source.notes()[0].contains("2 processes"), "{:?}", source.notes());
    let all = records(&mut source);
    assert!(source.privacy().is_private(&all[0]) && !source.privacy().is_private(&all[1]));
}

#[test]
fn threads_of_one_file_are_told_apart_and_a_missing_footer_is_said() {
    let folder = Folder::new();
    let mut both = head(4, 7, 70);
    both.extend([at(1), entry(drm::READ, 8, 0x9000), entry(drm::THREAD, 4, 71)]);
    both.extend([entry(drm::READ, 8, 0x9008), entry(drm::THREAD, 4, 70), entry(drm::WRITE, 1, 0x9010)]);
    let path = folder.file("both.memtrace", &both.concat());
    let tasks: Vec<u32> = read(&path, None).iter().map(|r| r.0).collect();
    assert_eq!(tasks, [0, 1, 0]);
    let notes = TaskSource::notes(&drmemtrace::survey(&path).unwrap());
    assert!(notes[0].contains("no footer"), "{notes:?}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 3);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.into_inner().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    // As the command-line program does.
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An archive of two members, one deflated and one stored, as chunks of a thread are kept.
fn zip_of(bytes: &[u8]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let methods = [zip::CompressionMethod::Deflated, zip::CompressionMethod::Stored];
    for ((part, name), method) in [(first, "chunk.0000"), (second, "chunk.0001")].into_iter().zip(methods) {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        writer.start_file(name, options).unwrap();
        writer.write_all(part).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

type Compress = fn(&[u8]) -> Vec<u8>;

/// Every compression: its extension, and how to make it.
const COMPRESSIONS: [(&str, Compress); 7] = [
    ("gz", gzip),
    ("bz2", bzip2),
    ("xz", xz),
    ("lz4", lz4),
    ("sz", snappy),
    ("zst", zstandard),
    ("zip", zip_of),
];

/// Enough lines that every decoder works in several blocks.
fn long_lackey() -> String {
    let lines: Vec<String> = (0..60_000_u64).map(|n| format!(" L {:x},{}", n * 4099, n % 200 + 1)).collect();
    lines.join("\n") + "\n"
}

#[test]
fn every_compression_gives_the_same_references() {
    let folder = Folder::new();
    let text = long_lackey();
    let expected = read(&folder.file("plain.lackey", text.as_bytes()), None);
    assert_eq!(expected.len(), 60_000);
    for (extension, compress) in COMPRESSIONS {
        let path = folder.file(&format!("t.lackey.{extension}"), &compress(text.as_bytes()));
        assert!(read(&path, None) == expected, "{extension}");
    }
    let twice = [gzip(text.as_bytes()), gzip(b" S 1,1\n")].concat();
    assert_eq!(read(&folder.file("two.lackey.gz", &twice), None).len(), 60_001, "gzip members");
    let twice = [bzip2(text.as_bytes()), bzip2(b" S 1,1\n")].concat();
    assert_eq!(read(&folder.file("two.lackey.bz2", &twice), None).len(), 60_001, "bzip2 streams");
    let twice = [lz4(text.as_bytes()), lz4(b" S 1,1\n")].concat();
    assert_eq!(read(&folder.file("two.lackey.lz4", &twice), None).len(), 60_001, "LZ4 frames");
}

#[test]
fn damaged_compression_is_one_sentence_with_the_remedy() {
    let folder = Folder::new();
    let text = long_lackey();
    for (extension, compress) in COMPRESSIONS {
        let whole = compress(text.as_bytes());
        let mut flipped = whole.clone();
        for byte in &mut flipped[whole.len() / 3..whole.len() / 3 + 40] {
            *byte ^= 0x55;
        }
        for (what, bytes) in [("cut", &whole[..whole.len() * 2 / 3]), ("flipped", &flipped)] {
            let path = folder.file(&format!("{what}.lackey.{extension}"), bytes);
            let fault = common::refusal(&path, "lackey");
            // A change may show as a line that is none before the checksum tells.
            let damaged = fault.contains("data is damaged or cut short") && fault.contains("again");
            let place = what == "flipped" && fault.contains(", line ");
            assert!(damaged || place, "{extension} {what}: {fault}");
            assert!(fault.contains(&format!("{what}.lackey")), "{fault}");
        }
    }
}

#[test]
fn memory_does_not_hold_the_trace() {
    // A reference a line and two passes: batches stay small whatever the file's length.
    let folder = Folder::new();
    let path = folder.file("t.lackey", long_lackey().as_bytes());
    let mut source = lackey::survey(&path).unwrap().in_order().unwrap();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        assert!(batch.records.len() <= 8192 + 1);
    }
}

#[test]
fn the_extension_before_the_compression_tells_the_format() {
    for (name, format) in
        [("a.champsimtrace.xz", "champsim"), ("a.din.gz", "din"), ("a.memtrace.gz", "drmemtrace")]
    {
        assert_eq!(format_of(Path::new(name), None).unwrap().name, format);
    }
    let fault = format_of(Path::new("a.gz"), None).err().unwrap().0;
    assert!(fault.contains("--format"), "{fault}");
    let fault = format_of(Path::new("a"), Some("lacky")).err().unwrap().0;
    assert!(fault.contains("did you mean `lackey`?"), "{fault}");
}
