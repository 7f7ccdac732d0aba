//! A fully associative LRU cache of the same size, which tells conflict from capacity misses: a
//! miss on a block that this shadow holds is a conflict. The shadow ignores invalidations.
//!
//! It sees every reference, so a hit must cost little: a real frame remembers the node of its
//! line, and moving a node to the front is four writes. The hash is used only when the real cache
//! missed or the node was recycled.

use crate::snapshot::{Damaged, Reader, Writer};
use servsim_core::LineAddr;

const NIL: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    line: LineAddr,
    older: u32,
    newer: u32,
    chain: u32,
}

/// A fully associative LRU set of lines.
#[derive(Debug)]
pub struct Shadow {
    nodes: Vec<Node>,
    buckets: Vec<u32>,
    capacity: usize,
    newest: u32,
    oldest: u32,
}

impl Shadow {
    /// An empty set of at most `capacity` lines.
    pub fn new(capacity: usize) -> Self {
        let buckets = (capacity * 2).next_power_of_two();
        Self {
            nodes: Vec::with_capacity(capacity),
            buckets: vec![NIL; buckets],
            capacity,
            newest: NIL,
            oldest: NIL,
        }
    }

    fn bucket(&self, line: LineAddr) -> usize {
        (line.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) as usize & (self.buckets.len() - 1)
    }

    fn find(&self, line: LineAddr) -> Option<u32> {
        let mut node = self.buckets[self.bucket(line)];
        while node != NIL {
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
        self.nodes.capacity() * size_of::<Node>() + self.buckets.capacity() * 4
    }

    /// Whether `line` is among the most recent `capacity` lines.
    pub fn contains(&self, line: LineAddr) -> bool {
        self.find(line).is_some()
    }

    /// Makes `line` the most recent; `hint` is the node that held it last. Returns its node.
    #[inline]
    pub fn touch(&mut self, line: LineAddr, hint: u32) -> u32 {
        if let Some(entry) = self.nodes.get(hint as usize) {
            if entry.line == line {
                if hint != self.newest {
                    self.promote(hint);
                }
                return hint;
            }
        }
        self.touch_by_hash(line)
    }

    /// Writes its lines, the least recent first.
    pub fn save(&self, out: &mut Writer) {
        let Self { nodes, buckets: _, capacity: _, newest: _, oldest } = self;
        out.put(nodes.len() as u64);
        let mut node = *oldest;
        while let Some(entry) = nodes.get(node as usize) {
            out.put(entry.line.0);
            node = entry.newer;
        }
    }

    /// Takes over the lines of another shadow; nodes remembered by others are out of date then, which
    /// [`Shadow::touch`] notices.
    ///
    /// # Errors
    /// When the bytes are no such lines.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        *self = Self::new(self.capacity);
        let lines = from.below(self.capacity as u64 + 1)?;
        for _ in 0..lines {
            self.touch(LineAddr(from.take()?), NIL);
        }
        Ok(())
    }

    fn touch_by_hash(&mut self, line: LineAddr) -> u32 {
        if let Some(node) = self.find(line) {
            if node != self.newest {
                self.promote(node);
            }
            return node;
        }
        let node = if self.nodes.len() < self.capacity {
            self.nodes.push(Node { line, older: NIL, newer: NIL, chain: NIL });
            self.nodes.len() as u32 - 1
        } else {
            let node = self.oldest;
            self.unlink(node);
            self.unhash(node);
            self.nodes[node as usize].line = line;
            node
        };
        let bucket = self.bucket(line);
        self.nodes[node as usize].chain = self.buckets[bucket];
        self.buckets[bucket] = node;
        self.link_front(node);
        node
    }

    fn promote(&mut self, node: u32) {
        self.unlink(node);
        self.link_front(node);
    }

    fn unlink(&mut self, node: u32) {
        let Node { older, newer, .. } = self.nodes[node as usize];
        match newer {
            NIL => self.newest = older,
            _ => self.nodes[newer as usize].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            _ => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_front(&mut self, node: u32) {
        let previous = self.newest;
        let entry = &mut self.nodes[node as usize];
        entry.older = previous;
        entry.newer = NIL;
        match previous {
            NIL => self.oldest = node,
            _ => self.nodes[previous as usize].newer = node,
        }
        self.newest = node;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shadow_agrees_with_a_plain_list() {
        let mut shadow = Shadow::new(5);
        let mut plain: Vec<LineAddr> = Vec::new();
        let mut random = servsim_core::RandomStream::new(3, "shadow");
        let mut hints = [NIL; 12];
        for _ in 0..20_000 {
            let line = LineAddr(random.below(12));
            assert_eq!(shadow.contains(line), plain.contains(&line));
            hints[line.0 as usize] = shadow.touch(line, hints[line.0 as usize]);
            plain.retain(|&l| l != line);
            plain.push(line);
            if plain.len() > 5 {
                plain.remove(0);
            }
        }
    }
}
