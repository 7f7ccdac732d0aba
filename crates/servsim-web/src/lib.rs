//! Clients of web servers, and what they ask for.
//!
//! `http` is one connection, `crew` the users of a run and the phases that they pass, `visit` a run with what both sides have
//! counted, `report` what came of it, `conditions` whether the database is consistent, `memory` what lies where in the server's memory, `page` and `rows` what pages and first rows have in
//! common, `command` what the programs share; `surge` are the static files and requests of SURGE, `tpcw` the book shop and the browsers
//! of TPC-W, `board` a message board and its members, `webmix` users of a static site and a board. Every user has a thread and a blocking connection of its own: one loop
//! for all would read replies in one order, and a simulated machine could not let users overtake one another.

pub mod board;
pub mod command;
pub mod conditions;
pub mod crew;
pub mod http;
pub mod memory;
pub mod page;
pub mod report;
pub mod rows;
pub mod status;
pub mod surge;
pub mod tpcw;
pub mod visit;
pub mod webmix;

pub use servsim_driver::{log, Error, Result};
