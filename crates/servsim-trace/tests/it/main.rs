//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod properties;
mod round_trip;
mod selection;
mod validation;
