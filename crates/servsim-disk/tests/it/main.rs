//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod arrivals;
mod biosnoop;
mod foreknowledge;
mod fuzz;
mod importers;
mod models;
mod moves;
mod parallel;
mod sets;
mod skill;
mod truth;
