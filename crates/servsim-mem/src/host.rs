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
