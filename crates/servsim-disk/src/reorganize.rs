//! Moving hot data together: policies, and the maps of blocks that they make. What a map brings: [`crate::moves`].
//!
//! `hot-block` is the paper's policy (section 4.2): the N hottest blocks of eight sectors go to the
//! outer edge, hottest first. `organ-pipe` (Wong 1980) puts the hottest block in the middle of the
//! region and the others outwards on both sides, and the region itself where the heat of the disk
//! has its median, so that the rest of the traffic stays near. A map is a composition of swaps, so
//! it is one-to-one whatever the policy.

use crate::error::{suggestion, ModelError};
use crate::request::{Request, DEVICE_SECTORS};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// Sectors a block, as in the paper.
pub const BLOCK_SECTORS: u64 = 8;

/// How the hottest blocks are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// At the outer edge, hottest first (the paper's).
    HotBlock,
    /// Around the median of the heat, hottest in the middle.
    OrganPipe,
}

impl std::str::FromStr for Policy {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        match name {
            "hot-block" => Ok(Policy::HotBlock),
            "organ-pipe" => Ok(Policy::OrganPipe),
            _ => Err(ModelError::Invalid(format!(
                "no policy is called `{name}`{}; accepted: hot-block, organ-pipe",
                suggestion(name, &["hot-block", "organ-pipe"])
            ))),
        }
    }
}

/// A one-to-one map of blocks; blocks that stay are not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockMap {
    to: BTreeMap<u64, u64>,
}

impl BlockMap {
    /// Where block `block` lies after the move.
    pub fn block(&self, block: u64) -> u64 {
        self.to.get(&block).copied().unwrap_or(block)
    }

    /// Where sector `lba` lies after the move.
    pub fn sector(&self, lba: u64) -> u64 {
        self.block(lba / BLOCK_SECTORS) * BLOCK_SECTORS + lba % BLOCK_SECTORS
    }

    /// Blocks that move, with where they go, by original block.
    pub fn moves(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.to.iter().map(|(from, to)| (*from, *to))
    }

    /// Number of blocks that move.
    pub fn len(&self) -> usize {
        self.to.len()
    }

    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    /// `requests` with their first sector moved; a request that spans blocks follows its first, as in
    /// the paper, and keeps its length.
    pub fn apply(&self, requests: &[Request]) -> Vec<Request> {
        requests.iter().map(|request| Request { lba: self.sector(request.lba), ..*request }).collect()
    }

    /// The map as text: a heading, then `from,to` a line.
    pub fn to_text(&self, device: &str) -> String {
        let mut text = format!(
            "# servsim block map 1, device {device}, {BLOCK_SECTORS} sectors of 512 bytes a block\nfrom,to\n"
        );
        for (from, to) in self.moves() {
            let _ = writeln!(text, "{from},{to}");
        }
        text
    }

    /// Reads what [`BlockMap::to_text`] wrote.
    ///
    /// # Errors
    /// When a line is not `from,to` or the map is not one-to-one.
    pub fn from_text(text: &str) -> Result<BlockMap, ModelError> {
        let mut map = BlockMap::default();
        for (at, line) in
            text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && *line != "from,to")
        {
            let pair = line
                .split_once(',')
                .and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
            let Some((from, to)) = pair else {
                return Err(ModelError::Invalid(format!(
                    "block map, line {}: `{line}` is not `from,to`",
                    at + 1
                )));
            };
            if std::cmp::max(from, to) > DEVICE_SECTORS / BLOCK_SECTORS {
                return Err(ModelError::Invalid(format!(
                    "block map, line {}: `{line}` lies beyond any device; name blocks of {BLOCK_SECTORS} sectors",
                    at + 1
                )));
            }
            map.to.insert(from, to);
        }
        let mut targets: Vec<u64> = map.to.values().copied().collect();
        targets.sort_unstable();
        if !targets.iter().eq(map.to.keys()) {
            return Err(ModelError::Invalid(
                "block map: not one-to-one (the blocks that move are not those moved to)".to_owned(),
            ));
        }
        Ok(map)
    }
}

/// Blocks by heat, hottest first; ties by lower block number.
pub fn heat(requests: &[Request]) -> Vec<(u64, u64)> {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for request in requests {
        *counts.entry(request.lba / BLOCK_SECTORS).or_default() += 1;
    }
    let mut heat: Vec<(u64, u64)> = counts.into_iter().collect();
    heat.sort_unstable_by_key(|&(block, count)| (std::cmp::Reverse(count), block));
    heat
}

