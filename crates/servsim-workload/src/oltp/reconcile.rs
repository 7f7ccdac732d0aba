//! Does the server agree with what its clients were told? Rows and commit counts before and after.
//!
//! Between the two snapshots the driver itself causes a fixed number of transactions, which the engine states.
//! Only other work in the same database, such as autovacuum, may add commits; where there is none the counts must
//! be equal.

use serde_json::{json, Value};

use super::engine::{Control, Counting, RoundTrip, Session};
use super::request::TransactionKind;
use super::run::Options;
use super::terminal::{self, Terminal};
use super::user::Counts;
use crate::Result;

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
pub async fn snapshot<C: Control, S: Session>(
    control: &C,
    terminals: &mut [Terminal<S>],
    moment: Moment,
) -> Result<Snapshot> {
    let mut rows = [0; 3];
    if moment == Moment::Before {
        rows = count_rows(control).await?;
    }
    for published in terminal::each(terminals, async |user| user.session.publish().await) {
        published?;
    }
    let (commits, rollbacks) = control.counts().await?;
    if moment == Moment::After {
        rows = count_rows(control).await?;
    }
    let [next_orders, history, new_orders] = rows;
    Ok(Snapshot { next_orders, history, new_orders, commits, rollbacks })
}

async fn count_rows<C: Control>(control: &C) -> Result<[i64; 3]> {
    Ok([
        control.number("SELECT sum(d_next_o_id) FROM district").await?,
        control.number("SELECT count(*) FROM history").await?,
        control.number("SELECT count(*) FROM new_order").await?,
    ])
}

/// Compares the growth between two snapshots with what the clients were told.
///
/// # Errors
/// When the server's settings cannot be read.
pub async fn compare<C: Control>(
    control: &C,
    before: Snapshot,
    after: Snapshot,
    acknowledged: &[Counts],
    options: &Options,
) -> Result<(Value, Vec<String>)> {
    let others = control.has_others().await?;
    Ok(judge(before, after, acknowledged, options.users, options.round_trip, C::COUNTING, others))
}

/// The comparison itself: a report, and one sentence for each disagreement.
fn judge(
    before: Snapshot,
    after: Snapshot,
    acknowledged: &[Counts],
    users: usize,
    round_trip: RoundTrip,
    counting: Counting,
    has_others: bool,
) -> (Value, Vec<String>) {
    let [new_order, payment, _, delivery, _] = acknowledged else { unreachable!("five kinds") };
    let rolled_back = new_order.rolled_back as i64;
    let orders = new_order.replies as i64 - rolled_back;
    let counted =
        TransactionKind::ALL.iter().zip(acknowledged).filter(|(kind, _)| counting.reads || kind.writes());
    let replies: u64 = counted.map(|(_, kind)| kind.replies).sum();
    // A procedure that rolls back ends in an empty transaction, which commits.
    let all = match round_trip {
        RoundTrip::Transaction => replies,
        RoundTrip::Statement => replies - new_order.rolled_back,
    };
    let set_up = users as u64 * counting.per_user + counting.control;
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
        "payments": compare("payments", after.history - before.history, payment.replies as i64),
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
        "set_up_meaning": "transactions of the driver itself: its users publish their counts, and they are read",
        "counted": if counting.reads { "all transactions" } else { "transactions that may write" },
        "others": other,
        "autovacuum": has_others,
    });
    if other < 0 || other > 0 && !has_others {
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

    const SERVER: Counting = Counting { reads: true, per_user: 1, control: 2 };

    fn judged(after: Snapshot, round_trip: RoundTrip, has_others: bool) -> (Value, Vec<String>) {
        judge(BEFORE, after, &told(), 4, round_trip, SERVER, has_others)
    }

    fn told() -> Vec<Counts> {
        let mut counts = vec![Counts::default(); 5];
        counts[0] = Counts { replies: 10, rolled_back: 1, ..Counts::default() };
        counts[1].replies = 8;
        counts[3] = Counts { replies: 2, delivered: 6, ..Counts::default() };
        counts
    }

    const BEFORE: Snapshot =
        Snapshot { next_orders: 100, history: 50, new_orders: 20, commits: 1000, rollbacks: 3 };
    /// 9 orders, 8 payments, 9 - 6 undelivered, 20 acknowledged + 4 users + 2 control, 1 rollback.
    const AFTER: Snapshot =
        Snapshot { next_orders: 109, history: 58, new_orders: 23, commits: 1026, rollbacks: 4 };

    #[test]
    fn agreement_has_no_problems() {
        let (report, problems) = judged(AFTER, RoundTrip::Transaction, false);
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
            let (_, problems) = judged(after, RoundTrip::Transaction, false);
            assert!(problems.len() == 1 && problems[0].contains(word), "{word}: {problems:?}");
        }
    }

    #[test]
    fn a_rolled_back_transaction_of_statements_does_not_commit() {
        let one_fewer = Snapshot { commits: 1025, ..AFTER };
        assert!(judged(one_fewer, RoundTrip::Statement, false).1.is_empty());
        assert_eq!(judged(AFTER, RoundTrip::Statement, false).1.len(), 1);
    }

    #[test]
    fn autovacuum_may_add_commits_but_never_remove_any() {
        let more = Snapshot { commits: 1040, ..AFTER };
        assert!(judged(more, RoundTrip::Transaction, true).1.is_empty());
        let fewer = Snapshot { commits: 1020, ..AFTER };
        assert_eq!(judged(fewer, RoundTrip::Transaction, true).1.len(), 1);
    }
}
