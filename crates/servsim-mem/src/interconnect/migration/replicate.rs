//! Replication of pages that are only read, program text above all: a node that asked so often for lines of a page that
//! lies elsewhere gets a copy of its own, and who asked waits for that. The first write that is seen drops all copies, and
//! the page never gets any again, as a kernel would take the write's fault on a mapping that forbids it. Linux was given
//! this for text by patches (arm64, 2023); Verghese et al. (ASPLOS 1996) replicated by counts of misses as here. A write to
//! a line that a cache holds alone asks nobody, so it is seen when the line is next asked for or written back.

use super::{Made, Policy, Touch, Wish};
use servsim_core::source::PageHash;
use servsim_core::NodeId;
use std::collections::HashMap;

#[derive(Debug)]
struct Replicate {
    threshold: u64,
    /// By page that nobody was seen to write, requests of each node that it does not lie in; none of others.
    asked: HashMap<u64, Option<Vec<u64>>, PageHash>,
    nodes: usize,
}

pub(super) fn policy(made: &Made<'_>) -> Box<dyn Policy> {
    let (threshold, nodes) = (made.spec.hot_threshold, made.has_processors.len());
    Box::new(Replicate { threshold, asked: HashMap::default(), nodes })
}

impl Policy for Replicate {
    fn touched(&mut self, touch: &Touch) -> Option<Wish> {
        let asked = self.asked.entry(touch.page).or_insert_with(|| Some(vec![0; self.nodes]));
        if touch.write {
            *asked = None;
            return Some(Wish::DropCopies);
        }
        let NodeId(node) = touch.asker;
        let count = &mut asked.as_mut()?[node];
        *count += u64::from(touch.asker != touch.home);
        (*count == self.threshold).then_some(Wish::CopyTo(touch.asker)).filter(|_| touch.asker != touch.home)
    }

    fn sees_write_backs(&self) -> bool {
        true
    }
}
