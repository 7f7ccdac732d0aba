//! Traces of workloads that never ran: arrivals without completions.

use servsim_disk::importers::{load, ImportOptions};

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
