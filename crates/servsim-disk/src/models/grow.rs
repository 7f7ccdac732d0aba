//! Growing regression trees whose leaves are samples, for the `forest` model.
//!
//! Splits maximise the reduction of variance of three views of the target together: its value, its
//! logarithm and its rank. The first keeps the mean right, the second short times apart, the third
//! separates modes (cache hit or miss) that differ little in value. Features are binned once, so a
//! split costs one pass over the samples of its node.

use crate::features::{Features, FEATURES};
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// Bins of a feature; thresholds lie between bins.
const BINS: usize = 128;
/// Views of the target.
const VIEWS: usize = 3;
/// Share of the samples a tree is grown on.
const BAG: f64 = 0.7;

/// The feature that tells reads from writes.
const OP: usize = 0;
/// Features tried at every node, distance and length: what every mechanism depends on.
const ALWAYS_TRIED: [usize; 2] = [2, 3];

/// How trees are grown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Number of trees.
    pub trees: usize,
    /// Fewest samples in a leaf.
    pub minimum_leaf: usize,
    /// Features tried at each node.
    pub tried_features: usize,
    /// Features that may be used, one bit each.
    pub allowed: u32,
    /// Deepest leaf.
    pub depth_limit: u32,
}

/// An inner node or a leaf. An inner node sends `x[feature] > threshold` to `child + 1`, the rest
/// to `child`; a leaf has feature [`Node::LEAF`] and the number of the leaf in `child`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// Threshold of an inner node.
    pub threshold: f32,
    /// Feature in the upper 8 bits, child in the lower 24.
    pub packed: u32,
}

impl Node {
    /// Feature number of a leaf.
    pub const LEAF: u32 = 255;

    /// A node from its parts; `child` is below 2^24.
    pub fn new(feature: u32, threshold: f32, child: u32) -> Self {
        Node { threshold, packed: feature << 24 | child }
    }

    /// Feature, or [`Node::LEAF`].
    #[inline]
    pub fn feature(self) -> u32 {
        self.packed >> 24
    }

    /// First child, or number of the leaf.
    #[inline]
    pub fn child(self) -> u32 {
        self.packed & 0xff_ffff
    }
}

/// Trees as grown: nodes, roots, and the samples of each leaf by index.
#[derive(Debug, Default)]
pub struct Grown {
    /// All nodes of all trees.
    pub nodes: Vec<Node>,
    /// Root of each tree.
    pub roots: Vec<u32>,
    /// Sample indices of each leaf.
    pub leaves: Vec<Vec<u32>>,
    /// Reduction of variance each feature brought, summing to 1 (or all 0 without a split).
    pub importance: [f64; FEATURES],
}

/// Samples with their features binned, ready to grow on.
pub struct Binned {
    bins: Vec<[u8; FEATURES]>,
    edges: [Vec<f32>; FEATURES],
    /// The views of each target, and 1 to count it.
    views: Vec<[f32; VIEWS + 1]>,
}

/// Sums of the views over the samples of each bin of a feature, and their number.
type Histogram = [[f32; VIEWS + 1]; BINS];

impl Binned {
    /// Bins `features` and standardises the views of `targets_us`; both are equally long.
    pub fn new(features: &[Features], targets_us: &[f32]) -> Self {
        let edges: [Vec<f32>; FEATURES] = std::array::from_fn(|feature| edges_of(features, feature));
        let bin =
            |row: &Features| std::array::from_fn(|f| edges[f].partition_point(|edge| *edge < row[f]) as u8);
        Binned { bins: features.iter().map(bin).collect(), views: views(targets_us), edges }
    }

