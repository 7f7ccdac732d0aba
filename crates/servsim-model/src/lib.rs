//! Queueing-network models that never return an impossible number: open, closed and mixed networks
//! with several classes, solved exactly, approximately, by bounds or by simulation; with pools,
//! locks, fork-join and priorities by stated approximation; exact sensitivities, allocation of
//! tables to disks, and estimation of service demands from measurements.
//!
//! ```
//! use servsim_model::{solve, Network, Options};
//! // Three customers, no thinking, two stations (Lazowska et al. 1984).
//! let network = Network::single(3, 15.0, &[0.605, 2.1, 1.35]);
//! let solution = solve(&network, "mva", &Options::default()).unwrap();
//! assert!((solution.throughput() - 0.151_516).abs() < 1e-6);
//! ```
//!
//! The crate reads no file, clock or environment; the same input and seed give the same bytes.

// Formulas index several tables by station and class at once; iterators would hide the indices.
#![allow(clippy::needless_range_loop)]

mod agreement;
pub mod allocation;
pub mod bands;
pub mod closed;
mod discipline;
pub mod error;
pub mod fit;
pub mod network;
mod options;
pub mod percentiles;
mod presumed;
mod product_form;
pub mod routing;
pub mod sensitivity;
pub mod service;
pub mod sim;
pub mod solution;
pub mod solve;
pub mod solvers;
pub mod special;
pub mod text;
pub mod validate;
pub mod whatif;

pub use closed::{Closed, Tolerance};
pub use error::ModelError;
pub use network::{Class, Discipline, Fork, Full, Load, Network, Pool, Room, Speed, Station};
pub use solution::Solution;
pub use solve::solve;
pub use solvers::{Options, SOLVERS};
