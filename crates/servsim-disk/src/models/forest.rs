//! The default model: the physical service time of a request, drawn from a leaf of a tree chosen
//! at random, given what the device did before (see [`crate::features`]).
//!
//! A leaf holds the service times of the training requests that fell into it (at most 64 quantiles
//! of them), so modes stay sharp: no value lies between a cache hit and a miss. A request unlike any
//! seen falls into the leaf of its nearest kind, which is the back-off. The largest values are
//! replaced by draws from a fitted tail. Where the trace shows how the platters stand, leaves hold times
//! beyond the moment at which a request passes under the head. Left out: any feedback of earlier responses.

use super::grow::{Binned, Grown, Growth, Node};
use super::support::Support;
use super::tail::Tail;
use crate::cache::Law;
use crate::features::{self, Features, History, FEATURES, FEATURE_NAMES};
use crate::mechanics::{Mechanics, Radius};
use crate::metrics::crps;
use crate::platters::Platters;
use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

/// Fewest services a fit takes: below, leaves of a few samples would be all noise.
pub const MINIMUM: usize = 200;
/// Values kept of a leaf; more become quantiles.
const LEAF_VALUES: usize = 64;
/// Up to this many samples, leaf size and features are chosen on a held-out part.
const VALIDATED_UP_TO: usize = 40_000;
/// Features about idleness and concurrency; whether they help depends on the drive.
const IDLE: u32 = 1 << 4 | 1 << 11 | 1 << 12;
/// Where recent requests ended.
const RECENT: u32 = 1 << 9 | 1 << 10 | 1 << 13;
/// Whether a cache of a known law holds the request.
const CACHED: u32 = 1 << features::CACHED;
/// When the platters bring a request past.
const PASSES: u32 = 1 << features::PASSES;
/// The absolute place on the disk (zones).
const PLACE: u32 = 1 << 8;
const ALL: u32 = (1 << (FEATURES - 1)) - 1;
/// The idle features stay only if they improve the held-out score by this factor: a model without
/// them carries over to other loads better.
const IDLE_MUST_GAIN: f64 = 0.985;
/// Platters stay only if they do by this one: they were found with the held-out part in sight.
const PLATTERS_MUST_GAIN: f64 = 0.95;

/// What of a request a forest may know.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// Where on the disk it lies.
    pub place: bool,
    /// How long the device had been idle.
    pub idleness: bool,
}

/// A fitted forest of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Root of each tree.
    pub roots: Vec<u32>,
    /// Where the values of each leaf begin in `values_us`; one more than leaves.
    pub leaf_starts: Vec<u32>,
    /// Service times of the leaves, us, ascending within a leaf.
    pub values_us: Vec<f32>,
    /// The fitted tail.
    pub tail: Option<Tail>,
    /// Kinds of requests seen.
    pub support: Support,
    /// Share of the explained variance by feature.
    pub importance: [f64; FEATURES],
    /// How it was grown.
    pub growth: Growth,
    /// The cache whose verdict is among the features, if one was found.
    pub cache: Option<Law>,
    /// How distances are taken, if not in sectors.
    pub radius: Option<Radius>,
    /// Where the platters stand, if that is known: times are then told from when a request passes.
    pub platters: Option<Arc<Platters>>,
}

