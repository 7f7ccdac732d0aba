//! The report of a run of a web workload: JSON (schema `servsim.workload.run/1`) and the same as text.

use std::fmt::Write;

use serde_json::{json, Map, Value};
use servsim_driver::latency::milliseconds;

use crate::crew::{Done, Plan, Tally, Then};
use crate::visit::Seen;

/// What a report says beside what the users did.
#[derive(Clone, Debug)]
pub struct About {
    /// Name of the workload.
    pub workload: &'static str,
    /// What it is, and what it is not.
    pub notice: &'static str,
    /// Names of the kinds of transactions.
    pub kinds: &'static [&'static str],
    /// Options of the run that only this workload has.
    pub options: Value,
    /// Size of the data.
    pub scale: Value,
}

/// The report as JSON.
pub fn json(about: &About, plan: &Plan<'_>, done: &Done, seen: &Seen) -> Value {
    let mut problems = done.problems.clone();
    if let Some(counted) = seen.counted.filter(|&counted| counted != seen.requests) {
        problems
            .push(format!("the server has counted {counted} requests, the users {} replies", seen.requests));
    }
    let total: u64 = done.tallies.iter().map(|tally| tally.count).sum();
    let bytes: u64 = done.tallies.iter().map(|tally| tally.bytes).sum();
    let seconds = done.measured.map_or(0.0, |(elapsed, _)| elapsed.as_secs_f64());
    let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
    let mut options = json!({"users": plan.users, "seed": plan.seed, "warm_up_transactions": plan.warm_up});
    if let (Some(options), Some(more)) = (options.as_object_mut(), about.options.as_object()) {
        options.extend(more.clone());
    }
    let mut report = json!({
        "schema": "servsim.workload.run/1",
        "workload": about.workload,
        "notice": about.notice,
        "valid": problems.is_empty(),
        "problems": problems,
        "scale": about.scale,
        "options": options,
        "elapsed_seconds": seconds,
        "transactions": total,
        "transactions_per_second": per_second(total),
        "bytes": bytes,
        "bytes_per_second": per_second(bytes),
        "bytes_per_transaction": bytes as f64 / total.max(1) as f64,
        "kinds": kinds(about.kinds, &done.tallies, total),
        "client_cpu": done.measured.map(|(_, times)| times.report(total)),
        "marks": done.marks,
        "reconciliation": {"replies": seen.requests, "server_requests": seen.counted},
        "request_log_hashes": seen.logs.iter().map(|log| format!("{log:016x}")).collect::<Vec<_>>(),
    });
    if !seen.data.is_null() {
        report["data"] = seen.data.clone();
    }
    if let (Then::Saved(_), Some(orders)) = (plan.then, done.orders) {
        report["orders"] = json!(orders);
        report["lead_in_transactions"] = json!(orders.lead_in(plan.users));
    }
    report
}

fn kinds(names: &[&str], tallies: &[Tally], total: u64) -> Value {
    let entry = |tally: &Tally| {
        json!({
            "count": tally.count,
            "share": tally.count as f64 / total.max(1) as f64,
            "bytes": tally.bytes,
            "latency_ms": milliseconds(&tally.latency),
        })
    };
    names
        .iter()
        .zip(tallies)
        .map(|(name, tally)| ((*name).to_owned(), entry(tally)))
        .collect::<Map<_, _>>()
        .into()
}

/// The report as text for a person.
pub fn text(report: &Value) -> String {
    let float = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a text takes any line");
    line(report["notice"].as_str().unwrap_or_default().to_owned());
    line(format!("{} users, seed {}", report["options"]["users"], report["options"]["seed"]));
    line(format!(
        "{} transactions in {:.2} s: {:.0} a second, {:.1} MB a second, {:.0} bytes each",
        report["transactions"],
        float(&report["elapsed_seconds"]),
        float(&report["transactions_per_second"]),
        float(&report["bytes_per_second"]) / 1e6,
        float(&report["bytes_per_transaction"])
    ));
    line("kind                    count   share    p50 ms    p95 ms    p99 ms    max ms".to_owned());
    for (name, kind) in report["kinds"].as_object().into_iter().flatten() {
        let latency = &kind["latency_ms"];
        line(format!(
            "{name:<21} {:>7} {:>6.1}% {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
            kind["count"].as_u64().unwrap_or(0),
            float(&kind["share"]) * 100.0,
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
    if let Some(counted) = report["reconciliation"]["server_requests"].as_u64() {
        line(format!(
            "server counted {counted} requests, users {} replies",
            report["reconciliation"]["replies"]
        ));
    }
    for problem in report["problems"].as_array().into_iter().flatten() {
        line(format!("NOT VALID: {}", problem.as_str().unwrap_or_default()));
    }
    out
}
