//! Every format, and every kind of bad input: a named error or a counted warning, never silence.

use servsim_disk::error::ImportError;
use servsim_disk::importers::{load, write_native, ImportOptions, ImportReport};
use servsim_disk::request::{Op, Request};
use servsim_oracle::drive::Words;

fn read_as(
    format: Option<&str>,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<(Vec<Request>, ImportReport), ImportError> {
    // A tiny buffer makes records and lines cross its borders, as in a file of any size; recognition
    // needs more than that, so it is only used when the format is named.
    let capacity = if format.is_some() { 7 } else { 4096 };
    load(&mut std::io::BufReader::with_capacity(capacity, bytes), format, options)
}

fn read(bytes: &[u8]) -> (Vec<Request>, ImportReport) {
    read_as(None, bytes, &ImportOptions::default()).unwrap()
}

fn first(requests: &[Request]) -> (u64, u64, u64, u32, Op) {
    let r = &requests[0];
    (r.arrival_ns, r.completion_ns, r.lba, r.sectors, r.op)
}

#[test]
fn blkparse_takes_queue_as_arrival_issue_as_start_and_skips_the_summary() {
    let text = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000010000   697  I   W 223490 + 8 [kjournald]
  8,0    3        3     0.000020000   697  D   W 223490 + 8 [kjournald]
  8,0    3        4     0.000520000     0  C   W 223490 + 8 [0]
  8,0    3        5     0.001000000   697  Q FWS [kjournald]
  8,0    3        6     0.001100000     0  C FWS 0 [0]
CPU3 (sda):
";
    let (requests, report) = read(text.as_bytes());
    assert_eq!(first(&requests), (0, 520_000, 223_490, 8, Op::Write));
    assert_eq!(requests[0].start_ns, 20_000);
    assert_eq!((report.format, report.zero_length, report.unrecognised_lines), ("blkparse", 1, 1));
}

#[test]
fn flags_of_a_request_do_not_change_what_it_does() {
    for (rwbs, command) in [
        ("RM", Some(Op::Read)),
        ("RA", Some(Op::Read)),
        ("RSM", Some(Op::Read)),
        ("WFSM", Some(Op::Write)),
        ("FWFS", Some(Op::Write)),
        ("DS", None),
        ("DE", None),
        ("ZR", None),
    ] {
        let text = format!(
            "  8,0 0 1 0.000000000 7 D {rwbs} 64 + 8 [x]\n  8,0 0 2 0.000500000 0 C {rwbs} 64 + 8 [0]\n\
             \x20 8,0 0 3 0.001000000 7 D R 8 + 8 [x]\n  8,0 0 4 0.001500000 0 C R 8 + 8 [0]\n"
        );
        let (requests, _) = read(text.as_bytes());
        let found = requests.iter().find(|r| r.lba == 64).map(|r| r.op);
        assert_eq!(found, command, "{rwbs}");
    }
}

#[test]
fn blktrace_binary_is_read_in_both_byte_orders_with_payloads_skipped() {
    for big in [false, true] {
        let mut bytes = Vec::new();
        for (time, action, payload) in
            [(1000_u64, 1_u32 << 16 | 1, 0_u16), (3000, 1 << 16 | 7, 3), (9000, 1 << 16 | 8, 0)]
        {
            let mut put = |value: u64, width: usize| {
                let all = if big {
                    value.to_be_bytes()[8 - width..].to_vec()
                } else {
                    value.to_le_bytes()[..width].to_vec()
                };
                bytes.extend(all);
            };
            put(0x6561_7407, 4);
            put(0, 4);
            put(time, 8);
            put(4096, 8);
            put(4096, 4);
            put(u64::from(action), 4);
            put(1, 4);
            put(8 << 20, 4);
            put(0, 4);
            put(0, 2);
            put(u64::from(payload), 2);
            bytes.extend(std::iter::repeat_n(7, usize::from(payload)));
        }
        let (requests, report) = read(&bytes);
        assert_eq!(first(&requests), (0, 8000, 4096, 8, Op::Read), "big {big}");
        assert_eq!((requests[0].start_ns, report.devices[0].as_str()), (2000, "8,0"));
    }
}

#[test]
fn tracefs_and_perf_lines_are_the_same_events_and_losses_are_counted() {
    let text = "\
# tracer: nop
CPU:1 [LOST 12 EVENTS]
             fio-1234    [001] d..1.   123.456789: block_rq_issue: 8,0 R 4096 () 1234 + 8 none,0,0 [fio]
          <idle>-0       [001] d.h1.   123.456989: block_rq_complete: 8,0 R () 1234 + 8 none,0,0 [0]
fio  1234 [001]   123.457000: block:block_rq_issue: 8,0 WS 4096 () 2000 + 8 [fio]
swapper 0 [001]   123.457100: block:block_rq_complete: 8,0 WS () 2000 + 8 [0]
";
    let (requests, report) = read(text.as_bytes());
    assert_eq!(first(&requests), (0, 200_000, 1234, 8, Op::Read));
    assert_eq!((requests[1].op, requests[1].arrival_ns), (Op::Write, 211_000));
    assert_eq!((report.lost_events, report.unrecognised_lines), (12, 1));
}

#[test]
fn the_tracers_own_requests_are_flagged_and_can_be_left_out() {
    let text = "\
a-1 [0] d. 1.0: block_rq_issue: 8,0 W 4096 () 10 + 8 [spy]
a-1 [0] d. 1.1: block_rq_complete: 8,0 W () 10 + 8 [0]
a-1 [0] d. 1.2: block_rq_issue: 8,0 W 4096 () 90 + 8 [app]
a-1 [0] d. 1.3: block_rq_complete: 8,0 W () 90 + 8 [0]
";
    let mut options = ImportOptions { tracer: Some("spy".to_owned()), ..ImportOptions::default() };
    let (requests, report) = read_as(None, text.as_bytes(), &options).unwrap();
    assert_eq!(
        (requests.len(), report.by_tracer, requests[0].by_tracer, requests[1].by_tracer),
        (2, 1, true, false)
    );
    options.exclude_tracer = true;
    let (requests, report) = read_as(None, text.as_bytes(), &options).unwrap();
    assert_eq!((requests.len(), report.by_tracer, requests[0].lba), (1, 1, 90));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    for (exclude_tracer, did) in [(true, "left out"), (false, "flagged")] {
        let options =
            ImportOptions { tracer: Some("other".to_owned()), exclude_tracer, ..ImportOptions::default() };
        let (_, report) = read_as(None, text.as_bytes(), &options).unwrap();
        assert_eq!(report.notes, [format!("no request of other was found, so none was {did}")]);
    }
}

#[test]
fn fio_nbdkit_msr_and_disksim_lines_give_their_requests() {
    let (requests, report) = read(b"10, 2000000, 0, 4096, 8192\n12, 1000000, 2, 4096, 0\n");
    assert_eq!((first(&requests), report.format), ((0, 2_000_000, 16, 8, Op::Read), "fio"));
    assert_eq!(report.other_operations, 1);

    let text = "\
2020-08-06 02:07:23.080415 connection=1 Connect export=\"\"
2020-08-06 02:07:23.080500 connection=1 Write id=1 offset=0x400 count=0x1000 ...
2020-08-06 02:07:23.080900 connection=1 ...Write id=1 return=0 (Success)
2020-08-06 02:07:23.081000 connection=1 Flush id=2 ...
";
    let (requests, report) = read(text.as_bytes());
    assert_eq!((first(&requests), report.format), ((0, 400_000, 2, 8, Op::Write), "nbdkit"));
    assert_eq!(report.zero_length, 1);

    let (requests, report) = read(b"128166372003061629,usr,0,Read,7014609920,24576,41286\n");
    assert_eq!((first(&requests), report.format), ((0, 4_128_600, 13_700_410, 48, Op::Read), "msr"));

    let (requests, report) = read(b"W Hit 4583176 4 663.0 45422.0\nR Hit 3962268 12 6657.0 64047.0\n");
    assert_eq!((first(&requests), report.format), ((0, 663_000, 4_583_176, 4, Op::Write), "disksim"));
    // Two lines do not show their family: no interval may tell the service of its own line.
    assert_eq!((requests[1].arrival_ns, requests[1].start_ns), (46_085_000, 46_085_000));
    assert_eq!(requests[1].completion_ns, 52_742_000);
    assert!(report.notes[0].starts_with("too few lines"), "{:?}", report.notes);
}

#[test]
fn all_that_a_buffer_may_have_done_begins_a_line_of_a_validation_trace() {
    for buffer in ["Hit", "Miss", "Doub", "Trip"] {
        let (requests, report) = read(format!("R {buffer} 64 8 663.0 45422.0\n").as_bytes());
        assert_eq!((first(&requests), report.format), ((0, 663_000, 64, 8, Op::Read), "disksim"));
    }
    let refused = read_as(Some("disksim"), b"R Doub 1 2 3 4\nR Quad 1 2 3 4\n", &ImportOptions::default());
    assert!(refused.unwrap_err().to_string().contains("line 2: expected `R|W Hit|Miss|Doub|Trip"));
}

/// Lines of a validation trace: services in us, and the interval that goes with each.
fn validation(services: &[u64], interval: impl Fn(usize) -> u64) -> Vec<u8> {
    let line = |(at, service): (usize, &u64)| {
        format!("R Miss {} 8 {service}.000000 {}.000000\n", at * 7919 % 9973 * 8, interval(at))
    };
    services.iter().enumerate().map(line).collect::<String>().into_bytes()
}

#[test]
fn each_family_of_validation_traces_is_read_in_its_own_way() {
    let mut words = Words(11);
    let services: Vec<u64> = (0..700).map(|_| 2000 + words.below(18_000)).collect();
    let gaps: Vec<u64> = (0..700).map(|_| 15_000 + words.below(45_000)).collect();
    // Issued at times drawn beforehand: the interval is what is left of a gap after the service before.
    let before = |at: usize| if at == 0 { gaps[0] } else { gaps[at].saturating_sub(services[at - 1]) };
    let (requests, report) = read(&validation(&services, before));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    for at in 1..700 {
        let gap = requests[at].arrival_ns - requests[at - 1].arrival_ns;
        assert_eq!(gap, 1000 * gaps[at].max(services[at - 1]), "{at}");
    }
    // Issued by a host that sleeps: from issue to issue it is whole ticks, give or take.
    let late: Vec<u64> = (0..700).map(|_| words.below(700)).collect();
    let after = |at: usize| services[at].div_ceil(9960) * 9960 + 9960 - services[at] + late[at];
    let (requests, report) = read(&validation(&services, after));
    assert!(report.notes[0].contains("up to ticks of"), "{:?}", report.notes);
    for at in 1..700 {
        let idle = requests[at].arrival_ns - requests[at - 1].completion_ns;
        assert_eq!(idle, 1000 * after(at - 1), "{at}");
    }
}

#[test]
fn no_arrival_of_a_validation_trace_changes_when_its_own_and_later_services_do() {
    let mut words = Words(12);
    for follows in [false, true] {
        let services: Vec<u64> = (0..700).map(|_| 2000 + words.below(18_000)).collect();
        let ticks: Vec<u64> = (0..700).map(|_| 30_000 + words.below(40_000)).collect();
        let interval = |services: &[u64], at: usize| {
            if follows {
                9960 * 3 - services[at]
            } else {
                ticks[at]
            }
        };
        let arrivals = |services: &[u64]| -> Vec<u64> {
            let (requests, _) = read(&validation(services, |at| interval(services, at)));
            requests.iter().map(|request| request.arrival_ns).collect()
        };
        let mut shuffled = services.clone();
        shuffled[500..].reverse();
        assert_ne!(services, shuffled);
        assert_eq!(arrivals(&services)[..=500], arrivals(&shuffled)[..=500], "follows: {follows}");
    }
}

#[test]
fn the_papers_records_pair_done_with_the_oldest_of_their_block() {
    let record = |op: u8, block: u32, since: u32| {
        let mut bytes = vec![op, 0, 2, 8];
        bytes.extend(block.to_le_bytes());
        bytes.extend(since.to_le_bytes());
        bytes
    };
    let bytes = [record(0, 100, 5), record(1, 700, 10), record(2, 100, 90), record(2, 555, 1)].concat();
    let (requests, report) = read_as(Some("byu"), &bytes, &ImportOptions::default()).unwrap();
    assert_eq!(first(&requests), (0, 100_000, 100, 8, Op::Read));
    assert_eq!((report.without_completion, report.completion_without_issue), (1, 1));
    assert_eq!(report.devices, ["c0s2"]);
}

#[test]
fn srt_records_are_big_endian_with_256_byte_sectors() {
    let mut bytes = b"$$TR_IOREC-1.3 (test)".to_vec();
    bytes.resize(2204, 0);
    for word in [56, 0x0004_0001, 100, 500, 30, 25_030, 8192, 674_032, 8, 0, 745, 1, 0, 1_i32] {
        bytes.extend(word.to_be_bytes());
    }
    let (requests, report) = read(&bytes);
    assert_eq!(first(&requests), (0, 25_030_000, 337_016, 16, Op::Read));
    assert_eq!((requests[0].start_ns, report.devices[0].as_str()), (30_000, "disk0"));
}

#[test]
fn a_csv_may_name_its_columns_in_a_heading_and_have_fractions() {
    let text = b"arrival_ms,op,offset_bytes,bytes,service_us,device\n1.5,R,8192,4096,250.25,sdb\n2.5,W,0,512,10,sda\n";
    let (requests, report) = read(text);
    assert_eq!(first(&requests), (0, 250_250, 16, 8, Op::Read));
    assert_eq!(report.devices, ["sdb", "sda"]);
    assert_eq!(requests[1].device, 1);
}

/// A trace in the project's own form, what it holds, and its bytes.
fn own() -> (Vec<Request>, ImportReport, Vec<u8>) {
    let (requests, report) =
        read(b"arrival_us,op,lba,sectors,completion_us\n1,R,8,8,5\n2,W,80,16,9\n4,R,0,8,12\n");
    let mut bytes = Vec::new();
    write_native(&mut bytes, &report.devices, &requests).unwrap();
    (requests, report, bytes)
}

fn refusal(bytes: &[u8]) -> String {
    load(&mut &bytes[..], None, &ImportOptions::default()).expect_err("refused").to_string()
}

#[test]
fn the_projects_own_form_returns_what_was_written() {
    let (requests, report, bytes) = own();
    let (again, told) = read(&bytes);
    assert_eq!(again, requests);
    assert_eq!((told.devices, told.notes), (report.devices, Vec::new()));
}

#[test]
fn the_projects_own_form_is_refused_wherever_it_is_cut_and_whichever_bit_is_flipped() {
    let (_, _, bytes) = own();
    for end in 8..bytes.len() {
        let refused = refusal(&bytes[..end]);
        assert!(refused.contains("import the original trace again"), "{end}: {refused}");
    }
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(load(&mut &damaged[..], Some("servsim"), &ImportOptions::default()).is_err(), "bit {bit}");
    }
    let longer = [&bytes[..], b"\0"].concat();
    assert!(refusal(&longer).contains("not whole"));
}

