//! Drivers of real servers, and what every driver needs: reproducible random streams, the
//! transaction mark that a trace capture recognises, processor time from `/proc`, and the
//! checkpoint hook and control block used inside an emulated guest.
//!
//! One module per workload (`oltp`); the rest is shared. Nothing here knows traces or machines:
//! a driver is an ordinary client program and runs as well on the bare host.

pub mod control;
pub mod cpu;
pub mod error;
pub mod mark;
pub mod oltp;
pub mod pause;
pub mod rng;

pub use error::{Error, Result};
