//! The twelve consistency conditions notice what they must, on a real server.

use crate::common::Cluster;

use serde_json::Value;
use servsim_workload::oltp::engine::{Control, Engine};
use servsim_workload::oltp::{check, load};

/// One corruption of a freshly loaded database per condition, and further ones that a query
/// with plain joins or sums would overlook: missing rows and NULLs.
pub const CORRUPTIONS: [(u64, &str); 23] = [
    (1, "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2"),
    (1, "UPDATE warehouse SET w_ytd = NULL WHERE w_id = 2"),
    (2, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 2"),
    (2, "DELETE FROM district WHERE d_w_id = 1 AND d_id = 2"),
    (3, "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 25"),
    (4, "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 3"),
    (4, "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 1"),
    (5, "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1"),
    (5, "INSERT INTO new_order VALUES (7, 1, 1)"),
    (6, "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 4"),
    (6, "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number) SELECT 999, ol_d_id, ol_w_id, ol_number FROM order_line LIMIT 1"),
    (7, "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1"),
    (7, "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 30"),
    (8, "UPDATE history SET h_w_id = 1 WHERE h_w_id = 2 AND h_d_id = 1 AND h_c_id = 1"),
    (8, "DELETE FROM history WHERE h_w_id = 2"),
    (9, "UPDATE history SET h_d_id = 2 WHERE h_w_id = 2 AND h_d_id = 1 AND h_c_id = 1"),
    (9, "UPDATE district SET d_ytd = NULL WHERE d_w_id = 2 AND d_id = 3"),
    (10, "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
    (10, "DELETE FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
    (11, "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1"),
    (11, "DELETE FROM orders WHERE o_w_id = 2 AND o_d_id = 2"),
    (12, "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
    (12, "UPDATE customer SET c_ytd_payment = NULL WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
];

/// Numbers of the conditions that another reader finds violated: psql, with SQL of its own.
fn found_by_psql(cluster: &Cluster, before: &str) -> Vec<u64> {
    let conditions = include_str!("other_conditions.sql");
    let found = cluster.sql(&format!("BEGIN; {before}; {conditions}; ROLLBACK"));
    found.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn sql_that_is_not_the_driver_s_finds_the_same() {
    let cluster = Cluster::loaded(2);
    assert_eq!(found_by_psql(&cluster, "SELECT WHERE false"), [0; 0]);
    for (number, corruption) in CORRUPTIONS {
        let found = found_by_psql(&cluster, corruption);
        assert!(found.contains(&number), "condition {number} of {found:?} does not notice: {corruption}");
    }
    let (code, report) =
        cluster.report(&["run", "--users", "4", "--warm-up", "40", "--transactions", "2000"]);
    assert_eq!(code, 0, "{report:#}");
    // Only what was loaded has 21 orders delivered.
    assert_eq!(found_by_psql(&cluster, "SELECT WHERE false"), [11]);
}

pub fn violated(report: &Value) -> Vec<u64> {
    let conditions = report["conditions"].as_array().unwrap().iter();
    let bad = conditions.filter(|condition| condition["violations"].as_i64().is_some_and(|rows| rows > 0));
    bad.map(|condition| condition["condition"].as_u64().unwrap()).collect()
}

#[test]
fn every_condition_holds_after_the_load_and_notices_its_corruption() {
    let cluster = Cluster::loaded(2);
    let (code, report) = cluster.report(&["check", "--after", "load"]);
    assert_eq!((code, violated(&report)), (0, vec![]), "{report:#}");
    assert_eq!(report["conditions"].as_array().unwrap().len(), 12);
    for corruption in CORRUPTIONS {
        let rows = Cluster::block_on(violations_of(&cluster.server(), corruption));
        assert!(rows > 0, "condition {} does not notice: {}", corruption.0, corruption.1);
    }
    assert_eq!(cluster.report(&["check", "--after", "load"]).0, 0, "the corruptions were all undone");
}

/// Corrupts the database in a transaction that is undone, and asks the condition.
pub async fn violations_of<E: Engine>(engine: &E, (number, corruption): (u64, &str)) -> i64 {
    let control = engine.control().await.unwrap();
    let scale = load::made(&control).await.unwrap().scale;
    let condition = check::CONDITIONS.iter().find(|condition| u64::from(condition.number) == number).unwrap();
    assert_eq!(condition.violations(&control, scale).await.unwrap(), 0, "before: {corruption}");
    control.batch("BEGIN").await.unwrap();
    control.batch(corruption).await.unwrap();
    let violations = condition.violations(&control, scale).await.unwrap();
    control.batch("ROLLBACK").await.unwrap();
    violations
}

#[test]
fn a_violation_is_named_with_its_rows_and_fails_the_command() {
    let cluster = Cluster::loaded(2);
    for (number, corruption) in [CORRUPTIONS[10], CORRUPTIONS[22]] {
        cluster.sql(corruption);
        let (code, report) = cluster.report(&["check", "--after", "load"]);
        assert!(code == 1 && violated(&report).contains(&number), "{report:#}");
        let problems = report["problems"].to_string();
        assert!(problems.contains(&format!("3.3.2.{number} ")), "{problems}");
        assert!(problems.contains("violated by 1 rows"), "{problems}");
    }
}

#[test]
fn after_a_run_condition_eleven_is_left_out_and_a_failing_query_is_never_a_pass() {
    let cluster = Cluster::loaded(2);
    cluster.sql("DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1");
    cluster.sql("UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = 1");
    let (_, report) = cluster.report(&["check", "--after", "run"]);
    assert!(!violated(&report).contains(&11) && report["conditions"][10]["violations"].is_null());
    cluster.sql("ALTER TABLE history RENAME TO lost");
    let output = cluster.driver(&["check", "--after", "run"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("checking condition 8") && message.contains("history"), "{message}");
}

#[test]
fn an_empty_database_is_refused_with_the_remedy() {
    let cluster = Cluster::start();
    let output = cluster.driver(&["check", "--database", "postgres"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("run `load` first"));
}
