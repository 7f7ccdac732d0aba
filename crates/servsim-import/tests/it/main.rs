//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod captured;
mod common;
mod findings;
mod formats;
mod hostile;
mod hostile_formats;
mod interrupted_code;
mod raw16;
mod round_trips;
mod soft_interrupts;
