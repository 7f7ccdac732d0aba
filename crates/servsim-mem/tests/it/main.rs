//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod last_level;
mod observer;
mod protocols;
mod snapshot;
