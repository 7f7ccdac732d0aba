//! What is wished, from the environment, and what each arena of the heap does for it.
//!
//! | variable | meaning |
//! |---|---|
//! | `SERVSIM_RSET_POLICY` | a policy of memory: `local`, `touch`, `remote`, `striped(PAGES)`, `node(NUMBER)`, `float` |
//! | `SERVSIM_RSET_NODES` | nodes to take memory from, such as `0-3`; all that this process may use when it is not set |
//! | `SERVSIM_RSET_RULES` | rules as a list of JSON: `site` or `structure`, `policy`, and where needed `nodes`, `start`, `end` |
//! | `SERVSIM_RSET_THREADS` | `{"processors": [LIST, ...], "again": BOOLEAN}`: of the first thread, the second, ... |
//! | `SERVSIM_RSET_SAMPLE` | a file for who touched which page |
//! | `SERVSIM_RSET_SAMPLE_SHARE` | the share of the program's processor time that sampling may take; .02 without it |
//! | `SERVSIM_RSET_REPORT` | a file for the report at the end, `-` for standard error |

use crate::heap::HEAP;
use crate::modules::Module;
use crate::placing::{Placing, MOST_NODES, MOST_PROCESSORS};
use crate::rules::{Rule, Rules};
use crate::{family, modules, rules, threads};
use serde_json::Value;
use servsim_rset::{MemoryPolicy, Nodes, ResourceSet, RsetError, Topology};
use std::env::var;

/// Reads the variables and tells the heap.
pub fn apply() {
    let (policy, given) = (var("SERVSIM_RSET_POLICY").ok(), var("SERVSIM_RSET_RULES").ok());
    if policy.is_some() || given.is_some() {
        if let Err(error) = wish(policy.as_deref().unwrap_or("float"), given.as_deref()) {
            eprintln!("servsim rset: {error}; memory is placed as the kernel does by default");
        }
    }
    // After that: to look at the machine takes a thread, which is none of those that are dealt.
    if let Ok(dealt) = var("SERVSIM_RSET_THREADS") {
        match read_threads(&dealt) {
            Some(dealt) => threads::deal(dealt),
            None => eprintln!(
                "servsim rset: cannot read the processors of threads; they run where the kernel puts them"
            ),
        }
    }
}

fn read_threads(text: &str) -> Option<threads::Dealt> {
    let document: Value = serde_json::from_str(text).ok()?;
    let numbers = |list: &Value| -> Option<Vec<usize>> {
        list.as_array()?.iter().map(|number| Some(number.as_u64()? as usize)).collect()
    };
    let processors = document["processors"].as_array()?.iter().map(numbers).collect::<Option<_>>()?;
    Some(threads::Dealt { processors, again: document["again"].as_bool()? })
}

fn wish(policy: &str, given: Option<&str>) -> Result<(), RsetError> {
    let machine = Topology::discover()?;
    let mut set = machine.global()?;
    if let Ok(nodes) = var("SERVSIM_RSET_NODES") {
        set.nodes = nodes.parse()?;
        machine.validate(&set)?;
    }
    let rest = by_policy(policy, &machine, &set)?;
    HEAP.place(rest);
    read_rules(given.unwrap_or("[]"), &machine, &set, (policy, rest))
}

/// What a policy of a set means for the heap.
fn by_policy(policy: &str, machine: &Topology, set: &ResourceSet) -> Result<&'static Placing, RsetError> {
    let policy: MemoryPolicy = policy.trim().parse()?;
    // Says what this machine cannot do before anything depends on it.
    policy.wish(machine, set)?;
    let nodes = set.nodes.intersection(&machine.with_memory());
    Ok(Box::leak(Box::new(placing(policy, machine, &nodes)?)))
}

