//! Traces of workloads that never ran: arrivals without completions.

use servsim_disk::importers::{load, ImportOptions};
use servsim_disk::request::Op;

#[test]
fn arrivals_alone_are_read_where_nothing_else_is_asked_for() {
    let text = b"arrival_us,op,lba,sectors\n1,R,8,8\n5,W,80,16\n";
    let refused = load(&mut &text[..], None, &ImportOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("no completion"), "{refused}");
    let options = ImportOptions { arrivals_only: true, ..ImportOptions::default() };
    let (requests, report) = load(&mut &text[..], None, &options).unwrap();
    assert_eq!((requests.len(), requests[1].arrival_ns, requests[1].lba), (2, 4000, 80));
    assert!(report.arrivals_only && report.warnings().is_empty(), "{report:?}");
}

#[test]
fn formats_that_tell_arrivals_alone_are_known_by_their_lines() {
    let spc = b"0,20941264,8192,W,0.551706\n1,20939840,1024,r,0.554041,9\n";
    let fiu = b"89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n\
                89968196792462 20782 gzip 283193192 16 W 6 1 0\n";
    let options =
        ImportOptions { arrivals_only: true, tracer: Some("gzip".into()), ..ImportOptions::default() };
    let alibaba = b"419,W,8792731648,16384,1577808144360767\n725,R,59110326272,4096,1577808144360781\n";
    for (text, format, devices, gap_ns) in [
        (&spc[..], "spc", ["0", "1"], 2_335_000),
        (&fiu[..], "fiu", ["6,0", "6,1"], 1_000_000),
        (&alibaba[..], "alibaba", ["419", "725"], 14_000),
    ] {
        let refused = load(&mut &text[..], None, &ImportOptions::default()).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{format} traces tell when requests arrive")), "{refused}");
        let (requests, report) = load(&mut &text[..], None, &options).unwrap();
        assert_eq!((report.format, &report.devices[..]), (format, &devices.map(str::to_owned)[..]));
        assert_eq!((requests[1].arrival_ns, requests[1].device), (gap_ns, 1));
        assert_eq!(
            requests.iter().map(|request| request.by_tracer).collect::<Vec<_>>(),
            [format == "fiu"; 2]
        );
        assert!(report.arrivals_only && report.warnings().is_empty(), "{report:?}");
        let error = load(&mut &[text, b"1,2\n"].concat()[..], None, &options).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{format} trace, line 3: expected ")), "{error}");
    }
    let (requests, _) = load(&mut &spc[..], None, &options).unwrap();
    assert_eq!((requests[0].lba, requests[0].sectors, requests[0].op), (20_941_264, 16, Op::Write));
    assert_eq!((requests[1].sectors, requests[1].op), (2, Op::Read));
    let (requests, _) = load(&mut &fiu[..], None, &options).unwrap();
    assert_eq!((requests[1].lba, requests[1].sectors, requests[1].op), (283_193_192, 16, Op::Write));
    let (requests, _) = load(&mut &alibaba[..], None, &options).unwrap();
    assert_eq!((requests[0].lba, requests[0].sectors, requests[0].op), (17_173_304, 32, Op::Write));
    assert_eq!((requests[1].sectors, requests[1].op), (8, Op::Read));
}
