//! Machine descriptions: read whole, and what every setting of one means.

use crate::errors;
use pyo3::prelude::*;
use serde_json::json;
use servsim_config::{Kind, Machine, PlacementFile, SETTINGS};
use servsim_machine::storage::fault_of;

/// Adds this part's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(machine_resolve, module)?)?;
    module.add_function(wrap_pyfunction!(machine_faults, module)?)?;
    module.add_function(wrap_pyfunction!(settings, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(placement_check, module)?)
}

/// A machine with every setting, as nested JSON of texts with units; `file` is used in messages, which tell every
/// fault of the description, one a line.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // what Python gives is made for the call
fn machine_resolve(text: &str, file: &str, overrides: Vec<String>) -> PyResult<String> {
    Machine::from_toml(text, file, &overrides)
        .map(|machine| machine.resolved().to_string())
        .map_err(|faults| errors::usage(faults.to_string()))
}

/// Everything that is wrong with a machine, whatever is run on it: faults of its description, or a disk model that cannot
/// be used.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // as above
fn machine_faults(text: &str, file: &str, overrides: Vec<String>) -> Vec<String> {
    match Machine::from_toml(text, file, &overrides) {
        Ok(machine) => fault_of(&machine).map(|fault| format!("{file}: {fault}")).into_iter().collect(),
        Err(faults) => faults.0,
    }
}

/// Every setting of a machine description, as JSON: its key, what is accepted, its default as TOML, meaning, source.
#[pyfunction]
fn settings() -> String {
    let one = |setting: &servsim_config::Setting| {
        let default = match setting.kind {
            Kind::Count(..) => setting.default.to_owned(),
            _ => format!("{:?}", setting.default),
        };
        json!({
            "key": setting.key,
            "accepted": setting.kind.to_string(),
            "default": default,
            "meaning": setting.meaning,
            "source": setting.source,
        })
    };
    SETTINGS.iter().map(one).collect::<serde_json::Value>().to_string()
}

/// Meaning, accepted values, default and source of a setting.
#[pyfunction]
fn explain(key: &str) -> PyResult<String> {
    servsim_config::explain(key).map_err(errors::usage)
}

/// Says what is wrong with a placement file, whatever machine it is for; `file` is used in messages.
#[pyfunction]
fn placement_check(text: &str, file: &str) -> PyResult<()> {
    const ANY: usize = 1 << 20;
    PlacementFile::from_toml(text, file, ANY, ANY)
        .map(drop)
        .map_err(|faults| errors::usage(faults.to_string()))
}
