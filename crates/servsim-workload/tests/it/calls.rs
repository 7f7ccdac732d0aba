//! The users' own messages to the server, on a real one.

use servsim_workload::oltp::engine::Engine as _;
use servsim_workload::oltp::postgres::calls::CallError;
use tokio_postgres::types::ToSql;

use crate::common::Cluster;

#[test]
fn a_refusal_leaves_the_connection_to_both_its_users() {
    let cluster = Cluster::loaded(1);
    Cluster::block_on(async {
        let (client, calls) = cluster.server().connect_for_calls().await.unwrap();
        let divide = calls.prepare("SELECT 84 / $1::int, NULL::text, repeat('x', 100000)").unwrap();
        let by = |divisor: i32| calls.execute(&divide, &[&divisor as &(dyn ToSql + Sync)]);

        let refused = by(0).unwrap_err();
        assert!(matches!(&refused, CallError::Refused { code, .. } if code == "22012"), "{refused}");
        let unfit = calls.execute(&divide, &[]).unwrap_err();
        assert_eq!(unfit.to_string(), "0 parameters for a statement of 1");
        let unfit = calls.execute(&divide, &[&"two" as &(dyn ToSql + Sync)]).unwrap_err();
        assert!(matches!(unfit, CallError::Unfit(_)), "{unfit}");

        // What the library asks in between meets a connection without a half-read reply.
        let row = client.query_one("SELECT 3", &[]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 3);
        let rows = by(2).unwrap();
        assert_eq!((rows.len(), rows[0].get::<i32>(0), rows[0].get::<Option<&str>>(1)), (1, 42, None));
        // Longer than what is read at once.
        assert_eq!(rows[0].get::<&str>(2).len(), 100_000);
        assert!(!calls.is_broken());
    });
}

#[test]
fn a_server_that_goes_away_is_noticed_at_the_next_call() {
    let cluster = Cluster::loaded(1);
    Cluster::block_on(async {
        let (_client, calls) = cluster.server().connect_for_calls().await.unwrap();
        let one = calls.prepare("SELECT 1").unwrap();
        let control = cluster.server().control().await.unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
        control.simple_query(end).await.unwrap();
        // The server's last words, that it ends the connection, may come first.
        while let Err(CallError::Refused { .. }) = calls.execute(&one, &[]) {}
        assert!(calls.is_broken());
    });
}
