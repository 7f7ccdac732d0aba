//! A run of the shop: its mix, its counts, its report.

use serde_json::{json, Value};

use super::browser::ENDS;
use super::mix::{Interaction, Mix};
use super::names::Size;
use super::shopper::{Deeds, Habits, Shopper};
use super::NOTICE;
use crate::crew::Plan;
use crate::report::{self, About};
use crate::visit::{consistent, visit, Site, Visited};
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
    /// Who is visited.
    pub site: Site<'a>,
}

/// Counts for the conditions of the shop's database: the population's, and what was done since.
pub fn counts(size: Size, done: Deeds) -> [(&'static str, u64); 6] {
    [
        ("size_items", u64::from(size.items)),
        ("size_authors", u64::from(size.authors())),
        ("size_customers", u64::from(size.customers())),
        ("size_orders", u64::from(size.orders())),
        ("done_orders", done.orders),
        ("done_customers", done.customers),
    ]
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
    let connect = |index| Shopper::connect(shop.habits, index, index < shop.second_connections);
    let Visited { mut done, deeds, seen } = visit(shop.site, plan, KINDS.len(), connect)?;
    let tallied = Interaction::ALL.map(|kind| done.tallies[kind as usize - 1].count);
    let (mix, problems) = judged(shop.habits.mix, tallied);
    done.problems.extend(problems);
    let found = consistent(shop.site, &counts(shop.habits.size, deeds), &mut done);
    let about = About {
        workload: "ecommerce",
        notice: NOTICE,
        kinds: &KINDS,
        options: json!({
            "mix": shop.mix,
            "think_scale": shop.habits.think_scale,
            "second_connections": shop.second_connections,
            "pipelining": shop.habits.pipelining,
        }),
        scale: json!(shop.habits.size),
    };
    let mut report = report::json(&about, &plan, &done, &seen);
    report["mix"] = mix;
    report["orders_placed"] = json!(deeds.orders);
    report["customers_entered"] = json!(deeds.customers);
    report["conditions"] = json!(found);
    Ok(report)
}
