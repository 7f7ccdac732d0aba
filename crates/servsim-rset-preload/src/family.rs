//! The malloc family: each function knows the place that it was called from.
//!
//! That place is on top of the stack (x86-64) or in the link register (Arm64) when a function begins, which only a
//! function without a prologue can see. Compilers before Rust 1.88 have none: with them every place is 0, and rules by
//! allocation site are refused.

use crate::heap::HEAP;
use crate::sizes;
use libc::{c_int, c_void, size_t};
use std::ptr::null_mut;

/// The least alignment that malloc promises on 64-bit machines.
const ALIGNMENT: usize = 16;

/// Whether functions know who called them.
pub const KNOWS_SITES: bool = cfg!(naked);

/// Makes a function that adds the place it was called from to its arguments, in the registers behind theirs.
#[cfg(naked)]
macro_rules! from_site {
    ($name:ident, $inner:ident, ($($argument:ident: $type:ty),*) -> $result:ty, $x86_64:literal, $aarch64:literal) => {
        #[no_mangle]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(concat!("mov ", $x86_64, ", [rsp]"), "jmp {inner}", inner = sym $inner);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(concat!("mov ", $aarch64, ", x30"), "b {inner}", inner = sym $inner);
        }
    };
}

/// Makes a function that does not know the place it was called from.
#[cfg(not(naked))]
macro_rules! from_site {
    ($name:ident, $inner:ident, ($($argument:ident: $type:ty),*) -> $result:ty, $x86_64:literal, $aarch64:literal) => {
        #[no_mangle]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: as promised by the caller.
            unsafe { $inner($($argument,)* 0) }
        }
    };
}

from_site!(malloc, malloc_for, (bytes: size_t) -> *mut c_void, "rsi", "x1");
from_site!(calloc, calloc_for, (count: size_t, each: size_t) -> *mut c_void, "rdx", "x2");
from_site!(realloc, realloc_for, (memory: *mut c_void, bytes: size_t) -> *mut c_void, "rdx", "x2");
from_site!(reallocarray, reallocarray_for, (memory: *mut c_void, count: size_t, each: size_t) -> *mut c_void, "rcx", "x3");
from_site!(posix_memalign, posix_memalign_for, (into: *mut *mut c_void, alignment: size_t, bytes: size_t) -> c_int, "rcx", "x3");
from_site!(memalign, memalign_for, (alignment: size_t, bytes: size_t) -> *mut c_void, "rdx", "x2");
from_site!(aligned_alloc, aligned_alloc_for, (alignment: size_t, bytes: size_t) -> *mut c_void, "rdx", "x2");
from_site!(valloc, valloc_for, (bytes: size_t) -> *mut c_void, "rsi", "x1");
from_site!(pvalloc, pvalloc_for, (bytes: size_t) -> *mut c_void, "rsi", "x1");

fn or_errno(found: *mut u8) -> *mut c_void {
    if found.is_null() {
        // SAFETY: errno is the thread's own.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
    }
    found.cast()
}

unsafe extern "C" fn malloc_for(bytes: size_t, site: usize) -> *mut c_void {
    or_errno(HEAP.allocate(bytes, ALIGNMENT, site).0)
}

#[no_mangle]
pub unsafe extern "C" fn free(memory: *mut c_void) {
    if !memory.is_null() {
        // SAFETY: what a program frees came from here.
        unsafe { HEAP.give_back(memory.cast()) };
    }
}

unsafe extern "C" fn calloc_for(count: size_t, each: size_t, site: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(each) else { return or_errno(null_mut()) };
    let (found, fresh) = HEAP.allocate(bytes, ALIGNMENT, site);
    if !found.is_null() && !fresh {
        // SAFETY: so many bytes were just allocated.
        unsafe { std::ptr::write_bytes(found, 0, bytes) };
    }
    or_errno(found)
}

unsafe extern "C" fn realloc_for(memory: *mut c_void, bytes: size_t, site: usize) -> *mut c_void {
    if memory.is_null() {
        // SAFETY: as promised by the caller.
        return unsafe { malloc_for(bytes, site) };
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
    let (found, _) = HEAP.allocate(bytes, ALIGNMENT, site);
    if !found.is_null() {
        // SAFETY: both hold so many bytes, and they are different allocations.
        unsafe {
            found.copy_from_nonoverlapping(memory.cast(), bytes.min(usable));
            free(memory);
        }
    }
    or_errno(found)
}

unsafe extern "C" fn reallocarray_for(
    memory: *mut c_void,
    count: size_t,
    each: size_t,
    site: usize,
) -> *mut c_void {
    match count.checked_mul(each) {
        // SAFETY: as promised by the caller.
        Some(bytes) => unsafe { realloc_for(memory, bytes, site) },
        None => or_errno(null_mut()),
    }
}

unsafe extern "C" fn posix_memalign_for(
    into: *mut *mut c_void,
    alignment: size_t,
    bytes: size_t,
    site: usize,
) -> c_int {
    if !alignment.is_power_of_two() || alignment % size_of::<usize>() != 0 {
        return libc::EINVAL;
    }
    let (found, _) = HEAP.allocate(bytes, alignment.max(ALIGNMENT), site);
    if found.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's place for the answer.
    unsafe { *into = found.cast() };
    0
}

unsafe extern "C" fn memalign_for(alignment: size_t, bytes: size_t, site: usize) -> *mut c_void {
    let Some(alignment) = alignment.max(ALIGNMENT).checked_next_power_of_two() else {
        return or_errno(null_mut());
    };
    or_errno(HEAP.allocate(bytes, alignment, site).0)
}

unsafe extern "C" fn aligned_alloc_for(alignment: size_t, bytes: size_t, site: usize) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { memalign_for(alignment, bytes, site) }
}

unsafe extern "C" fn valloc_for(bytes: size_t, site: usize) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { memalign_for(sizes::PAGE, bytes, site) }
}

unsafe extern "C" fn pvalloc_for(bytes: size_t, site: usize) -> *mut c_void {
    match bytes.checked_next_multiple_of(sizes::PAGE) {
        // SAFETY: as promised by the caller.
        Some(bytes) => unsafe { memalign_for(sizes::PAGE, bytes, site) },
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
