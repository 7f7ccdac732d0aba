//! What is in lines, carried by the messages that carry lines. Nothing in the machine depends on it: tests write and
//! read it at the times at which accesses are performed, and compare.

use servsim_core::{LineAddr, NodeId};
use std::collections::HashMap;

/// The words of a line.
pub type Words = [u32; 8];

/// Lines in memories, and at nodes that are not their homes.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub memory: HashMap<LineAddr, Words>,
    pub nodes: HashMap<(NodeId, LineAddr), Words>,
}

impl Values {
    /// The line as `node` has it; its home has it in memory.
    pub fn of(&mut self, node: NodeId, home: NodeId, line: LineAddr) -> &mut Words {
        if node == home {
            self.memory.entry(line).or_default()
        } else {
            self.nodes.entry((node, line)).or_default()
        }
    }
}
