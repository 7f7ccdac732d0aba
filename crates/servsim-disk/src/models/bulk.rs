//! Drawing for many requests at once from the trees of a forest.
//!
//! Trees are walked in step and without branches, which hides the latency of memory: a lane that has
//! reached its leaf stays there, because a leaf here is an inner node that leads back to itself. In a
//! closed loop the last features of a request are known only when the request before it has been
//! drawn; there the lanes walk in step as far as they can without them, and the rest one by one.

use super::forest::Forest;
use super::grow::Node;
use crate::features::{is_timed, Features, FEATURES};
use rand::RngCore;
use rand_pcg::Pcg64Mcg;

/// Requests walked in step.
pub const LANES: usize = 16;
/// The feature that is always 0, and so never above an infinite threshold.
const UNUSED: u32 = FEATURES as u32 - 1;

/// A forest laid out for walking.
#[derive(Debug)]
pub struct Walker<'a> {
    forest: &'a Forest,
    nodes: Vec<Node>,
    /// The same, but stopping also where a feature is asked for that depends on time.
    timeless: Vec<Node>,
    /// Where the values of a leaf begin, and how many there are, by node.
    values: Vec<(u32, u32)>,
    /// Steps before which the average lane cannot have reached its leaf; then it pays to look.
    surely: u32,
    /// Values above this are drawn from the tail.
    threshold_us: f32,
}

/// Lanes on their way.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    at: [u32; LANES],
    bits: [u64; LANES],
}

impl<'a> Walker<'a> {
    /// Lays out `forest`.
    pub fn new(forest: &'a Forest) -> Self {
        let stopping = |stop: &dyn Fn(u32) -> bool| {
            let node = |(at, node): (usize, &Node)| {
                if stop(node.feature()) {
                    Node::new(UNUSED, f32::INFINITY, at as u32)
                } else {
                    *node
                }
            };
            forest.nodes.iter().enumerate().map(node).collect()
        };
        let values = |node: &Node| match node.feature() {
            Node::LEAF => {
                let leaf = node.child() as usize;
                (forest.leaf_starts[leaf], forest.leaf_starts[leaf + 1] - forest.leaf_starts[leaf])
            }
            _ => (0, 0),
        };
        // A balanced tree of as many leaves has this depth; none has a smaller average.
        let leaves = forest.leaf_starts.len() / forest.roots.len().max(1);
        Walker {
            forest,
            nodes: stopping(&|feature| feature == Node::LEAF),
            timeless: stopping(&|feature| feature == Node::LEAF || is_timed(feature)),
            values: forest.nodes.iter().map(values).collect(),
            surely: leaves.max(1).ilog2(),
            threshold_us: forest.tail.map_or(f32::INFINITY, |tail| tail.threshold_us as f32),
        }
    }

    /// Draws in us for as many requests as `out` is long: the same as one by one by
    /// [`Forest::draw_us`], unless the tail is drawn from.
    pub fn draw_many_us(&self, features: &[Features], rng: &mut Pcg64Mcg, out: &mut [f32]) {
        for (rows, out) in features.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let mut lanes = self.begin(rows.len(), rng);
            walk(&self.nodes, rows, &mut lanes.at, self.surely);
            for ((out, at), bits) in out.iter_mut().zip(lanes.at).zip(lanes.bits) {
                *out = self.value(at, bits, rng);
            }
        }
    }

    /// Walks up to [`LANES`] rows as far as time does not matter.
    pub fn walk_timeless(&self, rows: &[Features], rng: &mut Pcg64Mcg) -> Lanes {
        let mut lanes = self.begin(rows.len(), rng);
        walk(&self.timeless, rows, &mut lanes.at, 0);
        lanes
    }

    /// Walks lane `lane` to its end, with the whole of its features, and draws in us.
    #[inline]
    pub fn end(&self, lanes: &Lanes, lane: usize, row: &Features, rng: &mut Pcg64Mcg) -> f32 {
        let mut at = lanes.at[lane];
        loop {
            let next = step(self.nodes[at as usize], row);
            if next == at {
                return self.value(at, lanes.bits[lane], rng);
            }
            at = next;
        }
    }

    #[inline(always)]
    fn begin(&self, count: usize, rng: &mut Pcg64Mcg) -> Lanes {
        let mut lanes = Lanes { at: [0; LANES], bits: [0; LANES] };
        for (bits, at) in lanes.bits.iter_mut().zip(&mut lanes.at).take(count) {
            *bits = rng.next_u64();
            *at = self.forest.roots[self.forest.tree(*bits)];
        }
        lanes
    }

    /// A value of the leaf at node `at`, chosen by the lower half of `bits`.
    #[inline(always)]
    fn value(&self, at: u32, bits: u64, rng: &mut Pcg64Mcg) -> f32 {
        let (start, length) = self.values[at as usize];
        let offset = ((bits & 0xffff_ffff) * u64::from(length)) >> 32;
        let value = self.forest.values_us[start as usize + offset as usize];
        if value > self.threshold_us {
            return self.forest.tail.as_ref().map_or(value, |tail| tail.draw(rng) as f32);
        }
        value
    }
}

/// Walks every lane to where it stops; the first `surely` steps do not look whether any has.
#[inline(always)]
fn walk(nodes: &[Node], rows: &[Features], at: &mut [u32; LANES], surely: u32) {
    if let Ok(rows) = <&[Features; LANES]>::try_from(rows) {
        for _ in 0..surely {
            step_all(nodes, rows, at);
        }
        while step_all(nodes, rows, at) {}
    } else {
        while step_all(nodes, rows, at) {}
    }
}

/// One level down in every lane; whether any moved.
#[inline(always)]
fn step_all(nodes: &[Node], rows: &[Features], at: &mut [u32; LANES]) -> bool {
    let mut moved = 0;
    for (row, at) in rows.iter().zip(at) {
        let next = step(nodes[*at as usize], row);
        moved |= next ^ *at;
        *at = next;
    }
    moved != 0
}

#[inline(always)]
fn step(node: Node, row: &Features) -> u32 {
    node.child() + u32::from(row[node.feature() as usize % FEATURES] > node.threshold)
}
