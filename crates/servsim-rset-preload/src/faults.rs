//! Faults on protected pages: who touched which, noted for the sampler without locks or allocations.
//!
//! One *stretch* of pages is protected at a time. Its address, its length and its number are what a fault goes by, and a
//! moment of the touching thread's own time. Opening a page that is open already does no harm, so a thread may lose its processor
//! between any two steps: it can leave a note of a stretch that is past, which its number tells, or open a page too early,
//! which costs a sample. A fault that the protection does not explain goes to whoever handled the signal before, or was
//! set by the program since; without one it ends the program, as it would have.

use crate::ranges;
use crate::sizes::PAGE;
use libc::{c_int, c_void, sigaction as Action, siginfo_t, sigset_t};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::zeroed;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

/// Pages of the longest stretch.
pub const STRETCH: usize = 4096;
/// Nanoseconds after the first touch, from when on a touch opens the whole stretch.
const LATEST: u64 = 20_000_000;
/// Bits of a stretch's number in a note.
const NUMBER_BITS: u32 = 29;
/// A fault of a page whose protection forbids it (asm-generic/siginfo.h).
const SEGV_ACCERR: c_int = 2;

/// Whether pages are watched.
pub static WATCHING: AtomicBool = AtomicBool::new(false);
/// The stretch that is protected: its first byte, its bytes (0: none), its number.
static START: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// When its moment began (0: not yet), how long that is, and what a fault takes: nanoseconds.
static BEGIN: AtomicU64 = AtomicU64::new(0);
static MOMENT: AtomicU64 = AtomicU64::new(0);
/// Touches of one thread that count in one moment.
static MOST: AtomicU64 = AtomicU64::new(0);
pub static FAULT: AtomicU64 = AtomicU64::new(0);
/// Who touched each page of it first: a bit that is set, 29 of the stretch's number, 12 of the processor, 22 of the thread.
static NOTES: [AtomicU64; STRETCH] = [const { AtomicU64::new(0) }; STRETCH];
/// Threads that have touched a page of it: the same bits without the processor; when, and how many faults they had since.
static THREADS: [Thread; 64] =
    [const { Thread { who: AtomicU64::new(0), begin: AtomicU64::new(0), faults: AtomicU64::new(0) } }; 64];
static BEFORE: Before = Before(UnsafeCell::new(None));

/// Who handled the signal before; written once, before the first page is protected, or by the program.
struct Before(UnsafeCell<Option<Action>>);
// SAFETY: written under the program's own `sigaction`, which programs do not race.
unsafe impl Sync for Before {}

/// Faults so far.
pub static FAULTS: AtomicU64 = AtomicU64::new(0);
/// Touches in the first half of their threads' moments, and in the second.
static EARLY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

struct Thread {
    who: AtomicU64,
    begin: AtomicU64,
    faults: AtomicU64,
}

/// A touch: the page's place in its stretch, the processor and the thread.
pub struct Touch {
    pub page: usize,
    pub processor: u64,
    pub thread: u64,
}

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

/// Protects a stretch from now on, until [`open`]; the kernel's number when it cannot.
///
/// # Errors
/// The kernel's number: `ENOMEM` where the process has as many mappings as it may have. All is open then.
pub fn close(start: usize, bytes: usize, moment: Duration, most: usize) -> Result<(), i32> {
    NOTES.iter().for_each(|note| note.store(0, Relaxed));
    BEGIN.store(0, Relaxed);
    EARLY.iter().for_each(|half| half.store(0, Relaxed));
    MOMENT.store(moment.as_nanos() as u64, Relaxed);
    MOST.store(most as u64, Relaxed);
    START.store(start, Relaxed);
    NUMBER.fetch_add(1, AcqRel);
    BYTES.store(bytes, Release);
    let done = protect(start, bytes, libc::PROT_NONE);
    if done.is_err() {
        // It may have come as far as some pages.
        open(start, bytes);
    }
    done
}

/// Opens a stretch. No new mappings are needed for that: those of the stretch have its bounds already.
pub fn open(start: usize, bytes: usize) {
    BYTES.store(0, Release);
    let _ = protect(start, bytes, libc::PROT_READ | libc::PROT_WRITE);
}

/// Whether somebody has touched a page of the stretch.
pub fn begun() -> bool {
    BEGIN.load(Relaxed) != 0
}

/// Touches in the first half of the threads' moments, and in the second.
pub fn halves() -> [u64; 2] {
    [0, 1].map(|half| EARLY[half].load(Relaxed))
}

/// Who touched what in the last stretch.
pub fn touches() -> impl Iterator<Item = Touch> {
    let number = NUMBER.load(Acquire) & ((1 << NUMBER_BITS) - 1);
    NOTES.iter().enumerate().filter_map(move |(page, note)| {
        let note = note.load(Acquire);
        (note >> 63 == 1 && note >> 34 & ((1 << NUMBER_BITS) - 1) == number).then_some(Touch {
            page,
            processor: note >> 22 & 0xfff,
            thread: note & 0x3f_ffff,
        })
    })
}

fn protect(start: usize, bytes: usize, protection: c_int) -> Result<(), i32> {
    // SAFETY: pages of a range that is watched; their contents stay. Never by the function that this library replaces.
    unsafe {
        if libc::syscall(libc::SYS_mprotect, start, bytes, protection) == 0 {
            Ok(())
        } else {
            Err(*libc::__errno_location())
        }
    }
}

