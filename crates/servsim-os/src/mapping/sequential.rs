//! Frames in the order of first touch, as an operating system with an unfragmented list of free frames
//! gives them.

use super::{Memory, Touched};

pub(super) fn assign(pages: &[Touched], _memory: &Memory) -> Vec<u64> {
    (0..pages.len() as u64).collect()
}
