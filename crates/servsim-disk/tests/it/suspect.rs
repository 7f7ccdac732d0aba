//! Traces that are not what they seem: impossible times and places, another order, another encoding, columns that are missing.

use servsim_disk::importers::{load, ImportOptions, ImportReport};
use servsim_disk::request::{Op, Request};

fn read(bytes: &[u8]) -> (Vec<Request>, ImportReport) {
    load(&mut &bytes[..], None, &ImportOptions::default()).unwrap()
}

fn first(requests: &[Request]) -> (u64, u64, u64, u32, Op) {
    let r = &requests[0];
    (r.arrival_ns, r.completion_ns, r.lba, r.sectors, r.op)
}

fn refusal(bytes: &[u8]) -> String {
    load(&mut &bytes[..], None, &ImportOptions::default()).expect_err("refused").to_string()
}

#[test]
fn times_and_places_that_no_device_has_are_dropped_and_the_first_line_named() {
    let good: Vec<String> =
        (0..9).map(|at| format!("{},0,{},8,{}\n", at * 1000, at * 64, at * 1000 + 90)).collect();
    let good = good.concat();
    for (line, named) in [
        ("20,R,10,8,1000000000000020", "1 requests of more than an hour (dropped), the first at line 11"),
        ("20,R,10,1099511627776,30", "or longer than any (dropped), the first at line 11"),
        ("-20,R,10,8,30", "1 requests with negative times (dropped), the first at line 11"),
        ("20,R,10,8,19", "1 requests with negative times (dropped), the first at line 11"),
        ("20,R,10,8,20", "1 requests that took no time, the first at line 11"),
    ] {
        let text = format!("arrival_us,op,lba,sectors,completion_us\n{good}{line}\n");
        let (_, report) = read(text.as_bytes());
        assert!(report.losses().contains(named), "{line}: {}", report.losses());
        assert_eq!(report.requests, if line.ends_with(",20") { 10 } else { 9 });
    }
    // Columns taken for others: the last are times of arrival.
    let text = b"419,1,8792731648,16384,1577808144360767\n725,0,59110326272,4096,1577808144360781\n";
    let refused = refusal(text);
    assert!(refused.contains("check the format and the units"), "{refused}");
    assert!(refused.contains("2 requests of more than an hour (dropped), the first at line 1"), "{refused}");
}

#[test]
fn byte_order_marks_are_passed_over_and_utf_16_is_refused() {
    let text = "arrival_us,op,lba,sectors,completion_us\n1,R,8,8,5\n";
    let (requests, _) = read(format!("\u{feff}{text}").as_bytes());
    assert_eq!(first(&requests), (0, 4000, 8, 8, Op::Read));
    let wide: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(refusal(&wide), "the file is UTF-16 text; save it as UTF-8");
}

#[test]
fn a_fio_log_without_offsets_is_refused_whatever_follows_the_priority() {
    for line in [
        "10, 2000, 0, 4096",
        "10, 2000, 0, 4096, 0",
        "10, 2000, 0, 4096, 0x0000",
        "10, 2000, 0, 4096, 0, 9921354",
    ] {
        let text = format!("{line}\n{}\n", line.replace("10, 2000", "14, 1500"));
        assert!(refusal(text.as_bytes()).contains("record with --log_offset=1"), "{line}");
    }
    for line in ["10, 2000, 0, 4096, 8192, 0", "10, 2000, 0, 4096, 8192, 0x0000", "10, 2000, 0, 4096, 8192"] {
        assert_eq!(read(line.as_bytes()).0[0].lba, 16, "{line}");
    }
}

#[test]
fn a_trace_told_from_its_end_is_refused_with_its_first_line_and_one_told_by_completions_is_not() {
    let heading = "arrival_us,op,lba,sectors,completion_us\n";
    let line = |arrival: u64, completion: u64| format!("{arrival},R,{},8,{completion}\n", arrival % 997 * 8);
    let backward: String = (0..40).rev().map(|at| line(at * 100, at * 100 + 70)).collect();
    let refused = refusal(format!("{heading}{backward}").as_bytes());
    assert!(refused.starts_with("arrivals run backwards: 39 requests"), "{refused}");
    assert!(refused.contains("the first at line 3;") && refused.contains("sort the trace"), "{refused}");
    // Slow requests are told late, if completions are stamped; two traces may follow one another.
    let by_completion: String = (0..40).rev().map(|at| line(at * 10, 5000 - at)).collect();
    assert_eq!(read(format!("{heading}{by_completion}").as_bytes()).0.len(), 40);
    let forward: String = (0..40).map(|at| line(at * 100, at * 100 + 70)).collect();
    let (requests, report) = read(format!("{heading}{forward}{forward}").as_bytes());
    assert_eq!((requests.len(), report.backward), (80, 1));
}