#[test]
fn a_trace_of_version_1_is_read_and_the_reader_told_that_it_may_not_be_whole() {
    let (requests, _, bytes) = own();
    // Version 1 has neither the number of requests nor the checksum at the end.
    let older = [b"SSDISK1\n", &bytes[8..16], &bytes[24..bytes.len() - 4]].concat();
    let (again, report) = read(&older);
    assert_eq!(again, requests);
    assert!(
        report.notes[0].contains("whether these 3 requests are all cannot be told"),
        "{:?}",
        report.notes
    );
    let (fewer, report) = read(&older[..older.len() - 5]);
    assert_eq!((fewer.len(), report.notes.len()), (2, 2));
}

#[test]
fn bad_times_flushes_duplicates_and_jumps_are_counted() {
    let (requests, report) = read(b"100,0,10,8,50\n200,0,10,8,300\n300,0,5,0,310\n-5,0,10,8,9\n");
    assert_eq!((requests.len(), report.negative_times, report.zero_length), (1, 2, 1));

    let two_days_us = 2_u64 * 86_400_000_000;
    let text = format!("0,0,10,8,5\n{two_days_us},0,10,8,{}\n10,0,10,8,15\n", two_days_us + 5);
    assert_eq!(read(text.as_bytes()).1.clock_jumps, 2);

    let line = |time: &str, action: &str| format!("8,0 1 1 {time} 9 {action} R 64 + 8 [x]\n");
    let text =
        [line("0.1", "Q"), line("0.2", "Q"), line("0.3", "C"), line("0.4", "C"), line("0.5", "C")].concat();
    let (requests, report) = read(text.as_bytes());
    assert_eq!((requests.len(), report.duplicate_ids, report.completion_without_issue), (2, 1, 1));
    assert_eq!(requests[0].completion_ns, 200_000_000);
}

