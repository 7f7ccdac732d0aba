//! Which node's memory a page lies in: decided when the page's first line is fetched, and kept.

use super::node_set::NodeSet;
use servsim_core::source::PageHash;
use servsim_core::{Cycles, NodeId};
use std::collections::HashMap;
use std::sync::Arc;

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

/// How the pages of a group get their nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRule {
    /// The policy.
    pub policy: PagePolicy,
    /// Pages in one stripe.
    pub stride: u64,
    /// The nodes that it distinguishes; at least one.
    pub nodes: Vec<NodeId>,
}

impl PageRule {
    /// The node that a page should lie in, which a processor of node `asker` misses; `distances` are from there.
    fn wanted(&self, page: u64, asker: NodeId, distances: &[Cycles]) -> NodeId {
        let own = || {
            let nearest = self.nodes.iter().enumerate();
            nearest.min_by_key(|&(_, &node)| (node != asker, distances[node.0], node)).map_or(0, |(at, _)| at)
        };
        let place = match self.policy {
            PagePolicy::FirstTouch => own(),
            PagePolicy::Remote => own() + 1,
            PagePolicy::Striped => ((page / self.stride) % self.nodes.len() as u64) as usize,
            PagePolicy::Fill => 0,
        };
        self.nodes[place % self.nodes.len()]
    }
}

/// Rules for pages that are known by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PagePlan {
    /// The rules.
    pub rules: Vec<PageRule>,
    /// The rule of each page, as an index.
    pub pages: HashMap<u64, u32, PageHash>,
    /// The rule of all others, if it is not the machine's.
    pub rest: Option<PageRule>,
}

/// The pages of a machine.
#[derive(Debug)]
pub(super) struct Pages {
    rule: PageRule,
    plan: Option<Arc<PagePlan>>,
    distances: Vec<Vec<Cycles>>,
    /// Pages that each node has room for.
    room: Vec<u64>,
    /// By node, all others: itself, then the nearest first.
    nearest: Vec<Vec<usize>>,
    home: HashMap<u64, NodeId, PageHash>,
    /// Nodes that have copies of pages that lie elsewhere.
    copies: HashMap<u64, NodeSet, PageHash>,
    /// Nodes that give up their pages and get no more.
    closed: NodeSet,
    /// The node of the last page that had room.
    last: NodeId,
    /// Pages that no node had room for.
    pub without_room: u64,
}

impl Pages {
    /// No page lies anywhere yet; `room` is in pages, and `distances` are by sender and receiver.
    pub fn new(policy: PagePolicy, stride: u64, room: Vec<u64>, distances: &[Vec<Cycles>]) -> Self {
        let by_distance = |from: usize| {
            let mut nodes: Vec<usize> = (0..room.len()).collect();
            nodes.sort_by_key(|&node| (node != from, distances[from][node], node));
            nodes
        };
        let nearest = (0..room.len()).map(by_distance).collect();
        let rule = PageRule { policy, stride, nodes: (0..room.len()).map(NodeId).collect() };
        Self {
            rule,
            plan: None,
            distances: distances.to_vec(),
            room,
            nearest,
            home: HashMap::default(),
            copies: HashMap::default(),
            closed: NodeSet::NONE,
            last: NodeId(0),
            without_room: 0,
        }
    }

    /// Pages that have no node yet get it by `plan`.
    pub fn follow(&mut self, plan: Arc<PagePlan>) {
        if let Some(rest) = &plan.rest {
            self.rule = rest.clone();
        }
        self.plan = Some(plan);
    }

    fn rule_of(&self, page: u64) -> &PageRule {
        let planned = self.plan.as_ref().and_then(|plan| {
            let &index = plan.pages.get(&page)?;
            Some(&plan.rules[index as usize])
        });
        planned.unwrap_or(&self.rule)
    }

    /// The node of `page`, if it has one.
    pub fn home_of(&self, page: u64) -> Option<NodeId> {
        self.home.get(&page).copied()
    }

