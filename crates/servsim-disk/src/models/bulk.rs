//! Drawing for many requests at once from the trees of a forest.
//!
//! Trees are walked in step and without branches, which hides the latency of memory: a lane that has
//! reached its leaf stays there, because a leaf here is an inner node that leads back to itself.
//! Features and thresholds are compared as whole numbers of the same order, which takes fewer
//! instructions than comparing floats and says the same.
//!
//! In a closed loop the last features of a request are known only when the request before it has been
//! drawn. There the lanes walk with a guess of them ([`Guesses`]), and each draw is checked when they
//! are known: a guess need not be right, only lead to the same leaf. Where it does not, that lane walks
//! again. So guesses decide how quick a simulation is, never what comes out. Over 400 lines: walks with
//! and without guesses share one layout.

use super::forest::Forest;
use super::grow::Node;
use crate::features::{is_timed, Features, FEATURES, IDLE, OP, SINCE_WRITE};
use rand::RngCore;
use rand_pcg::Pcg64Mcg;

/// Requests walked in step.
pub const LANES: usize = 16;
/// Of these, as many at a time as the registers hold.
const ABREAST: usize = 8;
/// Trees up to this depth are walked to the end in any case; in deeper ones it pays to look.
const SHALLOW: u32 = 12;

/// The features of a request as whole numbers in the order of the floats.
pub type Keys = [u32; FEATURES];

/// A whole number for every float, in the same order; no float has the largest.
#[inline(always)]
fn key(x: f32) -> u32 {
    let bits = x.to_bits();
    bits ^ ((bits as i32 >> 31) as u32 | 1 << 31)
}

/// The keys of a row of features.
#[inline(always)]
pub fn keys(row: &Features) -> Keys {
    row.map(key)
}

/// A node to walk over: `keys[feature] > threshold` leads to `child + 1`, the rest to `child`.
#[derive(Debug, Clone, Copy)]
struct Step {
    threshold: u32,
    /// Child in the upper 24 bits, feature in the lower 8.
    packed: u32,
}

impl Step {
    fn new(node: Node) -> Self {
        // Adding 0 makes -0 the 0 it compares as.
        Step { threshold: key(node.threshold + 0.0), packed: node.child() << 8 | node.feature() }
    }

    /// A node that is never left.
    fn stay(at: usize) -> Self {
        Step { threshold: u32::MAX, packed: (at as u32) << 8 }
    }

    #[inline(always)]
    fn next(self, row: &Keys) -> u32 {
        (self.packed >> 8) + u32::from(row[self.packed as usize % FEATURES] > self.threshold)
    }
}

/// A forest laid out for walking.
#[derive(Debug)]
struct Layout {
    steps: Vec<Step>,
    /// Steps to take without looking whether any lane still moves.
    surely: u32,
    /// Whether no lane moves after those.
    enough: bool,
}

impl Layout {
    /// Lanes begin at one of `begins` and stay at the leaves, and where `stop` says so of the feature
    /// asked for.
    fn new(forest: &Forest, begins: &[[u32; 2]], stop: impl Fn(u32) -> bool) -> Self {
        let stays = |node: &Node| node.feature() == Node::LEAF || stop(node.feature());
        let mut depths = vec![0; forest.nodes.len()];
        // Children come after their parents.
        for (at, node) in forest.nodes.iter().enumerate().rev().filter(|(_, node)| !stays(node)) {
            let child = node.child() as usize;
            depths[at] = 1 + u32::max(depths[child], depths[child + 1]);
        }
        let depth = begins.iter().flatten().map(|&at| depths[at as usize]).max().unwrap_or(0);
        // A balanced tree of as many leaves has this depth; none has a smaller average.
        let balanced = (forest.leaf_starts.len() / forest.roots.len().max(1)).max(1).ilog2();
        let step = |(at, node): (usize, &Node)| if stays(node) { Step::stay(at) } else { Step::new(*node) };
        Layout {
            steps: forest.nodes.iter().enumerate().map(step).collect(),
            surely: if depth <= SHALLOW { depth } else { balanced.min(depth) },
            enough: depth <= SHALLOW,
        }
    }

