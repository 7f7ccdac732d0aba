//! Reads the questions asked about a network: changes with their costs.

use super::node::{Node, Reader, Value};
use crate::network::{Network, Speed};
use crate::whatif::{Change, WhatIf};

const KEYS: &[&str] = &["name", "cost", "scale", "servers", "split", "population"];

/// The `[[what_if]]` entries.
pub(super) fn read(reader: &mut Reader, root: &Node, network: &Network) -> Vec<WhatIf> {
    let stations: Vec<String> = network.stations.iter().map(|s| s.name.clone()).collect();
    let mut all = Vec::new();
    for node in reader.tables(root, "what_if") {
        let name = reader.name(node, "this what-if");
        reader.only(node, &format!("what-if `{name}`"), KEYS);
        let cost = reader.number(node, "cost");
        let known = reader.problems.len();
        let mut changes = Vec::new();
        for key in ["scale", "servers", "split"] {
            for (station, value) in reader.entries(node, key, "{ station = 2 }") {
                let index = reader.index(value.line, station, "station", &stations);
                let Value::Number(x) = value.value else {
                    reader.problem(value.line, format!("`{key}.{station}` must be a number"));
                    continue;
                };
                let whole = x >= 1.0 && x.fract() == 0.0;
                if !(x.is_finite() && x > 0.0) || (key != "scale" && !whole) {
                    let wanted =
                        if key == "scale" { "a positive factor" } else { "a whole number of at least 1" };
                    reader.problem(value.line, format!("`{key}.{station}` must be {wanted}, not {x}"));
                    continue;
                }
                let Some(k) = index else { continue };
                if key == "servers" && network.stations[k].speed == Speed::Delay {
                    let message =
                        format!("what-if `{name}`: station `{station}` is a delay and has no servers");
                    reader.problem(value.line, message);
                }
                changes.push(match key {
                    "scale" => Change::Scale(k, x),
                    "servers" => Change::Servers(k, x as usize),
                    _ => Change::Split(k, x as usize),
                });
            }
        }
        if let Some(factor) = reader.number(node, "population") {
            let line = node.get("population").map_or(node.line, |n| n.line);
            if factor <= 0.0 {
                reader.problem(line, format!("`population` must be a positive factor, not {factor}"));
            } else if network.closed().is_empty() {
                reader.problem(line, format!("what-if `{name}`: no class has a population; remove it"));
            }
            changes.push(Change::Population(factor));
        }
        if changes.is_empty() && reader.problems.len() == known {
            let message =
                format!("what-if `{name}` changes nothing; add scale, servers, split or population");
            reader.problem(node.line, message);
        }
        all.push(WhatIf { name, cost, changes });
    }
    all
}
