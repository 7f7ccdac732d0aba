//! Assembles a machine from its description and runs a trace on it, with one of two engines over
//! the same protocol tables: `functional` (order of the trace, atomic bus, exact counts) and
//! `timing` (tasks re-scheduled over the processors, bus contention, cycles).

pub mod activity_log;
mod builders;
pub mod classify;
pub mod counted;
mod counts;
#[cfg(test)]
mod drawn;
mod error;
mod event_queue;
pub mod figures;
pub mod functional;
mod json;
pub mod mapped;
mod monitored;
pub mod multi_config;
mod names;
mod place;
mod placed;
mod read_ahead;
pub mod registry;
mod replay;
pub mod result;
mod run_spec;
pub mod sampling;
mod settled;
pub mod setup;
pub mod sharded;
pub mod simulate;
mod software;
pub mod storage;
pub mod timing;
mod translation;
mod up_to;
pub mod users;
pub mod warm;
pub mod warnings;
pub mod window;

pub use counts::simulate_each;
pub use error::{Proceed, SimulateError};
pub use run_spec::{NodeOptions, RunSpec, Start, TextFile};
pub use servsim_core::{Stage, Watch};
pub use setup::Setup;
pub use simulate::{simulate, DETAILED};
pub use window::Transactions;
