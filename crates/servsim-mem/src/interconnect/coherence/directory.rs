//! Every request goes to the home of its line, which forwards it to the owner and invalidates the sharers. These
//! messages travel in the one order too, so that nobody acknowledges an invalidation: an asker that has seen its own
//! request come back knows that all others see it before anything later (docs/adr/0333).

use super::{AtHome, Made, Policy, Reach};
use servsim_core::NodeId;

#[derive(Debug)]
struct Directory;

pub(super) fn policy(_: &Made<'_>) -> Box<dyn Policy> {
    Box::new(Directory)
}

impl Policy for Directory {
    fn at_home(&self) -> AtHome {
        AtHome::Forwards
    }

    fn reach(&mut self, _asker: NodeId, _now: u64) -> Reach {
        Reach::Home
    }
}
