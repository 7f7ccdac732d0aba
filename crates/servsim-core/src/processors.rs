//! Sets of processors, of any number; those of up to 64 touch one word.

use crate::ids::CpuId;

/// A set of processors, by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessorSet {
    first: u64,
    /// Words of the processors from 64.
    others: Vec<u64>,
}

impl ProcessorSet {
    /// Adds `processor`.
    #[inline]
    pub fn insert(&mut self, processor: CpuId) {
        match processor.0 / 64 {
            0 => self.first |= 1 << processor.0,
            word => {
                if self.others.len() < word {
                    self.others.resize(word, 0);
                }
                self.others[word - 1] |= 1 << (processor.0 % 64);
            }
        }
    }

    /// Takes out the processor of the lowest number.
    #[inline]
    pub fn take_first(&mut self) -> Option<CpuId> {
        let (at, word) = if self.first != 0 {
            (0, &mut self.first)
        } else if self.others.is_empty() {
            return None;
        } else {
            (1..).zip(&mut self.others).find(|(_, word)| **word != 0)?
        };
        let processor = at * 64 + word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(CpuId(processor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_come_out_once_and_in_order() {
        let mut set = ProcessorSet::default();
        [63, 1023, 0, 64, 17, 0].into_iter().for_each(|processor| set.insert(CpuId(processor)));
        let out: Vec<usize> = std::iter::from_fn(|| set.take_first()).map(|cpu| cpu.0).collect();
        assert_eq!(out, [0, 17, 63, 64, 1023]);
        assert_eq!(set.take_first(), None);
    }
}
