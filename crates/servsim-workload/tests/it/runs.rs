//! Runs against a real server: agreement of both sides, repeatability, distributions, failures.

use crate::common::Cluster;

use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

fn hashes(report: &Value) -> Vec<String> {
    let users = report["users"].as_array().unwrap().iter();
    users.map(|user| user["request_log_hash"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn clients_server_and_marks_agree_and_conditions_hold_afterwards() {
    let cluster = Cluster::loaded(5);
    let (code, report) =
        cluster.report(&["run", "--users", "6", "--warm-up", "60", "--transactions", "3000"]);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!((report["valid"].as_bool(), report["transactions"].as_u64()), (Some(true), Some(3000)));
    assert_eq!(report["live_users"], 6);
    let marks = &report["marks"];
    assert_eq!([&marks["transaction"], &marks["start"], &marks["stop"], &marks["client"]], [3060, 1, 1, 1]);
    // Without autovacuum nothing else commits: 3060 acknowledged, one per user, two of control.
    let commits = &report["reconciliation"]["commits"];
    assert_eq!((commits["server"].as_u64(), commits["others"].as_i64()), (Some(3060 + 6 + 2), Some(0)));
    let (code, check) = cluster.report(&["check", "--after", "run"]);
    assert_eq!(code, 0, "{check:#}");

    // An independent look at what the run left behind, in plain SQL; the load's rows are excluded.
    let fresh = "FROM orders WHERE o_id > 30";
    let orders = cluster.number(&format!("SELECT count(*) {fresh}"));
    assert_eq!(json!(orders as u64), report["acknowledged"]["new_orders"]);
    let lines = cluster.number(&format!("SELECT avg(o_ol_cnt) {fresh}"));
    assert!((lines - 10.0).abs() < 3.0 * (10.0 / orders).sqrt(), "mean lines {lines}");
    within_three_sigma(
        cluster.number(&format!("SELECT count(*) {fresh} AND o_all_local = 0")),
        orders,
        0.0956,
    );
    let payments = cluster.number("SELECT count(*) FROM history") - 450.0;
    assert_eq!(json!(payments as u64), report["acknowledged"]["payments"]);
    let remote = cluster.number("SELECT count(*) FROM history WHERE h_w_id <> h_c_w_id");
    within_three_sigma(remote, payments, 0.15);
    let lost = "SELECT count(*) FROM stock WHERE s_quantity NOT BETWEEN 10 AND 100";
    assert_eq!(cluster.sql(lost), "0", "restocking keeps quantities from 10 to 100");
    // Deck shares are exact up to the unfinished deck of each user.
    for (kind, cards) in [("new_order", 10.0), ("payment", 10.0), ("delivery", 1.0)] {
        let off = report["kinds"][kind]["count"].as_f64().unwrap() - 3000.0 * cards / 23.0;
        assert!(off.abs() <= 6.0 * cards, "{kind} is off by {off}");
    }
}

#[test]
fn a_statement_per_round_trip_leaves_the_rows_that_the_procedures_leave() {
    let run = |round_trip: &str| {
        let cluster = Cluster::loaded(2);
        let args =
            ["run", "--users", "1", "--warm-up", "0", "--transactions", "300", "--round-trip", round_trip];
        let (code, report) = cluster.report(&args);
        assert_eq!((code, &report["options"]["round_trip"]), (0, &json!(round_trip)), "{report:#}");
        assert!(report["kinds"]["new_order"]["rolled_back"].as_u64() > Some(0), "{report:#}");
        let (code, check) = cluster.report(&["check", "--after", "run"]);
        assert_eq!(code, 0, "{check:#}");
        // Everything but times of day.
        let columns = [
            ("warehouse", "w_id, w_ytd"),
            ("district", "d_w_id, d_id, d_ytd, d_next_o_id"),
            ("customer", "c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data"),
            ("history", "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_amount, h_data"),
            ("new_order", "no_w_id, no_d_id, no_o_id"),
            ("orders", "o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local"),
            (
                "order_line",
                "ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info",
            ),
            ("stock", "s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt"),
        ];
        let digest = |(table, columns): (&str, &str)| {
            cluster.sql(&format!("SELECT md5(string_agg(r::text, '|' ORDER BY r::text)) FROM (SELECT {columns} FROM {table}) r"))
        };
        (report["request_log_hash"].clone(), columns.map(digest))
    };
    assert_eq!(run("transaction"), run("statement"));
}

#[test]
fn windows_hold_every_transaction_that_ended_in_them() {
    let cluster = Cluster::loaded(3);
    let (code, report) =
        cluster.report(&["run", "--users", "2", "--seconds", "0.9", "--window-seconds", "0.1"]);
    assert_eq!(code, 0, "{report:#}");
    let counts = report["windows"]["transactions"].as_array().unwrap();
    let sum: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
    let total = report["transactions"].as_u64().unwrap();
    let whole = (report["elapsed_seconds"].as_f64().unwrap() / 0.1) as usize;
    assert_eq!(counts.len(), whole);
    assert!(sum > 0 && sum <= total, "{sum} of {total}");
    let (code, plain) = cluster.report(&["run", "--users", "2", "--transactions", "20"]);
    assert_eq!((code, &plain["windows"]), (0, &Value::Null));
}

fn within_three_sigma(hits: f64, of: f64, share: f64) {
    let sigma = (of * share * (1.0 - share)).sqrt();
    assert!((hits - of * share).abs() < 3.0 * sigma, "{hits} of {of} for a share of {share}");
}

#[test]
fn the_same_seed_repeats_every_users_requests_whatever_the_others_do() {
    let cluster = Cluster::loaded(4);
    let run = |users: &str, transactions: &str, seed: &str| {
        let args = ["run", "--deal", "--users", users, "--transactions", transactions, "--seed", seed];
        let (code, report) = cluster.report(&args);
        assert_eq!(code, 0, "{report:#}");
        report
    };
    let single = run("1", "100", "5");
    assert_eq!(single["request_log_hash"], run("1", "100", "5")["request_log_hash"]);
    assert_ne!(single["request_log_hash"], run("1", "100", "6")["request_log_hash"]);
    let four = hashes(&run("4", "400", "5"));
    assert_eq!(four, hashes(&run("4", "400", "5")));
    assert_eq!(four[0], hashes(&single)[0], "more users do not change the first user's requests");
    let six = hashes(&run("6", "600", "5"));
    assert_eq!(four[..], six[..4]);
    assert_eq!(six.iter().collect::<std::collections::HashSet<_>>().len(), 6);
}

#[test]
fn two_loads_with_one_seed_make_the_same_database() {
    let cluster = Cluster::loaded(2);
    let digest = "SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM";
    let tables = ["customer", "stock", "orders", "order_line", "item"];
    let all = || tables.map(|table| cluster.sql(&format!("{digest} {table} t")));
    let first = all();
    let load = |seed: &str| cluster.driver(&["load", "--warehouses", "2", "--seed", seed]).status.success();
    assert!(load("42"));
    assert_eq!(first, all());
    assert!(load("43"));
    assert_ne!(first, all());
}

#[test]
fn any_error_of_any_user_makes_the_run_invalid() {
    let cluster = Cluster::loaded(2);
    cluster.sql("ALTER TABLE history ADD CHECK (h_amount < 4000) NOT VALID");
    let (code, report) = cluster.report(&["run", "--users", "3", "--warm-up", "0", "--transactions", "2000"]);
    assert_eq!((code, report["valid"].as_bool()), (1, Some(false)));
    let problems = report["problems"].to_string();
    assert!(problems.contains("Payment") && problems.contains("check constraint"), "{problems}");
    assert!(report["transactions"].as_u64().unwrap() < 2000, "the other users stop as well");
}

#[test]
fn a_waiting_user_takes_its_keying_and_think_times() {
    let cluster = Cluster::loaded(2);
    let args = ["run", "--users", "2", "--warm-up", "0", "--transactions", "40", "--think-scale", "0.002"];
    let (code, report) = cluster.report(&args);
    // 40 transactions of 2 users at (9.63 + 11.36) s on average and a thousandth-scale: 0.84 s.
    let seconds = report["elapsed_seconds"].as_f64().unwrap();
    assert!(code == 0 && seconds > 0.4, "{seconds} s");
}

#[test]
fn the_guest_form_takes_orders_and_leaves_its_result_on_the_device() {
    let cluster = Cluster::loaded(3);
    let device = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    device.as_file().set_len(4 << 20).unwrap();
    device
        .as_file()
        .write_all_at(br#"{"transactions": 150, "seed": 9, "check": true, "lead_in": 30}"#, 0)
        .unwrap();
    let path = device.path().to_str().unwrap();
    let args = ["guest", "--pause", "none", "--users", "4", "--warm-up", "settle"];
    let output = cluster.command(&args).args(["--control", path]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let written = std::fs::read(device.path()).unwrap();
    let result = &written[1 << 20..];
    let length = u64::from_le_bytes(result[..8].try_into().unwrap()) as usize;
    let report: Value = serde_json::from_slice(&result[8..8 + length]).unwrap();
    assert_eq!((report["valid"].as_bool(), report["transactions"].as_u64()), (Some(true), Some(150)));
    assert_eq!(report["options"]["seed"], 9);
    assert_eq!(report["check"]["passed"], true);
    // Every user ran every kind seven times before the first round of the mix.
    let warm_up = &report["warm_up"];
    assert_eq!(warm_up["rehearsal_transactions"], 4 * 5 * 7);
    assert!(warm_up["transactions"].as_u64().unwrap() >= 140 + 3 * 240, "{warm_up:#}");
    assert!(warm_up["rounds"][1]["server_microseconds_by_kind"]["payment"].as_f64().unwrap() > 0.0);
    // The users go on from the warm-up to the window without a pause: whoever was at work when the machine
    // stopped, or at the window's end, still got a reply, and nobody more than that.
    assert_eq!((&report["marks"]["start"], &report["marks"]["stop"]), (&json!(1), &json!(1)));
    let marked = report["marks"]["transaction"].as_u64().unwrap();
    let known = warm_up["transactions"].as_u64().unwrap() + 30 + 150;
    assert!((known..=known + 6).contains(&marked), "{marked} marks, {known} before the stop mark");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let cluster = Cluster::loaded(4);
    let count = |what: &str| cluster.number(&format!("SELECT {what}"));
    let (orders, payments) = ("sum(d_next_o_id) FROM district", "count(*) FROM history");
    let before = (count(orders), count(payments));
    let mut command = cluster.command(&["run", "--users", "6", "--transactions", "1000000", "--json"]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("transactions are acknowledged", || {
        count(orders) > before.0 + 100.0 && count(payments) > before.1 + 100.0
    });
    kill_server(&cluster);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["valid"], false);
    cluster.restart();
    for (before, after, key) in
        [(before.0, count(orders), "new_orders"), (before.1, count(payments), "payments")]
    {
        let acknowledged = report["acknowledged"][key].as_f64().unwrap();
        let stored = after - before;
        assert!(acknowledged > 50.0, "only {acknowledged} {key} before the kill");
        // At most one transaction per user was committed without its reply being read.
        assert!(stored >= acknowledged && stored <= acknowledged + 6.0, "{key}: {stored} for {acknowledged}");
    }
    let (code, check) = cluster.report(&["check"]);
    assert_eq!(code, 0, "{check:#}");
}

/// Waits for an event, a minute and a half at most.
fn wait_until(event: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen that {event}");
        sleep(Duration::from_millis(20));
    }
}

/// Kills the postmaster and all its children at once, and waits until they are gone.
fn kill_server(cluster: &Cluster) {
    let postmaster = cluster.postmaster().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
    let children = children.split_ascii_whitespace().map(|id| id.parse().unwrap());
    let all: Vec<i32> = std::iter::once(postmaster).chain(children).collect();
    for &process in &all {
        // SAFETY: the processes belong to this test's own server.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }
    // SAFETY: signal 0 only asks whether the process exists.
    let gone = |&process: &i32| unsafe { libc::kill(process, 0) } != 0 || is_zombie(process);
    wait_until("the server's processes end", || all.iter().all(gone));
    // The lock files name a zombie if nobody reaps it, and that would pass for a running server.
    for lock in [cluster.data().join("postmaster.pid"), cluster.socket().join(".s.PGSQL.5432.lock")] {
        std::fs::remove_file(lock).unwrap();
    }
}

fn is_zombie(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}
