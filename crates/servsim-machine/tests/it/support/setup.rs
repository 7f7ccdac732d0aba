//! What the tests of the timing engine make of a description.

use servsim_config::Machine;
use servsim_machine::Setup;
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::Geometry;

/// The setup of a described machine, with exact replacement classes.
pub fn setup(machine: &Machine) -> Setup {
    Setup {
        processors: machine.processors,
        geometry: Geometry {
            size: machine.cache.size.0,
            ways: machine.cache.associativity,
            line: machine.cache.line.0,
        },
        protocol: by_name(&machine.protocol.name, &Options::default()).unwrap(),
        shadow: true,
    }
}