impl Forest {
    /// Fits the service times `targets_us` given `features`, both in service order and equally long.
    pub fn fit(
        features: &[Features],
        targets_us: &[f32],
        allowed: Allowed,
        cache: Option<Law>,
        mechanics: Option<Mechanics>,
        seed: u64,
    ) -> Forest {
        let places = match (allowed.place, cache) {
            (true, _) => ALL,
            (false, None) => ALL & !PLACE,
            (false, Some(_)) => (ALL | CACHED) & !PLACE & !RECENT,
        };
        let most = if allowed.idleness { places } else { places & !IDLE };
        let growth = choose_growth(features, targets_us, most, seed);
        let Some(mechanics) = mechanics else {
            return Forest { cache, ..Forest::grow(features, targets_us, &growth, seed) };
        };
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7e11);
        let (mut rows, mut times) = super::augment::augmented(features, targets_us, &mechanics, &mut rng);
        rows.extend_from_slice(features);
        times.extend_from_slice(targets_us);
        let mut support = Support::default();
        features.iter().for_each(|row| support.add(row));
        Forest {
            cache,
            radius: Some(mechanics.radius),
            support,
            ..Forest::grow(&rows, &times, &growth, seed)
        }
    }

    /// [`Forest::fit`] on a drive whose `platters` are known, if single requests are then told better than by
    /// `without`; `features` and `plain` are those with and without the platters.
    pub fn fit_on_platters(
        features: &[Features],
        plain: &[Features],
        targets_us: &[f32],
        without: Forest,
        platters: Arc<Platters>,
        seed: u64,
    ) -> Forest {
        let most = without.growth.allowed | ALL & !IDLE | PASSES;
        let left: Vec<f32> =
            features.iter().zip(targets_us).map(|(row, us)| (us - row[features::PASSES]).max(1.0)).collect();
        let growth = choose_growth(features, &left, most, seed);
        let known = score(features, &left, &growth, seed);
        if known > score(plain, targets_us, &without.growth, seed) * PLATTERS_MUST_GAIN {
            return without;
        }
        Forest { platters: Some(platters), ..Forest::grow(features, &left, &growth, seed) }
    }

    fn grow(features: &[Features], targets_us: &[f32], growth: &Growth, seed: u64) -> Forest {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let grown = Binned::new(features, targets_us).grow(growth, &mut rng);
        let mut sorted = targets_us.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let mut support = Support::default();
        features.iter().for_each(|row| support.add(row));
        Forest::from_grown(grown, targets_us, Tail::fit(&sorted), support, *growth)
    }

    fn from_grown(
        grown: Grown,
        targets_us: &[f32],
        tail: Option<Tail>,
        support: Support,
        growth: Growth,
    ) -> Forest {
        let mut leaf_starts = vec![0];
        let mut values_us = Vec::new();
        for members in &grown.leaves {
            let mut values: Vec<f32> = members.iter().map(|&member| targets_us[member as usize]).collect();
            values.sort_unstable_by(f32::total_cmp);
            thin(&values, &mut values_us);
            leaf_starts.push(values_us.len() as u32);
        }
        Forest {
            nodes: grown.nodes,
            roots: grown.roots,
            leaf_starts,
            values_us,
            tail,
            support,
            importance: grown.importance,
            growth,
            cache: None,
            radius: None,
            platters: None,
        }
    }

    /// A device that has served nothing yet, with what the model asks of its past.
    pub fn history(&self) -> History {
        let places = self.platters.is_some() || self.uses_places();
        History::new(places, self.cache, self.radius).on_platters(self.platters.clone())
    }

    /// Whether the model asks where recent requests ended.
    pub fn uses_places(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.feature(), 9 | 10 | 13))
    }

    /// Whether the model knows blocks by their place, which says little once they have moved.
    pub fn uses_place(&self) -> bool {
        self.growth.allowed & PLACE != 0
    }

    /// Features by importance, largest first, with their share.
    pub fn ranking(&self) -> Vec<(&'static str, f64)> {
        let mut names = FEATURE_NAMES;
        if self.platters.is_some() {
            (names[features::PASSES], names[features::MISSES_BY]) = ("passes_us", "waits_turns");
        }
        let mut ranking: Vec<_> = names.into_iter().zip(self.importance).collect();
        ranking.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranking
    }

    /// A draw of the service time, us.
    #[inline]
    pub fn draw_us(&self, features: &Features, rng: &mut Pcg64Mcg) -> f32 {
        let bits = rng.next_u64();
        let mut at = self.roots[self.tree(bits)];
        let mut node = self.nodes[at as usize];
        while node.feature() != Node::LEAF {
            at = node.child() + u32::from(features[node.feature() as usize % FEATURES] > node.threshold);
            node = self.nodes[at as usize];
        }
        self.passes_us(features) + self.leaf_value(node.child(), bits as u32, rng)
    }

    /// A tree, chosen by the upper half of 64 random bits.
    #[inline]
    pub(super) fn tree(&self, bits: u64) -> usize {
        (((bits >> 32) * self.roots.len() as u64) >> 32) as usize
    }

    /// When the service times of the leaves are told from, us.
    #[inline]
    pub(super) fn passes_us(&self, features: &Features) -> f32 {
        if self.platters.is_some() {
            features[features::PASSES]
        } else {
            0.0
        }
    }

    /// A value of leaf `leaf`, chosen by 32 random bits.
    #[inline]
    fn leaf_value(&self, leaf: u32, bits: u32, rng: &mut Pcg64Mcg) -> f32 {
        let start = self.leaf_starts[leaf as usize];
        let length = self.leaf_starts[leaf as usize + 1] - start;
        let value = self.values_us[(start + ((u64::from(bits) * u64::from(length)) >> 32) as u32) as usize];
        match &self.tail {
            Some(tail) if value > tail.threshold_us as f32 => tail.draw(rng) as f32,
            _ => value,
        }
    }
}