    /// Walks every lane to where it stays.
    #[inline(always)]
    fn walk(&self, rows: &[Keys; LANES], at: &mut [u32; LANES]) {
        for (rows, at) in rows.chunks_exact(ABREAST).zip(at.chunks_exact_mut(ABREAST)) {
            let rows: &[Keys; ABREAST] = rows.try_into().expect("lanes come in whole rows");
            let mut abreast: [u32; ABREAST] = (&*at).try_into().expect("lanes come in whole rows");
            for _ in 0..self.surely {
                self.step_all(rows, &mut abreast);
            }
            while !self.enough && self.step_all(rows, &mut abreast) {}
            at.copy_from_slice(&abreast);
        }
    }

    /// One level down in every lane; whether any moved.
    #[inline(always)]
    fn step_all(&self, rows: &[Keys; ABREAST], at: &mut [u32; ABREAST]) -> bool {
        let mut moved = 0;
        for (row, at) in rows.iter().zip(at) {
            let next = self.steps[*at as usize].next(row);
            moved |= next ^ *at;
            *at = next;
        }
        moved != 0
    }

    /// Where a single lane at `at` stays.
    #[inline(always)]
    fn walk_one(&self, row: &Keys, mut at: u32) -> u32 {
        loop {
            let next = self.steps[at as usize].next(row);
            if next == at {
                return at;
            }
            at = next;
        }
    }
}

/// Draws from a forest for many requests at once.
#[derive(Debug)]
pub struct Walker<'a> {
    forest: &'a Forest,
    layout: Layout,
    /// Where to begin in each tree, for reads and for writes: after the nodes that ask which it is.
    begins: Vec<[u32; 2]>,
    /// Where the values of a leaf begin, and how many there are, by node.
    values: Vec<(u32, u32)>,
    /// Values above this are drawn from the tail.
    threshold_us: f32,
}

impl<'a> Walker<'a> {
    /// Lays out `forest`.
    pub fn new(forest: &'a Forest) -> Self {
        let values = |node: &Node| match node.feature() {
            Node::LEAF => {
                let leaf = node.child() as usize;
                (forest.leaf_starts[leaf], forest.leaf_starts[leaf + 1] - forest.leaf_starts[leaf])
            }
            _ => (0, 0),
        };
        let begin = |root: &u32| {
            [0.0, 1.0].map(|op: f32| {
                let mut at = *root;
                while forest.nodes[at as usize].feature() == OP as u32 {
                    let node = forest.nodes[at as usize];
                    at = node.child() + u32::from(op > node.threshold);
                }
                at
            })
        };
        let begins: Vec<[u32; 2]> = forest.roots.iter().map(begin).collect();
        Walker {
            forest,
            layout: Layout::new(forest, &begins, |_| false),
            begins,
            values: forest.nodes.iter().map(values).collect(),
            threshold_us: forest.tail.map_or(f32::INFINITY, |tail| tail.threshold_us as f32),
        }
    }

    /// Draws in us for as many requests as `out` is long: the same as one by one by
    /// [`Forest::draw_us`], unless the tail is drawn from.
    pub fn draw_many_us(&self, features: &[Features], rng: &mut Pcg64Mcg, out: &mut [f32]) {
        let mut rows = [[0; FEATURES]; LANES];
        for (features, out) in features.chunks(LANES).zip(out.chunks_mut(LANES)) {
            rows.iter_mut().zip(features).for_each(|(row, features)| *row = keys(features));
            let (mut at, bits) = self.begin(&rows[..features.len()], rng);
            self.layout.walk(&rows, &mut at);
            let mut above = false;
            for ((out, at), bits) in out.iter_mut().zip(at).zip(bits) {
                *out = self.value(at, bits);
                above |= *out > self.threshold_us;
            }
            if above {
                out.iter_mut().for_each(|value| *value = self.with_tail(*value, rng));
            }
            if self.forest.platters.is_some() {
                out.iter_mut().zip(features).for_each(|(value, row)| *value += self.forest.passes_us(row));
            }
        }
    }

