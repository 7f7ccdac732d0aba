//! Any free frame, as after long operation: drawn at random from a memory many times larger than what
//! is touched, so that the colours of the frames vary as independent draws do.

use super::{Memory, Touched};
use servsim_core::RandomStream;
use std::collections::HashSet;

/// Frames of the memory per touched page, at least.
const ROOM: u64 = 16;

pub(super) fn assign(pages: &[Touched], memory: &Memory) -> Vec<u64> {
    let frames = (pages.len() as u64 * ROOM).next_power_of_two();
    let mut rng = RandomStream::new(memory.seed, "page mapping");
    let mut taken = HashSet::with_capacity(pages.len());
    let draw = |_: &Touched| loop {
        let frame = rng.below(frames);
        if taken.insert(frame) {
            return frame;
        }
    };
    pages.iter().map(draw).collect()
}
