//! Tree pseudo-LRU (patented by IBM 1985; common since the Intel 486): a binary tree over the ways
//! of a set, each node pointing at the half that was not used last. The victim is found by following
//! the pointers. Where the ways are no power of two, the lower half is the smaller one.
//!
//! The caches of most machines of today go by it, and every hit turns pointers: so those of a set are the bits of one number,
//! in which a use of a way sets and clears the same ones whatever they were.

use super::{Policy, Replacement};
use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::RandomStream;

pub(super) fn make(sets: usize, ways: usize, _rng: RandomStream) -> Replacement {
    Replacement::Tree(TreePlru::new(sets, ways))
}

/// The trees of a cache: of each set, nodes from index 1, children of `n` at `2n` and `2n + 1`, as in a heap.
#[derive(Debug)]
pub struct TreePlru {
    /// Whether nodes point right, a bit each, from the lowest on.
    right: Vec<u64>,
    /// What a use of each way leaves, where the nodes of a set are one number.
    paths: Box<[Path]>,
    /// Numbers of each set.
    words: usize,
    ways: usize,
    /// log2 of the ways, where they are a power of two.
    shift: Option<u32>,
}

/// What a use of a way leaves: of the pointers on its path those that lead right, and no other.
#[derive(Debug, Clone, Copy)]
struct Path {
    nodes: u64,
    right: u64,
}

/// A node, and the ways that it is over, from the first to before the last.
type Over = (usize, (usize, usize));

/// The right or the left half of a node that is over several ways.
fn half((node, (low, high)): Over, is_right: bool) -> Over {
    let middle = usize::midpoint(low, high);
    (2 * node + usize::from(is_right), if is_right { (middle, high) } else { (low, middle) })
}

/// The nodes from the root of a tree over so many ways to `way`, each with whether that lies right of it.
fn path(ways: usize, way: usize) -> impl Iterator<Item = (usize, bool)> {
    let mut at = (1, (0, ways));
    std::iter::from_fn(move || {
        let (node, (low, high)) = at;
        let is_right = way >= usize::midpoint(low, high);
        at = half(at, is_right);
        (high - low > 1).then_some((node, is_right))
    })
}

impl TreePlru {
    fn new(sets: usize, ways: usize) -> Self {
        let words = ways.next_power_of_two().div_ceil(64);
        let mut paths: Box<[_]> = vec![Path { nodes: 0, right: 0 }; if words == 1 { ways } else { 0 }].into();
        for (way, left) in paths.iter_mut().enumerate() {
            for (node, is_right) in path(ways, way) {
                left.nodes |= 1 << node;
                left.right |= u64::from(!is_right) << node;
            }
        }
        let shift = ways.is_power_of_two().then(|| ways.ilog2());
        Self { right: vec![0; sets * words], paths, words, ways, shift }
    }

    /// The way in frame `index` was used, or has got another block.
    #[inline]
    pub(super) fn use_frame(&mut self, index: usize) {
        let (set, way) = match self.shift {
            Some(shift) => (index >> shift, index & (self.ways - 1)),
            None => (index / self.ways, index % self.ways),
        };
        if let Some(path) = self.paths.get(way) {
            let right = &mut self.right[set];
            *right = *right & !path.nodes | path.right;
        } else {
            self.use_far(set, way);
        }
    }

    /// The same where a set has several numbers.
    #[inline(never)]
    fn use_far(&mut self, set: usize, way: usize) {
        let set = &mut self.right[set * self.words..][..self.words];
        for (node, is_right) in path(self.ways, way) {
            let bit = 1 << (node % 64);
            set[node / 64] = if is_right { set[node / 64] & !bit } else { set[node / 64] | bit };
        }
    }

    /// Nodes of a set that a state has room for.
    fn nodes(&self) -> usize {
        self.ways.next_power_of_two()
    }
}

impl Policy for TreePlru {
    fn hit(&mut self, set: usize, way: usize) {
        self.use_frame(set * self.ways + way);
    }

    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    fn victim(&mut self, set: usize) -> usize {
        let set = &self.right[set * self.words..][..self.words];
        let mut at = (1, (0, self.ways));
        loop {
            let (node, (low, high)) = at;
            if high - low == 1 {
                return low;
            }
            at = half(at, set[node / 64] >> (node % 64) & 1 != 0);
        }
    }

    fn save(&self, out: &mut Writer) {
        let Self { right, paths: _, words, ways: _, shift: _ } = self;
        let (nodes, sets) = (self.nodes(), right.len() / words);
        out.list((0..sets * nodes).map(|of_all| {
            let (set, node) = (of_all / nodes, of_all % nodes);
            right[set * words + node / 64] >> (node % 64) & 1
        }));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        let nodes = self.nodes();
        from.exactly(self.right.len() / self.words * nodes)?;
        for set in self.right.chunks_exact_mut(self.words) {
            set.fill(0);
            for node in 0..nodes {
                set[node / 64] |= from.below(2)? << (node % 64);
            }
        }
        Ok(())
    }
}
