//! Calls beside the malloc family that rules need to see: names of mappings, memory given back or
//! protected, threads begun.

use crate::{rules, sampler, threads};
use libc::{c_int, c_long, c_ulong, c_void, pthread_attr_t, pthread_t, size_t};
use std::ffi::CStr;

/// What a thread begins with.
type Begin = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Begin, *mut c_void) -> c_int;

#[no_mangle]
pub unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    if option == libc::PR_SET_VMA && a == libc::PR_SET_VMA_ANON_NAME as c_ulong && d != 0 {
        // SAFETY: the kernel reads the same string.
        let name = unsafe { CStr::from_ptr(d as *const libc::c_char) };
        rules::named(b as usize, c as usize, name);
        sampler::named(b as usize, c as usize, name);
    }
    // SAFETY: the call as it was made.
    unsafe { libc::syscall(libc::SYS_prctl, c_long::from(option), a, b, c, d) as c_int }
}

#[no_mangle]
pub unsafe extern "C" fn munmap(start: *mut c_void, bytes: size_t) -> c_int {
    rules::goes(start as usize, bytes);
    sampler::goes(start as usize, bytes);
    // SAFETY: the call as it was made.
    unsafe { libc::syscall(libc::SYS_munmap, start, bytes) as c_int }
}

/// What the program protects itself, or moves, is no longer the sampler's to protect.
#[no_mangle]
pub unsafe extern "C" fn mprotect(start: *mut c_void, bytes: size_t, protection: c_int) -> c_int {
    sampler::goes(start as usize, bytes);
    // SAFETY: the call as it was made.
    unsafe { libc::syscall(libc::SYS_mprotect, start, bytes, protection) as c_int }
}

#[no_mangle]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    sampler::goes(start as usize, old);
    // SAFETY: the call as it was made; the last argument is only read where the flags say that there is one.
    unsafe { libc::syscall(libc::SYS_mremap, start, old, new, flags, to) as *mut c_void }
}

#[no_mangle]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    begin: Begin,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the C library's own function of this name.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
    if next.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: as above.
    let create: Create = unsafe { std::mem::transmute(next) };
    let Some(place) = threads::next() else {
        // SAFETY: the call as it was made.
        return unsafe { create(thread, attributes, begin, argument) };
    };
    let placed = Box::into_raw(Box::new(Placed { begin, argument, place }));
    // SAFETY: the thread takes what is given to it.
    let outcome = unsafe { create(thread, attributes, begin_placed, placed.cast()) };
    if outcome != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(placed) });
    }
    outcome
}

struct Placed {
    begin: Begin,
    argument: *mut c_void,
    place: usize,
}

/// Binds the thread before it does anything. Nothing is left to drop when the program's part begins: it may end by
/// unwinding (`pthread_exit`).
extern "C-unwind" fn begin_placed(placed: *mut c_void) -> *mut c_void {
    // SAFETY: made by `pthread_create` for this thread alone.
    let Placed { begin, argument, place } = *unsafe { Box::from_raw(placed.cast::<Placed>()) };
    threads::bind(place);
    begin(argument)
}
