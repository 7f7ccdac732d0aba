//! Drivers of database servers, one module per workload (`oltp`). What every client needs is that of
//! `servsim-driver`.
//!
//! Nothing here knows traces or machines: a driver is an ordinary client program and runs as well on
//! the bare host.

pub mod error;
pub mod oltp;

pub use error::{Error, Result};
pub use servsim_driver::{control, cpu, latency, log, mark, pause, rng, window};
