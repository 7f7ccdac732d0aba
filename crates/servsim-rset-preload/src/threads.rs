//! Threads by the order in which they begin, each on the processors that it was dealt.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Whose turn it is; the first thread is number 0.
static BEGUN: AtomicUsize = AtomicUsize::new(1);
static DEALT: AtomicPtr<Dealt> = AtomicPtr::new(std::ptr::null_mut());

/// Processors for threads.
pub struct Dealt {
    /// Those of each thread.
    pub processors: Vec<Vec<usize>>,
    /// Whether the threads behind the last begin anew; otherwise they are free.
    pub again: bool,
}

/// From now on threads are bound so, this one at once.
pub fn deal(dealt: Dealt) {
    DEALT.store(Box::leak(Box::new(dealt)), Ordering::Release);
    bind(0);
}

fn dealt() -> Option<&'static Dealt> {
    // SAFETY: it points at what `deal` leaked.
    unsafe { DEALT.load(Ordering::Acquire).as_ref() }
}

/// The number of the thread that begins next, where threads are bound.
pub fn next() -> Option<usize> {
    dealt().map(|_| BEGUN.fetch_add(1, Ordering::Relaxed))
}

/// Binds this thread as the one of that number. A kernel that refuses leaves it where it is.
pub fn bind(number: usize) {
    let Some(dealt) = dealt() else { return };
    let many = dealt.processors.len();
    let at = if dealt.again && many > 0 { number % many } else { number };
    let Some(processors) = dealt.processors.get(at).filter(|own| !own.is_empty()) else { return };
    // SAFETY: an empty set is all zeros; processors beyond its size are left out by `CPU_SET`'s own check.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        processors.iter().for_each(|&processor| libc::CPU_SET(processor, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
