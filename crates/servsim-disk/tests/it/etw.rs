//! Traces of servers elsewhere: Windows (MSPS) and the LUNs of SYSTOR '17.

use servsim_disk::importers::{load, ImportOptions};
use servsim_disk::request::Op;

const HEADING: &str = "\
BeginHeader
              DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName
             DiskWrite,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName
          DiskReadInit,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr
             DiskFlush,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,                           ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri
EndHeader
OS Version: 6.0.6001, Trace Size: 1KB
";
const EVENTS: &str = "\
          DiskReadInit,       8329,        xperf.exe (3984),      11844, 0xfffffa8001
              DiskRead,       8612,        xperf.exe (3984),      11844, 0xfffffa8001, 0x00f0b8000, 0x00001000,         283,        0, 0x060043,         283,       3, Original, 0xffff, \"C:\\a, b\"
             DiskFlush,       8700,           System (   4),         60, 0xfffffa8002,         40,        0, 0x060000,          40,       3
             DiskWrite,       9100,           System (   4),         60, 0xfffffa8003, 0x000010000,       8192,         450,        1, 0x060043,         100,       3, Original, 0xffff, \"\"
            CSwitch,       9101,   whatever
";

#[test]
fn windows_stamps_completions_and_the_elapsed_time_leads_back_to_the_arrival() {
    let options = ImportOptions { tracer: Some("xperf.exe (3984)".into()), ..ImportOptions::default() };
    let text = format!("{HEADING}{EVENTS}");
    let (requests, report) = load(&mut text.as_bytes(), None, &options).unwrap();
    assert_eq!((report.format, &report.devices[..]), ("etw", &["0".to_owned(), "1".to_owned()][..]));
    let [read, write] = requests[..] else { panic!("{requests:?}") };
    // 8612 - 283 us is the time of its initiation, which the trace tells too.
    assert_eq!((read.arrival_ns, read.completion_ns, read.op), (0, 283_000, Op::Read));
    assert_eq!((read.lba, read.sectors, read.by_tracer), (0x0f0b_8000 / 512, 8, true));
    assert_eq!((write.arrival_ns, write.completion_ns), ((9100 - 450 - 8329) * 1000, (9100 - 8329) * 1000));
    assert_eq!((write.lba, write.sectors, write.op, write.device), (128, 16, Op::Write, 1));
    assert_eq!((report.records, report.zero_length, report.unrecognised_lines), (2, 1, 0));
    // Later versions put a column between.
    let later = text
        .replace("ThreadID,", "ThreadID, CPU,")
        .replace("11844,", "11844,   1,")
        .replace("60, 0x", "60,  0, 0x");
    assert_eq!(load(&mut later.as_bytes(), None, &options).unwrap().0, requests);
    let error = |text: &str| load(&mut text.as_bytes(), Some("etw"), &options).unwrap_err().to_string();
    assert!(error(EVENTS).contains("line 2: no heading `DiskRead, TimeStamp, ...` before it"));
    assert!(
        error(&text.replace("8192", "some")).contains("line 11: expected TimeStamp, ByteOffset"),
        "{}",
        error(&text.replace("8192", "some"))
    );
}

#[test]
fn a_lun_of_systor_is_read_by_its_heading_or_by_columns_and_unanswered_requests_are_counted() {
    let heading = "Timestamp,Response,IOType,LUN,Offset,Size\n";
    let rows = "1456135200.013118000,0.000296000,R,4,8192,4096\n1456135200.013918000,,,4,0,512\n\
                1456135200.014118000,0.002000000,W,0,512,1024\n";
    let columns = Some("arrival_s,response_s,op,device,offset_bytes,bytes".to_owned());
    let named = ImportOptions { columns, ..ImportOptions::default() };
    let (known, report) =
        load(&mut format!("{heading}{rows}").as_bytes(), None, &ImportOptions::default()).unwrap();
    assert_eq!((report.format, report.without_completion, report.requests), ("csv", 1, 2));
    assert_eq!((known[0].lba, known[0].sectors, known[0].completion_ns), (16, 8, 296_000));
    assert_eq!((known[1].arrival_ns, known[1].op, known[1].device), (1_000_000, Op::Write, 1));
    for text in [format!("{heading}{rows}"), rows.to_owned()] {
        assert_eq!(load(&mut text.as_bytes(), Some("csv"), &named).unwrap().0, known);
    }
}

#[test]
fn names_of_columns_may_stand_between_quotation_marks() {
    let text = b"\"arrival_us\",\"op\",\"lba\",\"sectors\",\"completion_us\"\n1,R,8,8,5\n";
    let (requests, report) = load(&mut &text[..], None, &ImportOptions::default()).unwrap();
    assert_eq!((requests[0].completion_ns, requests[0].lba, report.format), (4000, 8, "csv"));
}
