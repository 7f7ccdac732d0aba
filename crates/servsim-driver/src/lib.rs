//! What programs to be captured share: the transaction mark that a trace capture recognises, and
//! reproducible random streams.
//!
//! Drivers of servers and kernels of computation are ordinary programs that never meet; they agree
//! on these two, because a capture must read the marks of all of them and every one must repeat.

pub mod mark;
pub mod rng;
