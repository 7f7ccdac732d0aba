//! Integration tests of Resource Sets: on machines that exist as folders, and on this one.

mod algebra;
mod here;
mod machines;
mod physical;
mod policies;
mod support;
mod team;
