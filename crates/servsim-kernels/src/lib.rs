//! Threaded kernels of scientific computing, and memory tests: programs whose references studies of
//! shared-memory machines have been made of, written anew from the published mathematics.
//!
//! Every kernel is one program on all threads, keeps each data structure in one named mapping
//! ([`mod@array`]), gives the same bits for any number of threads, and checks what it computed. One folder or
//! file each, one line in [`registry`]; [`run`] has the phases that all share.

pub mod array;
pub mod barnes;
pub mod buckets;
pub mod fft;
pub mod fmm;
pub mod kernel;
pub mod membench;
pub mod ocean;
pub mod reduction;
pub mod registry;
pub mod report;
pub mod run;
pub mod splash;
pub mod team;
#[cfg(test)]
mod testing;
pub mod water;

pub use servsim_driver::{Error, Result};
