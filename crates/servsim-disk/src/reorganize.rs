//! Moving hot data together, and what it would bring.
//!
//! `hot-block` is the paper's policy (section 4.2): the N hottest blocks of eight sectors go to the
//! outer edge, hottest first. `organ-pipe` (Wong 1980) puts the hottest block in the middle of the
//! region and the others outwards on both sides, and the region itself where the heat of the disk
//! has its median, so that the rest of the traffic stays near. A map is a composition of swaps, so
//! it is one-to-one whatever the policy.

use crate::error::{suggestion, ModelError};
use crate::models::{DeviceModel, Model};
use crate::request::{arrival_seeks, Request, DEVICE_SECTORS};
use crate::simulate::{closed_loop, responses_us};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// Sectors a block, as in the paper.
pub const BLOCK_SECTORS: u64 = 8;
/// Replications of a prediction.
const REPLICATIONS: u64 = 8;
/// Two-sided 95 % point of Student's t with 7 degrees of freedom.
const T_95: f64 = 2.365;

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
    let heat = heat(requests);
    let count = count.min(heat.len());
    let slots: Vec<u64> = match policy {
        Policy::HotBlock => (0..count as u64).collect(),
        Policy::OrganPipe => {
            let middle = median_block(&heat).max(count as u64 / 2);
            // middle, middle + 1, middle - 1, middle + 2, …
            (0..count as u64).map(|k| if k % 2 == 1 { middle + k / 2 + 1 } else { middle - k / 2 }).collect()
        }
    };
    let mut place = Placement::default();
    for (slot, (block, _)) in slots.into_iter().zip(&heat) {
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

/// What a move does to the seeks, by arithmetic, and to times, by prediction.
#[derive(Debug, Clone, Serialize)]
pub struct Prediction {
    /// Blocks that move.
    pub moved_blocks: usize,
    /// Share of requests that begin in the hottest blocks.
    pub covered: f64,
    /// Change of the total start-to-start seek distance in arrival order, percent.
    pub seek_distance_change_percent: f64,
    /// Share of requests with seek 0 before.
    pub zero_seek_before: f64,
    /// Share of requests with seek 0 after.
    pub zero_seek_after: f64,
    /// Predicted mean response before, ms.
    pub before_ms: f64,
    /// Predicted mean response after, ms.
    pub after_ms: f64,
    /// Predicted change of the mean response, percent; mean of the replications.
    pub change_percent: f64,
    /// Half width of its 95 % interval, percent points: of the draws and, where that was tested, of the model.
    pub half_width_percent: f64,
    /// The part of the model in it, percent points; `None` where it was never tested.
    pub model_error_percent: Option<f64>,
    /// Replications.
    pub replications: u64,
    /// Share of requests unlike any in the training part, after the move.
    pub outside_support: f64,
    /// Whether the model knows blocks by their place, and so mistakes a block for what lay there
    /// before; fit with [`crate::models::fit::FitOptions::movable`].
    pub bound_to_place: bool,
}

/// Error of the default model, percent points, at the trace's own load: of 144 moves of hot blocks on random
/// drives not looked at before 141 were within it, of 96 others 91 (docs/parts/disk.md).
const MODEL_ERROR: f64 = 5.0;

/// Predicts what `map` would do to `requests` (one device, in arrival order) with `model`.
///
/// # Errors
/// When `load` is no positive number.
pub fn predict(
    model: &DeviceModel,
    requests: &[Request],
    map: &BlockMap,
    covered: f64,
    load: f64,
    seed: u64,
) -> Result<Prediction, ModelError> {
    let moved = map.apply(requests);
    let mean = |requests: &[Request], seed| -> Result<f64, ModelError> {
        Ok(crate::metrics::mean(&responses_us(&closed_loop(model, requests, load, seed)?)) * 1e-3)
    };
    let (mut before, mut after, mut changes) = (0.0, 0.0, Vec::new());
    for replication in 0..REPLICATIONS {
        let seed = seed.wrapping_add(replication);
        let (old, new) = (mean(requests, seed)?, mean(&moved, seed)?);
        changes.push(100.0 * (new / old - 1.0));
        before += old / REPLICATIONS as f64;
        after += new / REPLICATIONS as f64;
    }
    let change = crate::metrics::mean(&changes);
    let variance = changes.iter().map(|x| (x - change).powi(2)).sum::<f64>() / (REPLICATIONS - 1) as f64;
    let distance = |requests: &[Request]| {
        arrival_seeks(requests).iter().map(|seek| seek.unsigned_abs() as f64).sum::<f64>()
    };
    let bound_to_place = matches!(&model.model, Model::Forest(forest) if forest.uses_place());
    let as_tested = matches!(model.model, Model::Forest(_)) && model.server.slots == 1 && !bound_to_place;
    let model_error = (as_tested && (load - 1.0).abs() < 1e-9).then_some(MODEL_ERROR);
    let zero = |requests: &[Request]| {
        arrival_seeks(requests).iter().skip(1).filter(|seek| **seek == 0).count() as f64
            / requests.len().max(1) as f64
    };
    Ok(Prediction {
        moved_blocks: map.len(),
        covered,
        seek_distance_change_percent: 100.0 * (distance(&moved) / distance(requests).max(1.0) - 1.0),
        zero_seek_before: zero(requests),
        zero_seek_after: zero(&moved),
        before_ms: before,
        after_ms: after,
        change_percent: change,
        half_width_percent: (T_95 * (variance / REPLICATIONS as f64).sqrt())
            .hypot(model_error.unwrap_or(0.0)),
        model_error_percent: model_error,
        replications: REPLICATIONS,
        outside_support: crate::evaluate::outside(model, &moved, 0),
        bound_to_place,
    })
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
