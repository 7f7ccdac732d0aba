//! Warm starts: the first part of a trace runs through the caches alone, without time, and the timing
//! engine begins where it stopped. What is known at that point, a [`WarmStart`], is written to a
//! checkpoint and read again ([`checkpoint`]); any number of runs begin from it.
//!
//! The state depends on the trace, the amount and the settings that are not listed in
//! [`settings::FREE`], and on nothing else: neither on the seed nor on any time. So a run that warms by
//! itself and one that begins from a checkpoint are the same run. The rules are in ADR 0320.

mod amount;
mod begin;
pub mod checkpoint;
mod engine;
pub mod outline;
pub mod settings;
mod state;
mod survey;

pub use crate::software::PendingIo;
pub use amount::Amount;
pub(crate) use begin::{settings_of, start_of};
pub use engine::{survey, warm_up, Shape};
pub use state::WarmStart;
pub use survey::{sum_of, Counts, Groups, Keep, LivePoint, Range, Survey, Work};
