//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod approximate;
mod automatic;
mod bands;
mod common;
mod estimation;
mod exact;
mod general;
mod layered;
mod markov;
mod mutated_texts;
mod parts;
mod percentiles;
mod rare;
mod referee;
mod refusals;
mod settling;
mod simulation;
mod tails;
