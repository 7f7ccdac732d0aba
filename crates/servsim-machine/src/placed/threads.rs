//! Which task keeps to which processors: dealt in the order of the trace, or named in a placement file.

use crate::error::SimulateError;
use servsim_config::{BoundTo, Nodes, PlacementFile};
use servsim_core::{CpuId, TaskInfo, TaskKind};
use servsim_os::Bindings;
use servsim_units::nearest::suggestion;

/// What the scheduler must know of `nodes`; nothing without any.
///
/// # Errors
/// When the file names tasks that the trace does not have, or a node without processors.
pub(crate) fn bindings_of(
    nodes: Option<&Nodes>,
    file: Option<&PlacementFile>,
    tasks: &[TaskInfo],
) -> Result<Bindings, SimulateError> {
    let Some(nodes) = nodes else { return Ok(Bindings::default()) };
    let node_of = nodes.of_processor.clone();
    let mut bound = vec![None; tasks.len()];
    for entry in file.map_or(&[][..], |file| &file.bound) {
        let own: Vec<CpuId> = match entry.to {
            BoundTo::Node(node) => of_node(&node_of, node),
            BoundTo::Processor(processor) => vec![CpuId(processor)],
        };
        if let (BoundTo::Node(node), true) = (entry.to, own.is_empty()) {
            let what = format!("{}: node {} has no processors; name another", entry.place, node + 1);
            return Err(SimulateError::Usage(what));
        }
        let named: Vec<usize> =
            (0..tasks.len()).filter(|&task| is_called(&tasks[task], &entry.task)).collect();
        if named.is_empty() {
            let hint = suggestion(&entry.task, tasks.iter().map(|task| task.name.as_str()));
            let what = format!("{}: the trace has no task `{}`{hint}", entry.place, entry.task);
            return Err(SimulateError::Usage(what));
        }
        for task in named {
            if bound[task].replace(own.clone()).is_some_and(|before| before != own) {
                let (TaskInfo { name, pid, .. }, place) = (&tasks[task], &entry.place);
                let what = format!("{place}: {name} {pid} has another place already; name each task once");
                return Err(SimulateError::Usage(what));
            }
        }
    }
    let order = file.and_then(|file| file.threads.as_deref()).unwrap_or(&nodes.threads);
    let slots = slots(order, &node_of);
    let is_dealt =
        |task: &usize| tasks[*task].kind == TaskKind::User && !tasks[*task].client && bound[*task].is_none();
    let dealt: Vec<usize> = (0..tasks.len()).filter(is_dealt).collect();
    for (&task, slot) in dealt.iter().zip(slots.iter().cycle()) {
        bound[task] = Some(slot.clone());
    }
    if bound.iter().all(Option::is_none) {
        bound.clear();
    }
    Ok(Bindings { node_of, tasks: bound })
}

/// Where one task after the other goes; nowhere in particular when tasks are free.
fn slots(order: &str, node_of: &[usize]) -> Vec<Vec<CpuId>> {
    let processors = || CpuId::all(node_of.len());
    match order {
        "fill" => processors().map(|cpu| of_node(node_of, node_of[cpu.0])).collect(),
        "round-robin" => {
            // By the place within its node, then by node.
            let place = |cpu: &CpuId| node_of[..cpu.0].iter().filter(|&&node| node == node_of[cpu.0]).count();
            let mut dealt: Vec<CpuId> = processors().collect();
            dealt.sort_by_key(|cpu| (place(cpu), node_of[cpu.0]));
            dealt.into_iter().map(|cpu| of_node(node_of, node_of[cpu.0])).collect()
        }
        "pinned" => processors().map(|cpu| vec![cpu]).collect(),
        _ => Vec::new(),
    }
}

fn of_node(node_of: &[usize], node: usize) -> Vec<CpuId> {
    CpuId::all(node_of.len()).filter(|cpu| node_of[cpu.0] == node).collect()
}

/// Whether `name` is a task's name, its number, or both.
fn is_called(task: &TaskInfo, name: &str) -> bool {
    task.name == name || task.pid.to_string() == name || format!("{} {}", task.name, task.pid) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_dealt_as_the_orders_are_named() {
        let node_of = [0, 0, 0, 2];
        let nodes = |order| slots(order, &node_of).iter().map(|slot| node_of[slot[0].0]).collect::<Vec<_>>();
        assert_eq!(nodes("fill"), [0, 0, 0, 2]);
        assert_eq!(nodes("round-robin"), [0, 2, 0, 0]);
        assert_eq!(slots("pinned", &node_of), CpuId::all(4).map(|cpu| vec![cpu]).collect::<Vec<_>>());
        assert_eq!(slots("fill", &node_of)[1].len(), 3, "anywhere in the node");
        assert!(slots("free", &node_of).is_empty());
    }
}
