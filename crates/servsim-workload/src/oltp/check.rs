//! The twelve consistency conditions of TPC-C clause 3.3.2, each as one set-based query.
//!
//! Every query counts violating groups. Missing rows and NULLs count as violations: sides are
//! joined with FULL JOIN, or put together and grouped where they have many rows (an engine that joins by loops needs
//! hours otherwise), and compared with IS DISTINCT FROM. All queries see one snapshot.
//! Condition 11 (as many delivered orders as at the start) holds only until the first delivery,
//! so it is left out after a run.

use std::time::Instant;

use serde_json::{json, Value};

use super::engine::{Control, Engine};
use super::load;
use super::scale::Scale;
use crate::{Error, Result};

/// When the check takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum After {
    /// Straight after loading: all twelve conditions.
    Load,
    /// After transactions: all but condition 11, which only the initial database fulfils.
    Run,
}

/// One consistency condition.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Number in clause 3.3.2.
    pub number: u8,
    /// What must hold.
    pub meaning: &'static str,
    /// Counts violations; `{delivered}` stands for the initially delivered orders of a district.
    query: &'static str,
}

/// Delivered amounts by customer, for conditions 10 and 12.
macro_rules! with_delivered {
    ($query:literal) => {
        concat!(
            "WITH delivered AS (SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, sum(ol_amount) AS amount ",
            "FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id ",
            "WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) ",
            $query
        )
    };
}

/// The conditions in the order of the specification.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        number: 1,
        meaning: "W_YTD = sum(D_YTD)",
        query: "SELECT count(*) FROM warehouse FULL JOIN
            (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY 1) d ON d_w_id = w_id
            WHERE w_ytd IS DISTINCT FROM ytd OR w_ytd IS NULL",
    },
    Condition {
        number: 2,
        meaning: "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        query: "SELECT count(*) FROM
            (SELECT d_w_id AS w, d_id AS d, d_next_o_id - 1 AS last FROM district) district
            FULL JOIN (SELECT o_w_id AS w, o_d_id AS d, max(o_id) AS top FROM orders GROUP BY 1, 2) o USING (w, d)
            FULL JOIN (SELECT no_w_id AS w, no_d_id AS d, max(no_o_id) AS new FROM new_order GROUP BY 1, 2) n USING (w, d)
            WHERE last IS NULL OR last IS DISTINCT FROM top OR (new IS NOT NULL AND last <> new)",
    },
    Condition {
        number: 3,
        meaning: "max(NO_O_ID) - min(NO_O_ID) + 1 = number of NEW-ORDER rows of the district",
        query: "SELECT count(*) FROM (SELECT 1 FROM new_order GROUP BY no_w_id, no_d_id
            HAVING max(no_o_id) - min(no_o_id) + 1 IS DISTINCT FROM count(*)) v",
    },
    Condition {
        number: 4,
        meaning: "sum(O_OL_CNT) = number of ORDER-LINE rows of the district",
        query: "SELECT count(*) FROM
            (SELECT o_w_id AS w, o_d_id AS d, sum(o_ol_cnt) AS expected FROM orders GROUP BY 1, 2) o
            FULL JOIN (SELECT ol_w_id AS w, ol_d_id AS d, count(*) AS found FROM order_line GROUP BY 1, 2) l USING (w, d)
            WHERE expected IS DISTINCT FROM found",
    },
    Condition {
        number: 5,
        meaning: "O_CARRIER_ID is null if and only if the order is in NEW-ORDER",
        query: "SELECT count(*) FROM orders
            FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
            WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    },
    Condition {
        number: 6,
        meaning: "O_OL_CNT = number of ORDER-LINE rows of the order",
        query: "SELECT count(*) FROM (SELECT 1 FROM
            (SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_ol_cnt AS expected, 0 AS found FROM orders
             UNION ALL SELECT ol_w_id, ol_d_id, ol_o_id, NULL, 1 FROM order_line) parts
            GROUP BY w, d, o HAVING max(expected) IS DISTINCT FROM sum(found)) v",
    },
    Condition {
        number: 7,
        meaning: "OL_DELIVERY_D is null if and only if the order's O_CARRIER_ID is null",
        query: "SELECT count(*) FROM order_line
            LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
            WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    },
    Condition {
        number: 8,
        meaning: "W_YTD = sum(H_AMOUNT) of the warehouse",
        query: "SELECT count(*) FROM warehouse FULL JOIN
            (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY 1) h ON h_w_id = w_id
            WHERE w_id IS NULL OR w_ytd IS DISTINCT FROM coalesce(paid, 0)",
    },
    Condition {
        number: 9,
        meaning: "D_YTD = sum(H_AMOUNT) of the district",
        query: "SELECT count(*) FROM district FULL JOIN
            (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2) h
            ON h_w_id = d_w_id AND h_d_id = d_id
            WHERE d_id IS NULL OR d_ytd IS DISTINCT FROM coalesce(paid, 0)",
    },
    Condition {
        number: 10,
        meaning: "C_BALANCE = sum(delivered OL_AMOUNT) - sum(H_AMOUNT) of the customer",
        query: with_delivered!(
            "SELECT count(*) FROM (SELECT 1 FROM
            (SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance AS balance, 0 AS due FROM customer
             UNION ALL SELECT w, d, c, NULL, amount FROM delivered
             UNION ALL SELECT h_c_w_id, h_c_d_id, h_c_id, NULL, -h_amount FROM history) parts
            GROUP BY w, d, c HAVING max(balance) IS DISTINCT FROM sum(due)) v"
        ),
    },
    Condition {
        number: 11,
        meaning: "ORDER rows - NEW-ORDER rows = initially delivered orders of the district",
        query: "SELECT count(*) FROM (SELECT d_w_id AS w, d_id AS d FROM district) district
            FULL JOIN (SELECT o_w_id AS w, o_d_id AS d, count(*) AS entered FROM orders GROUP BY 1, 2) o USING (w, d)
            FULL JOIN (SELECT no_w_id AS w, no_d_id AS d, count(*) AS waiting FROM new_order GROUP BY 1, 2) n USING (w, d)
            WHERE coalesce(entered, 0) - coalesce(waiting, 0) <> {delivered}",
    },
    Condition {
        number: 12,
        meaning: "C_BALANCE + C_YTD_PAYMENT = sum(delivered OL_AMOUNT) of the customer",
        query: with_delivered!(
            "SELECT count(*) FROM (SELECT 1 FROM
            (SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance + c_ytd_payment AS sum, 0 AS due FROM customer
             UNION ALL SELECT w, d, c, NULL, amount FROM delivered) parts
            GROUP BY w, d, c HAVING max(sum) IS DISTINCT FROM sum(due)) v"
        ),
    },
];

