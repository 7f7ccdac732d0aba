//! Bindings of `servsim-rset`: the machine, threads and processes bound to sets, and where memory moves to.

use crate::errors::{environment, usage};
use pyo3::prelude::*;
use serde_json::{json, Value};
use servsim_rset::partitions::{Journal, Partitions, Step};
use servsim_rset::{Nodes, Processors, ResourceSet, RsetError, ThreadOrder, Topology};
use std::collections::BTreeMap;

/// What was asked for is the user's; what the kernel refuses is the environment's.
fn raise(error: &RsetError) -> PyErr {
    match error {
        RsetError::File { .. }
        | RsetError::Refused { .. }
        | RsetError::Overlapping
        | RsetError::NoPartitions
        | RsetError::Step { .. } => environment(error.to_string()),
        _ => usage(error.to_string()),
    }
}

fn set(processors: Vec<u32>, nodes: Vec<u32>) -> ResourceSet {
    ResourceSet { processors: processors.into_iter().collect(), nodes: nodes.into_iter().collect() }
}

fn value(set: &ResourceSet) -> Value {
    json!({"processors": set.processors.iter().collect::<Vec<_>>(), "nodes": set.nodes.iter().collect::<Vec<_>>()})
}

fn machine() -> Result<Value, RsetError> {
    let machine = Topology::discover()?;
    let nodes: Vec<Value> = machine
        .nodes()
        .map(|node| {
            json!({
                "node": node.id,
                "processors": node.processors.iter().collect::<Vec<_>>(),
                "memory_bytes": node.memory,
                "distances": node.distances.iter().map(|(id, far)| (id.to_string(), json!(far))).collect::<serde_json::Map<_, _>>(),
            })
        })
        .collect();
    Ok(
        json!({"nodes": nodes, "global": value(&machine.global()?), "inherited": value(&machine.inherited()?)}),
    )
}

/// The machine's nodes, what this process may use, and what it inherited.
#[pyfunction]
fn rset_machine() -> PyResult<String> {
    machine().map(|value| value.to_string()).map_err(|error| raise(&error))
}

/// The numbers of a list such as `0-3,8`: of nodes, or of processors.
#[pyfunction]
fn rset_numbers(text: &str, nodes: bool) -> PyResult<Vec<u32>> {
    let numbers: Result<Vec<u32>, RsetError> = if nodes {
        text.parse().map(|of: Nodes| of.iter().collect())
    } else {
        text.parse().map(|of: Processors| of.iter().collect())
    };
    numbers.map_err(|error| raise(&error))
}

/// Refuses a set that this process may not use (any more).
#[pyfunction]
fn rset_validate(processors: Vec<u32>, nodes: Vec<u32>) -> PyResult<()> {
    let check = || Topology::discover()?.validate(&set(processors, nodes));
    check().map_err(|error| raise(&error))
}

/// The processor of each of some threads.
#[pyfunction]
fn rset_deal(order: &str, processors: Vec<u32>, threads: usize) -> PyResult<Vec<u32>> {
    let deal = || {
        order.parse::<ThreadOrder>()?.processors(
            &Topology::discover()?,
            &set(processors, Vec::new()),
            threads,
        )
    };
    deal().map_err(|error| raise(&error))
}

/// Binds every thread of a process; returns how many there are.
#[pyfunction]
fn rset_bind(py: Python<'_>, process: i32, processors: Vec<u32>) -> PyResult<usize> {
    let bound = py.allow_threads(|| servsim_rset::bind_process(process, &set(processors, Vec::new())));
    bound.map(|bound| bound.threads).map_err(|error| raise(&error))
}

/// Moves a process's memory into nodes; returns the pages that would not move.
#[pyfunction]
fn rset_migrate(py: Python<'_>, process: i32, from: Vec<u32>, nodes: Vec<u32>) -> PyResult<u64> {
    let from = from.into_iter().collect();
    let left = py.allow_threads(|| servsim_rset::migrate_process(process, &from, &set(Vec::new(), nodes)));
    left.map_err(|error| raise(&error))
}

/// Gives this thread, and what it starts, the processors and the memory of a set.
#[pyfunction]
fn rset_enter(processors: Vec<u32>, nodes: Vec<u32>) -> PyResult<()> {
    servsim_rset::enter(&set(processors, nodes)).map_err(|error| raise(&error))
}

