//! Reads an allocation problem: tables, disks on buses, and the stations around them.

use super::node::{Node, Problems, Reader, Value};
use crate::allocation::{Fixed, Problem, Table};

/// A named allocation to evaluate beside the best one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Name.
    pub name: String,
    /// Disk of each table, from 0.
    pub disk_of: Vec<usize>,
}

/// Disks of a bus, or servers of a station, at most.
const MOST: f64 = 1e6;
const ROOT: &[&str] = &[
    "name",
    "population",
    "think",
    "disks_per_bus",
    "reconnect",
    "disk_demand",
    "bus_demand",
    "table",
    "station",
    "compare",
];

/// Reads an allocation problem and the allocations to compare with.
///
/// # Errors
/// All problems found, with their lines.
pub fn read_allocation(text: &str, json: bool) -> Result<(Problem, Vec<Comparison>), Problems> {
    let mut reader = Reader::default();
    let Some(root) = reader.parse(text, json) else { return reader.finish(None) };
    reader.only(&root, "the allocation problem", ROOT);
    for key in ["population", "disks_per_bus", "disk_demand", "table"] {
        if root.get(key).is_none() {
            reader.problem(0, format!("`{key}` is missing"));
        }
    }
    let problem = Problem {
        population: reader.count(&root, "population", 1).unwrap_or(1),
        think: reader.time(&root, "think").unwrap_or(0.0),
        fixed: fixed(&mut reader, &root),
        tables: tables(&mut reader, &root),
        disks_per_bus: reader.counts(&root, "disks_per_bus", MOST).unwrap_or_default(),
        disk_demand: reader.time(&root, "disk_demand").unwrap_or(1.0),
        bus_demand: reader.time(&root, "bus_demand").unwrap_or(0.0),
        reconnect: reader.flag(&root, "reconnect").unwrap_or(false),
    };
    let comparisons = comparisons(&mut reader, &root, &problem);
    reader.finish(Some((problem, comparisons)))
}

fn fixed(reader: &mut Reader, root: &Node) -> Vec<Fixed> {
    let mut all = Vec::new();
    for node in reader.tables(root, "station") {
        let name = reader.name(node, "this station");
        reader.only(node, &format!("station `{name}`"), &["name", "demand", "servers", "rates"]);
        let mut servers = reader.count(node, "servers", 1).unwrap_or(1);
        if servers as f64 > MOST {
            reader.problem(node.line, format!("station `{name}`: `servers` must be at most {MOST}"));
            servers = 1;
        }
        let rates = reader.numbers(node, "rates").unwrap_or((1..=servers).map(|n| n as f64).collect());
        if rates.is_empty() || rates.iter().any(|r| *r <= 0.0) {
            reader.problem(node.line, format!("station `{name}`: rates must be positive, at least one"));
        }
        if node.get("demand").is_none() {
            reader.problem(node.line, format!("station `{name}` needs demand = \"12 ms\""));
        }
        let demand = reader.time(node, "demand").unwrap_or(1.0);
        all.push(Fixed { name, demand, rates });
    }
    all
}

fn tables(reader: &mut Reader, root: &Node) -> Vec<Table> {
    let nodes = reader.tables(root, "table");
    let mut all = Vec::new();
    for node in &nodes {
        let name = reader.name(node, "this table");
        reader.only(node, &format!("table `{name}`"), &["name", "share"]);
        let share = reader.number(node, "share").unwrap_or(-1.0);
        if share < 0.0 {
            reader.problem(node.line, format!("table `{name}` needs share = a number of zero or more"));
        }
        all.push(Table { name, share });
    }
    let names: Vec<String> = all.iter().map(|t| t.name.clone()).collect();
    reader.unique(&nodes, &names, "table");
    all
}

/// `disks = [["a", "b"], [], ["c"]]`: the tables of each disk.
fn comparisons(reader: &mut Reader, root: &Node, problem: &Problem) -> Vec<Comparison> {
    let names: Vec<String> = problem.tables.iter().map(|t| t.name.clone()).collect();
    let disks: usize = problem.disks_per_bus.iter().sum();
    let mut all = Vec::new();
    for node in reader.tables(root, "compare") {
        let name = reader.name(node, "this comparison");
        reader.only(node, &format!("comparison `{name}`"), &["name", "disks"]);
        let mut disk_of = vec![usize::MAX; names.len()];
        let lists = match node.get("disks").map(|n| &n.value) {
            Some(Value::List(lists)) if lists.len() == disks => lists.as_slice(),
            _ => {
                let message =
                    format!("comparison `{name}` needs disks = one list of tables per disk ({disks})");
                reader.problem(node.line, message);
                continue;
            }
        };
        for (disk, list) in lists.iter().enumerate() {
            let Some(tables) = list.texts() else {
                reader.problem(list.line, format!("comparison `{name}`: disk {disk} needs a list of tables"));
                continue;
            };
            for (line, table) in tables {
                let Some(index) = reader.index(line, &table, "table", &names) else { continue };
                if disk_of[index] != usize::MAX {
                    reader.problem(line, format!("comparison `{name}` places table `{table}` twice"));
                }
                disk_of[index] = disk;
            }
        }
        if let Some(index) = disk_of.iter().position(|d| *d == usize::MAX) {
            reader.problem(node.line, format!("comparison `{name}` places table `{}` nowhere", names[index]));
            continue;
        }
        all.push(Comparison { name, disk_of });
    }
    all
}
