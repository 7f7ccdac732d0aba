//! Tree pseudo-LRU (patented by IBM 1985; common since the Intel 486): a binary tree over the ways
//! of a set, each node pointing at the half that was not used last. The victim is found by following
//! the pointers. Where the ways are no power of two, the lower half is the smaller one.

use super::{Policy, Replacement};
use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::RandomStream;

pub(super) fn make(sets: usize, ways: usize, _rng: RandomStream) -> Replacement {
    Replacement::Policy(Box::new(TreePlru { right: vec![false; sets * ways.next_power_of_two()], ways }))
}

/// Nodes of a set from index 1, children of `n` at `2n` and `2n + 1`, as in a heap.
#[derive(Debug)]
struct TreePlru {
    /// Whether the node points right.
    right: Vec<bool>,
    ways: usize,
}

impl Policy for TreePlru {
    fn hit(&mut self, set: usize, way: usize) {
        let first = set * self.ways.next_power_of_two();
        let (mut low, mut high, mut node) = (0, self.ways, 1);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            let is_right = way >= middle;
            self.right[first + node] = !is_right;
            (low, high) = if is_right { (middle, high) } else { (low, middle) };
            node = 2 * node + usize::from(is_right);
        }
    }

    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    fn victim(&mut self, set: usize) -> usize {
        let first = set * self.ways.next_power_of_two();
        let (mut low, mut high, mut node) = (0, self.ways, 1);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            let is_right = self.right[first + node];
            (low, high) = if is_right { (middle, high) } else { (low, middle) };
            node = 2 * node + usize::from(is_right);
        }
        low
    }

    fn save(&self, out: &mut Writer) {
        let Self { right, ways: _ } = self;
        out.list(right.iter().map(|&right| u64::from(right)));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        from.exactly(self.right.len())?;
        for right in &mut self.right {
            *right = from.below(2)? == 1;
        }
        Ok(())
    }
}
