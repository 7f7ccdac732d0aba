//! Every request goes to all nodes.

use super::{AtHome, Made, Policy, Reach};
use servsim_core::NodeId;

#[derive(Debug)]
struct Snooping;

pub(super) fn policy(_: &Made<'_>) -> Box<dyn Policy> {
    Box::new(Snooping)
}

impl Policy for Snooping {
    fn at_home(&self) -> AtHome {
        AtHome::Nothing
    }

    fn reach(&mut self, _asker: NodeId, _now: u64) -> Reach {
        Reach::Everybody
    }
}
