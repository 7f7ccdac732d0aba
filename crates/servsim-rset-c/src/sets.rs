//! Sets: made of what the machine has, combined, asked, freed.

use crate::{failure, parsed};
use servsim_rset::{Nodes, Processors, ResourceSet, RsetError, Topology};
use std::ffi::{c_char, c_int};

fn made(make: impl FnOnce(&Topology) -> Result<ResourceSet, RsetError>) -> *mut ResourceSet {
    failure::object(Topology::discover().and_then(|machine| make(&machine)))
}

#[no_mangle]
pub extern "C" fn servsim_set_global() -> *mut ResourceSet {
    made(Topology::global)
}

#[no_mangle]
pub extern "C" fn servsim_set_inherited() -> *mut ResourceSet {
    made(Topology::inherited)
}

#[no_mangle]
pub extern "C" fn servsim_set_node(node: u32) -> *mut ResourceSet {
    made(|machine| machine.node_set(node))
}

#[no_mangle]
pub unsafe extern "C" fn servsim_set_of(processors: *const c_char, nodes: *const c_char) -> *mut ResourceSet {
    // SAFETY: the header asks for texts.
    let read = || unsafe {
        let processors: Processors = parsed(processors, "list of processors")?;
        let nodes: Nodes = parsed(nodes, "list of nodes")?;
        Ok(ResourceSet { processors, nodes })
    };
    failure::object(read())
}

#[no_mangle]
pub extern "C" fn servsim_set_union(a: &ResourceSet, b: &ResourceSet) -> *mut ResourceSet {
    failure::object(Ok(a.union(b)))
}

#[no_mangle]
pub extern "C" fn servsim_set_intersection(a: &ResourceSet, b: &ResourceSet) -> *mut ResourceSet {
    failure::object(Ok(a.intersection(b)))
}

#[no_mangle]
pub extern "C" fn servsim_set_difference(a: &ResourceSet, b: &ResourceSet) -> *mut ResourceSet {
    failure::object(Ok(a.difference(b)))
}

#[no_mangle]
pub extern "C" fn servsim_set_child(parent: &ResourceSet, wanted: &ResourceSet) -> *mut ResourceSet {
    failure::object(parent.child(wanted.clone()))
}

#[no_mangle]
pub extern "C" fn servsim_set_is_subset(a: &ResourceSet, b: &ResourceSet) -> c_int {
    a.is_subset(b).into()
}

#[no_mangle]
pub extern "C" fn servsim_set_validate(set: &ResourceSet) -> c_int {
    failure::status(Topology::discover().and_then(|machine| machine.validate(set)))
}

/// Writes as many numbers as there is room for, and returns how many there are.
///
/// # Safety
/// `numbers` has room for `room` of them.
unsafe fn listed(held: impl Iterator<Item = u32>, numbers: *mut u32, room: usize) -> usize {
    let held: Vec<u32> = held.collect();
    let written = held.len().min(room);
    if written > 0 {
        // SAFETY: promised by the caller, and no more than the room is written.
        unsafe { std::ptr::copy_nonoverlapping(held.as_ptr(), numbers, written) };
    }
    held.len()
}

#[no_mangle]
pub unsafe extern "C" fn servsim_set_processors(set: &ResourceSet, numbers: *mut u32, room: usize) -> usize {
    // SAFETY: the header asks for the room.
    unsafe { listed(set.processors.iter(), numbers, room) }
}

#[no_mangle]
pub unsafe extern "C" fn servsim_set_nodes(set: &ResourceSet, numbers: *mut u32, room: usize) -> usize {
    // SAFETY: the header asks for the room.
    unsafe { listed(set.nodes.iter(), numbers, room) }
}

#[no_mangle]
pub unsafe extern "C" fn servsim_set_free(set: *mut ResourceSet) {
    // SAFETY: sets are given by `failure::object` alone.
    unsafe { failure::free(set) };
}