impl Condition {
    /// Counts the rows or groups that violate the condition.
    ///
    /// # Errors
    /// When the query fails: never taken for a pass.
    pub async fn violations<C: Control>(&self, control: &C, scale: Scale) -> Result<i64> {
        let query = self.query.replace("{delivered}", &scale.delivered().to_string());
        control.number(&query).await.map_err(|error| match error {
            Error::Database { source, .. } => {
                Error::Database { context: format!("checking condition {}", self.number), source }
            }
            other => other,
        })
    }
}

/// Checks the conditions in one snapshot; `passed` and `problems` tell the outcome.
///
/// # Errors
/// When a query fails.
pub async fn check<C: Control>(control: &C, scale: Scale, after: After) -> Result<Value> {
    let begin = Instant::now();
    control.batch(C::SNAPSHOT).await?;
    let mut conditions = Vec::new();
    let mut problems = Vec::new();
    for condition in CONDITIONS {
        let Condition { number, meaning, .. } = condition;
        if after == After::Run && number == 11 {
            let why = "skipped: deliveries change it, it holds for the initial database only";
            conditions
                .push(json!({"condition": number, "meaning": meaning, "violations": null, "note": why}));
            continue;
        }
        let start = Instant::now();
        let violations = condition.violations(control, scale).await?;
        if violations > 0 {
            problems.push(format!(
                "consistency condition 3.3.2.{number} ({meaning}) is violated by {violations} rows"
            ));
        }
        let seconds = start.elapsed().as_secs_f64();
        conditions.push(
            json!({"condition": number, "meaning": meaning, "violations": violations, "seconds": seconds}),
        );
    }
    control.batch("COMMIT").await?;
    Ok(json!({
        "schema": "servsim.workload.check/1",
        "workload": "oltp",
        "after": if after == After::Load { "load" } else { "run" },
        "passed": problems.is_empty(),
        "problems": problems,
        "seconds": begin.elapsed().as_secs_f64(),
        "conditions": conditions,
    }))
}

/// Connects and checks.
///
/// # Errors
/// When the server is not reachable or a query fails.
pub async fn check_database<E: Engine>(engine: &E, after: After) -> Result<Value> {
    let control = engine.control().await?;
    let scale = load::made(&control).await?.scale;
    check(&control, scale, after).await
}