    /// Grows trees; deterministic given `rng`.
    pub fn grow(&self, growth: &Growth, rng: &mut Pcg64Mcg) -> Grown {
        let mut grown = Grown::default();
        let mut all: Vec<u32> = (0..self.bins.len() as u32).collect();
        let bag = ((all.len() as f64 * BAG).ceil() as usize).min(all.len());
        for _ in 0..growth.trees {
            let (chosen, _) = all.partial_shuffle(rng, bag);
            chosen.sort_unstable();
            let root = grown.nodes.len() as u32;
            grown.roots.push(root);
            grown.nodes.push(Node::new(Node::LEAF, 0.0, 0));
            self.split(&mut chosen.to_vec(), root, 0, growth, rng, &mut grown);
        }
        let total: f64 = grown.importance.iter().sum();
        if total > 0.0 {
            grown.importance.iter_mut().for_each(|gain| *gain /= total);
        }
        grown
    }

    /// Makes node `at` of `members`, and everything below it.
    fn split(
        &self,
        members: &mut [u32],
        at: u32,
        depth: u32,
        growth: &Growth,
        rng: &mut Pcg64Mcg,
        grown: &mut Grown,
    ) {
        let found = if members.len() < 2 * growth.minimum_leaf || depth >= growth.depth_limit {
            None
        } else if depth == 0 {
            // Reads and writes never share a leaf: a rare read miss would leak into every write there.
            self.best_of_features(members, &[OP], growth.minimum_leaf)
                .or_else(|| self.best_split(members, growth, rng))
        } else {
            self.best_split(members, growth, rng)
        };
        let Some(split) = found else {
            grown.nodes[at as usize] = Node::new(Node::LEAF, 0.0, grown.leaves.len() as u32);
            grown.leaves.push(members.to_vec());
            return;
        };
        grown.importance[split.feature] += split.gain;
        let child = grown.nodes.len() as u32;
        grown.nodes.extend([Node::new(Node::LEAF, 0.0, 0); 2]);
        grown.nodes[at as usize] =
            Node::new(split.feature as u32, self.edges[split.feature][split.bin], child);
        let middle =
            partition(members, |member| usize::from(self.bins[member as usize][split.feature]) <= split.bin);
        let (low, high) = members.split_at_mut(middle);
        self.split(low, child, depth + 1, growth, rng, grown);
        self.split(high, child + 1, depth + 1, growth, rng, grown);
    }

    fn best_split(&self, members: &[u32], growth: &Growth, rng: &mut Pcg64Mcg) -> Option<Split> {
        let mut features: Vec<usize> =
            (0..FEATURES).filter(|f| growth.allowed >> f & 1 == 1 && !self.edges[*f].is_empty()).collect();
        let tried = growth.tried_features.min(features.len());
        features.partial_shuffle(rng, tried);
        features.truncate(tried);
        for feature in ALWAYS_TRIED {
            if !features.contains(&feature) && !self.edges[feature].is_empty() {
                features.push(feature);
            }
        }
        self.best_of_features(members, &features, growth.minimum_leaf)
    }

    /// The best split over `features`: one pass over the samples fills the histograms of all of them.
    fn best_of_features(&self, members: &[u32], features: &[usize], minimum: usize) -> Option<Split> {
        let mut histograms: Vec<Histogram> = vec![[[0.0; VIEWS + 1]; BINS]; features.len()];
        for &member in members {
            let (bins, views) = (&self.bins[member as usize], &self.views[member as usize]);
            for (histogram, &feature) in histograms.iter_mut().zip(features) {
                let sums = &mut histogram[usize::from(bins[feature]) % BINS];
                for (sum, view) in sums.iter_mut().zip(views) {
                    *sum += view;
                }
            }
        }
        let mut best: Option<Split> = None;
        for (histogram, &feature) in histograms.iter().zip(features) {
            let bins = &histogram[..=self.edges[feature].len()];
            if let Some((bin, gain)) = best_cut(bins, members.len(), minimum) {
                if best.as_ref().is_none_or(|best| gain > best.gain) {
                    best = Some(Split { feature, bin, gain });
                }
            }
        }
        best
    }
}

