//! Which node's memory a page lies in: decided when the page's first line is fetched, and kept.

use servsim_core::NodeId;
use std::collections::HashMap;

/// How a page gets its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePolicy {
    /// The node of the processor that fetches first.
    FirstTouch,
    /// The next node after that.
    Remote,
    /// Each node in turn, by the page's number.
    Striped,
    /// The first node, then the next.
    Fill,
}

/// Names in descriptions.
pub const PAGE_POLICIES: &[(&str, PagePolicy)] = &[
    ("first-touch", PagePolicy::FirstTouch),
    ("remote", PagePolicy::Remote),
    ("striped", PagePolicy::Striped),
    ("fill", PagePolicy::Fill),
];

/// The policy called `name`.
pub fn page_policy_by_name(name: &str) -> Option<PagePolicy> {
    PAGE_POLICIES.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
}

/// The pages of a machine.
#[derive(Debug)]
pub(super) struct Pages {
    policy: PagePolicy,
    stride: u64,
    /// Pages that each node has room for.
    room: Vec<u64>,
    /// By node, all others: itself, then the nearest first.
    nearest: Vec<Vec<usize>>,
    home: HashMap<u64, NodeId>,
    /// The node of the last page that had room.
    last: NodeId,
    /// Pages that no node had room for.
    pub without_room: u64,
}

impl Pages {
    /// No page lies anywhere yet; `room` is in pages, and `distances` are by sender and receiver.
    pub fn new(policy: PagePolicy, stride: u64, room: Vec<u64>, distances: &[Vec<u64>]) -> Self {
        let by_distance = |from: usize| {
            let mut nodes: Vec<usize> = (0..room.len()).collect();
            nodes.sort_by_key(|&node| (node != from, distances[from][node], node));
            nodes
        };
        let nearest = (0..room.len()).map(by_distance).collect();
        Self { policy, stride, room, nearest, home: HashMap::new(), last: NodeId(0), without_room: 0 }
    }

    /// The node of `page`, which a processor of node `asker` misses. Where its node has no room, it is the nearest
    /// to that one that has; where none has, the page lies where the last one found room.
    pub fn home(&mut self, page: u64, asker: NodeId) -> NodeId {
        if let Some(&node) = self.home.get(&page) {
            return node;
        }
        let nodes = self.room.len();
        let wanted = match self.policy {
            PagePolicy::FirstTouch => asker.0,
            PagePolicy::Remote => (asker.0 + 1) % nodes,
            PagePolicy::Striped => ((page / self.stride) % nodes as u64) as usize,
            PagePolicy::Fill => 0,
        };
        let in_order = |place: usize| match self.policy {
            PagePolicy::Fill => place,
            _ => self.nearest[wanted][place],
        };
        let found = (0..nodes).map(|place| NodeId(in_order(place))).find(|&node| self.room[node] > 0);
        let node = found.unwrap_or_else(|| {
            self.without_room += 1;
            self.last
        });
        self.room[node] = self.room[node].saturating_sub(1);
        self.last = node;
        self.home.insert(page, node);
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(policy: PagePolicy, stride: u64, room: &[u64]) -> Pages {
        let nodes = room.len();
        let away = |from: usize| (0..nodes).map(|to| from.abs_diff(to) as u64).collect();
        Pages::new(policy, stride, room.to_vec(), &(0..nodes).map(away).collect::<Vec<_>>())
    }

    /// Pages 0 to 7, asked for by nodes 2, 1, 0, 2, 1, 0, 2, 1.
    fn homes(policy: PagePolicy, stride: u64, room: &[u64]) -> Vec<usize> {
        let mut pages = pages(policy, stride, room);
        let first: Vec<usize> =
            (0..8).map(|page| pages.home(page, NodeId(2 - page as usize % 3)).0).collect();
        let again: Vec<usize> = (0..8).map(|page| pages.home(page, NodeId(0)).0).collect();
        assert_eq!(first, again, "a page stays where it is");
        first
    }

    #[test]
    fn policies_place_pages_as_they_are_named() {
        let endless = [u64::MAX; 3];
        assert_eq!(homes(PagePolicy::FirstTouch, 1, &endless), [2, 1, 0, 2, 1, 0, 2, 1]);
        assert_eq!(homes(PagePolicy::Remote, 1, &endless), [0, 2, 1, 0, 2, 1, 0, 2]);
        assert_eq!(homes(PagePolicy::Striped, 1, &endless), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(homes(PagePolicy::Striped, 2, &endless), [0, 0, 1, 1, 2, 2, 0, 0]);
        assert_eq!(homes(PagePolicy::Fill, 1, &[3, 1, 9]), [0, 0, 0, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn a_full_node_gives_its_pages_to_the_nearest_with_room() {
        assert_eq!(homes(PagePolicy::FirstTouch, 1, &[8, 0, 1]), [2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
