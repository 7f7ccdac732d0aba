//! Memory for when there are too many mappings: address space that was set apart at the start.
//!
//! A process may have so many mappings (`vm.max_map_count`, as a rule 65,530), and a large allocation takes one or two. When
//! the kernel refuses another one, or this library's are half of them, chunks come from here: the part of one mapping that is
//! readable and writable grows, which takes no further one. Such memory is placed as the kernel does by default.

use crate::lock::Lock;
use crate::sizes::{CHUNK, PAGE};
use libc::c_void;
use std::ptr::null_mut;

/// Address space to set apart; an eighth of it where that is refused, and so on.
const MOST: usize = 64 << 30;
const LEAST: usize = 64 << 20;
/// Chunks that were given back are looked through for one that is long enough, so many at most.
const LOOKED_AT: usize = 256;

struct Freed {
    next: *mut Freed,
    length: usize,
}

struct Pool {
    /// Where it begins.
    begin: usize,
    /// What nobody has had yet.
    next: usize,
    /// How far it is readable and writable.
    open: usize,
    end: usize,
    freed: *mut Freed,
}

// SAFETY: its pointers lead to memory that only the holder of its lock reaches.
unsafe impl Send for Pool {}

static POOL: Lock<Pool> = Lock::new(Pool { begin: 0, next: 0, open: 0, end: 0, freed: null_mut() });

/// Mappings that a process may have (`vm.max_map_count`).
pub fn mappings() -> usize {
    let told = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
}

/// Sets address space apart: once, at the start. Without success there is none to take from.
pub fn prepare() {
    POOL.with(|pool| {
        let mut bytes = MOST;
        while pool.end == 0 && bytes >= LEAST {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping overlaps nothing; nobody can use it yet.
            let found = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
            if found != libc::MAP_FAILED {
                pool.next = (found as usize).next_multiple_of(CHUNK);
                pool.begin = pool.next;
                pool.end = found as usize + bytes;
                // From now on there are two mappings, between which only the border moves.
                pool.open = pool.next;
                pool.grow(pool.next + CHUNK);
            }
            bytes /= 8;
        }
    });
}

/// Zeroed memory of so many bytes at a multiple of a chunk's length; 0 when there is none.
pub fn take(length: usize) -> usize {
    let length = length.next_multiple_of(CHUNK);
    POOL.with(|pool| {
        let mut link: *mut *mut Freed = &raw mut pool.freed;
        for _ in 0..LOOKED_AT {
            // SAFETY: what is in the list is free memory of the pool, whose lock is held.
            unsafe {
                let freed = *link;
                if freed.is_null() {
                    break;
                }
                if (*freed).length == length {
                    *link = (*freed).next;
                    freed.write(Freed { next: null_mut(), length: 0 });
                    return freed as usize;
                }
                link = &raw mut (*freed).next;
            }
        }
        let end = pool.next.saturating_add(length);
        if end > pool.end || !(end <= pool.open || pool.grow(end)) {
            return 0;
        }
        std::mem::replace(&mut pool.next, end)
    })
}

/// Takes memory back, if it is of the pool.
///
/// # Safety
/// It came from [`take`] with the same length, or from elsewhere, and nobody uses it.
pub unsafe fn give_back(start: usize, length: usize) -> bool {
    POOL.with(|pool| {
        if !(pool.begin..pool.next).contains(&start) {
            return false;
        }
        let length = length.next_multiple_of(CHUNK);
        // SAFETY: as promised; afterwards it reads as zeros.
        unsafe {
            libc::madvise(start as *mut c_void, length, libc::MADV_DONTNEED);
            let freed = start as *mut Freed;
            freed.write(Freed { next: pool.freed, length });
            pool.freed = freed;
        }
        true
    })
}

/// Takes the lock, so that a child of a fork finds all whole.
pub fn hold() {
    POOL.take();
}

/// Gives it back.
pub fn release() {
    POOL.give();
}

impl Pool {
    /// Makes memory up to `end` readable and writable.
    fn grow(&mut self, end: usize) -> bool {
        // In steps, so that it is rarely asked for.
        let end = (end + 64 * CHUNK).min(self.end / PAGE * PAGE);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: of the pool's own mapping.
        let done = unsafe { libc::syscall(libc::SYS_mprotect, self.open, end - self.open, protection) } == 0;
        if done {
            self.open = end;
        }
        done
    }
}
