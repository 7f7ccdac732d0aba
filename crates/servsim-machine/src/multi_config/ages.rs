//! How many lines a cache has used since it used one last: what its fully associative shadow knows, for shadows of any
//! size at once (Mattson et al., IBM Systems Journal 9(2) 1970, on stacks).

use servsim_core::source::PageHash;
use servsim_core::LineAddr;
use std::collections::HashMap;

/// Most lines of a block: one is moved for each that is inserted or removed before it.
const MOST_IN_BLOCK: usize = 256;

/// The lines of one cache that the filter knows no more, by the time of their last use.
pub(super) struct Ages {
    /// In ascending order, within blocks and from one to the next; no block is empty.
    blocks: Vec<Vec<(u64, LineAddr)>>,
    stamps: HashMap<LineAddr, u64, PageHash>,
    /// The oldest lines beyond so many are forgotten.
    most: usize,
}

impl Ages {
    /// No lines, of which the last `most` are kept.
    pub fn new(most: usize) -> Self {
        Self { blocks: Vec::new(), stamps: HashMap::default(), most }
    }

    /// When `line` was used last, if it is here.
    pub fn stamp(&self, line: LineAddr) -> Option<u64> {
        self.stamps.get(&line).copied()
    }

    /// The lines used after `stamp`.
    pub fn since(&self, stamp: u64) -> usize {
        let mut lines = 0;
        for block in self.blocks.iter().rev() {
            if block[0].0 <= stamp {
                return lines + block.len() - block.partition_point(|&(of, _)| of <= stamp);
            }
            lines += block.len();
        }
        lines
    }

    /// The block that a line with this stamp lies in, or would.
    fn block(&self, stamp: u64) -> usize {
        // Nearly all are young.
        self.blocks.iter().rposition(|block| block[0].0 <= stamp).unwrap_or(0)
    }

    /// `line` was used last at `stamp`, at which no other was.
    pub fn insert(&mut self, line: LineAddr, stamp: u64) {
        self.stamps.insert(line, stamp);
        if self.blocks.is_empty() {
            self.blocks.push(vec![(stamp, line)]);
            return;
        }
        let number = self.block(stamp);
        let block = &mut self.blocks[number];
        block.insert(block.partition_point(|&(of, _)| of < stamp), (stamp, line));
        if block.len() > MOST_IN_BLOCK {
            let younger = block.split_off(MOST_IN_BLOCK / 2);
            self.blocks.insert(number + 1, younger);
        }
        if self.stamps.len() > self.most {
            let (_, oldest) = self.blocks[0][0];
            self.remove(oldest);
        }
    }

    /// `line` is in use again.
    pub fn remove(&mut self, line: LineAddr) {
        let Some(stamp) = self.stamps.remove(&line) else { return };
        let number = self.block(stamp);
        let block = &mut self.blocks[number];
        block.remove(block.partition_point(|&(of, _)| of < stamp));
        if block.is_empty() {
            self.blocks.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::RandomStream;

    #[test]
    fn lines_used_since_are_those_of_a_plain_list() {
        let mut r = RandomStream::new(3, "ages");
        let (mut ages, mut list) = (Ages::new(3000), Vec::new());
        for now in 1..40_000 {
            let line = LineAddr(r.below(4000));
            // Some are told late, in any order.
            let stamp = now * 64 - r.below(2) * r.below(64 * now.min(5000));
            if list.iter().any(|&(of, _)| of == stamp) {
                continue;
            }
            let place = list.iter().position(|&(_, other)| other == line);
            assert_eq!(ages.stamp(line), place.map(|place: usize| list[place].0));
            if let Some(place) = place {
                let (of, _) = list[place];
                assert_eq!(ages.since(of), list.len() - 1 - place);
                list.remove(place);
                ages.remove(line);
            }
            let place = list.iter().take_while(|&&(of, _)| of < stamp).count();
            list.insert(place, (stamp, line));
            ages.insert(line, stamp);
            if list.len() > 3000 {
                list.remove(0);
            }
        }
        assert_eq!(list.len(), 3000, "the oldest were forgotten");
    }
}
