//! Drivers of real servers, and what every driver needs: processor time from `/proc`, and the
//! checkpoint hook and control block used inside an emulated guest. Marks and random streams are those
//! of `servsim-driver`.
//!
//! One module per workload (`oltp`); the rest is shared. Nothing here knows traces or machines:
//! a driver is an ordinary client program and runs as well on the bare host.

pub mod control;
pub mod cpu;
pub mod error;
pub mod oltp;
pub mod pause;

pub use error::{Error, Result};
pub use servsim_driver::{mark, rng};
