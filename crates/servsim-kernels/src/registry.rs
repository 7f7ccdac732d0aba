//! The kernels by name: one line each.

use crate::kernel::Spec;
use crate::{Error, Result};

/// All kernels.
pub static KERNELS: &[&Spec] = &[
    &crate::fft::SPEC,
    &crate::ocean::SPEC,
    &crate::water::nsquared::SPEC,
    &crate::water::spatial::SPEC,
    &crate::barnes::SPEC,
    &crate::fmm::SPEC,
    &crate::membench::SPEC,
];

/// The kernel of a name.
///
/// # Errors
/// [`Error::Usage`] with the names there are.
pub fn find(name: &str) -> Result<&'static Spec> {
    KERNELS.iter().find(|spec| spec.name == name).copied().ok_or_else(|| {
        let known: Vec<&str> = KERNELS.iter().map(|spec| spec.name).collect();
        Error::Usage(format!("there is no kernel '{name}'; known: {}", known.join(", ")))
    })
}
