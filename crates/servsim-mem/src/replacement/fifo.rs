//! First in, first out: the block that was placed longest ago makes room, however often it was used.

use super::{Policy, Replacement};
use crate::snapshot::{ranks, Damaged, Reader, Writer};
use servsim_core::RandomStream;

pub(super) fn make(sets: usize, ways: usize, _rng: RandomStream) -> Replacement {
    Replacement::Fills(Box::new(Fifo { placed: vec![0; sets * ways], clock: 0, ways }))
}

#[derive(Debug)]
struct Fifo {
    /// When each way was filled last; 0 for never.
    placed: Vec<u64>,
    clock: u64,
    ways: usize,
}

impl Policy for Fifo {
    fn fill(&mut self, set: usize, way: usize) {
        self.clock += 1;
        self.placed[set * self.ways + way] = self.clock;
    }

    fn victim(&mut self, set: usize) -> usize {
        let placed = &self.placed[set * self.ways..(set + 1) * self.ways];
        placed.iter().enumerate().min_by_key(|(_, &when)| when).map_or(0, |(way, _)| way)
    }

    fn save(&self, out: &mut Writer) {
        let Self { placed, clock: _, ways } = self;
        let order: Vec<u64> = placed.chunks(*ways).flat_map(|set| ranks(set.iter().copied())).collect();
        out.list(order.into_iter());
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        from.exactly(self.placed.len())?;
        for when in &mut self.placed {
            *when = from.below(self.ways as u64 + 1)?;
        }
        self.clock = self.ways as u64;
        Ok(())
    }
}