    /// Chooses a tree for each row, and the bits that choose a value later; lanes without a row begin
    /// anywhere.
    #[inline(always)]
    fn begin(&self, rows: &[Keys], rng: &mut Pcg64Mcg) -> ([u32; LANES], [u64; LANES]) {
        let (mut at, mut bits) = ([0; LANES], [0; LANES]);
        for ((row, at), bits) in rows.iter().zip(&mut at).zip(&mut bits) {
            *bits = rng.next_u64();
            *at = self.begins[self.forest.tree(*bits)][usize::from(row[OP] > key(0.5))];
        }
        (at, bits)
    }

    /// A value of the leaf at node `at`, chosen by the lower half of `bits`.
    #[inline(always)]
    fn value(&self, at: u32, bits: u64) -> f32 {
        let (start, length) = self.values[at as usize];
        let offset = ((bits & 0xffff_ffff) * u64::from(length)) >> 32;
        self.forest.values_us[start as usize + offset as usize]
    }

    /// `value`, or one of the tail if it belongs there.
    #[inline(always)]
    fn with_tail(&self, value: f32, rng: &mut Pcg64Mcg) -> f32 {
        match &self.forest.tail {
            Some(tail) if value > self.threshold_us => tail.draw(rng) as f32,
            _ => value,
        }
    }
}

/// Idleness and time since a write that lead to one leaf, as keys: above the first, up to the second.
#[derive(Debug, Clone, Copy)]
struct Reach {
    idle: (u32, u32),
    since_write: (u32, u32),
}

impl Reach {
    const ALL: Reach = Reach { idle: (0, u32::MAX), since_write: (0, u32::MAX) };

    /// What is left of it below `step`, on the side above its threshold or on the other.
    fn below(mut self, step: Step, above: bool) -> Self {
        let range = match step.packed as usize % FEATURES {
            IDLE => &mut self.idle,
            SINCE_WRITE => &mut self.since_write,
            _ => return self,
        };
        if above {
            range.0 = range.0.max(step.threshold);
        } else {
            range.1 = range.1.min(step.threshold);
        }
        self
    }

    #[inline(always)]
    fn holds(&self, row: &Keys) -> bool {
        let within = |x: u32, (above, up_to): (u32, u32)| x > above && x <= up_to;
        within(row[IDLE], self.idle) && within(row[SINCE_WRITE], self.since_write)
    }
}

/// Draws from a forest for a device that serves one request at a time, whose times are not known
/// before the request ahead has been drawn.
#[derive(Debug)]
pub struct Guesses<'a> {
    walker: Walker<'a>,
    /// The forest, but stopping where a feature is asked for that depends on time.
    timeless: Layout,
    /// Mean of the values below a node, ns.
    means_ns: Vec<u64>,
    reaches: Vec<Reach>,
}

/// Lanes on their way.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    /// Where time begins to matter.
    timeless: [u32; LANES],
    /// The leaf, by the guess.
    at: [u32; LANES],
    bits: [u64; LANES],
}

impl<'a> Guesses<'a> {
    /// Lays out `forest`.
    pub fn new(forest: &'a Forest) -> Self {
        let walker = Walker::new(forest);
        let mut sums = vec![(0.0, 0_u32); forest.nodes.len()];
        let mut reaches = vec![Reach::ALL; forest.nodes.len()];
        for (at, node) in forest.nodes.iter().enumerate().rev() {
            let (start, length) = walker.values[at];
            let child = node.child() as usize;
            sums[at] = if node.feature() == Node::LEAF {
                let values = &forest.values_us[start as usize..(start + length) as usize];
                (values.iter().map(|&value| f64::from(value)).sum(), length)
            } else {
                (sums[child].0 + sums[child + 1].0, sums[child].1 + sums[child + 1].1)
            };
        }
        for (at, node) in forest.nodes.iter().enumerate().filter(|(_, node)| node.feature() != Node::LEAF) {
            for side in 0..2 {
                let step = walker.layout.steps[at];
                reaches[node.child() as usize + side] = reaches[at].below(step, side == 1);
            }
        }
        let mean_ns = |&(sum_us, count): &(f64, u32)| (sum_us * 1e3 / f64::from(count)) as u64;
        let means_ns = sums.iter().map(mean_ns).collect();
        let timeless = Layout::new(forest, &walker.begins, is_timed);
        Guesses { walker, timeless, means_ns, reaches }
    }

