//! A node that goes while the machine runs, processors and memory, and comes back.
//!
//! Its memory is a module of its own (`-device pc-dimm`) that the kernel uses for nothing it could not move: memory that
//! was there at the boot holds the kernel itself, and stays.

use crate::checks::{machine, stripes};
use crate::kernel::set;
use crate::parting::{expect_nothing, open, wanted, Loaded};
use serde_json::{json, Value};
use servsim_rset::partitions::Partitions;
use servsim_rset::{Block, MemoryPolicy, RsetError, Topology};
use std::fs;
use std::time::Instant;

/// The node whose memory is a module.
const NODE: u32 = 3;
const PROCESSORS: std::ops::Range<u32> = NODE * 4..NODE * 4 + 4;

/// The pieces of the node's memory that the kernel can take offline each.
fn pieces() -> Vec<String> {
    let folder = fs::read_dir(format!("/sys/devices/system/node/node{NODE}")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.strip_prefix("memory").is_some_and(|rest| rest.parse::<u32>().is_ok()))
        .map(|name| format!("/sys/devices/system/memory/{name}/state"))
        .collect()
}

/// Switches the node's processors.
fn processors(online: &str) {
    PROCESSORS.for_each(|each| set(&format!("/sys/devices/system/cpu/cpu{each}/online"), online));
}

fn put(parts: &Partitions, load: &Loaded, name: &str) {
    parts.execute(&parts.plan_adopt(load.id(), name).unwrap()).unwrap();
}

/// Two partitions of a node each, both under load: the node of one goes and returns, then its work begins anew; the
/// other notices nothing.
pub fn node() -> Value {
    let parts = open();
    parts.execute(&parts.plan(&wanted(&[("database", "1"), ("web", "3")])).unwrap()).unwrap();
    let (web, database) = (Loaded::begin(), Loaded::begin());
    put(&parts, &web, "web");
    put(&parts, &database, "database");
    web.expect_in(&[NODE]);
    // What this process, of neither partition, may use: all memory.
    let (before, rest) = machine();
    let mut bound = Block::allocate(&before, &rest, MemoryPolicy::On(NODE), 4 << 20).unwrap();
    bound.fill(7);

    let begin = Instant::now();
    let pieces = pieces();
    assert!(!pieces.is_empty(), "node {NODE} has no memory that could go");
    processors("0");
    pieces.iter().for_each(|piece| set(piece, "offline"));
    let gone = begin.elapsed();
    database.expect_in(&[1]);
    // The kernel moves bound memory without a word; the library says it.
    let found = bound.verify().unwrap();
    assert_eq!((found.elsewhere.len(), found.per_node.get(&NODE)), (bound.pages(), None));
    assert!(bound.iter().all(|&byte| byte == 7));
    let now = Topology::discover().unwrap();
    assert_eq!(
        before.online().difference(&now.online()).to_string(),
        "processors 12-15 and memory of nodes 3"
    );
    let fault = now.validate(&rest).unwrap_err();
    assert!(fault.to_string().starts_with("the set holds memory of nodes 3, which"), "{fault}");
    let left = now.global().unwrap();
    let refused = Block::allocate(&now, &left, MemoryPolicy::On(NODE), 1 << 20);
    assert!(matches!(refused, Err(RsetError::Outside { .. })), "{refused:?}");
    let mut spread = Block::allocate(&now, &left, stripes(1), 1 << 20).unwrap();
    spread.fill(1);
    assert!(spread.verify().unwrap().is_as_wished());

    let begin = Instant::now();
    pieces.iter().for_each(|piece| set(piece, "online_movable"));
    processors("1");
    let back = begin.elapsed();
    assert_eq!((machine().0.online(), machine().1), (before.online(), rest));
    put(&parts, &web, "web");
    web.expect_in(&[NODE]);
    database.expect_in(&[1]);

    let first = web.end();
    let again = Loaded::begin();
    put(&parts, &again, "web");
    again.expect_in(&[NODE]);
    database.expect_in(&[1]);
    let rounds = [first, again.end(), database.end()];
    parts.undo().unwrap();
    expect_nothing(&parts);
    json!({
        "milliseconds to go": gone.as_millis() as u64,
        "milliseconds to return": back.as_millis() as u64,
        "rounds of all threads": rounds,
        "refusal": fault.to_string(),
    })
}
