//! TPC-W-derived: the users of a book shop, and what is in it at first.
//!
//! `mixes.toml` holds the specification's three mixes, `mix` walks them, `stationary` knows their shares in the long run,
//! `browser` adds think times and sessions, `wishes` are what a user asks for next, `shopper` asks, and `page` looks whether they are right.
//! `population`, `images` and `names` are what the shop begins with. The shop itself is Perl, in the workload's folder.

pub mod browser;
pub mod images;
pub mod mix;
pub mod names;
pub mod page;
pub mod population;
pub mod run;
pub mod shopper;
pub mod stationary;
pub mod wishes;

/// What reports say of the workload.
pub const NOTICE: &str = "ecommerce: TPC-W-derived, not TPC-W; not comparable";
