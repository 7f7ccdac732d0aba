//! Exact least recently used. Every cache stamps its frames at each use anyway, since the order
//! among frames without a copy needs it; so this policy has no state of its own.

use super::Replacement;
use servsim_core::RandomStream;

pub(super) fn make(_sets: usize, _ways: usize, _rng: RandomStream) -> Replacement {
    Replacement::Stamps
}
