//! Pages that move between nodes, once more: from the whole list of requests, looked through in full for each of them.
//! Nothing is shared with the simulator.

use std::collections::{BTreeMap, BTreeSet};

/// A request that was granted: in time order.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// When.
    pub time: u64,
    /// For a line of this page.
    pub page: u64,
    /// By a processor of this node.
    pub node: usize,
    /// To write.
    pub write: bool,
}

/// A page that moves, before the request of this number is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The request.
    pub before: usize,
    /// The page.
    pub page: u64,
    /// From where.
    pub from: usize,
    /// To where.
    pub to: usize,
}

/// Next touch with endless memory and homes by first touch: a page lies with whoever was the first to ask for it in the
/// last interval in which anybody did.
pub fn next_touch(all: &[Asked], interval: u64) -> Vec<Moved> {
    let mut moves = Vec::new();
    for (before, asked) in all.iter().enumerate() {
        let earlier: Vec<&Asked> = all[..before].iter().filter(|other| other.page == asked.page).collect();
        let Some(last) = earlier.last().map(|other| other.time / interval) else { continue };
        let owner =
            earlier.iter().find(|other| other.time / interval == last).map_or(asked.node, |other| other.node);
        if asked.time / interval > last && owner != asked.node {
            moves.push(Moved { before, page: asked.page, from: owner, to: asked.node });
        }
    }
    moves
}

/// What becomes of copies before the request of this number is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The request.
    pub before: usize,
    /// The page.
    pub page: u64,
    /// The node that gets a copy; none where all copies are dropped.
    pub to: Option<usize>,
}

/// Replication with endless memory and homes by first touch: a node that has asked for a page of another `threshold` times
/// gets a copy, as long as nobody ever wrote it; who writes it first ends all.
pub fn replicate(all: &[Asked], threshold: usize) -> Vec<Copied> {
    let mut copies = Vec::new();
    for (before, asked) in all.iter().enumerate() {
        let so_far: Vec<&Asked> = all[..=before].iter().filter(|other| other.page == asked.page).collect();
        let (home, page) = (so_far[0].node, asked.page);
        if so_far[..so_far.len() - 1].iter().any(|other| other.write) {
            continue;
        }
        let times = |node: usize| so_far.iter().filter(|other| other.node == node && !other.write).count();
        let others: BTreeSet<usize> =
            so_far.iter().map(|other| other.node).filter(|node| *node != home).collect();
        if asked.write {
            if others.iter().any(|&node| times(node) >= threshold) {
                copies.push(Copied { before, page, to: None });
            }
        } else if asked.node != home && times(asked.node) == threshold {
            copies.push(Copied { before, page, to: Some(asked.node) });
        }
    }
    copies
}

/// Draining of `node` with endless memory and homes by first touch, where all nodes are equally far from one another:
/// after each interval so many of its pages, those of low numbers first, go to the first other node.
pub fn drain(all: &[Asked], node: usize, interval: u64, pages: usize) -> Vec<Moved> {
    let first = usize::from(node == 0);
    let mut homes: BTreeMap<u64, usize> = BTreeMap::new();
    let mut moves = Vec::new();
    let mut runs = 0;
    for (before, asked) in all.iter().enumerate() {
        // The page of the request that a run comes with has its home before.
        let closed = runs > 0;
        homes.entry(asked.page).or_insert(if closed && asked.node == node { first } else { asked.node });
        if asked.time / interval <= runs {
            continue;
        }
        runs = asked.time / interval;
        let leaving: Vec<u64> =
            homes.iter().filter(|(_, home)| **home == node).map(|(page, _)| *page).collect();
        for page in leaving.into_iter().take(pages) {
            homes.insert(page, first);
            moves.push(Moved { before, page, from: node, to: first });
        }
    }
    moves
}

/// Two tiers: node 0 is fast and has room for so many pages, node 1 is slow and endless; a page begins in the fast one
/// if there is room.
#[derive(Debug, Clone, Copy)]
pub struct Tiers {
    /// Pages of the fast node.
    pub room: usize,
    /// Cycles between runs.
    pub interval: u64,
    /// One of so many requests is sampled.
    pub period: usize,
    /// Samples of a hot page.
    pub threshold: u64,
    /// Moves in one run at most.
    pub pages: usize,
}

/// What a sampling promoter does with these requests.
pub fn tiering(all: &[Asked], tiers: Tiers) -> Vec<Moved> {
    let mut moves = Vec::new();
    let mut fast: BTreeSet<u64> = BTreeSet::new();
    let mut known: BTreeSet<u64> = BTreeSet::new();
    // Numbers of the requests before which it ran.
    let mut runs: Vec<usize> = Vec::new();
    for (before, asked) in all.iter().enumerate() {
        if known.insert(asked.page) && fast.len() < tiers.room {
            fast.insert(asked.page);
        }
        let last = runs.last().map_or(0, |&run| all[run].time / tiers.interval);
        if asked.time / tiers.interval <= last {
            continue;
        }
        let heat = |page: u64| heat(all, &runs, before, page, tiers.period);
        let mut hot: Vec<u64> =
            known.difference(&fast).copied().filter(|&page| heat(page) >= tiers.threshold).collect();
        hot.sort_by_key(|&page| (u64::MAX - heat(page), page));
        let mut cold: BTreeMap<(u64, u64), u64> =
            fast.iter().map(|&page| ((heat(page), page), page)).collect();
        let mut done = 0;
        for page in hot {
            let full = fast.len() == tiers.room;
            let coldest = cold.pop_first().filter(|((heat, _), _)| *heat < tiers.threshold);
            if full && coldest.is_none() || done + 1 + usize::from(full) > tiers.pages {
                break;
            }
            if let (true, Some((_, victim))) = (full, coldest) {
                fast.remove(&victim);
                moves.push(Moved { before, page: victim, from: 0, to: 1 });
                done += 1;
            }
            fast.insert(page);
            moves.push(Moved { before, page, from: 1, to: 0 });
            done += 1;
        }
        runs.push(before);
    }
    moves
}

/// Samples of `page` among the requests before number `before`, halved after each run.
fn heat(all: &[Asked], runs: &[usize], before: usize, page: u64, period: usize) -> u64 {
    let sampled = |from: usize, to: usize| {
        (from..to).filter(|number| (number + 1) % period == 0 && all[*number].page == page).count() as u64
    };
    let mut heat = 0;
    let mut from = 0;
    for &run in runs {
        heat += sampled(from, run);
        heat -= heat.div_ceil(2);
        from = run;
    }
    heat + sampled(from, before)
}
