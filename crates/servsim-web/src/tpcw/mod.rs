//! TPC-W-derived emulated browsers: which page a browser asks for next, and how long its user waits.
//!
//! `mixes.toml` holds the specification's three mixes, `mix` walks them and knows their stationary shares,
//! `browser` adds think times and sessions. The book shop's pages are not here yet.

pub mod browser;
pub mod mix;

/// What reports say of the workload.
pub const NOTICE: &str = "ecommerce: TPC-W-derived, not TPC-W; not comparable";
