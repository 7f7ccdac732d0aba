//! A run of the shop: connect the users, let them work, ask the server for its count and the database whether it is
//! consistent, report.

use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};

use super::browser::ENDS;
use super::mix::{Interaction, Mix};
use super::names::Size;
use super::shopper::{Deeds, Habits, Shopper};
use super::NOTICE;
use crate::crew::{self, Plan};
use crate::report::{self, About};
use crate::status::Counter;
use crate::{Error, Result};

/// Names of the kinds of transactions.
pub const KINDS: [&str; 14] = [
    "Home",
    "New-Products",
    "Best-Sellers",
    "Product-Detail",
    "Search-Request",
    "Search-Results",
    "Shopping-Cart",
    "Customer-Registration",
    "Buy-Request",
    "Buy-Confirm",
    "Order-Inquiry",
    "Order-Display",
    "Admin-Request",
    "Admin-Confirm",
];
/// So many standard deviations the count of a kind may be off: of ten million runs, one is refused by chance.
const LIMIT: f64 = 5.5;

/// What a run needs beside its plan.
#[derive(Clone, Copy, Debug)]
pub struct Shop<'a> {
    /// What the users have in common.
    pub habits: Habits<'a>,
    /// Name of the mix.
    pub mix: &'a str,
    /// How many users fetch images by a second connection.
    pub second_connections: u64,
    /// Whether the server is asked how many requests it has counted.
    pub counts: bool,
    /// The program that asks the database; see [`conditions`].
    pub consistency: Option<&'a Path>,
}

/// Asks the database whether it is consistent, by a program that prints a line for each condition: its name, how many rows
/// break it, and what it means, separated by tabs. It finds what the population was and what was done since in its
/// environment: `servsim_size_NAME`, `servsim_done_orders`, `servsim_done_customers`.
///
/// # Errors
/// [`Error::Environment`] when the program fails.
pub fn conditions(program: &Path, size: Size, done: Deeds) -> Result<Vec<Value>> {
    let failed =
        |why: String| Error::Environment(format!("{} did not check the database: {why}", program.display()));
    let counts = [
        ("size_items", u64::from(size.items)),
        ("size_authors", u64::from(size.authors())),
        ("size_customers", u64::from(size.customers())),
        ("size_orders", u64::from(size.orders())),
        ("done_orders", done.orders),
        ("done_customers", done.customers),
    ];
    let counts = counts.map(|(name, count)| (format!("servsim_{name}"), count.to_string()));
    let output = Command::new(program).envs(counts).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.lines().last().unwrap_or("it says nothing").to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let (name, found, meaning) = (fields.next()?, fields.next()?.parse::<u64>().ok()?, fields.next()?);
        Some(json!({"condition": name, "meaning": meaning, "found": found, "limit": 0, "holds": found == 0}))
    };
    let conditions: Vec<Value> = text
        .lines()
        .map(|said| line(said).ok_or_else(|| failed(format!("{said:?} is no condition"))))
        .collect::<Result<_>>()?;
    if conditions.is_empty() {
        return Err(failed("it says nothing".to_owned()));
    }
    Ok(conditions)
}

/// A sentence for each condition that does not hold.
pub fn broken(conditions: &[Value]) -> Vec<String> {
    let broken = conditions.iter().filter(|condition| condition["holds"] != json!(true));
    let sentence = |condition: &Value| {
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        format!(
            "the condition {} does not hold: {} of: {}",
            text("condition"),
            condition["found"],
            text("meaning")
        )
    };
    broken.map(sentence).collect()
}

/// Judges the mix of a run.
pub fn judged(mix: &Mix, counts: [u64; 14]) -> (Value, Vec<String>) {
    let deviations = mix.deviations(counts, ENDS);
    let total: u64 = counts.iter().sum();
    let shares = mix.stationary();
    let mut problems = Vec::new();
    let mut entries = serde_json::Map::new();
    for (kind, name) in KINDS.into_iter().enumerate() {
        let share = counts[kind] as f64 / total.max(1) as f64 * 100.0;
        if total > 0 && deviations[kind].abs() > LIMIT {
            problems.push(format!(
                "{name} is {share:.2} % of the interactions, {:.1} standard deviations from its {:.2} %",
                deviations[kind], shares[kind]
            ));
        }
        let entry = json!({"percent": share, "stationary_percent": shares[kind], "standard_deviations": deviations[kind]});
        entries.insert(name.to_owned(), entry);
    }
    (entries.into(), problems)
}

/// Runs, and returns the report; an error of a user makes it invalid.
///
/// # Errors
/// When the server does not answer at the beginning.
pub fn run(shop: Shop<'_>, plan: Plan<'_>) -> Result<Value> {
    if shop.second_connections > plan.users {
        return Err(Error::Usage(format!(
            "{} users cannot have {} second connections",
            plan.users, shop.second_connections
        )));
    }
    let address = shop.habits.address;
    let mut counter = if shop.counts { Some(Counter::connect(address)?) } else { None };
    let before = counter.as_mut().map_or(Ok(0), Counter::requests)?;
    let connect = |index| Shopper::connect(shop.habits, index, index < shop.second_connections);
    let mut shoppers: Vec<Shopper<'_>> = (0..plan.users).map(connect).collect::<Result<_>>()?;
    let mut done = crew::run(plan, KINDS.len(), &mut shoppers);
    let deeds = shoppers.iter().map(Shopper::deeds).fold(Deeds::default(), |sum, one| Deeds {
        requests: sum.requests + one.requests,
        orders: sum.orders + one.orders,
        customers: sum.customers + one.customers,
    });
    // The users' connections are closed here: a server may count a connection's last request only then.
    let logs = shoppers.into_iter().map(|shopper| shopper.log().0).collect();
    let mut counted = None;
    match counter.as_mut().map(|counter| counter.settled(before, deeds.requests)).transpose() {
        Ok(found) => counted = found,
        Err(error) => done.problems.push(error.to_string()),
    }
    let counts = Interaction::ALL.map(|kind| done.tallies[kind as usize - 1].count);
    let (mix, problems) = judged(shop.habits.mix, counts);
    done.problems.extend(problems);
    let wanted = done.orders.is_none_or(|orders| orders.check);
    let mut found = Vec::new();
    // What became of a run that broke off is not known to the last order.
    if let Some(program) = shop.consistency.filter(|_| wanted && done.problems.is_empty()) {
        match conditions(program, shop.habits.size, deeds) {
            Ok(conditions) => found = conditions,
            Err(error) => done.problems.push(error.to_string()),
        }
        done.problems.extend(broken(&found));
    }
    let about = About {
        workload: "ecommerce",
        notice: NOTICE,
        kinds: &KINDS,
        options: json!({
            "mix": shop.mix,
            "think_scale": shop.habits.think_scale,
            "second_connections": shop.second_connections,
        }),
        scale: json!(shop.habits.size),
        logs,
        replies: deeds.requests,
        counted,
    };
    let mut report = report::json(&about, &plan, &done);
    report["mix"] = mix;
    report["orders_placed"] = json!(deeds.orders);
    report["customers_entered"] = json!(deeds.customers);
    report["conditions"] = json!(found);
    Ok(report)
}