/// The map that `policy` makes of the `count` hottest blocks of one device.
pub fn plan(requests: &[Request], count: usize, policy: Policy) -> BlockMap {
    plan_by(&heat(requests), count, policy)
}

/// The same by the heat of blocks, hottest first.
pub fn plan_by(heat: &[(u64, u64)], count: usize, policy: Policy) -> BlockMap {
    let count = count.min(heat.len());
    let slots: Vec<u64> = match policy {
        Policy::HotBlock => (0..count as u64).collect(),
        Policy::OrganPipe => {
            let middle = median_block(heat).max(count as u64 / 2);
            // middle, middle + 1, middle - 1, middle + 2, …
            (0..count as u64).map(|k| if k % 2 == 1 { middle + k / 2 + 1 } else { middle - k / 2 }).collect()
        }
    };
    let mut place = Placement::default();
    for (slot, (block, _)) in slots.into_iter().zip(heat) {
        place.swap(slot, *block);
    }
    let to = place.place_of.into_iter().filter(|(block, place)| block != place).collect();
    BlockMap { to }
}

/// The block below which half of the requests begin.
fn median_block(heat: &[(u64, u64)]) -> u64 {
    let mut by_place = heat.to_vec();
    by_place.sort_unstable();
    let half = heat.iter().map(|(_, count)| count).sum::<u64>() / 2;
    let mut below = 0;
    by_place
        .into_iter()
        .find(|(_, count)| {
            below += count;
            below > half
        })
        .map_or(0, |(block, _)| block)
}

/// Where blocks lie while swaps are made.
#[derive(Debug, Default)]
struct Placement {
    place_of: BTreeMap<u64, u64>,
    block_at: HashMap<u64, u64>,
}

impl Placement {
    /// Brings `block` to `slot`, and what is there to where `block` is.
    fn swap(&mut self, slot: u64, block: u64) {
        let from = self.place_of.get(&block).copied().unwrap_or(block);
        let other = self.block_at.get(&slot).copied().unwrap_or(slot);
        self.place_of.insert(block, slot);
        self.block_at.insert(slot, block);
        self.place_of.insert(other, from);
        self.block_at.insert(from, other);
    }
}

/// Share of `requests` that begin in the `count` hottest blocks.
pub fn covered(requests: &[Request], count: usize) -> f64 {
    let hottest: u64 = heat(requests).iter().take(count).map(|(_, heat)| heat).sum();
    hottest as f64 / requests.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Op, NO_START};

    fn trace(lbas: &[u64]) -> Vec<Request> {
        let at = |(k, &lba): (usize, &u64)| Request {
            arrival_ns: k as u64,
            start_ns: NO_START,
            completion_ns: k as u64 + 1,
            lba,
            sectors: 8,
            device: 0,
            op: Op::Read,
            by_tracer: false,
        };
        lbas.iter().enumerate().map(at).collect()
    }

    #[test]
    fn the_hottest_blocks_go_to_the_edge_hottest_first() {
        let requests = trace(&[800, 800, 800, 0, 0, 1600]);
        let map = plan(&requests, 2, Policy::HotBlock);
        assert_eq!((map.block(100), map.block(0)), (0, 1));
        assert_eq!(map.sector(803), 3);
    }

    #[test]
    fn every_policy_yields_a_one_to_one_map_that_survives_its_file() {
        let lbas: Vec<u64> = (0..500_u64).map(|k| k * k % 97 * 8 + k % 8).collect();
        for policy in [Policy::HotBlock, Policy::OrganPipe] {
            for count in [1, 7, 40, 1000] {
                let map = plan(&trace(&lbas), count, policy);
                let mut seen: Vec<u64> = (0..200).map(|block| map.block(block)).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..200).collect::<Vec<_>>(), "{policy:?} {count}");
                assert_eq!(BlockMap::from_text(&map.to_text("disk0")).unwrap(), map);
            }
        }
    }

    #[test]
    fn a_map_that_sends_two_blocks_to_one_place_is_refused() {
        let message = BlockMap::from_text("from,to\n1,2\n2,2\n").unwrap_err().to_string();
        assert!(message.contains("not one-to-one"), "{message}");
    }
}