    /// The pages that have a node, in no order.
    pub fn placed(&self) -> impl Iterator<Item = (u64, NodeId)> + '_ {
        self.home.iter().map(|(&page, &node)| (page, node))
    }

    /// Whether a rule of the plan says where `page` lies.
    pub fn is_planned(&self, page: u64) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.pages.contains_key(&page))
    }

    /// The nodes by their distance from `node`, itself first.
    pub fn nearest(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.nearest[node].iter().map(|&other| NodeId(other))
    }

    /// Pages that `node` has room for.
    pub fn room(&self, node: NodeId) -> u64 {
        self.room[node]
    }

    /// `page` lies in `node` from now on, which has room for it; where it lay.
    pub fn move_to(&mut self, page: u64, node: NodeId) -> NodeId {
        let home = self.home.get_mut(&page).unwrap_or_else(|| unreachable!("page {page:#x} lies nowhere"));
        let from = std::mem::replace(home, node);
        self.gives_back(from);
        self.takes(node);
        from
    }

    /// `node`, which has room for it, has a copy of `page` from now on.
    pub fn copy_to(&mut self, page: u64, node: NodeId) {
        let copies = self.copies.entry(page).or_default();
        *copies = copies.with(node);
        self.takes(node);
    }

    /// No node has a copy of `page` any more; those that had one.
    pub fn drop_copies(&mut self, page: u64) -> NodeSet {
        let dropped = self.copies.remove(&page).unwrap_or_default();
        dropped.iter().for_each(|node| self.gives_back(node));
        dropped
    }

    /// `node` has room for no page from now on.
    pub fn close(&mut self, node: NodeId) {
        self.closed = self.closed.with(node);
        self.room[node] = 0;
    }

    /// A page less fits into `node`; one without a bound keeps its room.
    fn takes(&mut self, node: NodeId) {
        if self.room[node] != u64::MAX {
            self.room[node] = self.room[node].saturating_sub(1);
        }
    }

    fn gives_back(&mut self, node: NodeId) {
        if self.room[node] != u64::MAX && !self.closed.has(node) {
            self.room[node] += 1;
        }
    }

    /// The node of `page`, which a processor of node `asker` misses. Where its node has no room, it is the nearest
    /// to that one that has; where none has, the page lies where the last one found room. Of a page with copies, the
    /// node that serves the asker.
    pub fn home(&mut self, page: u64, asker: NodeId) -> NodeId {
        if let Some(&node) = self.home.get(&page) {
            let has_copy =
                !self.copies.is_empty() && self.copies.get(&page).is_some_and(|nodes| nodes.has(asker));
            return if has_copy { asker } else { node };
        }
        let nodes = self.room.len();
        let rule = self.rule_of(page);
        let wanted = rule.wanted(page, asker, &self.distances[asker.0]);
        let fills = rule.policy == PagePolicy::Fill;
        let filled = if fills { rule.nodes.clone() } else { Vec::new() };
        // What does not fit goes to the nearest node with room; what fills nodes, to the next of them first.
        let in_order = |place: usize| {
            filled.get(place).copied().unwrap_or_else(|| NodeId(self.nearest[wanted][place - filled.len()]))
        };
        let found = (0..nodes + filled.len()).map(in_order).find(|&node| self.room[node] > 0);
        let node = found.unwrap_or_else(|| {
            self.without_room += 1;
            self.last
        });
        self.takes(node);
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
        let away = |from: usize| (0..nodes).map(|to| Cycles(from.abs_diff(to) as u64)).collect();
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
    fn planned_pages_follow_their_rules_and_others_the_rest() {
        let rule = |policy, stride, nodes: &[usize]| PageRule {
            policy,
            stride,
            nodes: nodes.iter().copied().map(NodeId).collect(),
        };
        let plan = PagePlan {
            rules: vec![
                rule(PagePolicy::Striped, 1, &[2]),
                rule(PagePolicy::Striped, 2, &[2, 0]),
                rule(PagePolicy::FirstTouch, 1, &[0, 1]),
                rule(PagePolicy::Fill, 1, &[1, 0]),
            ],
            pages: (0..20).map(|page| (page, page as u32 / 5)).collect(),
            rest: Some(rule(PagePolicy::Remote, 1, &[0, 2])),
        };
        let mut pages = pages(PagePolicy::Fill, 1, &[99, 3, 99]);
        pages.follow(Arc::new(plan));
        let mut homes = |range: std::ops::Range<u64>, asker| {
            range.map(|page| pages.home(page, NodeId(asker)).0).collect::<Vec<_>>()
        };
        assert_eq!(homes(0..5, 1), [2; 5], "one node");
        assert_eq!(homes(5..10, 1), [2, 0, 0, 2, 2], "stripes of two, by the page's number");
        assert_eq!((homes(10..11, 0), homes(11..12, 1), homes(12..13, 2)), (vec![0], vec![1], vec![1]));
        assert_eq!(homes(15..20, 2), [1, 0, 0, 0, 0], "two of node 1 are taken already");
        assert_eq!((homes(20..21, 0), homes(21..22, 2), homes(22..23, 1)), (vec![2], vec![0], vec![2]));
    }

    #[test]
    fn a_full_node_gives_its_pages_to_the_nearest_with_room() {
        assert_eq!(homes(PagePolicy::FirstTouch, 1, &[8, 0, 1]), [2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
