//! What several tests of this crate share.

pub mod counts;
pub mod every_machine;
pub mod handlers;
pub mod mutation;
pub mod one_run;
pub mod setup;
pub mod sharing;
pub mod small_trace;
pub mod text;
pub mod whole_trace;
