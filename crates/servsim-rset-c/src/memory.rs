//! Memory: allocated by a policy, pinned, verified, freed.

use crate::{failure, parsed};
use servsim_rset::{Block, MemoryPolicy, ResourceSet, RsetError, Topology};
use std::ffi::{c_char, c_int, c_long, c_void};

type Allocate = fn(&Topology, &ResourceSet, MemoryPolicy, usize) -> Result<Block, RsetError>;

/// # Safety
/// `policy` is null or ends with zero.
unsafe fn allocated(how: Allocate, set: &ResourceSet, policy: *const c_char, bytes: usize) -> *mut Block {
    // SAFETY: promised by the caller.
    let policy = unsafe { parsed(policy, "policy of memory") };
    failure::object(policy.and_then(|policy| how(&Topology::discover()?, set, policy, bytes)))
}

#[no_mangle]
pub unsafe extern "C" fn servsim_allocate(
    set: &ResourceSet,
    policy: *const c_char,
    bytes: usize,
) -> *mut Block {
    // SAFETY: the header asks for a text.
    unsafe { allocated(Block::allocate, set, policy, bytes) }
}

#[no_mangle]
pub unsafe extern "C" fn servsim_allocate_contiguous(
    set: &ResourceSet,
    policy: *const c_char,
    bytes: usize,
) -> *mut Block {
    // SAFETY: the header asks for a text.
    unsafe { allocated(Block::allocate_contiguous, set, policy, bytes) }
}

#[no_mangle]
pub extern "C" fn servsim_block_memory(block: &mut Block) -> *mut c_void {
    block.as_mut_ptr().cast()
}

#[no_mangle]
pub extern "C" fn servsim_block_pin(block: &mut Block) -> c_int {
    failure::status(block.pin())
}

/// `struct servsim_found` of the header.
#[repr(C)]
pub struct Told {
    pages: usize,
    absent: usize,
    elsewhere: usize,
}

#[no_mangle]
pub extern "C" fn servsim_block_verify(block: &Block, told: &mut Told) -> c_int {
    failure::status(block.verify().map(|found| {
        *told = Told { pages: block.pages(), absent: found.absent, elsewhere: found.elsewhere.len() };
    }))
}

#[no_mangle]
pub extern "C" fn servsim_block_pages_in(block: &Block, node: u32) -> c_long {
    failure::number(block.verify().map(|found| found.per_node.get(&node).copied().unwrap_or(0)))
}

#[no_mangle]
pub unsafe extern "C" fn servsim_block_free(block: *mut Block) {
    // SAFETY: blocks are given by `failure::object` alone.
    unsafe { failure::free(block) };
}
