//! Assembles a machine from its description and runs a trace on it, with one of two engines over
//! the same protocol tables: `functional` (order of the trace, atomic bus, exact counts) and
//! `timing` (tasks re-scheduled over the processors, bus contention, cycles).

pub mod functional;
pub mod setup;

pub use setup::Setup;
