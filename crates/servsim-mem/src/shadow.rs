//! A fully associative LRU cache of the same size, which tells conflict from capacity misses: a
//! miss on a block that this shadow holds is a conflict. The shadow ignores invalidations.
//!
//! It sees every reference, so a hit must cost nothing. When the cache itself holds a line, its frame says when that was
//! used last; the shadow asks for it when something has to make room, and knows by itself only of lines that the cache has
//! lost. It asks for all lines at once and puts them in order, which serves as long as that lasts: whatever was used since
//! was used after all of them, so the first that was not is the oldest.

use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::LineAddr;

/// No node.
pub const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    line: LineAddr,
    /// The last use that is known here.
    stamp: u64,
    chain: u32,
}

impl Node {
    /// Its last use; `last_use` says of a line and its node when its frame was used last.
    #[inline]
    fn used(&self, node: u32, last_use: impl Fn(LineAddr, u32) -> u64) -> u64 {
        self.stamp.max(last_use(self.line, node))
    }
}

/// A fully associative LRU set of lines.
#[derive(Debug)]
pub struct Shadow {
    nodes: Vec<Node>,
    buckets: Vec<u32>,
    capacity: usize,
    /// Nodes by their last use when they were put in order, the earliest at the end; those before it have left, or were
    /// used since. Below a use, as counted from `first`, lies the node.
    in_order: Vec<u64>,
    first: u64,
}

impl Shadow {
    /// An empty set of at most `capacity` lines.
    pub fn new(capacity: usize) -> Self {
        let buckets = (capacity * 2).next_power_of_two();
        Self {
            nodes: Vec::with_capacity(capacity),
            buckets: vec![NOWHERE; buckets],
            capacity,
            in_order: Vec::with_capacity(capacity),
            first: 0,
        }
    }

    fn bucket(&self, line: LineAddr) -> usize {
        (line.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) as usize & (self.buckets.len() - 1)
    }

    /// The node of `line`, if it is among the most recent `capacity` lines.
    pub fn find(&self, line: LineAddr) -> Option<u32> {
        let mut node = self.buckets[self.bucket(line)];
        while node != NOWHERE {
            let entry = &self.nodes[node as usize];
            if entry.line == line {
                return Some(node);
            }
            node = entry.chain;
        }
        None
    }

    /// Bytes of host memory in use, for the bench.
    pub fn bytes(&self) -> usize {
        let in_order = self.in_order.capacity() * size_of::<u64>();
        self.nodes.capacity() * size_of::<Node>() + self.buckets.capacity() * 4 + in_order
    }

    /// Whether `line` is among the most recent `capacity` lines.
    pub fn contains(&self, line: LineAddr) -> bool {
        self.find(line).is_some()
    }

