//! Faults on protected pages: who touched which, noted for the sampler without locks or allocations.
//!
//! A fault that the protection does not explain goes to whoever handled the signal before, or was set by the program
//! since; without one it ends the program, as it would have.

use crate::sizes::PAGE;
use libc::{c_int, c_void, sigaction as Action, siginfo_t};
use std::cell::UnsafeCell;
use std::mem::zeroed;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, AtomicUsize};
use std::time::Duration;

/// Pages that can ever be watched, as a power of two: 4 GiB.
const SLOT_BITS: u32 = 20;
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Steps from where a page's slot should be.
const MOST_STEPS: usize = 64;
/// Notes that faults can leave between two looks.
pub const NOTES: usize = 1 << 16;
/// How long pages are protected.
pub const MOMENT: Duration = Duration::from_micros(100);
/// Faults on an open page that are taken for threads that touched it before it was.
const MOST_MEETINGS: u8 = 200;

/// Whether pages are watched.
pub static WATCHING: AtomicBool = AtomicBool::new(false);
/// The page of each slot, the number of its first byte; and what its protection is.
pub static PAGES: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
static STATES: [AtomicU8; SLOTS] = [const { AtomicU8::new(OPEN) }; SLOTS];
/// States of a page. Between two calls of the kernel a thread may lose its processor for long, so what is under way is a
/// state too: who meets a page that is being opened opens it as well, and who meets one that is being closed waits.
const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const CLOSED: u8 = 2;
const OPENING: u8 = 3;
/// When it was protected, in microseconds.
static SINCE: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
static MEETINGS: [AtomicU8; SLOTS] = [const { AtomicU8::new(0) }; SLOTS];
/// Notes of faults: a bit that is set, 20 of the slot, 12 of the processor, 22 of the thread.
pub static RING: [AtomicU64; NOTES] = [const { AtomicU64::new(0) }; NOTES];
pub static WRITTEN: AtomicUsize = AtomicUsize::new(0);
static BEFORE: Before = Before(UnsafeCell::new(None));

/// Who handled the signal before; written once, before the first page is protected, or by the program.
struct Before(UnsafeCell<Option<Action>>);
// SAFETY: written under the program's own `sigaction`, which programs do not race.
unsafe impl Sync for Before {}

/// Takes the signal over; `false` when the kernel refuses.
pub fn handle() -> bool {
    // SAFETY: the handler has the signature that SA_SIGINFO asks for; the old action is written for us.
    unsafe {
        let mut action: Action = zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let mut before: Action = zeroed();
        let taken = next_sigaction(libc::SIGSEGV, &raw const action, &raw mut before) == 0;
        if taken {
            *BEFORE.0.get() = Some(before);
        }
        taken
    }
}

/// The slots where a page may be, the likeliest first.
fn slots(page: usize) -> impl Iterator<Item = usize> {
    // Fibonacci hashing: the upper bits of a product with 2^64 over the golden ratio.
    let first = (page / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SLOT_BITS);
    (0..MOST_STEPS).map(move |step| (first + step) % SLOTS)
}

/// The slot of a page that was ever protected.
pub fn slot_of(page: usize) -> Option<usize> {
    slots(page)
        .take_while(|&slot| PAGES[slot].load(Relaxed) != 0)
        .find(|&slot| PAGES[slot].load(Relaxed) == page)
}

/// Opens a page, if it is protected.
pub fn open(slot: usize) {
    if STATES[slot].compare_exchange(CLOSED, OPENING, AcqRel, Relaxed).is_ok() {
        unprotect(PAGES[slot].load(Relaxed));
        STATES[slot].store(OPEN, Release);
    }
}

fn unprotect(page: usize) {
    protect(page, libc::PROT_READ | libc::PROT_WRITE);
}

fn protect(page: usize, protection: c_int) {
    // SAFETY: a page of a range that is watched; its contents stay.
    unsafe { libc::mprotect(page as *mut c_void, PAGE, protection) };
}

