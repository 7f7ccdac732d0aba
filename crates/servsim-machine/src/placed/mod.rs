//! A placement file applied to a trace and a machine: which page follows which rule, and which task keeps to which
//! processors.

mod pages;
mod threads;

pub(crate) use pages::plan_of;
pub(crate) use threads::bindings_of;

use crate::error::SimulateError;
use crate::run_spec::TextFile;
use servsim_config::{Machine, PlacementFile};

/// Reads a placement file for `machine`.
///
/// # Errors
/// With every fault of the file, or when the machine has one memory.
pub(crate) fn read(file: &TextFile, machine: &Machine) -> Result<PlacementFile, SimulateError> {
    let Some(nodes) = &machine.nodes else {
        return Err(SimulateError::Usage(format!(
            "{}: a placement needs nodes, and {} has one memory; describe some with node.count, or leave out \
             --placement",
            file.name, machine.name
        )));
    };
    PlacementFile::from_toml(&file.text, &file.name, nodes.memories.len(), machine.processors)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))
}
