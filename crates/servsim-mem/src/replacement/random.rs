//! Random replacement: any way with the same probability, from a seeded stream, so that a run
//! repeats.

use super::{Policy, Replacement};
use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::RandomStream;

pub(super) fn make(_sets: usize, ways: usize, rng: RandomStream) -> Replacement {
    Replacement::Fills(Box::new(Random { ways: ways as u64, rng }))
}

#[derive(Debug)]
struct Random {
    ways: u64,
    rng: RandomStream,
}

impl Policy for Random {
    fn fill(&mut self, _set: usize, _way: usize) {}

    fn victim(&mut self, _set: usize) -> usize {
        self.rng.below(self.ways) as usize
    }

    fn save(&self, _out: &mut Writer) {
        let Self { ways: _, rng: _ } = self;
    }

    fn restore(&mut self, _from: &mut Reader<'_>) -> Result<(), Damaged> {
        Ok(())
    }
}
