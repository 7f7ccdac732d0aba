//! Sizes of small allocations: sixteen bytes apart at first, then four between a power of two and the next.

/// Bytes of a page: x86-64 and the usual Arm kernels.
pub const PAGE: usize = 4096;
/// What chunks are multiples of, and how long one of small allocations is.
pub const CHUNK: usize = 1 << 20;
/// The largest small allocation.
pub const LARGEST: usize = 32 << 10;
/// How many sizes there are.
pub const CLASSES: usize = 8 + 4 * 8;

/// The class that holds `bytes` at an alignment of `alignment`; `None` when that is no small allocation.
///
/// A size that is a power of two lies at multiples of itself, so that a larger alignment takes one.
pub fn class(bytes: usize, alignment: usize) -> Option<usize> {
    let bytes = if alignment > 16 { bytes.max(alignment).checked_next_power_of_two()? } else { bytes.max(1) };
    if bytes > LARGEST {
        return None;
    }
    if bytes <= 128 {
        return Some(bytes.div_ceil(16) - 1);
    }
    // 2^k < bytes <= 2^(k+1), in quarters of 2^k.
    let k = (bytes - 1).ilog2() as usize;
    let quarter = (bytes - (1 << k)).div_ceil(1 << (k - 2));
    Some(8 + 4 * (k - 7) + quarter - 1)
}

/// Bytes of a class.
pub fn bytes(class: usize) -> usize {
    if class < 8 {
        return 16 * (class + 1);
    }
    let (k, quarter) = (7 + (class - 8) / 4, (class - 8) % 4 + 1);
    (1 << k) + quarter * (1 << (k - 2))
}
