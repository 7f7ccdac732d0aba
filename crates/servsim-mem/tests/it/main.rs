//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod last_level;
mod nodes;
mod observer;
mod protocols;
mod snapshot;
