//! A run as every web workload has it: connect the users, let them work, look at what they and the server have counted,
//! and ask the database whether it is consistent.

use std::path::Path;

use serde_json::Value;

use crate::conditions::{asked, broken};
use crate::crew::{self, Done, Plan, User};
use crate::log::Log;
use crate::memory;
use crate::status::Counter;
use crate::Result;

/// A user that can be asked what it has done.
pub trait Visitor: User {
    /// What users have done together, warm-up included.
    type Deeds: Default;

    /// Hash of what it has asked for in the measurement's requests.
    fn log(&self) -> Log;

    /// Adds what it has done.
    fn tell(&self, deeds: &mut Self::Deeds);

    /// Requests that were answered.
    fn requests(&self) -> u64;
}

/// Who is visited.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The server (`HOST:PORT`).
    pub address: &'a str,
    /// Whether it is asked how many requests it has answered.
    pub counts: bool,
    /// The program that asks the database whether it is consistent; see [`crate::conditions`].
    pub consistency: Option<&'a Path>,
    /// The program that tells what lies where in memory; see [`crate::memory`].
    pub memory: Option<&'a Path>,
}

/// What was seen of a run beside the measurement.
#[derive(Debug)]
pub struct Seen {
    /// Hashes of what each user asked for.
    pub logs: Vec<u64>,
    /// Requests that the users have had answered, warm-up included: a transaction may take several.
    pub requests: u64,
    /// Requests that the server has counted; none if it was not asked.
    pub counted: Option<u64>,
    /// What lies where in the memory that the server's processes share, as a trace describes it; null if nobody was asked.
    pub data: Value,
}

/// What came of a visit.
#[derive(Debug)]
pub struct Visited<D> {
    /// The run.
    pub done: Done,
    /// What the users have done together.
    pub deeds: D,
    /// What else was seen.
    pub seen: Seen,
}

/// Lets the users of a plan visit a site.
///
/// # Errors
/// When the server does not answer at the beginning, or the program of its memory fails.
pub fn visit<V: Visitor>(
    site: Site<'_>,
    plan: Plan<'_>,
    kinds: usize,
    connect: impl Fn(u64) -> Result<V>,
) -> Result<Visited<V::Deeds>> {
    let mut counter = if site.counts { Some(Counter::connect(site.address)?) } else { None };
    let before = counter.as_mut().map_or(Ok(0), Counter::requests)?;
    site.memory.map(memory::keep).transpose()?;
    let mut users: Vec<V> = (0..plan.users).map(connect).collect::<Result<_>>()?;
    let mut done = crew::run(plan, kinds, &mut users);
    let mut deeds = V::Deeds::default();
    users.iter().for_each(|user| user.tell(&mut deeds));
    let requests = users.iter().map(Visitor::requests).sum();
    // The users' connections are closed here: a server may count a connection's last request only then.
    let logs = users.into_iter().map(|user| user.log().0).collect();
    let counted = match counter.as_mut().map(|counter| counter.settled(before, requests)).transpose() {
        Ok(found) => found,
        Err(error) => {
            done.problems.push(error.to_string());
            None
        }
    };
    let data = site.memory.map(memory::described).transpose()?.unwrap_or_default();
    Ok(Visited { done, deeds, seen: Seen { logs, requests, counted, data } })
}

/// The conditions that a site's program asks of the database behind a run ([`asked`]), and what is wrong among the run's problems. Nothing
/// is asked where that was not ordered, or of a run that broke off: what became of its last transactions is not known.
pub fn consistent(site: Site<'_>, counts: &[(&str, u64)], done: &mut Done) -> Vec<Value> {
    let wanted = done.orders.is_none_or(|orders| orders.check) && done.problems.is_empty();
    let Some(program) = site.consistency.filter(|_| wanted) else { return Vec::new() };
    match asked(program, counts) {
        Ok(found) => {
            done.problems.extend(broken(&found));
            found
        }
        Err(error) => {
            done.problems.push(error.to_string());
            Vec::new()
        }
    }
}
