//! Tree pseudo-LRU (patented by IBM 1985; common since the Intel 486): a binary tree over the ways
//! of a set, each node pointing at the half that was not used last. The victim is found by following
//! the pointers. Ways are a power of two.

use super::{Policy, Replacement};
use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::RandomStream;

pub(super) fn make(sets: usize, ways: usize, _rng: RandomStream) -> Replacement {
    Replacement::Policy(Box::new(TreePlru { right: vec![false; sets * ways], ways }))
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
        // The leaf of `way` has index `ways + way`; its bits are the path to it.
        let mut node = self.ways + way;
        while node > 1 {
            let came_from_right = node & 1 == 1;
            node /= 2;
            self.right[set * self.ways + node] = !came_from_right;
        }
    }

    fn fill(&mut self, set: usize, way: usize) {
        self.hit(set, way);
    }

    fn victim(&mut self, set: usize) -> usize {
        let mut node = 1;
        while node < self.ways {
            node = node * 2 + usize::from(self.right[set * self.ways + node]);
        }
        node - self.ways
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
