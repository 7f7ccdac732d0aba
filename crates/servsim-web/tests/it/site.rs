//! Runs against a small server of the test's own, which serves a set, counts, and can be made to fail.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use servsim_driver::control::Control;
use servsim_driver::cpu::Server;
use servsim_driver::pause::Pause;
use servsim_driver::window::SavePoint;
use servsim_web::crew::{Plan, Then};
use servsim_web::surge::files::Set;
use servsim_web::surge::run::{run, StaticSite};
use servsim_web::surge::sizes::SetSpec;
use servsim_web::visit::Site;

/// What the server does wrong, from a request on.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// One byte of each body is another.
    Garbles,
    /// One byte of each body that it has sent before is another.
    GarblesAgain,
    /// Everything is "not found".
    Forgets,
    /// Requests count twice.
    Miscounts,
    /// Connections are closed without a word.
    Dies,
}

/// Serves `htdocs`, each connection on a thread of its own.
fn serve(htdocs: PathBuf, fault: Fault, from: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (count, sent) = (Arc::new(AtomicU64::new(0)), Arc::default());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (htdocs, count, sent) = (htdocs.clone(), Arc::clone(&count), Arc::clone(&sent));
            std::thread::spawn(move || answer(stream.unwrap(), &htdocs, fault, from, &count, &sent));
        }
    });
    address
}

fn answer(
    stream: TcpStream,
    htdocs: &Path,
    fault: Fault,
    from: u64,
    count: &AtomicU64,
    sent: &Mutex<HashSet<String>>,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    stream.set_nodelay(true).unwrap();
    while let Some(Ok(first)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let path = first.split(' ').nth(1).unwrap_or_default();
        let before = count.load(Ordering::SeqCst);
        let failing = before >= from;
        let (status, mut body) = if path.starts_with("/server-status") {
            (200, format!("Total Accesses: {before}\n").into_bytes())
        } else {
            match std::fs::read(htdocs.join(path.trim_start_matches('/'))) {
                Ok(body) if !(failing && fault == Fault::Forgets) => (200, body),
                _ => (404, b"not found".to_vec()),
            }
        };
        if failing && fault == Fault::Dies {
            return;
        }
        let again = !sent.lock().unwrap().insert(path.to_owned());
        if failing && (fault == Fault::Garbles || fault == Fault::GarblesAgain && again) {
            body[0] ^= 1;
        }
        // The server that miscounts counts each request from that on twice.
        count.fetch_add(if failing && fault == Fault::Miscounts { 2 } else { 1 }, Ordering::SeqCst);
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_err() {
            return;
        }
    }
}

fn plan(users: u64, seed: u64) -> Plan<'static> {
    Plan {
        users,
        seed,
        warm_up: 40,
        then: Then::Transactions(300),
        server: Server::Family(std::process::id()),
    }
}

fn static_site<'a>(address: &'a str, counts: bool, set: &'a Set) -> StaticSite<'a> {
    let site = Site { address, counts, consistency: None, memory: None };
    StaticSite { site, set, off_scale: 0.0, pipelining: true }
}

fn report(fault: Fault, plan: Plan<'_>) -> Value {
    report_of(fault, plan, |site| site)
}

fn report_of(fault: Fault, plan: Plan<'_>, behaves: impl Fn(StaticSite<'_>) -> StaticSite<'_>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("set");
    let set = Set::make(&root, SetSpec { files: 200, total_bytes: 4_500_000, seed: 1 }, |_| ()).unwrap();
    let address = serve(root.join("htdocs"), fault, 100);
    run(behaves(static_site(&address, true, &set)), plan).unwrap()
}

#[test]
fn a_run_measures_what_was_ordered_and_its_books_balance() {
    let report = report(Fault::None, plan(4, 9));
    assert_eq!((&report["valid"], &report["problems"]), (&Value::Bool(true), &serde_json::json!([])));
    assert_eq!(report["transactions"], 300);
    let kinds = &report["kinds"];
    assert_eq!(kinds["Page"]["count"].as_u64().unwrap() + kinds["Embedded"]["count"].as_u64().unwrap(), 300);
    assert_eq!(report["reconciliation"]["replies"], report["reconciliation"]["server_requests"]);
    assert_eq!(report["marks"]["transaction"], report["reconciliation"]["replies"]);
    assert_eq!((&report["marks"]["start"], &report["marks"]["stop"]), (&1.into(), &1.into()));
    assert!(report["client_cpu"]["client_seconds"].as_f64().unwrap() > 0.0);
    assert!(report["client_cpu"]["server_seconds"].is_number());
}

