//! A run of the static site and its report.

use serde_json::{json, Value};

use super::files::Set;
use super::visitor::{Sample, Visitor, KINDS, ONE_IN};
use super::NOTICE;
use crate::crew::Plan;
use crate::report::{self, About};
use crate::visit::{visit, Site, Visited};
use crate::{Error, Result};

/// What a run needs beside its plan.
#[derive(Clone, Copy, Debug)]
pub struct StaticSite<'a> {
    /// Who is visited.
    pub site: Site<'a>,
    /// The file set that it serves.
    pub set: &'a Set,
    /// Factor on the published OFF times.
    pub off_scale: f64,
    /// Whether users ask for all references of a page at once; with OFF times each waits for its own.
    pub pipelining: bool,
}

/// Runs, and returns the report; an error of a user makes it invalid.
///
/// # Errors
/// When the server does not answer at the beginning.
pub fn run(visited: StaticSite<'_>, plan: Plan<'_>) -> Result<Value> {
    let pages = visited.set.sequence.page_count();
    if plan.users as usize > pages {
        return Err(Error::Usage(format!(
            "{} users are more than the {pages} pages of the file set",
            plan.users
        )));
    }
    let sample = Sample::of(visited.set);
    let connect = |index| Visitor::connect(visited, &sample, index as usize, plan.users as usize);
    let Visited { done, deeds, seen } = visit(visited.site, plan, KINDS.len(), connect)?;
    let about = About {
        workload: "staticweb",
        notice: NOTICE,
        kinds: &KINDS,
        options: json!({"off_scale": visited.off_scale, "pipelining": visited.pipelining}),
        scale: json!(visited.set.wanted),
    };
    let mut report = report::json(&about, &plan, &done, &seen);
    report["contents"] = contents(deeds, seen.requests);
    Ok(report)
}

/// How many of all replies were looked at in full, and which.
pub fn contents(looked_at: u64, replies: u64) -> Value {
    let rule = format!("the first reply for each file, and one in {ONE_IN}");
    json!({"compared_with_checksums": looked_at, "replies": replies, "rule": rule})
}
