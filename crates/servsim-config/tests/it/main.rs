//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod descriptions;
mod monitor;
mod placement;
mod texts;