#[test]
fn a_guest_measures_what_is_ordered_at_its_save_point_and_no_more() {
    // Beside the sources: a control device is read past the page cache, which not every /tmp allows.
    let mut device = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    device.as_file().set_len(2 << 20).unwrap();
    device.write_all(br#"{"transactions": 120, "seed": 31, "lead_in": 9}"#).unwrap();
    let control = Control::open(device.path()).unwrap();
    let saved = Then::Saved(SavePoint { control: &control, pause: Pause::None });
    let report = report(Fault::None, Plan { then: saved, ..plan(3, 9) });
    assert_eq!((&report["valid"], &report["problems"]), (&Value::Bool(true), &serde_json::json!([])));
    assert_eq!((&report["transactions"], &report["lead_in_transactions"]), (&120.into(), &9.into()));
    assert_eq!((&report["orders"]["seed"], &report["orders"]["transactions"]), (&31.into(), &120.into()));
    assert_eq!((&report["marks"]["start"], &report["marks"]["stop"]), (&1.into(), &1.into()));
    // Warm-up, lead-in, measurement, and what the three users were at when it ended: whole pages, unless each request waits.
    let replies = report["marks"]["transaction"].as_u64().unwrap();
    assert!(replies >= 40 + 9 + 120, "{replies}");
    let plan = Plan { then: saved, ..plan(3, 9) };
    let report = report_of(Fault::None, plan, |site| StaticSite { pipelining: false, ..site });
    let replies = report["marks"]["transaction"].as_u64().unwrap();
    assert!((40 + 9 + 120..=40 + 9 + 120 + 2).contains(&replies), "{replies}");
}

#[test]
fn references_asked_for_at_once_are_the_same_in_the_same_order() {
    let run = |pipelining, off_scale| {
        // So small a factor makes no wait that could be seen.
        report_of(Fault::None, plan(1, 5), |site| StaticSite { pipelining, off_scale, ..site })
    };
    let (at_once, waiting, apart) = (run(true, 0.0), run(false, 0.0), run(true, 1e-9));
    for (report, pipelining) in [(&at_once, true), (&waiting, false), (&apart, true)] {
        assert_eq!(report["valid"], true, "{}", report["problems"]);
        assert_eq!(report["options"]["pipelining"], pipelining);
        assert_eq!(report["kinds"]["Page"]["count"], at_once["kinds"]["Page"]["count"]);
        assert_eq!(report["bytes"], at_once["bytes"]);
    }
    // The hash tells as far as the run went: with waiting it ends with a reply, at once with a page.
    assert_eq!(waiting["request_log_hashes"], apart["request_log_hashes"]);
    assert!(at_once["reconciliation"]["replies"].as_u64() >= waiting["reconciliation"]["replies"].as_u64());
}

#[test]
fn a_run_by_time_ends_with_its_first_reply_after_it() {
    let report = report(Fault::None, Plan { then: Then::After(Duration::from_millis(30)), ..plan(2, 9) });
    assert_eq!(report["valid"], true, "{}", report["problems"]);
    assert!(report["elapsed_seconds"].as_f64().unwrap() >= 0.03);
    let counted: u64 =
        ["Page", "Embedded"].iter().map(|kind| report["kinds"][kind]["count"].as_u64().unwrap()).sum();
    assert!(counted > 0 && report["transactions"] == counted);
}

#[test]
fn one_user_repeats_by_seed_and_by_nothing_else() {
    let log = |seed| report(Fault::None, plan(1, seed))["request_log_hashes"].clone();
    assert_eq!(log(5), log(5));
    assert_ne!(log(5), log(6));
}

#[test]
fn every_fault_of_the_server_makes_the_run_invalid_and_is_named() {
    for (fault, said) in [
        (Fault::Garbles, "checksum differs"),
        (Fault::Forgets, "status 404"),
        (Fault::Miscounts, "the server has counted"),
        (Fault::Dies, "closed a connection"),
    ] {
        let report = report(fault, plan(3, 2));
        assert_eq!(report["valid"], false);
        assert!(report["problems"].to_string().contains(said), "{}", report["problems"]);
    }
}

#[test]
fn a_body_that_goes_wrong_later_is_found_within_sixteen_replies() {
    let report = report(Fault::GarblesAgain, plan(1, 2));
    assert_eq!(report["valid"], false);
    assert!(report["problems"].to_string().contains("checksum differs"), "{}", report["problems"]);
    let replies = report["reconciliation"]["replies"].as_u64().unwrap();
    assert!((99..99 + 16).contains(&replies), "{replies}");
}

#[test]
fn the_report_tells_how_many_contents_were_compared() {
    let report = report(Fault::None, plan(2, 3));
    let (contents, replies) = (&report["contents"], &report["reconciliation"]["replies"]);
    assert_eq!(&contents["replies"], replies);
    let (compared, replies) =
        (contents["compared_with_checksums"].as_u64().unwrap(), replies.as_u64().unwrap());
    assert!((replies / 16..replies).contains(&compared), "{contents}");
}

#[test]
fn more_users_than_pages_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("set");
    let set = Set::make(&root, SetSpec { files: 100, total_bytes: 2_250_000, seed: 1 }, |_| ()).unwrap();
    let address = serve(root.join("htdocs"), Fault::None, 0);
    let site = static_site(&address, false, &set);
    assert_eq!(run(site, plan(9999, 1)).unwrap_err().exit_code(), 2);
}
