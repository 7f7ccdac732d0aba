//! What is asked of the kernel about threads, processes and pages, with errors as sentences; [`crate::raw`] does memory.
//!
//! Numbers of nodes travel in masks of [`MASK_BITS`] bits. The kernel reads one bit less than it is told of
//! (`get_nodes` in mm/mempolicy.c), so it is told of one more.

use crate::error::RsetError;
use crate::ids::{Nodes, Processors};
use crate::raw::{self, Mode};
use std::io::Error;

/// Bits of the masks that are given to the kernel and taken from it: the most nodes of any Linux.
pub const MASK_BITS: usize = 1024;
/// Bits of a mask of processors: the most of any Linux on a PC.
const PROCESSOR_BITS: usize = 8192;
const WORD: usize = libc::c_ulong::BITS as usize;
/// `get_mempolicy` is to tell what the cpuset allows (linux/mempolicy.h).
const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;

fn check(call: impl FnOnce() -> String, outcome: libc::c_long) -> Result<libc::c_long, RsetError> {
    if outcome < 0 {
        let source = Error::last_os_error();
        Err(RsetError::refused(call(), source))
    } else {
        Ok(outcome)
    }
}

/// Processors that a thread (0: this one) may run on by its affinity.
pub fn affinity(thread: i32) -> Result<Processors, RsetError> {
    let mut mask = vec![0 as libc::c_ulong; PROCESSOR_BITS / WORD];
    // SAFETY: the kernel writes at most the bytes it is told of.
    let outcome =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, thread, PROCESSOR_BITS / 8, mask.as_mut_ptr()) };
    if outcome < 0 && Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return Err(RsetError::NoProcess { id: thread });
    }
    check(|| "sched_getaffinity".into(), outcome)?;
    Ok(Processors::from_mask(&mask))
}

/// Sets the processors that a thread (0: this one) may run on.
pub fn set_affinity(thread: i32, processors: &Processors) -> Result<(), RsetError> {
    let mask = processors.mask();
    // SAFETY: the kernel reads the bytes it is told of.
    let outcome = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, thread, size_of_val(mask.as_slice()), mask.as_ptr())
    };
    if outcome < 0 && Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return Err(RsetError::NoProcess { id: thread });
    }
    check(|| format!("sched_setaffinity to processors {processors}"), outcome).map(drop)
}

/// Processors that this process's cpuset allows: what is left when a thread asks for all.
pub fn allowed_processors() -> Result<Processors, RsetError> {
    // A thread of its own: nobody else's affinity changes. Not the standard library's, which ends the process where there
    // is a mapping for its stack, but none for that of its signals.
    let mut answer: Option<Result<Processors, RsetError>> = None;
    // SAFETY: the thread writes into the answer and has ended before anybody else looks at it.
    unsafe {
        let mut thread: libc::pthread_t = std::mem::zeroed();
        if libc::pthread_create(&raw mut thread, std::ptr::null(), ask, (&raw mut answer).cast()) == 0 {
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    }
    // Without room for another thread this one asks, and goes back to where it was.
    answer.unwrap_or_else(|| {
        let before = affinity(0)?;
        let all = ask_for_all();
        set_affinity(0, &before)?;
        all
    })
}

extern "C" fn ask(answer: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: as `allowed_processors` gave it.
    unsafe { *answer.cast::<Option<Result<Processors, RsetError>>>() = Some(ask_for_all()) };
    std::ptr::null_mut()
}

fn ask_for_all() -> Result<Processors, RsetError> {
    let all = (0..PROCESSOR_BITS as u32).collect();
    // Where asking is forbidden, nothing more than what was inherited can be had.
    let _ = set_affinity(0, &all);
    affinity(0)
}

/// Nodes whose memory this process's cpuset allows.
pub fn allowed_nodes() -> Result<Nodes, RsetError> {
    match memory_policy(MPOL_F_MEMS_ALLOWED) {
        Ok((_, nodes)) => Ok(nodes),
        // A kernel without nodes has one.
        Err(RsetError::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENOSYS) => {
            Ok(Nodes::one(0))
        }
        Err(error) => Err(error),
    }
}

/// Nodes to which this thread's memory is bound, if it is.
pub fn bound_nodes() -> Result<Option<Nodes>, RsetError> {
    match memory_policy(0) {
        Ok((mode, nodes)) => Ok((mode == libc::MPOL_BIND).then_some(nodes)),
        Err(RsetError::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENOSYS) => Ok(None),
        Err(error) => Err(error),
    }
}

fn memory_policy(flags: libc::c_ulong) -> Result<(i32, Nodes), RsetError> {
    let mut mode: libc::c_int = 0;
    let mut mask = vec![0 as libc::c_ulong; MASK_BITS / WORD];
    let wanted = if flags == 0 { &raw mut mode } else { std::ptr::null_mut() };
    // SAFETY: the kernel writes one number, if it is wanted, and a mask of the bits it is told of.
    let outcome = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, wanted, mask.as_mut_ptr(), MASK_BITS, 0usize, flags)
    };
    check(|| "get_mempolicy".into(), outcome)?;
    Ok((mode, Nodes::from_mask(&mask)))
}

