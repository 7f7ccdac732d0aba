//! The same workload on `SQLite`: what it leaves behind is what `PostgreSQL` leaves, and its checks notice what they must.

use std::path::PathBuf;
use std::process::{Command, Output};

use rusqlite::Connection;
use serde_json::{json, Value};
use servsim_workload::oltp::sqlite::Sqlite;
use tempfile::TempDir;

use crate::common::Cluster;
use crate::consistency::{violated, violations_of, CORRUPTIONS};

/// A loaded database in a folder of its own.
struct File {
    folder: TempDir,
}

impl File {
    fn loaded(warehouses: &str) -> Self {
        let file = File { folder: tempfile::tempdir().unwrap() };
        let output = file.driver(&["load", "--preset", "small", "--warehouses", warehouses]);
        assert!(output.status.success(), "{output:?}");
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("oltp.db")
    }

    fn driver(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_servsim-oltp"));
        command.args(args).arg("--file").arg(self.path()).output().unwrap()
    }

    fn report(&self, args: &[&str]) -> (i32, Value) {
        let output = self.driver(&[args, &["--json"]].concat());
        let report = serde_json::from_slice(&output.stdout);
        (output.status.code().unwrap(), report.unwrap_or_else(|_| panic!("{output:?}")))
    }

    /// Every row of a statement, its columns with bars between, in order.
    fn rows(&self, sql: &str) -> Vec<String> {
        let database = Connection::open(self.path()).unwrap();
        let mut statement = database.prepare(sql).unwrap();
        let columns = statement.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            let texts = (0..columns).map(|column| match row.get_ref_unwrap(column) {
                rusqlite::types::ValueRef::Null => String::new(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                other => panic!("{other:?} in: {sql}"),
            });
            Ok(texts.collect::<Vec<_>>().join("|"))
        };
        let mut rows: Vec<String> = statement.query_map([], text).unwrap().map(Result::unwrap).collect();
        rows.sort();
        rows
    }

    fn number(&self, sql: &str) -> f64 {
        self.rows(sql)[0].parse().unwrap()
    }
}

/// What transactions change, by table: columns, of which amounts stand in parentheses. Times of day are left out, and the
/// notes on customers of bad credit, which hold amounts as the engine writes them.
const COLUMNS: [(&str, &str); 8] = [
    ("warehouse", "w_id, (w_ytd)"),
    ("district", "d_w_id, d_id, (d_ytd), d_next_o_id"),
    ("customer", "c_w_id, c_d_id, c_id, c_last, (c_balance), (c_ytd_payment), c_payment_cnt, c_delivery_cnt, c_credit"),
    ("history", "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, (h_amount), h_data"),
    ("new_order", "no_w_id, no_d_id, no_o_id"),
    ("orders", "o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local"),
    ("order_line", "ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, (ol_amount), ol_dist_info"),
    ("stock", "s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt"),
];

#[test]
fn it_leaves_the_rows_that_the_other_engine_leaves() {
    let file = File::loaded("2");
    let cluster = Cluster::loaded(2);
    let args = ["run", "--users", "1", "--warm-up", "0", "--transactions", "400"];
    let ((code, ours), (_, theirs)) = (file.report(&args), cluster.report(&args));
    assert_eq!((code, &ours["valid"], &ours["engine"]), (0, &json!(true), &json!("SQLite")), "{ours:#}");
    assert_eq!(ours["request_log_hash"], theirs["request_log_hash"]);
    assert!(ours["kinds"]["new_order"]["rolled_back"].as_u64() > Some(0), "{ours:#}");
    for (table, columns) in COLUMNS {
        let ours = file.rows(&format!("SELECT {columns} FROM {table}"));
        let theirs = columns.replace('(', "(100 * ").replace(')', ")::bigint");
        let text = cluster.sql(&format!("SELECT {theirs} FROM {table}"));
        let mut theirs: Vec<&str> = text.lines().collect();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{table}");
    }
}

