//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod approximate;
mod common;
mod exact;
mod layered;
mod markov;
mod parts;
mod refusals;
mod simulation;
