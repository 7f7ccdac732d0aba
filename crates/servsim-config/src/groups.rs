//! Core groups: processors that share a level of their own with one another, and a machine (or a node) of several such
//! groups. Without them (`group.count = 1`) a shared level is that of all processors.

use crate::components::{OuterLevel, Sharing};
use crate::nodes::Nodes;
use crate::read::Given;
use crate::values::{differs, Values};
use servsim_units::Cycles;

/// Several core groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// How many; neighbouring processors share one, and each has as many.
    pub count: usize,
    /// What concerns another group takes longer by this.
    pub crossing: Cycles,
}

/// Protocols whose states are kept right where a level of another group has the line.
const PROTOCOLS: [&str; 3] = ["mesi", "moesi", "mosi"];

/// The core groups of a description, if it gives several.
pub(crate) fn groups(given: &Given) -> Option<Groups> {
    let values = Values(given);
    let count = values.number("group.count") as usize;
    (count > 1).then(|| Groups { count, crossing: Cycles(values.number("group.crossing")) })
}

/// Checks core groups, and levels that want some.
pub(crate) fn check(
    groups: Option<Groups>,
    processors: usize,
    levels: &[OuterLevel],
    nodes: Option<&Nodes>,
    given: &Given,
    fault: &mut dyn FnMut(&str, String),
) {
    let key = |place: usize| ["l2.sharing", "l3.sharing"][place];
    let of_groups = levels.iter().position(|level| level.sharing == Sharing::Group);
    let Some(Groups { count, .. }) = groups else {
        if differs(given, "group.crossing") {
            fault("group.crossing", "is for machines of core groups; say how many with group.count".into());
        }
        if let Some(place) = of_groups {
            let what = "there is one group of all processors; say how many there are with group.count, or use `shared`";
            fault(key(place), what.into());
        }
        return;
    };
    if !processors.is_multiple_of(count) {
        let what = format!(
            "{count} groups do not divide {processors} processors; choose a number that does, such as {}",
            (1..=count).rev().find(|fits| processors.is_multiple_of(*fits)).unwrap_or(1)
        );
        fault("group.count", what);
        return;
    }
    match of_groups {
        None => {
            let what =
                "no level is shared by a core group; give one sharing = \"group\", or leave the setting out";
            fault("group.count", what.into());
        }
        Some(place) if place + 1 < levels.len() => {
            let what = "the level of a core group is the outermost; leave out what lies outside it";
            fault(key(place + 1), what.into());
        }
        Some(_) => {}
    }
    if let Some(place) = levels.iter().position(|level| level.sharing == Sharing::All) {
        fault(key(place), "all processors share it, and core groups have their own; use `group`".into());
    }
    let values = Values(given);
    let protocol = values.text("protocol.name");
    if !PROTOCOLS.contains(&protocol.as_str()) {
        let what = format!("core groups know {}, and this machine has `{protocol}`", PROTOCOLS.join(", "));
        fault("protocol.name", what);
    }
    let Some(nodes) = nodes else { return };
    let per_group = processors / count;
    if let Some(group) =
        nodes.of_processor.chunks(per_group).position(|of| of.iter().any(|node| *node != of[0]))
    {
        let what = format!(
            "group {} lies in two nodes; choose a number of groups that divides the processors of every node",
            group + 1
        );
        fault("group.count", what);
    }
    if nodes.coherence.policy != "snooping" {
        let what = "homes know nothing of the levels that core groups share; use `snooping`";
        fault("node.coherence", what.into());
    }
}