#[test]
fn users_engine_and_marks_agree_and_conditions_hold_afterwards() {
    let file = File::loaded("5");
    let (code, report) = file.report(&[
        "run",
        "--users",
        "6",
        "--warm-up",
        "60",
        "--transactions",
        "2000",
        "--pragma",
        "synchronous=OFF",
    ]);
    assert_eq!((code, &report["valid"], &report["live_users"]), (0, &json!(true), &json!(6)), "{report:#}");
    assert_eq!(report["marks"]["transaction"], 2060);
    // Not all commits are counted: readers have none. The hooks' counts are no counts of the driver.
    let commits = &report["reconciliation"]["commits"];
    assert_eq!((&commits["server"], &commits["others"]), (&commits["clients"], &json!(0)), "{commits:#}");
    let writers: f64 = ["new_order", "payment", "delivery"]
        .map(|kind| report["kinds"][kind]["count"].as_f64().unwrap())
        .iter()
        .sum();
    assert!(commits["server"].as_f64().unwrap() > writers * 0.98, "{commits:#}");
    let (code, check) = file.report(&["check", "--after", "run"]);
    assert_eq!(code, 0, "{check:#}");
    let orders = file.number("SELECT count(*) FROM orders WHERE o_id > 30");
    assert_eq!(json!(orders as u64), report["acknowledged"]["new_orders"]);
    assert_eq!(file.rows("PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn every_condition_holds_after_the_load_and_notices_its_corruption() {
    let file = File::loaded("2");
    let (code, report) = file.report(&["check", "--after", "load"]);
    assert_eq!((code, violated(&report)), (0, vec![]), "{report:#}");
    let engine = Sqlite::new(file.path(), &[]).unwrap();
    for corruption in CORRUPTIONS {
        let rows = Cluster::block_on(violations_of(&engine, corruption));
        assert!(rows > 0, "condition {} does not notice: {}", corruption.0, corruption.1);
    }
    Connection::open(file.path()).unwrap().execute_batch(CORRUPTIONS[10].1).unwrap();
    let (code, report) = file.report(&["check", "--after", "load"]);
    assert!(code == 1 && violated(&report).contains(&CORRUPTIONS[10].0), "{report:#}");
}

#[test]
fn a_transaction_that_the_engine_refuses_makes_the_run_invalid() {
    let file = File::loaded("2");
    let refusal = "CREATE TRIGGER no BEFORE INSERT ON history WHEN NEW.h_amount > 400000 \
                   BEGIN SELECT RAISE(ABORT, 'too much'); END";
    Connection::open(file.path()).unwrap().execute_batch(refusal).unwrap();
    let (code, report) = file.report(&["run", "--users", "3", "--warm-up", "0", "--transactions", "2000"]);
    assert_eq!((code, &report["valid"]), (1, &json!(false)));
    let problems = report["problems"].to_string();
    assert!(problems.contains("InsertHistory") && problems.contains("too much"), "{problems}");
    // What was begun is undone: another run finds no transaction open, and a consistent database.
    assert_eq!(file.report(&["check"]).0, 0);
}

#[test]
fn what_is_no_database_is_refused_with_the_remedy() {
    let file = File { folder: tempfile::tempdir().unwrap() };
    let said = |output: &Output| (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
    let (code, missing) = said(&file.driver(&["run"]));
    assert!(code == Some(3) && missing.contains("was it loaded?"), "{missing}");
    std::fs::write(file.path(), "plain text, long enough to be read as the head of a database".repeat(20))
        .unwrap();
    let (code, text) = said(&file.driver(&["check"]));
    assert!(code == Some(3) && text.contains("not a database"), "{text}");
    std::fs::remove_file(file.path()).unwrap();
    Connection::open(file.path()).unwrap().execute_batch("CREATE TABLE other (a)").unwrap();
    let (code, empty) = said(&file.driver(&["check"]));
    assert!(code == Some(2) && empty.contains("run `load` first"), "{empty}");
    let (code, pragma) = said(&file.driver(&["run", "--pragma", "shared_buffers=1GB"]));
    assert!(code == Some(2) && pragma.contains("no pragma"), "{pragma}");
    let (code, both) = said(&file.driver(&["run", "--round-trip", "transaction"]));
    assert!(code == Some(2) && both.contains("--file"), "{both}");
}
