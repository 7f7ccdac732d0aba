//! What programs to be captured share: the transaction mark that a trace capture recognises,
//! reproducible random streams and texts, the checkpoint hook and the control device of an emulated guest, the
//! window that a capture measures, processor time from `/proc`, response times, and hashes of what was asked for.
//!
//! Drivers of servers and kernels of computation are ordinary programs that never meet; they agree
//! on these, because a capture must read the marks of all of them and every one must repeat.

pub mod control;
pub mod cpu;
pub mod error;
pub mod latency;
pub mod log;
pub mod mark;
pub mod nurand;
pub mod pause;
pub mod rng;
pub mod text;
pub mod window;

pub use error::{Error, Result};