/// Notes who touches a protected page and opens it; every other fault goes to whoever handled it before.
extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's description of the fault; errno is put back as it was.
    unsafe {
        let errno = *libc::__errno_location();
        if (*info).si_code != SEGV_ACCERR || !explained((*info).si_addr() as usize / PAGE * PAGE) {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Whether a fault is explained by our protection, which is then taken off.
fn explained(page: usize) -> bool {
    let (number, bytes) = (NUMBER.load(Acquire), BYTES.load(Acquire));
    let start = START.load(Acquire);
    let offset = page.wrapping_sub(start);
    // When its number changes meanwhile, the fault was of a stretch that is past.
    if offset < bytes && NUMBER.load(Acquire) == number {
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        // One page may need a mapping more than there may be; the whole stretch does not.
        if !in_time(offset / PAGE, number) || protect(page, PAGE, writable).is_err() {
            let _ = protect(start, bytes, writable);
        }
        return true;
    }
    // Before it was opened, or it is the program's own fault.
    ranges::watches(page) && {
        let _ = protect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE);
        true
    }
}

/// Notes a touch in its thread's moment; `false` when that is over for everybody.
fn in_time(page: usize, number: u64) -> bool {
    FAULTS.fetch_add(1, Relaxed);
    let now = nanoseconds();
    // Of the thread's own time: it may lose its processor.
    let own_now = clock(libc::CLOCK_THREAD_CPUTIME_ID).as_nanos() as u64;
    let (moment, fault) = (MOMENT.load(Relaxed), FAULT.load(Relaxed));
    let number = number & ((1 << NUMBER_BITS) - 1);
    // SAFETY: this asks for a number.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) as u64 } & 0x3f_ffff;
    let Err(first) = BEGIN.compare_exchange(0, now, Relaxed, Relaxed) else {
        THREADS[0].begin.store(own_now, Relaxed);
        THREADS[0].faults.store(0, Relaxed);
        THREADS[0].who.store(1 << 63 | number << 22 | thread, Release);
        return true;
    };
    let own = 1 << 63 | number << 22 | thread;
    for slot in &THREADS {
        let of = slot.who.load(Acquire);
        if of == own {
            // A thread that faults gets on more slowly than one that does not: what its faults took is no time of its own.
            let faults = slot.faults.fetch_add(1, Relaxed);
            let passed = own_now.saturating_sub(slot.begin.load(Relaxed)).saturating_sub(faults * fault);
            if passed <= moment && faults < MOST.load(Relaxed) {
                EARLY[usize::from(passed > moment / 2)].fetch_add(1, Relaxed);
                // SAFETY: as above.
                let processor = unsafe { libc::sched_getcpu() };
                let processor = u64::try_from(processor).unwrap_or(0) & 0xfff;
                let note = 1 << 63 | number << 34 | processor << 22 | thread;
                if let Some(slot) = NOTES.get(page) {
                    let _ = slot.compare_exchange(0, note, AcqRel, Relaxed);
                }
            }
            break;
        }
        // Its first touch only begins its moment: somebody is always first.
        if of >> 22 != own >> 22 && slot.who.compare_exchange(of, own, AcqRel, Relaxed).is_ok() {
            slot.begin.store(own_now, Relaxed);
            slot.faults.store(0, Relaxed);
            break;
        }
    }
    now.saturating_sub(first) <= LATEST
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
fn nanoseconds() -> u64 {
    clock(libc::CLOCK_MONOTONIC).as_nanos() as u64
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

/// A program that sets its own handler of the signal gets what is not ours; no handler of another one keeps ours out.
#[no_mangle]
pub unsafe extern "C" fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    // SAFETY: the caller's own descriptions, where there are some; otherwise the call as it was made.
    unsafe {
        if !WATCHING.load(Relaxed) {
            return next_sigaction(signal, action, before);
        }
        if signal != libc::SIGSEGV {
            let Some(action) = action.as_ref() else { return next_sigaction(signal, action, before) };
            let mut action = *action;
            libc::sigdelset(&raw mut action.sa_mask, libc::SIGSEGV);
            return next_sigaction(signal, &raw const action, before);
        }
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

/// As [`sigaction`], the older way.
#[no_mangle]
pub unsafe extern "C" fn signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: descriptions of this function's own.
    unsafe {
        let (mut action, mut before): (Action, Action) = (zeroed(), zeroed());
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        if sigaction(signal, &raw const action, &raw mut before) == 0 {
            before.sa_sigaction
        } else {
            libc::SIG_ERR
        }
    }
}

type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// A thread that blocks the signal would be ended by its next fault, so that it does not while pages are watched.
unsafe fn mask(name: &CStr, how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
    // SAFETY: the C library's function of this name has this signature; the set is the caller's.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if next.is_null() {
            return libc::ENOSYS;
        }
        let next: Mask = std::mem::transmute(next);
        match set.as_ref() {
            Some(set) if WATCHING.load(Relaxed) && how != libc::SIG_UNBLOCK => {
                let mut set = *set;
                libc::sigdelset(&raw mut set, libc::SIGSEGV);
                next(how, &raw const set, before)
            }
            _ => next(how, set, before),
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
    // SAFETY: the call as it was made.
    unsafe { mask(c"pthread_sigmask", how, set, before) }
}

#[no_mangle]
pub unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
    // SAFETY: the call as it was made.
    unsafe { mask(c"sigprocmask", how, set, before) }
}
