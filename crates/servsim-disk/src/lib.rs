//! Disks: models built from block traces, and the means to judge them.
//!
//! Follows Thornock, Tu & Flanagan, "A stochastic disk I/O simulation technique" (1997), whose tables
//! are the `paper` model here, and goes beyond it: the default model samples the *physical* service
//! time of a request given what the device did before it, inside a server whose scheduler is inferred
//! from the trace, so that its answers survive a change of load or of layout.
//!
//! Nothing here opens a file or reads a clock: importers take `BufRead`, models take requests.

// What is expected inside these functions are invariants of this crate, not conditions on the caller.
#![allow(clippy::missing_panics_doc)]
// The loops over requests take 30 to 100 ns: a call that is not inlined costs a tenth of that.
#![allow(clippy::inline_always)]
#![cfg_attr(test, allow(clippy::float_cmp))] // Tests compare values that are computed exactly.

pub mod cache;
pub mod clock;
pub mod error;
pub mod evaluate;
pub mod features;
pub mod importers;
pub mod in_order;
pub mod lines;
pub mod mechanics;
pub mod metrics;
pub mod models;
pub mod moves;
mod observed;
pub mod order;
pub mod platters;
pub mod reorganize;
pub mod request;
pub mod server;
pub mod sets;
pub mod simulate;
pub mod skill;
pub mod sweep;
pub mod trial;
