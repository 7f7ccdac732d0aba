//! Clients of web servers, and what they ask for.
//!
//! `http` is one connection, `crew` the users of a run and the phases that they pass, `report` what
//! came of it, `command` what their programs share; `surge` are the static files and requests of SURGE, `tpcw` the book shop and the browsers of TPC-W. Every
//! user has a thread and a blocking connection of its own: one loop for all would read replies in one
//! order, and a simulated machine could not let users overtake one another.

pub mod command;
pub mod crew;
pub mod http;
pub mod log;
pub mod report;
pub mod status;
pub mod surge;
pub mod tpcw;

pub use servsim_driver::{Error, Result};
