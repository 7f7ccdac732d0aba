//! A run of the board: its mix, its counts, its report.

use serde_json::{json, Value};

use super::member::{Deeds, Habits, Member};
use super::mix::{Request, KINDS};
use super::size::{Size, SECTIONS};
use super::NOTICE;
use crate::crew::Plan;
use crate::report::{self, About};
use crate::visit::{consistent, visit, Site, Visited};
use crate::Result;

/// What a run needs beside its plan.
#[derive(Clone, Copy, Debug)]
pub struct Board<'a> {
    /// What the users have in common.
    pub habits: Habits<'a>,
    /// Of a hundred requests, how many write.
    pub writes: u64,
    /// Who is visited.
    pub site: Site<'a>,
}

/// Counts for the conditions of the board's database: the population's, and what was done since.
pub fn counts(size: Size, done: Deeds) -> [(&'static str, u64); 8] {
    [
        ("size_sections", u64::from(SECTIONS)),
        ("size_stories", u64::from(size.stories)),
        ("size_comments", u64::from(size.comments)),
        ("size_members", u64::from(size.members)),
        ("done_stories", done.stories),
        ("done_comments", done.comments),
        ("done_members", done.members),
        ("done_moderations", done.moderations),
    ]
}

/// What users have done, for the report.
pub fn told(done: Deeds) -> Value {
    json!({"comments": done.comments, "stories": done.stories, "members": done.members, "moderations": done.moderations})
}

/// Runs, and returns the report; an error of a user makes it invalid.
///
/// # Errors
/// When the server does not answer at the beginning.
pub fn run(board: Board<'_>, plan: Plan<'_>) -> Result<Value> {
    let habits = board.habits;
    let connect = |index| Member::connect(habits, index);
    let Visited { mut done, deeds, seen } = visit(board.site, plan, KINDS.len(), connect)?;
    let tallied = Request::ALL.map(|request| done.tallies[request as usize - 1].count);
    let (mix, problems) = habits.mix.judged(tallied);
    done.problems.extend(problems);
    let found = consistent(board.site, &counts(habits.size, deeds), &mut done);
    let about = About {
        workload: "board",
        notice: NOTICE,
        kinds: &KINDS,
        options: json!({"writes": board.writes, "think_scale": habits.think_scale}),
        scale: json!(habits.size),
    };
    let mut report = report::json(&about, &plan, &done, &seen);
    report["mix"] = mix;
    report["posted"] = told(deeds);
    report["conditions"] = json!(found);
    Ok(report)
}
