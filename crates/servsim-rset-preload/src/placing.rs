//! Where the heap takes memory from, and how: decided once, followed without allocating.

use crate::sizes::{CHUNK, PAGE};
use servsim_rset::raw;

/// Nodes that can be told apart: as many as a word has bits.
pub const MOST_NODES: usize = 64;
/// Processors whose node is known; those above count as on node 0.
pub const MOST_PROCESSORS: usize = 1024;

/// Pages in the smallest huge page that programs get without asking for it.
const SMALLEST_HUGE: usize = 4;
/// Pages that the kernel is asked about, or asked to move, at once.
const BATCH: usize = 64;

/// How a range gets its policy.
type Bind = fn(usize, usize, raw::Mode, &[u64]) -> Result<(), i32>;

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
    /// The arena of this thread at this moment: its node, where the policy goes by that.
    pub fn arena(&self) -> usize {
        let Self::ByNode { node_of, .. } = self else { return 0 };
        // SAFETY: asks for a number.
        let processor = unsafe { libc::sched_getcpu() };
        usize::try_from(processor).ok().and_then(|at| node_of.get(at)).copied().unwrap_or(0) as usize
    }

    /// Gives a fresh range of an arena its policy.
    ///
    /// # Errors
    /// The kernel's number.
    pub fn take(&self, start: usize, length: usize, arena: usize) -> Result<(), i32> {
        self.take_by(raw::bind, start, length, arena)
    }

    /// As [`Self::take`], for a range that may have pages already, which move; huge ones are split where a part of them
    /// is to move.
    ///
    /// # Errors
    /// The kernel's number.
    pub fn take_over(&self, start: usize, length: usize, arena: usize) -> Result<(), i32> {
        match self {
            Self::Nowhere => return Ok(()),
            Self::Striped { .. } => {
                (start..start + length).step_by(SMALLEST_HUGE * PAGE).for_each(raw::split_huge_page);
            }
            Self::Among(_) | Self::ByNode { .. } => {
                [start, start + length - PAGE].into_iter().for_each(raw::split_huge_page);
            }
        }
        self.take_by(raw::bind_and_move, start, length, arena)?;
        match self {
            // Interleaving leaves them in whichever of its nodes they are.
            Self::Striped { list, nodes, stride: 1, .. } => deal(start, length, &list[..*nodes], 1),
            _ => Ok(()),
        }
    }

    fn take_by(&self, bind: Bind, start: usize, length: usize, arena: usize) -> Result<(), i32> {
        match self {
            Self::Nowhere => Ok(()),
            Self::ByNode { own, .. } => {
                own[arena].map_or(Ok(()), |node| bind(start, length, raw::Mode::Bind, &[1 << node]))
            }
            Self::Among(mask) => {
                // A huge page over the header would bring its neighbours to whoever allocates, before anybody touches them.
                raw::without_huge_pages(start, if length == CHUNK { length } else { PAGE });
                bind(start, length, raw::Mode::Bind, &[*mask])
            }
            Self::Striped { list, nodes, stride, mask } => {
                raw::without_huge_pages(start, length);
                if *stride == 1 {
                    bind(start, length, raw::Mode::Interleave, &[*mask])
                } else {
                    bind(start, length, raw::Mode::Bind, &[*mask])
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
    // SAFETY: the range was just mapped for the caller.
    unsafe { raw::populate(start, length) };
    deal(start, length, list, stride)
}

/// Moves each page of a range that exists to its node.
fn deal(start: usize, length: usize, list: &[u16], stride: usize) -> Result<(), i32> {
    let (mut pages, mut nodes, mut status) = ([0usize; BATCH], [0; BATCH], [0; BATCH]);
    let mut address = start;
    while address < start + length {
        let count = ((start + length - address) / PAGE).min(BATCH);
        for at in 0..count {
            pages[at] = address + at * PAGE;
            nodes[at] = libc::c_int::from(turn(pages[at], list, stride));
        }
        raw::move_pages(&pages[..count], Some(&nodes[..count]), &mut status[..count])?;
        // Without a page there, or a table of pages, the kernel's numbers differ.
        let moved = |(&found, &wished): (&libc::c_int, &libc::c_int)| {
            [wished, -libc::ENOENT, -libc::EFAULT].contains(&found)
        };
        if !status[..count].iter().zip(&nodes[..count]).all(moved) {
            return Err(libc::EIO);
        }
        address += count * PAGE;
    }
    Ok(())
}
