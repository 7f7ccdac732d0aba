//! Integration tests of the kernels, as one program.

mod kernels;
mod program;
mod splash;