/// Notes who touches a protected page and opens it; every other fault goes to whoever handled it before.
extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's description of the fault; errno is put back as it was.
    unsafe {
        let errno = *libc::__errno_location();
        let page = (*info).si_addr() as usize / PAGE * PAGE;
        let ours = slot_of(page).filter(|&slot| note(slot, page));
        if ours.is_none() {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Whether a fault is explained by our protection.
fn note(slot: usize, page: usize) -> bool {
    while STATES[slot].compare_exchange(CLOSED, OPENING, AcqRel, Acquire).is_err() {
        match STATES[slot].load(Acquire) {
            OPEN => {
                // It was touched before somebody opened it, unless the fault is the program's own.
                return MEETINGS[slot].fetch_add(1, Relaxed) < MOST_MEETINGS;
            }
            OPENING => {
                unprotect(page);
                return true;
            }
            // SAFETY: gives the processor away for a moment.
            _ => unsafe { libc::sched_yield() },
        };
    }
    MEETINGS[slot].store(0, Relaxed);
    // When it was longer, this library's own thread did not get a processor in time to open it.
    if microseconds().wrapping_sub(SINCE[slot].load(Relaxed)) <= MOMENT.as_micros() as u32 {
        // SAFETY: these ask for numbers.
        let (thread, processor) = unsafe { (libc::syscall(libc::SYS_gettid) as u64, libc::sched_getcpu()) };
        let note = 1 << 63
            | (slot as u64) << 34
            | (u64::try_from(processor).unwrap_or(0) & 0xfff) << 22
            | thread & 0x3f_ffff;
        RING[WRITTEN.fetch_add(1, Relaxed) % NOTES].store(note, Relaxed);
    }
    unprotect(page);
    STATES[slot].store(OPEN, Release);
    true
}

unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the program, or nobody, had set; the default ends the program at its next try.
    unsafe {
        match *BEFORE.0.get() {
            Some(before) if before.sa_sigaction > libc::SIG_IGN => {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    let handle: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                        std::mem::transmute(before.sa_sigaction);
                    handle(signal, info, context);
                } else {
                    let handle: extern "C" fn(c_int) = std::mem::transmute(before.sa_sigaction);
                    handle(signal);
                }
            }
            _ => {
                let mut default: Action = zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                next_sigaction(signal, &raw const default, std::ptr::null_mut());
            }
        }
    }
}

/// The slot of a page, which it gets if it has none and there is room.
pub fn take_slot(page: usize) -> Option<usize> {
    let slot = slots(page).find(|&slot| [0, page].contains(&PAGES[slot].load(Relaxed)))?;
    PAGES[slot].store(page, Relaxed);
    Some(slot)
}

/// Protects the page of a slot from now on; `false` when it is already.
pub fn close(slot: usize) -> bool {
    if STATES[slot].compare_exchange(OPEN, CLOSING, AcqRel, Relaxed).is_err() {
        return false;
    }
    MEETINGS[slot].store(0, Relaxed);
    SINCE[slot].store(microseconds(), Relaxed);
    protect(PAGES[slot].load(Relaxed), libc::PROT_NONE);
    STATES[slot].store(CLOSED, Release);
    true
}

/// What a clock of the kernel shows.
pub fn clock(clock: libc::clockid_t) -> Duration {
    // SAFETY: the kernel fills in what it is given.
    let time = unsafe {
        let mut time: libc::timespec = zeroed();
        libc::clock_gettime(clock, &raw mut time);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time, of which only differences count.
fn microseconds() -> u32 {
    clock(libc::CLOCK_MONOTONIC).as_micros() as u32
}

type Sigaction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;

/// The C library's own function.
unsafe fn next_sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    // SAFETY: the function of this name has this signature.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"sigaction".as_ptr());
        if next.is_null() {
            return -1;
        }
        let next: Sigaction = std::mem::transmute(next);
        next(signal, action, before)
    }
}

/// A program that sets its own handler of the signal gets what is not ours.
#[no_mangle]
pub unsafe extern "C" fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    if signal != libc::SIGSEGV || !WATCHING.load(Relaxed) {
        // SAFETY: the call as it was made.
        return unsafe { next_sigaction(signal, action, before) };
    }
    // SAFETY: the caller's own descriptions, where there are some.
    unsafe {
        let known = &mut *BEFORE.0.get();
        if let (Some(into), Some(held)) = (before.as_mut(), *known) {
            *into = held;
        }
        if let Some(action) = action.as_ref() {
            *known = Some(*action);
        }
    }
    0
}
