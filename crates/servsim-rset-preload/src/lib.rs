//! The malloc family, redirected by the policy of a Resource Set: loaded before an unmodified program.
//!
//! `servsim rset run` sets [`settings`]' variables and preloads this. What it cannot do (a policy that this machine
//! does not have, a call that a filter forbids) it says once, and the program goes on with memory as the kernel places
//! it. At the end it can tell where the pages lie, wished and found.
//!
//! Whatever is called from here may itself allocate: before [`settings`] are read, and from inside the standard
//! library. So nothing in [`heap`] allocates, and no thread-local variable is used, because the first use of one may
//! allocate too. Without built-in functions, so that the compiler does not turn a function of the family into a call of
//! another one.

#![no_builtins]
// The functions are documented where they come from: malloc(3).
#![allow(missing_docs, clippy::missing_safety_doc)]

mod heap;
mod lock;
mod placing;
mod report;
mod settings;
mod sizes;

use heap::HEAP;
use libc::{c_int, c_void, size_t};
use std::ptr::null_mut;

/// The least alignment that malloc promises on 64-bit machines.
const ALIGNMENT: usize = 16;

#[used]
#[link_section = ".init_array"]
static BEGIN: extern "C" fn() = begin;
#[used]
#[link_section = ".fini_array"]
static END: extern "C" fn() = report::at_exit;

extern "C" fn begin() {
    // SAFETY: the handlers only take and give back the heap's locks.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    settings::apply();
    report::prepare();
}

extern "C" fn before_fork() {
    HEAP.hold();
}

extern "C" fn after_fork() {
    HEAP.release();
}

fn or_errno(found: *mut u8) -> *mut c_void {
    if found.is_null() {
        // SAFETY: errno is the thread's own.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
    }
    found.cast()
}

#[no_mangle]
pub extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    or_errno(HEAP.allocate(bytes, ALIGNMENT).0)
}

#[no_mangle]
pub unsafe extern "C" fn free(memory: *mut c_void) {
    if !memory.is_null() {
        // SAFETY: what a program frees came from here.
        unsafe { HEAP.give_back(memory.cast()) };
    }
}

#[no_mangle]
pub extern "C" fn calloc(count: size_t, each: size_t) -> *mut c_void {
    let Some(bytes) = count.checked_mul(each) else { return or_errno(null_mut()) };
    let (found, fresh) = HEAP.allocate(bytes, ALIGNMENT);
    if !found.is_null() && !fresh {
        // SAFETY: so many bytes were just allocated.
        unsafe { std::ptr::write_bytes(found, 0, bytes) };
    }
    or_errno(found)
}

#[no_mangle]
pub unsafe extern "C" fn realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void {
    if memory.is_null() {
        return malloc(bytes);
    }
    if bytes == 0 {
        // SAFETY: as for `free`.
        unsafe { free(memory) };
        return null_mut();
    }
    // SAFETY: it came from here.
    let usable = unsafe { HEAP.usable(memory.cast()) };
    if bytes <= usable && bytes >= usable / 2 {
        return memory;
    }
    let (found, _) = HEAP.allocate(bytes, ALIGNMENT);
    if !found.is_null() {
        // SAFETY: both hold so many bytes, and they are different allocations.
        unsafe {
            found.copy_from_nonoverlapping(memory.cast(), bytes.min(usable));
            free(memory);
        }
    }
    or_errno(found)
}

#[no_mangle]
pub unsafe extern "C" fn reallocarray(memory: *mut c_void, count: size_t, each: size_t) -> *mut c_void {
    match count.checked_mul(each) {
        // SAFETY: as promised by the caller.
        Some(bytes) => unsafe { realloc(memory, bytes) },
        None => or_errno(null_mut()),
    }
}

#[no_mangle]
pub unsafe extern "C" fn posix_memalign(into: *mut *mut c_void, alignment: size_t, bytes: size_t) -> c_int {
    if !alignment.is_power_of_two() || alignment % size_of::<usize>() != 0 {
        return libc::EINVAL;
    }
    let (found, _) = HEAP.allocate(bytes, alignment.max(ALIGNMENT));
    if found.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's place for the answer.
    unsafe { *into = found.cast() };
    0
}

#[no_mangle]
pub extern "C" fn memalign(alignment: size_t, bytes: size_t) -> *mut c_void {
    let Some(alignment) = alignment.max(ALIGNMENT).checked_next_power_of_two() else {
        return or_errno(null_mut());
    };
    or_errno(HEAP.allocate(bytes, alignment).0)
}

#[no_mangle]
pub extern "C" fn aligned_alloc(alignment: size_t, bytes: size_t) -> *mut c_void {
    memalign(alignment, bytes)
}

#[no_mangle]
pub extern "C" fn valloc(bytes: size_t) -> *mut c_void {
    memalign(sizes::PAGE, bytes)
}

#[no_mangle]
pub extern "C" fn pvalloc(bytes: size_t) -> *mut c_void {
    match bytes.checked_next_multiple_of(sizes::PAGE) {
        Some(bytes) => memalign(sizes::PAGE, bytes),
        None => or_errno(null_mut()),
    }
}

#[no_mangle]
pub unsafe extern "C" fn malloc_usable_size(memory: *mut c_void) -> size_t {
    if memory.is_null() {
        return 0;
    }
    // SAFETY: it came from here.
    unsafe { HEAP.usable(memory.cast()) }
}
