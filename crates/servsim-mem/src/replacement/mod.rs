//! Replacement policies: one file each, one line each in [`POLICIES`].
//!
//! A policy is asked only when every frame of a set holds a valid copy. Otherwise the frame without
//! one that was used longest ago is taken, whatever the policy (frames never used before all), and
//! a block whose invalidated tag is still there returns to it. A *fill* places a block in a frame;
//! every later application of an access to it is a *hit*.

mod fifo;
mod lru;
mod random;
mod srrip;
mod tree_plru;

use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::RandomStream;
use std::fmt::Debug;
use tree_plru::TreePlru;

/// Replacement state of every set of one cache.
pub trait Policy: Debug + Send {
    /// The block in `way` of `set` was used. Said again right after it changes nothing: runs of hits may say it once for
    /// several. Not said to policies that go by fills alone ([`Replacement::Fills`]).
    fn hit(&mut self, set: usize, way: usize) {
        let _ = (set, way);
    }
    /// A block was placed in `way` of `set`.
    fn fill(&mut self, set: usize, way: usize);
    /// The way of `set` that makes room.
    fn victim(&mut self, set: usize) -> usize;
    /// Writes the state; a random stream is not part of it.
    fn save(&self, out: &mut Writer);
    /// Takes over the state that a policy of the same shape wrote.
    ///
    /// # Errors
    /// When the bytes are no such state.
    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged>;
}

/// How a cache chooses victims.
#[derive(Debug)]
pub enum Replacement {
    /// By the stamps of last use that every cache keeps: exact LRU.
    Stamps,
    /// By trees of pointers: a policy whose hits are told without a call.
    Tree(TreePlru),
    /// By a policy whose state hits leave as it is.
    Fills(Box<dyn Policy>),
    /// By another policy with state of its own.
    Policy(Box<dyn Policy>),
}

/// Makes the state for so many sets and ways; the stream is for random policies.
pub type Make = fn(usize, usize, RandomStream) -> Replacement;

/// Every policy by the name that descriptions use.
pub const POLICIES: &[(&str, Make)] = &[
    ("lru", lru::make),
    ("fifo", fifo::make),
    ("tree-plru", tree_plru::make),
    ("random", random::make),
    ("srrip", srrip::make),
];

/// The state of policy `name`; `None` for an unknown name.
pub fn by_name(name: &str, sets: usize, ways: usize, rng: RandomStream) -> Option<Replacement> {
    POLICIES.iter().find(|(n, _)| *n == name).map(|(_, make)| make(sets, ways, rng))
}

impl Replacement {
    /// Whether hits leave the state as it is.
    pub fn heeds_no_hits(&self) -> bool {
        matches!(self, Self::Stamps | Self::Fills(_))
    }

    /// The block in frame `index` of a cache of so many ways was used.
    #[inline]
    pub fn hit_at(&mut self, index: usize, ways: usize) {
        match self {
            Self::Stamps | Self::Fills(_) => {}
            Self::Tree(trees) => trees.use_frame(index),
            Self::Policy(policy) => policy.hit(index / ways, index % ways),
        }
    }

    /// A block was placed in frame `index` of a cache of so many ways.
    #[inline]
    pub fn fill_at(&mut self, index: usize, ways: usize) {
        if let Some(policy) = self.policy_mut() {
            policy.fill(index / ways, index % ways);
        }
    }

    /// Writes the state.
    pub fn save(&self, out: &mut Writer) {
        match self {
            Self::Stamps => {}
            Self::Tree(trees) => trees.save(out),
            Self::Fills(policy) | Self::Policy(policy) => policy.save(out),
        }
    }