/// Refuses a policy of memory that this machine cannot follow in a set.
#[pyfunction]
fn rset_check_policy(policy: &str, processors: Vec<u32>, nodes: Vec<u32>) -> PyResult<()> {
    let check = || {
        let policy: servsim_rset::MemoryPolicy = policy.parse()?;
        policy.wish(&Topology::discover()?, &set(processors, nodes)).map(drop)
    };
    check().map_err(|error| raise(&error))
}

/// Steps as sentences, and how many pages would not move.
type Changed = (Vec<String>, u64);

/// Plans steps towards other partitions, does them unless they are only to be shown, and returns them.
fn change(
    journal: &str,
    dry_run: bool,
    plan: impl FnOnce(&Partitions) -> Result<Vec<Step>, RsetError>,
) -> PyResult<Changed> {
    let run = || {
        let partitions = Partitions::open(Journal::new(journal))?;
        let steps = plan(&partitions)?;
        let left = if dry_run { 0 } else { partitions.execute(&steps)? };
        Ok((steps.iter().map(Step::to_string).collect(), left))
    };
    run().map_err(|error| raise(&error))
}

/// The partitions of this machine: by name what each may use, and its processes.
#[pyfunction]
fn rset_partitions() -> PyResult<String> {
    let read = || Partitions::open(Journal::new(Journal::PLACE))?.present();
    let present = read().map_err(|error| raise(&error))?;
    let parts: serde_json::Map<String, Value> = present
        .into_iter()
        .map(|(name, part)| {
            (
                name,
                json!({
                    "set": value(&part.set),
                    "processes": part.processes,
                    "processor_time_us": part.processor_time.as_micros() as u64,
                }),
            )
        })
        .collect();
    Ok(Value::Object(parts).to_string())
}

/// Sets nodes apart under names.
#[pyfunction]
fn rset_partition_create(
    wanted: BTreeMap<String, Vec<u32>>,
    journal: &str,
    dry_run: bool,
) -> PyResult<Changed> {
    let wanted: BTreeMap<String, Nodes> =
        wanted.into_iter().map(|(name, nodes)| (name, nodes.into_iter().collect())).collect();
    change(journal, dry_run, |partitions| partitions.plan(&wanted))
}

/// Moves a node from one partition to another.
#[pyfunction]
fn rset_partition_move(
    py: Python<'_>,
    node: u32,
    from: &str,
    to: &str,
    journal: &str,
    dry_run: bool,
) -> PyResult<Changed> {
    py.allow_threads(|| change(journal, dry_run, |partitions| partitions.plan_move(node, from, to)))
}

/// Puts a process into a partition.
#[pyfunction]
fn rset_partition_adopt(
    py: Python<'_>,
    process: i32,
    name: &str,
    journal: &str,
    dry_run: bool,
) -> PyResult<Changed> {
    py.allow_threads(|| change(journal, dry_run, |partitions| partitions.plan_adopt(process, name)))
}

/// Takes back everything that the journal says was done.
#[pyfunction]
fn rset_partition_undo(py: Python<'_>, journal: &str) -> PyResult<Vec<String>> {
    let undo = || Partitions::open(Journal::new(journal))?.undo();
    let steps = py.allow_threads(undo).map_err(|error| raise(&error))?;
    Ok(steps.iter().map(Step::to_string).collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rset_machine, module)?)?;
    module.add_function(wrap_pyfunction!(rset_numbers, module)?)?;
    module.add_function(wrap_pyfunction!(rset_validate, module)?)?;
    module.add_function(wrap_pyfunction!(rset_deal, module)?)?;
    module.add_function(wrap_pyfunction!(rset_bind, module)?)?;
    module.add_function(wrap_pyfunction!(rset_migrate, module)?)?;
    module.add_function(wrap_pyfunction!(rset_enter, module)?)?;
    module.add_function(wrap_pyfunction!(rset_check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(rset_partitions, module)?)?;
    module.add_function(wrap_pyfunction!(rset_partition_create, module)?)?;
    module.add_function(wrap_pyfunction!(rset_partition_move, module)?)?;
    module.add_function(wrap_pyfunction!(rset_partition_adopt, module)?)?;
    module.add_function(wrap_pyfunction!(rset_partition_undo, module)?)?;
    module.add("RSET_JOURNAL", Journal::PLACE)
}
