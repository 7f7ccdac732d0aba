//! Memory that was allocated by a policy, and proof of where its pages lie.
//!
//! Every policy but *Float* belongs to the mapping, not to the thread: the kernel's balancing of memory moves pages
//! that only the thread's policy placed, and leaves those alone that their mapping's policy placed.
//!
//! Striping by single pages is the kernel's interleaving. It chooses the node by the *address* of a page, so the block
//! begins at an address that is the set's first node's. Wider stripes, and kernels that number otherwise, have their
//! pages made and moved one by one: one mapping in every case, where a policy for each stripe would use up the mappings
//! that a process may have (65,530 by default).

use crate::error::RsetError;
use crate::ids::Nodes;
use crate::policy::{MemoryPolicy, Wish};
use crate::raw::{self, Mode};
use crate::set::ResourceSet;
use crate::system;
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Pages that are placed, or asked about, by one call.
const PAGES_PER_CALL: usize = 4096;

/// Memory placed by a policy: zeros at first, given back when dropped.
#[derive(Debug)]
pub struct Block {
    start: usize,
    pages: usize,
    bytes: usize,
    wish: Wish,
}

/// Where the pages of a block lie.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Pages in each node.
    pub per_node: BTreeMap<u32, usize>,
    /// Pages that nobody has touched yet.
    pub absent: usize,
    /// Pages that lie where they should not: their index in the block, and their node.
    pub elsewhere: Vec<(usize, u32)>,
}

impl Found {
    /// Whether every page that exists lies where it was wished.
    pub fn is_as_wished(&self) -> bool {
        self.elsewhere.is_empty()
    }
}

impl Block {
    /// Allocates at least `bytes` (whole pages are taken) in `set` by `policy`.
    ///
    /// # Errors
    /// [`RsetError::Outside`] when the set holds what is not, or no longer, there or allowed; [`RsetError::Size`] for
    /// no bytes or too many; as [`MemoryPolicy::wish`]; [`RsetError::Refused`] with the kernel's reason.
    pub fn allocate(
        machine: &Topology,
        set: &ResourceSet,
        policy: MemoryPolicy,
        bytes: usize,
    ) -> Result<Self, RsetError> {
        machine.validate(set)?;
        let wish = policy.wish(machine, set)?;
        let page = raw::page_size();
        let pages = bytes.div_ceil(page);
        // Beside the block there may be a turn of spare pages, one for each node.
        if pages == 0 || pages > isize::MAX as usize / page - system::MASK_BITS {
            return Err(RsetError::Size { bytes });
        }
        let turn = if let Wish::InTurn { nodes, .. } = &wish { nodes.len() } else { 1 };
        let block = Self::new(map_aligned(pages, turn)?, pages, bytes, wish);
        block.place()?;
        Ok(block)
    }

    /// A mapping that is this block's from now on.
    pub(crate) fn new(start: usize, pages: usize, bytes: usize, wish: Wish) -> Self {
        Self { start, pages, bytes, wish }
    }

    /// Bytes asked for.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: a block has bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Pages that the block consists of.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Where the pages lie at this moment, one by one, beside where they were wished.
    ///
    /// # Errors
    /// [`RsetError::Refused`] when the kernel does not tell.
    pub fn verify(&self) -> Result<Found, RsetError> {
        let mut found = Found::default();
        let page = raw::page_size();
        for first in (0..self.pages).step_by(PAGES_PER_CALL) {
            let range = first..self.pages.min(first + PAGES_PER_CALL);
            let addresses: Vec<usize> = range.clone().map(|index| self.start + index * page).collect();
            for (index, node) in range.zip(system::nodes_of(&addresses)?) {
                let Some(node) = node else {
                    found.absent += 1;
                    continue;
                };
                *found.per_node.entry(node).or_default() += 1;
                if !self.wish.allows(index, node) {
                    found.elsewhere.push((index, node));
                }
            }
        }
        Ok(found)
    }

    /// Gives the mapping its policy, and moves what that does not place.
    pub(crate) fn place(&self) -> Result<(), RsetError> {
        let length = self.pages * raw::page_size();
        match &self.wish {
            Wish::Anywhere => Ok(()),
            Wish::In(nodes) => system::bind_memory(self.start, length, Mode::Bind, nodes),
            Wish::InTurn { nodes, stride: 1 } if nodes.len() > 1 => {
                raw::without_huge_pages(self.start, length);
                system::bind_memory(self.start, length, Mode::Interleave, nodes)?;
                let first = self.pages.min(nodes.len());
                // SAFETY: the block is this function's alone until it is returned.
                unsafe { raw::populate(self.start, first * raw::page_size()) };
                if self.verify()?.is_as_wished() {
                    Ok(())
                } else {
                    self.place_one_by_one(nodes)
                }
            }
            Wish::InTurn { nodes, .. } => {
                raw::without_huge_pages(self.start, length);
                self.place_one_by_one(nodes)
            }
        }
    }

    /// Binds the mapping to all its nodes, so that nothing moves its pages later, and moves each to its own.
    fn place_one_by_one(&self, nodes: &Nodes) -> Result<(), RsetError> {
        let page = raw::page_size();
        system::bind_memory(self.start, self.pages * page, Mode::Bind, nodes)?;
        // SAFETY: the block is the caller's alone until it is returned.
        unsafe { raw::populate(self.start, self.pages * page) };
        for first in (0..self.pages).step_by(PAGES_PER_CALL) {
            let range = first..self.pages.min(first + PAGES_PER_CALL);
            let (addresses, wished): (Vec<usize>, Vec<libc::c_int>) = range
                .filter_map(|index| Some((self.start + index * page, self.wish.node(index)? as libc::c_int)))
                .unzip();
            system::place(&addresses, &wished)?;
        }
        Ok(())
    }
}

/// Maps pages so that the number of the first is a multiple of `turn`: the kernel's interleaving then begins with the
/// first node.
fn map_aligned(pages: usize, turn: usize) -> Result<usize, RsetError> {
    let page = raw::page_size();
    let spare = turn - 1;
    let start = system::map((pages + spare) * page)?;
    let skipped = (start / page).next_multiple_of(turn) - start / page;
    // SAFETY: what lies before and behind the block is of the mapping just made, and of nobody else.
    unsafe {
        raw::unmap(start, skipped * page);
        raw::unmap(start + (skipped + pages) * page, (spare - skipped) * page);
    }
    Ok(start + skipped * page)
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, zeroed and lives as long as the block.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.bytes) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the block is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the mapping is the block's own, and the block ends.
        unsafe { raw::unmap(self.start, self.pages * raw::page_size()) };
    }
}
