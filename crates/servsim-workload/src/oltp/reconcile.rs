//! Does the server agree with what its clients were told? Rows and commit counts before and after.
//!
//! Between the two snapshots the driver itself causes a fixed number of transactions: one per user
//! (publishing its counts) and two of the control connection. Only other work in the same
//! database, such as autovacuum, may add commits; with autovacuum off the counts must be equal.

use serde_json::{json, Value};
use tokio_postgres::Client;

use super::connect::{number, value};
use super::run::Options;
use super::session::{RoundTrip, FLUSH};
use super::terminal::{self, Terminal};
use super::user::Tally;
use crate::Result;

/// Transactions of the control connection between the two readings of the commit counts.
const CONTROL_TRANSACTIONS: u64 = 2;

/// What the server holds at one quiet moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    next_orders: i64,
    history: i64,
    new_orders: i64,
    commits: i64,
    rollbacks: i64,
}

/// Whether `commits` is read first: before a run the rows are counted first, after it last, so
/// that nothing but the run lies between the two readings of the commit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the run.
    Before,
    /// After the run.
    After,
}

/// Takes a snapshot; all users must be idle.
///
/// # Errors
/// When a statement fails.
pub async fn snapshot(control: &Client, terminals: &mut [Terminal], moment: Moment) -> Result<Snapshot> {
    let mut rows = [0; 3];
    if moment == Moment::Before {
        rows = count_rows(control).await?;
    }
    for flushed in terminal::each(terminals, async |user| user.session.flush_statistics().await) {
        flushed?;
    }
    value(control, FLUSH).await?;
    let counts = value(
        control,
        "SELECT xact_commit || ' ' || xact_rollback FROM pg_stat_database WHERE datname = current_database()",
    )
    .await?;
    let (commits, rollbacks) = counts.split_once(' ').unwrap_or_default();
    if moment == Moment::After {
        rows = count_rows(control).await?;
    }
    let [next_orders, history, new_orders] = rows;
    Ok(Snapshot {
        next_orders,
        history,
        new_orders,
        commits: commits.parse().unwrap_or_default(),
        rollbacks: rollbacks.parse().unwrap_or_default(),
    })
}

async fn count_rows(control: &Client) -> Result<[i64; 3]> {
    Ok([
        number(control, "SELECT sum(d_next_o_id) FROM district").await?,
        number(control, "SELECT count(*) FROM history").await?,
        number(control, "SELECT count(*) FROM new_order").await?,
    ])
}

/// Compares the growth between two snapshots with what the clients were told.
///
/// # Errors
/// When the server's settings cannot be read.
pub async fn compare(
    control: &Client,
    before: Snapshot,
    after: Snapshot,
    acknowledged: &[Tally],
    options: &Options,
) -> Result<(Value, Vec<String>)> {
    let autovacuum = value(control, "SHOW autovacuum").await? == "on";
    Ok(judge(before, after, acknowledged, options.users, options.round_trip, autovacuum))
}

/// The comparison itself: a report, and one sentence for each disagreement.
fn judge(
    before: Snapshot,
    after: Snapshot,
    acknowledged: &[Tally],
    users: usize,
    round_trip: RoundTrip,
    autovacuum: bool,
) -> (Value, Vec<String>) {
    let [new_order, payment, _, delivery, _] = acknowledged else { unreachable!("five kinds") };
    let rolled_back = new_order.rolled_back as i64;
    let orders = new_order.count as i64 - rolled_back;
    let replies: u64 = acknowledged.iter().map(|tally| tally.count).sum();
    // A procedure that rolls back ends in an empty transaction, which commits.
    let all = match round_trip {
        RoundTrip::Transaction => replies,
        RoundTrip::Statement => replies - new_order.rolled_back,
    };
    let set_up = users as u64 + CONTROL_TRANSACTIONS;
    let other = after.commits - before.commits - (all + set_up) as i64;
    let mut problems = Vec::new();
    let mut compare = |what: &str, server: i64, clients: i64| {
        if server != clients {
            problems.push(format!("{what}: the server has {server}, the clients were told {clients}"));
        }
        json!({"server": server, "clients": clients})
    };
    let mut report = json!({
        "orders": compare("new orders", after.next_orders - before.next_orders, orders),
        "payments": compare("payments", after.history - before.history, payment.count as i64),
        "undelivered": compare(
            "growth of undelivered orders",
            after.new_orders - before.new_orders,
            orders - delivery.delivered as i64,
        ),
        "rollbacks": compare("rollbacks", after.rollbacks - before.rollbacks, rolled_back),
    });
    report["commits"] = json!({
        "server": after.commits - before.commits,
        "clients": all,
        "set_up_constant": set_up,
        "set_up_meaning": "one transaction per user that publishes its counts, two of the control connection",
        "others": other,
        "autovacuum": autovacuum,
    });
    if other < 0 || other > 0 && !autovacuum {
        problems.push(format!(
            "commits: the server counted {}, expected {} ({all} acknowledged + {set_up} of the driver itself)",
            after.commits - before.commits,
            all + set_up
        ));
    }
    (report, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Vec<Tally> {
        let mut tallies = vec![Tally::default(); 5];
        tallies[0] = Tally { count: 10, rolled_back: 1, ..Tally::default() };
        tallies[1].count = 8;
        tallies[3] = Tally { count: 2, delivered: 6, ..Tally::default() };
        tallies
    }

    const BEFORE: Snapshot =
        Snapshot { next_orders: 100, history: 50, new_orders: 20, commits: 1000, rollbacks: 3 };
    /// 9 orders, 8 payments, 9 - 6 undelivered, 20 acknowledged + 4 users + 2 control, 1 rollback.
    const AFTER: Snapshot =
        Snapshot { next_orders: 109, history: 58, new_orders: 23, commits: 1026, rollbacks: 4 };

    #[test]
    fn agreement_has_no_problems() {
        let (report, problems) = judge(BEFORE, AFTER, &told(), 4, RoundTrip::Transaction, false);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(report["commits"]["others"], 0);
    }

    #[test]
    fn every_kind_of_disagreement_is_named() {
        for (after, word) in [
            (Snapshot { next_orders: 108, ..AFTER }, "new orders"),
            (Snapshot { history: 57, ..AFTER }, "payments"),
            (Snapshot { new_orders: 24, ..AFTER }, "undelivered"),
            (Snapshot { rollbacks: 5, ..AFTER }, "rollbacks"),
            (Snapshot { commits: 1025, ..AFTER }, "commits"),
            (Snapshot { commits: 1027, ..AFTER }, "commits"),
        ] {
            let (_, problems) = judge(BEFORE, after, &told(), 4, RoundTrip::Transaction, false);
            assert!(problems.len() == 1 && problems[0].contains(word), "{word}: {problems:?}");
        }
    }

    #[test]
    fn a_rolled_back_transaction_of_statements_does_not_commit() {
        let one_fewer = Snapshot { commits: 1025, ..AFTER };
        assert!(judge(BEFORE, one_fewer, &told(), 4, RoundTrip::Statement, false).1.is_empty());
        assert_eq!(judge(BEFORE, AFTER, &told(), 4, RoundTrip::Statement, false).1.len(), 1);
    }

    #[test]
    fn autovacuum_may_add_commits_but_never_remove_any() {
        let more = Snapshot { commits: 1040, ..AFTER };
        assert!(judge(BEFORE, more, &told(), 4, RoundTrip::Transaction, true).1.is_empty());
        let fewer = Snapshot { commits: 1020, ..AFTER };
        assert_eq!(judge(BEFORE, fewer, &told(), 4, RoundTrip::Transaction, true).1.len(), 1);
    }
}