    /// Whether `node` is that of `line`.
    #[inline]
    pub fn is_at(&self, line: LineAddr, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|entry| entry.line == line)
    }

    /// Takes note that `line`, if it is here, was used last at `stamp`, which its frame will no longer tell; `node` is
    /// likely to be its own.
    pub fn note_use(&mut self, line: LineAddr, node: u32, stamp: u64) {
        if self.is_at(line, node) {
            let entry = &mut self.nodes[node as usize];
            entry.stamp = entry.stamp.max(stamp);
        }
    }

    /// Adds `line`, which is not here, as used last at `stamp`; `last_use` says of a line and its node when its frame was used
    /// last, 0 without one. Returns its node, and the line that made room.
    pub fn insert(
        &mut self,
        line: LineAddr,
        stamp: u64,
        last_use: impl Fn(LineAddr, u32) -> u64,
    ) -> (u32, Option<LineAddr>) {
        let mut left = None;
        let node = if self.nodes.len() < self.capacity {
            self.nodes.push(Node { line, stamp, chain: NOWHERE });
            self.nodes.len() as u32 - 1
        } else {
            let node = self.oldest(last_use);
            self.unhash(node);
            left = Some(self.nodes[node as usize].line);
            node
        };
        let bucket = self.bucket(line);
        self.nodes[node as usize] = Node { line, stamp, chain: self.buckets[bucket] };
        self.buckets[bucket] = node;
        (node, left)
    }

    /// The node that was used before all others.
    fn oldest(&mut self, last_use: impl Fn(LineAddr, u32) -> u64) -> u32 {
        let Self { nodes, in_order, first, .. } = self;
        let bits = usize::BITS - nodes.len().leading_zeros();
        let used = |node: u32| nodes[node as usize].used(node, &last_use);
        loop {
            while let Some(key) = in_order.pop() {
                let node = (key & ((1 << bits) - 1)) as u32;
                if used(node) - *first == key >> bits {
                    return node;
                }
            }
            in_order.extend((0..nodes.len() as u32).map(used));
            *first = in_order.iter().copied().min().unwrap_or(0);
            // Too late for a key are all uses alike, and none is its node's when its turn comes.
            for (key, node) in in_order.iter_mut().zip(0..) {
                *key = (*key - *first).min(u64::MAX >> bits) << bits | node;
            }
            in_order.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    fn unhash(&mut self, node: u32) {
        let Node { line, chain, .. } = self.nodes[node as usize];
        let bucket = self.bucket(line);
        if self.buckets[bucket] == node {
            self.buckets[bucket] = chain;
            return;
        }
        let mut at = self.buckets[bucket];
        while self.nodes[at as usize].chain != node {
            at = self.nodes[at as usize].chain;
        }
        self.nodes[at as usize].chain = chain;
    }

    /// Writes its lines, the least recent first; `last_use` as for [`Shadow::insert`].
    pub fn save(&self, last_use: impl Fn(LineAddr, u32) -> u64, out: &mut Writer) {
        let Self { nodes, buckets: _, capacity: _, in_order: _, first: _ } = self;
        let used = |(node, entry): (u32, &Node)| (entry.used(node, &last_use), entry.line);
        let mut lines: Vec<(u64, LineAddr)> = (0..).zip(nodes).map(used).collect();
        lines.sort_unstable();
        out.put(lines.len() as u64);
        lines.iter().for_each(|(_, line)| out.put(line.0));
    }

    /// Takes over the lines of another shadow, as used one after the other since `clock`, the last of which times it
    /// returns. Nodes remembered by frames are out of date then.
    ///
    /// # Errors
    /// When the bytes are no such lines.
    pub fn restore(&mut self, clock: u64, from: &mut Reader<'_>) -> Result<u64, Damaged> {
        *self = Self::new(self.capacity);
        let lines = from.below(self.capacity as u64 + 1)?;
        for stamp in clock + 1..=clock + lines {
            let line = LineAddr(from.take()?);
            if self.contains(line) {
                return Err(Damaged("a line in it occurs twice"));
            }
            self.insert(line, stamp, |_, _| 0);
        }
        Ok(clock + lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines are used whose frames tell so or not, and lose them at times.
    #[test]
    fn the_shadow_agrees_with_a_plain_list() {
        let mut shadow = Shadow::new(5);
        let mut plain: Vec<LineAddr> = Vec::new();
        let mut random = servsim_core::RandomStream::new(3, "shadow");
        // By line: its node, and when its frame was used last.
        let mut frames = [None::<(u32, u64)>; 12];
        // Now and then nothing is used for longer than a key tells.
        for stamp in (1..20_000).map(|n| n + ((n / 500) << 58)) {
            let line = LineAddr(random.below(12));
            assert_eq!(shadow.contains(line), plain.contains(&line));
            let told = |line: LineAddr, node| match frames[line.0 as usize] {
                Some((of, stamp)) if of == node => stamp,
                _ => 0,
            };
            let (node, left) =
                shadow.find(line).map_or_else(|| shadow.insert(line, stamp, told), |n| (n, None));
            if let Some(left) = left {
                assert_eq!(plain.first(), Some(&left));
                frames[left.0 as usize] = None;
            }
            frames[line.0 as usize] = Some((node, stamp));
            if random.below(3) == 0 {
                let lost = LineAddr(random.below(12));
                if let Some((node, stamp)) = frames[lost.0 as usize].take() {
                    shadow.note_use(lost, node, stamp);
                }
            }
            plain.retain(|&l| l != line);
            plain.push(line);
            if plain.len() > 5 {
                plain.remove(0);
            }
        }
    }
}