/// The bin after which to cut, and what that gains; `None` if no cut gains anything.
fn best_cut(bins: &[[f32; VIEWS + 1]], n: usize, minimum: usize) -> Option<(usize, f64)> {
    let total: [f64; VIEWS] = std::array::from_fn(|v| bins.iter().map(|sums| f64::from(sums[v])).sum());
    let score = |sum: &[f64; VIEWS], n: usize| sum.iter().map(|s| s * s).sum::<f64>() / n as f64;
    let whole = score(&total, n);
    let (mut left, mut left_n) = ([0.0; VIEWS], 0);
    let mut best: Option<(usize, f64)> = None;
    for (bin, sums) in bins[..bins.len() - 1].iter().enumerate() {
        // A count below 2^24 is exact.
        let count = sums[VIEWS] as usize;
        left_n += count;
        for (sum, add) in left.iter_mut().zip(sums) {
            *sum += f64::from(*add);
        }
        if left_n < minimum || count == 0 {
            continue;
        }
        if n - left_n < minimum {
            break;
        }
        let right: [f64; VIEWS] = std::array::from_fn(|v| total[v] - left[v]);
        let gain = score(&left, left_n) + score(&right, n - left_n) - whole;
        if gain > 1e-6 && best.is_none_or(|(_, most)| gain > most) {
            best = Some((bin, gain));
        }
    }
    best
}

struct Split {
    feature: usize,
    bin: usize,
    gain: f64,
}

/// Moves the members that satisfy `test` to the front, in order on both sides; returns their number.
fn partition(members: &mut [u32], test: impl Fn(u32) -> bool) -> usize {
    let (front, back): (Vec<u32>, Vec<u32>) = members.iter().partition(|&&member| test(member));
    members[..front.len()].copy_from_slice(&front);
    members[front.len()..].copy_from_slice(&back);
    front.len()
}

/// Thresholds between values of a feature, at most `BINS - 1`, about equally many samples apart.
fn edges_of(features: &[Features], feature: usize) -> Vec<f32> {
    // A systematic sample settles the edges: they need not be exact quantiles.
    let step = (features.len() / 20_000).max(1);
    let mut values: Vec<f32> = features.iter().step_by(step).map(|row| row[feature]).collect();
    values.sort_unstable_by(f32::total_cmp);
    let mut distinct = values.clone();
    distinct.dedup();
    let candidates: Vec<f32> = if distinct.len() <= BINS {
        distinct
    } else {
        let mut at_quantiles: Vec<f32> =
            (0..BINS).map(|k| values[k * (values.len() - 1) / (BINS - 1)]).collect();
        at_quantiles.dedup();
        at_quantiles
    };
    candidates.windows(2).map(|pair| pair[0] + (pair[1] - pair[0]) * 0.5).collect()
}

/// Value, logarithm and rank of the targets, each with mean 0 and variance 1; then a 1 to count by.
fn views(targets_us: &[f32]) -> Vec<[f32; VIEWS + 1]> {
    let n = targets_us.len();
    let mut by_value: Vec<u32> = (0..n as u32).collect();
    by_value.sort_unstable_by(|&a, &b| targets_us[a as usize].total_cmp(&targets_us[b as usize]));
    let mut ranks = vec![0.0; n];
    for (rank, &at) in by_value.iter().enumerate() {
        // Ties share the rank of the first.
        #[allow(clippy::float_cmp)] // Ties of the very same measured value.
        let tied = rank > 0 && targets_us[by_value[rank - 1] as usize] == targets_us[at as usize];
        ranks[at as usize] = if tied { ranks[by_value[rank - 1] as usize] } else { rank as f32 };
    }
    let logs: Vec<f32> = targets_us.iter().map(|y| y.max(0.1).ln()).collect();
    let columns = [standardised(targets_us), standardised(&logs), standardised(&ranks)];
    (0..n).map(|at| [columns[0][at], columns[1][at], columns[2][at], 1.0]).collect()
}

fn standardised(values: &[f32]) -> Vec<f32> {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
    let scale = if variance > 0.0 { variance.sqrt().recip() } else { 0.0 };
    values.iter().map(|&x| ((f64::from(x) - mean) * scale) as f32).collect()
}
