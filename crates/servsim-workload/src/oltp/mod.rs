//! The OLTP workload: the schema, rules and five transactions of TPC-C revision 5.11, at any scale.
//!
//! Derived from TPC-C, and not TPC-C: no terminals, no pricing, no 8-hour run, and scales the
//! specification does not allow (Alameldeen et al. 2003, section 2.3, use such a scaled variant). Results are not
//! comparable with published ones. Each transaction is one stored procedure and one round trip, so
//! that the client costs little beside the server; or a statement per round trip, as most applications
//! work, with more of the kernel in it.

pub mod check;
pub mod deck;
pub mod engine;
pub mod guest;
pub mod load;
pub mod names;
pub mod postgres;
pub mod reconcile;
pub mod report;
pub mod request;
pub mod rows;
pub mod run;
pub mod scale;
pub mod schema;
pub mod settling;
pub mod sqlite;
pub mod statements;
pub mod terminal;
pub mod user;
pub mod waiting;
pub mod windows;

/// What every output of this workload says about itself.
pub const NOTICE: &str = "TPC-C-derived, not TPC-C; not comparable";