    /// Walks the first `count` rows. `guess` is told the lane, its row and the mean service time it may
    /// expect, in ns, and sets what of the row depends on time.
    pub fn walk(
        &self,
        rows: &mut [Keys; LANES],
        count: usize,
        rng: &mut Pcg64Mcg,
        mut guess: impl FnMut(usize, &mut Keys, u64),
    ) -> Lanes {
        let (mut at, bits) = self.walker.begin(&rows[..count], rng);
        self.timeless.walk(rows, &mut at);
        let timeless = at;
        for (lane, row) in rows[..count].iter_mut().enumerate() {
            guess(lane, row, self.means_ns[timeless[lane] as usize]);
        }
        self.walker.layout.walk(rows, &mut at);
        Lanes { timeless, at, bits }
    }

    /// Draws in us for lane `lane`, given the whole of its row.
    #[inline(always)]
    pub fn end(&self, lanes: &Lanes, lane: usize, row: &Keys, rng: &mut Pcg64Mcg) -> f32 {
        let mut at = lanes.at[lane];
        if !self.reaches[at as usize].holds(row) {
            at = self.walker.layout.walk_one(row, lanes.timeless[lane]);
        }
        self.walker.with_tail(self.walker.value(at, lanes.bits[lane]), rng)
    }
}

/// Sets the keys of the features that depend on when the service starts: see
/// [`crate::features::set_times`].
#[inline(always)]
pub fn set_time_keys(row: &mut Keys, idle_ns: u64, since_write_ns: Option<u64>) {
    let mut features = Features::default();
    crate::features::set_times(&mut features, idle_ns, since_write_ns);
    row[IDLE] = key(features[IDLE]);
    row[SINCE_WRITE] = key(features[SINCE_WRITE]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_compare_as_their_floats_do() {
        let values =
            [f32::MIN, -7.5, -f32::MIN_POSITIVE, -0.0, 0.0, f32::MIN_POSITIVE, 7.5, 1e9, f32::INFINITY];
        for threshold in values {
            for x in values {
                let mut row = Features::default();
                row[3] = x;
                // A feature is never -0: it comes from a whole number.
                if x.to_bits() != 1 << 31 {
                    let next = Step::new(Node::new(3, threshold, 10)).next(&keys(&row));
                    assert_eq!(next, 10 + u32::from(x > threshold), "{x} > {threshold}");
                }
                assert_eq!(Step::stay(6).next(&keys(&row)), 6);
            }
        }
    }

    #[test]
    fn a_reach_holds_what_leads_down_the_same_way() {
        let step = |feature, threshold| Step::new(Node::new(feature as u32, threshold, 0));
        let row = |idle: u64, since: Option<u64>| {
            let mut row = keys(&Features::default());
            set_time_keys(&mut row, idle, since);
            row
        };
        // Idle above 3.5 us and up to 9.5 us, at most 5.5 us since a write.
        let reach = Reach::ALL
            .below(step(IDLE, 3.5), true)
            .below(step(IDLE, 9.5), false)
            .below(step(IDLE, 20.0), false)
            .below(step(SINCE_WRITE, 5.5), false)
            .below(step(OP, 0.5), true);
        for (idle, since, held) in [
            (3_499, 5_499, false),
            (3_501, 5_499, true),
            (9_499, 0, true),
            (9_501, 0, false),
            (4_000, 5_501, false),
        ] {
            assert_eq!(reach.holds(&row(idle, Some(since))), held, "{idle} {since}");
        }
        assert!(!reach.holds(&row(4_000, None)) && Reach::ALL.holds(&row(0, None)));
    }
}
