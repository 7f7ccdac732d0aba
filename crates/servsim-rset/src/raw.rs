//! Memory by system calls, without allocating anything: what a preloaded `malloc` needs as well.
//!
//! Errors are the kernel's numbers (errno(3)).

use libc::{c_int, c_long, c_ulong};
use std::sync::atomic::{AtomicU8, Ordering};

const WORD: usize = c_ulong::BITS as usize;
/// `move_pages` moves pages that nobody else maps (linux/mempolicy.h).
const MPOL_MF_MOVE: c_int = 1 << 1;

/// A policy of the kernel for a range of memory.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// From these nodes alone, the nearest to who touches it first.
    Bind,
    /// Page by page from the nodes in turn.
    Interleave,
}

fn errno() -> i32 {
    // SAFETY: errno is the thread's own.
    unsafe { *libc::__errno_location() }
}

fn check(outcome: c_long) -> Result<(), i32> {
    if outcome < 0 {
        Err(errno())
    } else {
        Ok(())
    }
}

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: asks for a constant.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Gives `bytes` from `start` a policy over the nodes whose bits are set, for pages that do not exist yet.
///
/// The kernel reads one bit less than it is told of (`get_nodes` in mm/mempolicy.c), so it is told of one more.
///
/// # Errors
/// The kernel's number.
pub fn bind(start: usize, bytes: usize, mode: Mode, mask: &[c_ulong]) -> Result<(), i32> {
    bind_with(start, bytes, mode, mask, 0)
}

/// As [`bind`]; pages that exist already and lie in none of the nodes move, which takes the kernel a turn of all
/// processors. A huge page moves as a whole, and interleaving leaves pages alone that lie in any of its nodes.
///
/// # Errors
/// The kernel's number.
pub fn bind_and_move(start: usize, bytes: usize, mode: Mode, mask: &[c_ulong]) -> Result<(), i32> {
    bind_with(start, bytes, mode, mask, MPOL_MF_MOVE)
}

fn bind_with(start: usize, bytes: usize, mode: Mode, mask: &[c_ulong], flags: c_int) -> Result<(), i32> {
    let mode = match mode {
        Mode::Bind => libc::MPOL_BIND,
        Mode::Interleave => libc::MPOL_INTERLEAVE,
    };
    // SAFETY: the kernel reads the mask; a range that is not mapped is refused.
    check(unsafe {
        libc::syscall(libc::SYS_mbind, start, bytes, mode, mask.as_ptr(), mask.len() * WORD + 1, flags)
    })
}

/// Moves each page to its node, or only asks where it is; `status` takes its node, or a negative number.
///
/// # Errors
/// The kernel's number.
///
/// # Panics
/// When the lists differ in length.
pub fn move_pages(pages: &[usize], nodes: Option<&[c_int]>, status: &mut [c_int]) -> Result<(), i32> {
    assert!(status.len() == pages.len() && nodes.is_none_or(|nodes| nodes.len() == pages.len()));
    let wished = nodes.map_or(std::ptr::null(), <[c_int]>::as_ptr);
    let (count, status) = (pages.len(), status.as_mut_ptr());
    // SAFETY: all lists have as many entries; the pages are named, not touched.
    check(unsafe {
        libc::syscall(libc::SYS_move_pages, 0, count, pages.as_ptr(), wished, status, MPOL_MF_MOVE)
    })
}

/// Maps `bytes` of fresh memory.
///
/// # Errors
/// The kernel's number.
pub fn map(bytes: usize) -> Result<usize, i32> {
    map_with(bytes, 0)
}

/// Maps `bytes` of fresh memory in huge pages of two to the power of `shift` bytes.
///
/// # Errors
/// The kernel's number: as a rule that none is free.
pub fn map_huge(bytes: usize, shift: u32) -> Result<usize, i32> {
    map_with(bytes, libc::MAP_HUGETLB | (shift as c_int) << libc::MAP_HUGE_SHIFT)
}

fn map_with(bytes: usize, flags: c_int) -> Result<usize, i32> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping overlaps nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        Err(errno())
    } else {
        Ok(start as usize)
    }
}

/// Gives memory back; nothing for no bytes. Never by a library's function of that name: who redirects that one may call
/// this while it holds locks.
///
/// # Safety
/// The range is whole pages of mappings that nobody uses any more.
pub unsafe fn unmap(start: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: promised by the caller.
        unsafe { libc::syscall(libc::SYS_munmap, start, bytes) };
    }
}

/// Keeps huge pages out of a range, so that single pages can be placed.
pub fn without_huge_pages(start: usize, bytes: usize) {
    // SAFETY: advice changes no contents. A kernel without huge pages refuses it, and needs none.
    unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_NOHUGEPAGE) };
}

/// Splits the huge page of which this is a page, if it is of one: it can then be placed without its neighbours.
///
/// Linux has no call for that. To advise that a part of a huge page is not needed soon makes it split the page first, and
/// changes nothing else but what is swapped out first (since 5.4). Pages that are pinned, or shared with a child of a fork,
/// stay as they are.
pub fn split_huge_page(page: usize) {
    // SAFETY: advice changes no contents; a page that is not mapped is refused.
    unsafe { libc::madvise(page as *mut libc::c_void, page_size(), libc::MADV_COLD) };
}

/// Makes every page of a range exist; contents stay.
///
/// # Safety
/// The range is writable.
pub unsafe fn populate(start: usize, bytes: usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        if try_populate(start, bytes).is_err() {
            // Kernels before 5.14.
            for page in (start..start + bytes).step_by(page_size()) {
                (*(page as *const AtomicU8)).fetch_or(0, Ordering::Relaxed);
            }
        }
    }
}

/// Makes every page of a range exist, or says why that is not possible, without a signal; contents stay.
///
/// # Errors
/// The kernel's number; `EINVAL` before Linux 5.14.
///
/// # Safety
/// The range is writable.
pub unsafe fn try_populate(start: usize, bytes: usize) -> Result<(), i32> {
    // SAFETY: as promised by the caller.
    check(unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_POPULATE_WRITE) }.into())
}

/// Pins the pages of a range.
///
/// # Errors
/// The kernel's number.
pub fn lock(start: usize, bytes: usize) -> Result<(), i32> {
    // SAFETY: contents do not change; a range that is not mapped is refused.
    check(unsafe { libc::mlock(start as *const libc::c_void, bytes) }.into())
}
