//! Which simulated frame each page of a trace lies in: one file a policy, one line each in
//! [`POLICIES`].
//!
//! A policy gives every touched page a frame, no two the same. Who shares a page, and whether it is
//! private, goes with the page; only which lines fall into one set of a cache, or one bank of memory,
//! changes.

mod captured;
mod coloured;
mod scattered;
mod sequential;

/// A page of the trace that is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// Number of its frame in the captured machine.
    pub frame: u64,
    /// Number of the virtual page that it was first known by; that of its frame in traces without
    /// that knowledge.
    pub virtual_page: u64,
}

/// What policies need to know of the simulated machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Colours: pages of one way of the largest cache, a power of two.
    pub colours: u64,
    /// Seed of random policies.
    pub seed: u64,
}

/// Gives a frame to each page; the pages come in the order of their first touch.
pub type Assign = fn(&[Touched], &Memory) -> Vec<u64>;

/// Every policy by the name that descriptions use.
pub const POLICIES: &[(&str, Assign)] = &[
    ("captured", captured::assign),
    ("sequential", sequential::assign),
    ("scattered", scattered::assign),
    ("coloured", coloured::assign),
];

/// The policy `name`; `None` for an unknown name.
pub fn by_name(name: &str) -> Option<Assign> {
    POLICIES.iter().find(|(known, _)| *known == name).map(|(_, assign)| *assign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::RandomStream;
    use std::collections::HashSet;

    /// Pages as a fragmented system has them: frames at random, virtual pages in runs.
    fn pages(seed: u64, count: u64) -> Vec<Touched> {
        let mut random = RandomStream::new(seed, "pages");
        let mut used = HashSet::new();
        let mut made = Vec::new();
        while made.len() < count as usize {
            let frame = random.below(count * 3);
            if used.insert(frame) {
                made.push(Touched { frame, virtual_page: (made.len() as u64 * 7) ^ 0x4_0000 });
            }
        }
        made
    }

    #[test]
    fn every_policy_gives_every_page_a_frame_of_its_own() {
        for (name, assign) in POLICIES {
            for count in [0, 1, 2, 500, 4000] {
                for colours in [1, 64] {
                    let frames = assign(&pages(count, count), &Memory { colours, seed: 3 });
                    assert_eq!(frames.len(), count as usize, "{name}");
                    let distinct: HashSet<u64> = frames.iter().copied().collect();
                    assert_eq!(distinct.len(), count as usize, "{name}, {count} pages");
                    assert!(frames.iter().all(|&frame| frame < 1 << 40), "{name}");
                }
            }
        }
    }

    #[test]
    fn colours_are_those_of_the_virtual_pages() {
        let (pages, memory) = (pages(1, 1000), Memory { colours: 16, seed: 1 });
        let frames = coloured::assign(&pages, &memory);
        for (page, frame) in pages.iter().zip(&frames) {
            assert_eq!(page.virtual_page % 16, frame % 16);
        }
        assert!(frames.iter().all(|&frame| frame < 16_000), "frames are taken densely");
    }

    #[test]
    fn scattered_frames_repeat_with_their_seed_only() {
        let pages = pages(1, 300);
        let draw = |seed| scattered::assign(&pages, &Memory { colours: 1, seed });
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
