//! A run of the static site: connect the users, let them work as planned, ask the server for its count, report.

use serde_json::{json, Value};

use super::files::Set;
use super::visitor::{Off, Visitor, KINDS};
use super::NOTICE;
use crate::crew::{self, Plan};
use crate::report::{self, About};
use crate::status::Counter;
use crate::{Error, Result};

/// What a run needs beside its plan.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The server (`HOST:PORT`).
    pub address: &'a str,
    /// The file set that it serves.
    pub set: &'a Set,
    /// Factor on the published OFF times.
    pub off_scale: f64,
    /// Whether the server is asked how many requests it has counted.
    pub counts: bool,
}

/// Runs, and returns the report; an error of a user makes it invalid.
///
/// # Errors
/// When the server does not answer at the beginning.
pub fn run(site: Site<'_>, plan: Plan<'_>) -> Result<Value> {
    let pages = site.set.sequence.page_count();
    if plan.users as usize > pages {
        return Err(Error::Usage(format!(
            "{} users are more than the {pages} pages of the file set",
            plan.users
        )));
    }
    let mut counter = if site.counts { Some(Counter::connect(site.address)?) } else { None };
    let before = counter.as_mut().map_or(Ok(0), Counter::requests)?;
    let off = Off::scaled(site.off_scale);
    let connect = |index| Visitor::connect(site.address, site.set, index, plan.users as usize, off);
    let mut visitors: Vec<Visitor<'_>> = (0..plan.users as usize).map(connect).collect::<Result<_>>()?;
    let mut done = crew::run(plan, KINDS.len(), &mut visitors);
    // The users' connections are closed here: a server may count a connection's last request only then.
    let logs = visitors.into_iter().map(|visitor| visitor.log().0).collect();
    let counted = match counter.as_mut().map(|counter| counter.settled(before, done.replies)) {
        Some(Ok(counted)) => Some(counted),
        Some(Err(error)) => {
            done.problems.push(error.to_string());
            None
        }
        None => None,
    };
    let about = About {
        workload: "staticweb",
        notice: NOTICE,
        kinds: &KINDS,
        options: json!({"off_scale": site.off_scale}),
        scale: json!(site.set.wanted),
        logs,
        replies: done.replies,
        counted,
    };
    Ok(report::json(&about, &plan, &done))
}
