//! Sets of processors. One word holds a set today; nothing outside this file knows, so that machines with
//! more processors need a change here only.

use crate::ids::CpuId;

/// Most processors that a set can hold.
const MOST: usize = u64::BITS as usize;

/// A set of processors, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessorSet(u64);

impl ProcessorSet {
    /// Adds `processor`.
    ///
    /// # Panics
    /// When its number is too large for a set: machine descriptions do not allow it.
    #[inline]
    pub fn insert(&mut self, processor: CpuId) {
        assert!(processor.0 < MOST, "a set holds {MOST} processors");
        self.0 |= 1 << processor.0;
    }

    /// Takes out the processor of the lowest number.
    #[inline]
    pub fn take_first(&mut self) -> Option<CpuId> {
        if self.0 == 0 {
            return None;
        }
        let processor = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(CpuId(processor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_come_out_once_and_in_order() {
        let mut set = ProcessorSet::default();
        [63, 0, 17, 0].into_iter().for_each(|processor| set.insert(CpuId(processor)));
        let out: Vec<usize> = std::iter::from_fn(|| set.take_first()).map(|cpu| cpu.0).collect();
        assert_eq!(out, [0, 17, 63]);
        assert_eq!(set, ProcessorSet::default());
    }

    #[test]
    #[should_panic(expected = "a set holds 64 processors")]
    fn a_processor_beyond_the_set_is_not_taken_for_another() {
        ProcessorSet::default().insert(CpuId(64));
    }
}
