//! Threads and processes that exist: bound, and their memory moved.

use crate::failure;
use servsim_rset::{ResourceSet, Topology};
use std::ffi::{c_int, c_long};

#[no_mangle]
pub extern "C" fn servsim_bind_thread(thread: c_int, set: &ResourceSet) -> c_int {
    failure::status(servsim_rset::bind_thread(thread, set))
}

#[no_mangle]
pub extern "C" fn servsim_bind_process(process: c_int, set: &ResourceSet) -> c_long {
    failure::number(servsim_rset::bind_process(process, set).map(|bound| bound.threads))
}

#[no_mangle]
pub extern "C" fn servsim_migrate_process(process: c_int, set: &ResourceSet) -> c_long {
    let moved = Topology::discover()
        .and_then(|machine| servsim_rset::migrate_process(process, &machine.with_memory(), set));
    failure::number(moved)
}
