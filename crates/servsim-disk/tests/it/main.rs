//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod arrivals;
mod biosnoop;
mod channels;
mod etw;
mod foreknowledge;
mod fuzz;
mod importers;
mod models;
mod moves;
mod parallel;
mod platters;
mod sets;
mod skill;
mod suspect;
mod sweep;
mod truth;
