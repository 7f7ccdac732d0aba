//! Draining: a node that is to leave the machine, or its partition, gives up its pages, so many in each interval, each to
//! the nearest other node with room. Its memory has no room for new pages from the first interval's end on. Its processors
//! go on, as kernels take memory away before processors.

use super::{Made, Pages, Policy, Touch, Turns, Wish};
use servsim_core::NodeId;

#[derive(Debug)]
struct Drain {
    node: NodeId,
    pages: usize,
    turns: Turns,
}

pub(super) fn policy(made: &Made<'_>) -> Box<dyn Policy> {
    let spec = made.spec;
    let node =
        spec.drained.unwrap_or_else(|| unreachable!("descriptions without a node to drain are refused"));
    Box::new(Drain { node, pages: spec.pages, turns: Turns::every(spec.interval) })
}

impl Policy for Drain {
    fn touched(&mut self, _: &Touch) -> Option<Wish> {
        None
    }

    fn in_background(&mut self, now: u64, pages: &mut Pages) -> Vec<(u64, NodeId)> {
        if !self.turns.is_due(now) {
            return Vec::new();
        }
        pages.close(self.node);
        let mut leaving: Vec<u64> =
            pages.placed().filter(|&(_, node)| node == self.node).map(|(page, _)| page).collect();
        leaving.sort_unstable();
        leaving.truncate(self.pages);
        let mut rooms: Vec<(NodeId, u64)> =
            pages.nearest(self.node).map(|node| (node, pages.room(node))).collect();
        let takes = |page| {
            let (node, room) = rooms.iter_mut().find(|(_, room)| *room > 0)?;
            *room -= 1;
            Some((page, *node))
        };
        leaving.into_iter().map_while(takes).collect()
    }
}
