//! Next touch: every interval all pages are marked, and the first processor that asks for a line of a marked page
//! takes it to its node, and waits for that. So data follow the tasks that use them, as Linux does with the marks of its
//! automatic balancing, and Solaris with those that programs set (`madvise` with `MADV_ACCESS_LWP`). Left out: that both
//! see hits in caches too.

use super::{Made, Policy, Touch, Wish};
use servsim_core::source::PageHash;
use servsim_core::Cycles;
use std::collections::HashMap;

#[derive(Debug)]
struct NextTouch {
    interval: Cycles,
    /// By page, the interval in which it was last asked for.
    asked: HashMap<u64, u64, PageHash>,
}

pub(super) fn policy(made: &Made<'_>) -> Box<dyn Policy> {
    Box::new(NextTouch { interval: made.spec.interval, asked: HashMap::default() })
}

impl Policy for NextTouch {
    fn touched(&mut self, touch: &Touch) -> Option<Wish> {
        let interval = touch.now / self.interval.0;
        // One that nobody asked for so far has just got its node.
        let before = self.asked.insert(touch.page, interval).unwrap_or(interval);
        (before < interval).then_some(Wish::MoveTo(touch.asker))
    }
}
