//! What the memory system asks of the host's own caches; no result depends on it.

/// Bytes of a line of the host's caches.
pub const LINE: usize = 64;

/// Brings `list[index]` nearer, where the host has an instruction for it.
#[inline]
pub fn prefetch<T>(list: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a prefetch touches no memory as the program sees it, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(list.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (list, index);
}

/// Brings these of `list` nearer; those that it does not have do no harm.
#[inline(always)]
#[allow(clippy::inline_always)] // some instructions, beside which the call would be as many
pub fn prefetch_all<T>(list: &[T], these: std::ops::Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let [mut at, end] =
            [these.start, these.end].map(|index| list.as_ptr().wrapping_add(index).cast::<i8>());
        while at < end {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
            at = at.wrapping_add(LINE);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (list, these);
}
