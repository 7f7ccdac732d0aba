//! Where the heap takes memory from, and how: decided once, followed without allocating.

use crate::sizes::{CHUNK, PAGE};
use servsim_rset::raw;

/// Nodes that can be told apart: as many as a word has bits.
pub const MOST_NODES: usize = 64;
/// Processors whose node is known; those above count as on node 0.
pub const MOST_PROCESSORS: usize = 1024;

/// Where chunks are taken from. There is one, made once.
#[allow(clippy::large_enum_variant)]
pub enum Placing {
    /// From wherever the kernel likes.
    Nowhere,
    /// From these nodes, by who touches a page first.
    Among(u64),
    /// Page by page from the nodes of `list`, `stride` in a row; the turn goes by the page's address.
    Striped { list: [u16; MOST_NODES], nodes: usize, stride: usize, mask: u64 },
    /// From the node that belongs to the node of the processor that allocates.
    ByNode { own: [Option<u32>; MOST_NODES], node_of: [u16; MOST_PROCESSORS] },
}

impl Placing {
    /// Gives a fresh range its policy; `wish` is the node for a policy that goes by the allocating thread's.
    ///
    /// # Errors
    /// The kernel's number.
    pub fn take(&self, start: usize, length: usize, wish: Option<u32>) -> Result<(), i32> {
        match self {
            Self::Nowhere => Ok(()),
            Self::ByNode { .. } => {
                wish.map_or(Ok(()), |node| raw::bind(start, length, raw::Mode::Bind, &[1 << node]))
            }
            Self::Among(mask) => {
                // A huge page over the header would bring its neighbours to whoever allocates, before anybody touches them.
                raw::without_huge_pages(start, if length == CHUNK { length } else { PAGE });
                raw::bind(start, length, raw::Mode::Bind, &[*mask])
            }
            Self::Striped { list, nodes, stride, mask } => {
                raw::without_huge_pages(start, length);
                if *stride == 1 {
                    raw::bind(start, length, raw::Mode::Interleave, &[*mask])
                } else {
                    raw::bind(start, length, raw::Mode::Bind, &[*mask])
                        .and_then(|()| stripe(start, length, &list[..*nodes], *stride))
                }
            }
        }
    }

    /// Whether a page of an arena may lie in a node.
    pub fn allows(&self, arena: usize, page: usize, node: i32) -> bool {
        match self {
            Self::Nowhere => true,
            Self::Among(mask) => mask >> node & 1 == 1,
            Self::Striped { list, nodes, stride, .. } => {
                i32::from(turn(page, &list[..*nodes], *stride)) == node
            }
            Self::ByNode { own, .. } => own[arena].is_none_or(|wished| wished as i32 == node),
        }
    }
}

/// The node of the page at an address, for striped memory.
fn turn(address: usize, list: &[u16], stride: usize) -> u16 {
    list[address / PAGE / stride % list.len()]
}

/// Makes the pages of a range and moves each to its node.
fn stripe(start: usize, length: usize, list: &[u16], stride: usize) -> Result<(), i32> {
    const BATCH: usize = 64;
    // SAFETY: the range was just mapped for the caller.
    unsafe { raw::populate(start, length) };
    let (mut pages, mut nodes, mut status) = ([0usize; BATCH], [0; BATCH], [0; BATCH]);
    let mut address = start;
    while address < start + length {
        let count = ((start + length - address) / PAGE).min(BATCH);
        for at in 0..count {
            pages[at] = address + at * PAGE;
            nodes[at] = libc::c_int::from(turn(pages[at], list, stride));
        }
        raw::move_pages(&pages[..count], Some(&nodes[..count]), &mut status[..count])?;
        if status[..count] != nodes[..count] {
            return Err(libc::EIO);
        }
        address += count * PAGE;
    }
    Ok(())
}