/// Binds the memory that this thread takes from now on.
pub fn set_memory_policy(nodes: &Nodes) -> Result<(), RsetError> {
    let mask = nodes.mask();
    // SAFETY: the kernel reads a mask of the bits it is told of.
    let outcome = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, mask.as_ptr(), mask.len() * WORD + 1)
    };
    check(|| format!("set_mempolicy to nodes {nodes}"), outcome).map(drop)
}

/// The node of each page; `None` where there is none yet.
pub fn nodes_of(pages: &[usize]) -> Result<Vec<Option<u32>>, RsetError> {
    let status = move_pages(pages, None)?;
    Ok(status.into_iter().map(|node| u32::try_from(node).ok()).collect())
}

/// Moves each page to its node.
pub fn place(pages: &[usize], nodes: &[libc::c_int]) -> Result<(), RsetError> {
    let status = move_pages(pages, Some(nodes))?;
    match status.iter().zip(nodes).find(|(found, wished)| found != wished) {
        Some((&found, wished)) if found < 0 => Err(RsetError::refused(
            format!("move_pages of a page to node {wished}"),
            Error::from_raw_os_error(-found),
        )),
        _ => Ok(()),
    }
}

/// Moves the pages of a process that lie in nodes `from` to nodes `to`; returns how many could not be moved.
pub fn migrate(process: i32, from: &Nodes, to: &Nodes) -> Result<u64, RsetError> {
    let mut masks = [from.mask(), to.mask()];
    let words = masks.iter().map(Vec::len).max().unwrap_or(1);
    masks.iter_mut().for_each(|mask| mask.resize(words, 0));
    // SAFETY: both masks have the bits that the kernel is told of.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_migrate_pages,
            process,
            words * WORD + 1,
            masks[0].as_ptr(),
            masks[1].as_ptr(),
        )
    };
    if outcome < 0 && Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return Err(RsetError::NoProcess { id: process });
    }
    let what = || format!("migrate_pages of process {process} from nodes {from} to nodes {to}");
    Ok(check(what, outcome)? as u64)
}

/// The processor on which this thread runs at this moment.
pub fn processor() -> Result<u32, RsetError> {
    // SAFETY: asks for a number.
    let outcome = unsafe { libc::sched_getcpu() };
    Ok(check(|| "getcpu".into(), outcome.into())? as u32)
}

/// Gives `bytes` from `start` a policy over `nodes`.
pub fn bind_memory(start: usize, bytes: usize, mode: Mode, nodes: &Nodes) -> Result<(), RsetError> {
    raw::bind(start, bytes, mode, &nodes.mask())
        .map_err(|errno| refused(format!("mbind of {bytes} bytes to nodes {nodes}"), errno))
}

fn move_pages(pages: &[usize], nodes: Option<&[libc::c_int]>) -> Result<Vec<libc::c_int>, RsetError> {
    let mut status = vec![-libc::ENOENT; pages.len()];
    raw::move_pages(pages, nodes, &mut status)
        .map_err(|errno| refused(format!("move_pages of {} pages", pages.len()), errno))?;
    Ok(status)
}

/// Maps `bytes` of fresh memory.
pub fn map(bytes: usize) -> Result<usize, RsetError> {
    raw::map(bytes).map_err(|errno| refused(format!("mmap of {bytes} bytes"), errno))
}

fn refused(call: String, errno: i32) -> RsetError {
    RsetError::refused(call, Error::from_raw_os_error(errno))
}