/// Reads rules and follows them from now on.
fn read_rules(
    given: &str,
    machine: &Topology,
    set: &ResourceSet,
    (rest, placing): (&str, &'static Placing),
) -> Result<(), RsetError> {
    let unreadable = |what: &str, text: &str| RsetError::Unreadable { what: what.into(), text: text.into() };
    let document: Value =
        serde_json::from_str(given).map_err(|error| unreadable("list of rules", &error.to_string()))?;
    let mut found = Rules::default();
    if !matches!(placing, Placing::Nowhere) {
        found.list.push(Rule::new("other named mappings".into(), rest.into(), placing));
        found.rest = Some(0);
    }
    let loaded = modules::loaded();
    for rule in document.as_array().into_iter().flatten() {
        let text = |key: &str| rule[key].as_str();
        let (key, Some(name)) = (
            if rule.get("site").is_some() { "site" } else { "structure" },
            text("site").or(text("structure")),
        ) else {
            return Err(unreadable("rule with a site or a structure", &rule.to_string()));
        };
        let mut of = set.clone();
        if let Some(nodes) = text("nodes") {
            of.nodes = nodes.parse()?;
            machine.validate(&of)?;
        }
        let policy = text("policy").unwrap_or_default();
        let placing = by_policy(policy, machine, &of)?;
        let range = rule["start"]
            .as_u64()
            .zip(rule["end"].as_u64())
            .map(|(start, end)| (start as usize, end as usize));
        let extent = range.map_or(String::new(), |(start, end)| format!(" {start:#x}..{end:#x}"));
        let index = found.list.len();
        found.list.push(Rule::new(format!("{key} {name}{extent}"), policy.into(), placing));
        let added = if key == "site" {
            add_site(&mut found, &loaded, name, range, index)?
        } else {
            found.names.entry(name.as_bytes().to_vec()).or_default().add(range, index)
        };
        if !added {
            return Err(unreadable("rule of its own for every byte", &format!("{key} {name}{extent}")));
        }
    }
    rules::set(found);
    Ok(())
}

/// Adds a rule for a site; one in a module that is not loaded is followed by nothing, and the report says so.
fn add_site(
    found: &mut Rules,
    loaded: &[Module],
    name: &str,
    range: Option<(usize, usize)>,
    index: usize,
) -> Result<bool, RsetError> {
    if !family::KNOWS_SITES {
        return Err(RsetError::Unreadable {
            what: "rule that this library can follow (it was built by a compiler before Rust 1.88, without sites)".into(),
            text: name.into(),
        });
    }
    let Some(address) = loaded.iter().find_map(|module| module.address(name)) else { return Ok(true) };
    let at = found.sites.binary_search_by_key(&address, |(address, _)| *address).unwrap_or_else(|at| {
        found.sites.insert(at, (address, rules::Named::default()));
        at
    });
    let placing = found.list[index].placing;
    let named = &mut found.sites[at].1;
    if range.is_none() {
        let zone = HEAP.zone(placing).ok_or_else(|| RsetError::Unreadable {
            what: format!("rule among at most {} for whole sites", crate::heap::MOST_ZONES - 1),
            text: name.into(),
        })?;
        named.zone = Some(zone);
        found.of_zone.push(index);
    }
    Ok(named.add(range, index))
}

/// What the heap does: for policies that go by the thread's own node, an answer for each node.
fn placing(policy: MemoryPolicy, machine: &Topology, nodes: &Nodes) -> Result<Placing, RsetError> {
    let mut own = [None; MOST_NODES];
    let mut node_of = [0; MOST_PROCESSORS];
    for node in machine.nodes().filter(|node| (node.id as usize) < MOST_NODES) {
        let target = match policy {
            MemoryPolicy::Local => machine.nearest(node.id, nodes),
            MemoryPolicy::Remote => nodes.difference(&Nodes::one(node.id)).after(node.id),
            MemoryPolicy::On(number) => Some(number),
            _ => None,
        };
        own[node.id as usize] = target;
        for processor in node.processors.iter() {
            if let Some(of) = node_of.get_mut(processor as usize) {
                *of = node.id as u16;
            }
        }
    }
    if let Some(far) = nodes.iter().find(|&node| node as usize >= MOST_NODES) {
        return Err(RsetError::Unreadable {
            what: format!("node that the preloaded library can place memory in (up to {})", MOST_NODES - 1),
            text: far.to_string(),
        });
    }
    Ok(match policy {
        MemoryPolicy::Float => Placing::Nowhere,
        MemoryPolicy::Touch => Placing::Among(mask(nodes)),
        MemoryPolicy::Striped { stride } => {
            let mut list = [0; MOST_NODES];
            nodes.iter().zip(&mut list).for_each(|(node, slot)| *slot = node as u16);
            Placing::Striped { list, nodes: nodes.len(), stride: stride.get(), mask: mask(nodes) }
        }
        MemoryPolicy::Local | MemoryPolicy::Remote | MemoryPolicy::On(_) => Placing::ByNode { own, node_of },
    })
}

fn mask(nodes: &Nodes) -> u64 {
    nodes.iter().fold(0, |mask, node| mask | 1 << node)
}
