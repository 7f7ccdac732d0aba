//! Static re-reference interval prediction with hit priority (Jaleel, Theobald, Steely & Emer, ISCA
//! 2010): two bits per block. A block is placed with a long interval (2), a hit predicts a near one
//! (0), and the first way with a distant one (3) makes room; without any, all of the set age.

use super::{Policy, Replacement};
use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::RandomStream;

const DISTANT: u8 = 3;
const LONG: u8 = 2;

pub(super) fn make(sets: usize, ways: usize, _rng: RandomStream) -> Replacement {
    Replacement::Policy(Box::new(Srrip { intervals: vec![DISTANT; sets * ways], ways }))
}

#[derive(Debug)]
struct Srrip {
    intervals: Vec<u8>,
    ways: usize,
}

impl Policy for Srrip {
    fn hit(&mut self, set: usize, way: usize) {
        self.intervals[set * self.ways + way] = 0;
    }

    fn fill(&mut self, set: usize, way: usize) {
        self.intervals[set * self.ways + way] = LONG;
    }

    fn victim(&mut self, set: usize) -> usize {
        let set = &mut self.intervals[set * self.ways..(set + 1) * self.ways];
        loop {
            if let Some(way) = set.iter().position(|&interval| interval == DISTANT) {
                return way;
            }
            set.iter_mut().for_each(|interval| *interval += 1);
        }
    }

    fn save(&self, out: &mut Writer) {
        let Self { intervals, ways: _ } = self;
        out.list(intervals.iter().map(|&interval| u64::from(interval)));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        from.exactly(self.intervals.len())?;
        for interval in &mut self.intervals {
            *interval = from.below(u64::from(DISTANT) + 1)? as u8;
        }
        Ok(())
    }
}
