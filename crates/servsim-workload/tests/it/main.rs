//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod calls;
mod common;
mod consistency;
mod runs;
mod sqlite;
