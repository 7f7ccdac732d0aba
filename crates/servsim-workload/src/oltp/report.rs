//! The report of a run: JSON (schema `servsim.workload.run/1`) and the same as a short text.

use std::hash::Hasher;

use serde_json::{json, Map, Value};

use super::engine::Session;
use super::load::Made;
use super::request::{Generator, TransactionKind};
use super::run::{Options, Warehouses};
use super::settling::WarmUp;
use super::user::{Counts, Tally, User};
use crate::cpu::Times;
use crate::latency::milliseconds;
use crate::log::Log;

/// Everything a report is made of.
#[derive(Debug)]
pub struct Measured<'a, S> {
    /// Name of the engine.
    pub engine: &'static str,
    /// How users behaved.
    pub options: &'a Options,
    /// How the database was made.
    pub made: &'a Made,
    /// The constants of the run.
    pub generator: &'a Generator,
    /// The users after the run.
    pub users: &'a [&'a User<S>],
    /// Users whose connection stands.
    pub live: usize,
    /// Duration of the measurement.
    pub seconds: f64,
    /// Measured replies by kind.
    pub tallies: &'a [Tally],
    /// All replies of the phase whose processor time was taken.
    pub replies: u64,
    /// Replies by kind including the warm-up.
    pub acknowledged: &'a [Counts],
    /// Transactions by window of the measurement; null if not asked for.
    pub windows: Value,
    /// Processor time of the measurement.
    pub cpu: Times,
    /// Marks executed.
    pub marks: Value,
    /// Server against clients.
    pub reconciliation: Value,
    /// Why the run is not valid; empty if it is.
    pub problems: Vec<String>,
}

/// The report as JSON.
pub fn run<S: Session>(measured: &Measured<'_, S>) -> Value {
    let options = measured.options;
    let total: u64 = measured.tallies.iter().map(|tally| tally.counts.replies).sum();
    let new_orders = measured.tallies[0].counts.replies;
    let per_second = |count: u64| if measured.seconds > 0.0 { count as f64 / measured.seconds } else { 0.0 };
    json!({
        "schema": "servsim.workload.run/1",
        "workload": "oltp",
        "notice": super::NOTICE,
        "engine": measured.engine,
        "valid": measured.problems.is_empty(),
        "problems": measured.problems,
        "scale": measured.made.scale,
        "load_seed": measured.made.seed,
        "constants": {"a": measured.generator.a, "c_load": measured.made.c_load, "c_run": measured.generator.c},
        "options": {
            "users": options.users,
            "seed": options.seed,
            "warm_up_transactions": match options.warm_up {
                WarmUp::Transactions(count) => json!(count),
                WarmUp::Settled => json!("settle"),
            },
            "mix": format!("{:?}", options.mix).to_lowercase(),
            "warehouses": if options.warehouses == Warehouses::Home { "home" } else { "random" },
            "think_scale": options.think_scale,
            "round_trip": options.round_trip.name(),
        },
        "live_users": measured.live,
        "elapsed_seconds": measured.seconds,
        "transactions": total,
        "transactions_per_second": per_second(total),
        "tpm_c": per_second(new_orders) * 60.0,
        "tpm_c_counts": "completed New-Order transactions, the rolled-back ones included",
        "kinds": kinds(measured.tallies, total),
        "windows": measured.windows,
        "client_cpu": measured.cpu.report(measured.replies),
        "acknowledged": acknowledged(measured.acknowledged),
        "marks": measured.marks,
        "reconciliation": measured.reconciliation,
        "request_log_hash": format!("{:016x}", all_logs(measured.users)),
        "users": measured.users.iter().copied().map(user).collect::<Vec<_>>(),
    })
}

fn user<S: Session>(user: &User<S>) -> Value {
    json!({
        "user": user.index,
        "server_process": user.session.process(),
        "transactions": user.done,
        "request_log_hash": format!("{:016x}", user.log.0),
    })
}

fn all_logs<S>(users: &[&User<S>]) -> u64 {
    let mut hash = Log::default();
    for user in users {
        hash.write_u64(user.log.0);
    }
    hash.0
}

fn kinds(tallies: &[Tally], total: u64) -> Value {
    let mut kinds = Map::new();
    for (kind, tally) in TransactionKind::ALL.iter().zip(tallies) {
        let Counts { replies, rolled_back, .. } = tally.counts;
        let share = if total > 0 { replies as f64 / total as f64 } else { 0.0 };
        let entry = json!({
            "count": replies,
            "share": share,
            "rolled_back": rolled_back,
            "latency_ms": milliseconds(&tally.latency),
        });
        kinds.insert(kind.name().to_owned(), entry);
    }
    Value::Object(kinds)
}

fn acknowledged(counts: &[Counts]) -> Value {
    json!({
        "meaning": "replies read since the users connected, warm-up included",
        "new_orders": counts[0].replies - counts[0].rolled_back,
        "payments": counts[1].replies,
        "delivered_orders": counts[3].delivered,
        "transactions": counts.iter().map(|kind| kind.replies).sum::<u64>(),
    })
}

/// The report as text for a person.
pub fn text(report: &Value) -> String {
    let mut out = format!("{}\n", super::NOTICE);
    let float = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let scale = &report["scale"];
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!(
        "{} warehouses x {} districts x {} customers, {} items; {} users, seed {}",
        scale["warehouses"],
        scale["districts"],
        scale["customers"],
        scale["items"],
        report["options"]["users"],
        report["options"]["seed"]
    ));
    line(format!(
        "{} transactions in {:.2} s: {:.0} a second, tpmC {:.0}",
        report["transactions"],
        float(&report["elapsed_seconds"]),
        float(&report["transactions_per_second"]),
        float(&report["tpm_c"])
    ));
    line("kind            count   share  rolled back    p50 ms    p95 ms    p99 ms    max ms".to_owned());
    for (name, kind) in report["kinds"].as_object().into_iter().flatten() {
        let latency = &kind["latency_ms"];
        line(format!(
            "{name:<13} {:>7} {:>6.1}% {:>12} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
            kind["count"].as_u64().unwrap_or(0),
            float(&kind["share"]) * 100.0,
            kind["rolled_back"].as_u64().unwrap_or(0),
            float(&latency["p50"]),
            float(&latency["p95"]),
            float(&latency["p99"]),
            float(&latency["max"])
        ));
    }
    let cpu = &report["client_cpu"];
    if let Some(ratio) = cpu["ratio"].as_f64() {
        line(format!(
            "client CPU {:.1} % of the server's, {:.1} us a transaction",
            ratio * 100.0,
            float(&cpu["client_microseconds_per_transaction"])
        ));
    }
    let commits = &report["reconciliation"]["commits"];
    if commits.is_object() {
        line(format!(
            "server counted {} commits = {} acknowledged + {} of the driver + {} others",
            commits["server"], commits["clients"], commits["set_up_constant"], commits["others"]
        ));
    }
    for problem in report["problems"].as_array().into_iter().flatten() {
        line(format!("NOT VALID: {}", problem.as_str().unwrap_or_default()));
    }
    out
}