#[test]
fn a_field_that_is_no_value_of_its_column_is_told_in_words() {
    let heading = b"arrival_us,op,lba,sectors,completion_us\n".as_slice();
    for (line, said) in [
        (
            "18446744073709551615,0,8,8,5",
            "column 1: `18446744073709551615` is not an arrival time in us, of at",
        ),
        ("1,x,8,8,5", "column 2: `x` is not an operation: 0 or R reads, 1 or W writes"),
        ("1,0,-8,8,5", "column 3: `-8` is not the number of a sector"),
    ] {
        let refused = refusal(&[heading, line.as_bytes()].concat());
        assert!(refused.contains("line 2") && refused.contains(said), "{refused}");
    }
}

#[test]
fn errors_name_the_format_the_line_and_the_remedy() {
    let message =
        |format, bytes: &[u8]| read_as(format, bytes, &ImportOptions::default()).unwrap_err().to_string();
    assert!(message(None, b"1,0,10,8,5\n1,0,10\n").contains("csv trace, line 2: 3 columns, expected 5"));
    assert!(message(None, b"W Hit 1 2 3 4\nW Hit 1 2 3\n").contains("disksim trace, line 2"));
    assert!(message(None, b"hello world\n").contains("name it with --format"));
    assert!(message(Some("fioo"), b"").contains("did you mean `fio`"));
    assert!(message(Some("blkparse"), b"8,0 1 1 0.1 9 D R 64 + 8 [x]\n")
        .contains("1 requests without completion"));
    assert!(message(None, b"1,2,3,4,5,6,7\n").contains("--columns"));
}
