//! Descriptions as text: models, allocation problems and measurements, in TOML (for people, with
//! units) or JSON (for programs, in seconds). Every problem of a file is reported at once.

mod allocation;
mod describe;
mod details;
mod measurements;
mod network;
pub mod node;
mod source;
mod what_ifs;

pub use allocation::{read_allocation, Comparison};
pub use describe::describe;
pub use measurements::read_measurements;
pub use network::{read_network, Model};
pub use node::{Problem, Problems};
