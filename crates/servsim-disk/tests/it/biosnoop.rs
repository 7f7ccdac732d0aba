//! Listings of biosnoop: completions with what went before them.

use servsim_disk::importers::{load, ImportOptions};
use servsim_disk::request::Op;

#[test]
fn biosnoop_stamps_completions_and_tells_of_the_queue_when_asked_to() {
    let options = ImportOptions::default();
    let read = |mut bytes: &[u8]| load(&mut bytes, None, &options).unwrap();
    let text = "\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)
0.004000    tar            77      sda       R 4096       8192      0.50    1.25
0.009000    Web Content    78      sdb       W 80         512       0.00    2.00
0.010000    jbd2           79      sda       W -1         0         0.10    3.00
";
    let (requests, report) = read(text.as_bytes());
    assert_eq!(
        (requests[0].arrival_ns, requests[0].completion_ns, report.format),
        (0, 1_750_000, "biosnoop")
    );
    assert_eq!((requests[0].lba, requests[0].sectors, requests[0].op), (4096, 16, Op::Read));
    assert_eq!((requests[0].start_ns, requests[1].sectors, requests[1].op), (500_000, 1, Op::Write));
    assert_eq!(requests[1].completion_ns - requests[1].arrival_ns, 2_000_000);
    assert_eq!((report.devices.as_slice(), report.other_operations), (&["sda".into(), "sdb".into()][..], 1));

    let without = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.004 tar 77 sda R 4096 8192 1.25\n";
    let (requests, report) = read(without.as_bytes());
    assert_eq!((requests[0].start_ns, requests[0].completion_ns), (0, 1_250_000));
    assert!(report.notes[0].ends_with("record with biosnoop -Q"), "{:?}", report.notes);
    let error = load(&mut &b"0.004 tar 77 sda R 4096 8192 1.25\n"[..], Some("biosnoop"), &options);
    assert!(error.unwrap_err().to_string().contains("line 1: no heading TIME(s)"));
    let error = load(&mut without.replace("4096", "here").as_bytes(), None, &options);
    assert!(error.unwrap_err().to_string().contains("line 2: expected TIME(s)"));
}