/// Appends `sorted`, or its quantiles at `(k - 0.5) / LEAF_VALUES` if it is longer.
fn thin(sorted: &[f32], values: &mut Vec<f32>) {
    if sorted.len() <= LEAF_VALUES {
        values.extend_from_slice(sorted);
    } else {
        values.extend((0..LEAF_VALUES).map(|k| sorted[(2 * k + 1) * sorted.len() / (2 * LEAF_VALUES)]));
    }
}

/// CRPS on the last quarter of the training part of a forest grown by `growth` on the rest.
fn score(features: &[Features], targets_us: &[f32], growth: &Growth, seed: u64) -> f64 {
    let cut = features.len() * 3 / 4;
    let trial = Growth { trees: 12, ..*growth };
    let forest = Forest::grow(&features[..cut], &targets_us[..cut], &trial, seed);
    held_out_score(&forest, &features[cut..], &targets_us[cut..], seed)
}

/// Settles leaf size and features on the last quarter of the training part, by CRPS.
fn choose_growth(features: &[Features], targets_us: &[f32], most: u32, seed: u64) -> Growth {
    let n = features.len();
    let growth = |minimum_leaf, allowed| Growth {
        // Fewer trees where each has more to say; the model stays within a few megabytes.
        trees: if n <= VALIDATED_UP_TO { (480_000 / n).clamp(16, 48) } else { 6 },
        minimum_leaf,
        tried_features: 8,
        allowed,
        // Large traces are simulated in bulk, where each level costs; small ones are not.
        depth_limit: if n <= VALIDATED_UP_TO { 20 } else { 11 },
    };
    if n > VALIDATED_UP_TO {
        return growth((n / 600).clamp(64, 160), most);
    }
    let score = |candidate: &Growth| score(features, targets_us, candidate, seed);
    let best_of = |candidates: Vec<Growth>| {
        let scored = candidates.into_iter().map(|candidate| (score(&candidate), candidate));
        scored.min_by(|a, b| a.0.total_cmp(&b.0)).expect("candidates")
    };
    let (_, by_size) = best_of([5, 10, 20, 40].map(|size| growth(size, most)).to_vec());
    let size = by_size.minimum_leaf;
    let with_and_without_place = |allowed: u32| {
        let places = if most & PLACE == 0 { vec![allowed] } else { vec![allowed, allowed & !PLACE] };
        best_of(places.into_iter().map(|allowed| growth(size, allowed)).collect())
    };
    let (with_idle, best_with) = with_and_without_place(most);
    let (without_idle, best_without) = with_and_without_place(most & !IDLE);
    if with_idle < without_idle * IDLE_MUST_GAIN {
        best_with
    } else {
        best_without
    }
}

/// Mean CRPS of `forest` on requests it was not grown on.
fn held_out_score(forest: &Forest, features: &[Features], targets_us: &[f32], seed: u64) -> f64 {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
    let mut sum = 0.0;
    for (row, target) in features.iter().zip(targets_us) {
        let mut draws: [f64; 24] = std::array::from_fn(|_| f64::from(forest.draw_us(row, &mut rng)));
        sum += crps::from_draws(&mut draws, f64::from(*target));
    }
    sum / targets_us.len().max(1) as f64
}

impl Forest {
    /// Facts for `disk info`.
    pub fn describe(&self) -> serde_json::Value {
        let leaves = self.leaf_starts.len() - 1;
        let importance: serde_json::Map<String, serde_json::Value> =
            self.ranking().into_iter().map(|(name, share)| (name.to_owned(), share.into())).collect();
        serde_json::json!({
            "trees": self.roots.len(),
            "nodes": self.nodes.len(),
            "leaves": leaves,
            "values": self.values_us.len(),
            "minimum_leaf": self.growth.minimum_leaf,
            "uses_idle_time": self.growth.allowed & IDLE != 0,
            "uses_place": self.uses_place(),
            "importance": importance,
            "tail": self.tail,
            "cache": self.cache,
            "platters": self.platters.as_ref().map(|platters| platters.describe()),
        })
    }
}
