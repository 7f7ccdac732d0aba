//! Two tiers of memory, that of nodes with processors and that of nodes without: pages of the slow tier that samples
//! show to be hot are promoted, and where the fast one is full the coldest there are demoted for them. After
//! Raybuck et al. (`HeMem`, SOSP 2021): one of so many fetches is sampled, a page with so many samples is hot, counts are halved
//! as time goes by (here after every interval), and moves take no processor beyond the interrupts.

use super::{Made, Pages, Policy, Touch, Turns, Wish};
use servsim_core::source::PageHash;
use servsim_core::NodeId;
use std::cmp::Reverse;
use std::collections::HashMap;

#[derive(Debug)]
struct Tiering {
    turns: Turns,
    pages: usize,
    period: u64,
    threshold: u64,
    is_fast: Vec<bool>,
    fetches: u64,
    /// Samples of a page, and the node of the last.
    samples: HashMap<u64, (u64, NodeId), PageHash>,
}

pub(super) fn policy(made: &Made<'_>) -> Box<dyn Policy> {
    let spec = made.spec;
    Box::new(Tiering {
        turns: Turns::every(spec.interval),
        pages: spec.pages,
        period: spec.sample_period,
        threshold: spec.hot_threshold,
        is_fast: made.has_processors.to_vec(),
        fetches: 0,
        samples: HashMap::default(),
    })
}

impl Policy for Tiering {
    fn touched(&mut self, touch: &Touch) -> Option<Wish> {
        self.fetches += 1;
        if self.fetches.is_multiple_of(self.period) {
            let (count, node) = self.samples.entry(touch.page).or_insert((0, touch.asker));
            (*count, *node) = (*count + 1, touch.asker);
        }
        None
    }

    fn in_background(&mut self, now: u64, pages: &mut Pages) -> Vec<(u64, NodeId)> {
        if !self.turns.is_due(now) {
            return Vec::new();
        }
        let moves = self.moves(pages);
        self.samples.retain(|_, (count, _)| {
            *count /= 2;
            *count > 0
        });
        moves
    }
}

impl Tiering {
    /// Promotions, hottest first, each after the demotion that makes room for it.
    fn moves(&self, pages: &Pages) -> Vec<(u64, NodeId)> {
        let home = |page| pages.home_of(page).filter(|_| !pages.is_planned(page));
        let is_hot = |&(&page, &(count, _)): &(&u64, &(u64, NodeId))| {
            count >= self.threshold && home(page).is_some_and(|home| !self.is_fast[home])
        };
        let mut hot: Vec<_> =
            self.samples.iter().filter(is_hot).map(|(&page, &(count, by))| (count, page, by)).collect();
        hot.sort_unstable_by_key(|&(count, page, _)| (Reverse(count), page));
        let mut cold = None;
        let mut room: Vec<u64> = NodeId::all(self.is_fast.len()).map(|node| pages.room(node)).collect();
        let mut moves = Vec::new();
        for (_, page, by) in hot {
            let nearest = |fast: bool, room: &[u64]| {
                pages.nearest(by).find(|node| self.is_fast[*node] == fast && room[node.0] > 0)
            };
            let mut fast = nearest(true, &room);
            let mut demoted = None;
            if fast.is_none() {
                let coldest = cold.get_or_insert_with(|| self.coldest(pages)).pop();
                if let (Some(slow), Some((_, page, node))) = (nearest(false, &room), coldest) {
                    demoted = Some((page, slow));
                    room[slow] -= 1;
                    room[node] += 1;
                    fast = Some(node);
                }
            }
            let Some(fast) = fast else { break };
            if moves.len() + 1 + usize::from(demoted.is_some()) > self.pages {
                break;
            }
            moves.extend(demoted);
            moves.push((page, fast));
            room[fast] -= 1;
        }
        moves
    }

    /// Pages of the fast tier that are not hot, the coldest last.
    fn coldest(&self, pages: &Pages) -> Vec<(u64, u64, NodeId)> {
        let count = |page: u64| self.samples.get(&page).map_or(0, |(count, _)| *count);
        let mut cold: Vec<_> = pages
            .placed()
            .filter(|&(page, node)| {
                self.is_fast[node] && count(page) < self.threshold && !pages.is_planned(page)
            })
            .map(|(page, node)| (count(page), page, node))
            .collect();
        cold.sort_unstable_by_key(|&(count, page, _)| Reverse((count, page)));
        cold
    }
}