    /// Takes over a state that was saved.
    ///
    /// # Errors
    /// When the bytes are no state of this policy.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.policy_mut().map_or(Ok(()), |policy| policy.restore(from))
    }

    #[inline]
    fn policy_mut(&mut self) -> Option<&mut dyn Policy> {
        match self {
            Self::Stamps => None,
            Self::Tree(trees) => Some(trees),
            Self::Fills(policy) | Self::Policy(policy) => Some(policy.as_mut()),
        }
    }

    /// The way that makes room in `set`, whose ways are described by numbers that are the smaller the longer a way was not
    /// used, and have the highest bit where it is valid.
    ///
    /// # Panics
    /// For a set without ways.
    #[inline]
    pub fn victim(&mut self, set: usize, ages: impl Iterator<Item = u64>) -> usize {
        // One number per way, so that a search is a chain of minima without branches.
        let oldest = ages.enumerate().reduce(|a, b| if b.1 < a.1 { b } else { a });
        let (way, age) = oldest.expect("a set has ways");
        match self.policy_mut() {
            Some(policy) if age >> 63 != 0 => policy.victim(set),
            _ => way,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of so many ways, all with valid copies.
    struct Sets(Replacement, usize);

    impl Sets {
        fn hit(&mut self, set: usize, way: usize) {
            self.0.hit_at(set * self.1 + way, self.1);
        }

        fn fill(&mut self, set: usize, way: usize) {
            self.0.fill_at(set * self.1 + way, self.1);
        }

        fn victim(&mut self, set: usize) -> usize {
            self.0.victim(set, (0..self.1).map(|_| 1 << 63))
        }
    }

    fn policy(name: &str, ways: usize) -> Sets {
        Sets(by_name(name, 2, ways, RandomStream::new(1, "test")).expect("a policy of that name"), ways)
    }

    #[test]
    fn the_tree_spares_what_was_used_last() {
        let mut tree = policy("tree-plru", 4);
        for way in [0, 2, 1, 3] {
            tree.fill(1, way);
        }
        // 3 was used last, so the left half; 1 was used after 0 there.
        assert_eq!(tree.victim(1), 0);
        tree.hit(1, 0);
        // Now the right half, where 3 was used after 2.
        assert_eq!(tree.victim(1), 2);
        assert_eq!(tree.victim(0), 0, "sets are independent");
    }

    #[test]
    fn the_tree_of_three_ways_reaches_all_of_them() {
        let mut tree = policy("tree-plru", 3);
        // The lower half is way 0, the upper half ways 1 and 2.
        let mut victims = Vec::new();
        for _ in 0..4 {
            victims.push(tree.victim(0));
            tree.fill(0, victims[victims.len() - 1]);
        }
        assert_eq!(victims, [0, 1, 0, 2]);
    }

    /// A tree as it is drawn: two halves, and whether it points at the second.
    enum Drawn {
        Way(usize),
        Halves(bool, Box<[Drawn; 2]>),
    }

    impl Drawn {
        fn over(ways: std::ops::Range<usize>) -> Self {
            if ways.len() == 1 {
                return Self::Way(ways.start);
            }
            let middle = ways.start + ways.len() / 2;
            Self::Halves(false, Box::new([Self::over(ways.start..middle), Self::over(middle..ways.end)]))
        }

        /// Whether it has `way`; if so it points elsewhere now.
        fn turn_from(&mut self, way: usize) -> bool {
            match self {
                Self::Way(own) => *own == way,
                Self::Halves(points, halves) => {
                    let found = halves.iter_mut().position(|half| half.turn_from(way));
                    if let Some(found) = found {
                        *points = found == 0;
                    }
                    found.is_some()
                }
            }
        }

        fn pointed_at(&self) -> usize {
            match self {
                Self::Way(way) => *way,
                Self::Halves(points, halves) => halves[usize::from(*points)].pointed_at(),
            }
        }
    }

    #[test]
    fn trees_of_any_number_of_ways_point_where_drawn_ones_do() {
        let mut random = RandomStream::new(7, "trees");
        for ways in [1, 2, 3, 8, 11, 12, 16, 31, 64, 65, 96, 128, 300] {
            let mut trees = policy("tree-plru", ways);
            let mut drawn = [Drawn::over(0..ways), Drawn::over(0..ways)];
            for step in 0..2000 {
                let (set, way) = (random.below(2) as usize, random.below(ways as u64) as usize);
                match step % 3 {
                    0 => trees.hit(set, way),
                    _ => trees.fill(set, way),
                }
                assert!(drawn[set].turn_from(way));
                for (set, drawn) in drawn.iter().enumerate() {
                    assert_eq!(trees.victim(set), drawn.pointed_at(), "{ways} ways, step {step}");
                }
            }
        }
    }

    #[test]
    fn trees_are_saved_node_by_node() {
        for ways in [4, 12, 64, 100] {
            let (mut left, mut right) = (policy("tree-plru", ways), policy("tree-plru", ways));
            for way in [ways - 1, 0, ways / 2] {
                left.fill(1, way);
            }
            let mut saved = Writer::default();
            left.0.save(&mut saved);
            let bytes = saved.into_bytes();
            let mut from = Reader::new(&bytes);
            right.0.restore(&mut from).unwrap();
            assert_eq!(
                [0, 1].map(|set| right.victim(set)),
                [0, 1].map(|set| left.victim(set)),
                "{ways} ways"
            );
            assert_ne!(left.victim(1), left.victim(0), "{ways} ways");
        }
    }

    #[test]
    fn fifo_takes_the_block_that_came_first_though_it_was_used_last() {
        let mut fifo = policy("fifo", 3);
        for way in [2, 0, 1] {
            fifo.fill(1, way);
        }
        fifo.hit(1, 2);
        assert_eq!(fifo.victim(1), 2);
        fifo.fill(1, 2);
        assert_eq!(fifo.victim(1), 0);
    }

    #[test]
    fn srrip_takes_blocks_never_hit_before_blocks_hit() {
        let mut srrip = policy("srrip", 4);
        for way in 0..4 {
            srrip.fill(0, way);
        }
        srrip.hit(0, 0);
        assert_eq!(srrip.victim(0), 1);
        srrip.fill(0, 1);
        assert_eq!(srrip.victim(0), 2, "the others have aged to the limit, the new block has not");
    }

    #[test]
    fn random_victims_repeat_with_their_seed_and_reach_every_way() {
        let draw = || {
            let mut random = policy("random", 8);
            (0..200).map(|_| random.victim(0)).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
        assert!((0..8).all(|way| draw().contains(&way)));
    }

    #[test]
    fn a_frame_without_a_copy_is_taken_before_any_policy_is_asked() {
        for (name, make) in POLICIES {
            let mut replacement = make(1, 4, RandomStream::new(1, "test"));
            let ways = [1 << 63 | 1, 9, 4, 1 << 63 | 2];
            assert_eq!(replacement.victim(0, ways.into_iter()), 2, "{name}");
        }
    }
}
