//! Machines drawn at random, and what tests do with them: what holds for every machine is tried on as many as there is
//! time for.

mod passes;
pub mod traces;

use servsim_config::Machine;
use servsim_core::RandomStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One in how many machines has what none is to have.
pub const NONE: u64 = u64::MAX;

/// A setting of a machine, one in how many machines has it, and its values.
pub type Setting = (&'static str, u64, &'static [&'static str]);

/// What is drawn of a machine.
const SETTINGS: &[Setting] = &[
    ("processors", 1, &["1", "2", "3", "4", "5", "8", "16", "24"]),
    ("processor.model", 1, &["fixed", "fixed", "inorder", "ooo"]),
    ("processor.width", 4, &["1", "2", "8"]),
    ("processor.window", 4, &["1 instructions", "7 instructions", "200 instructions"]),
    ("processor.cycles_per_reference", 3, &["1 cycles", "7 cycles"]),
    ("processor.store_buffer", 2, &["1 words", "5 words", "64 words"]),
    ("processor.outstanding_misses", 3, &["1", "2"]),
    ("processor.branch_penalty", 4, &["0 cycles", "30 cycles"]),
    ("cache.size", 1, &["1 KiB", "6 KiB", "16 KiB", "48 KiB", "256 KiB"]),
    ("cache.associativity", 1, &["1", "2", "4"]),
    ("cache.line", 1, &["16 B", "32 B", "64 B", "128 B"]),
    ("cache.organisation", 2, &["split", "unified"]),
    ("cache.replacement", 4, &["fifo", "tree-plru", "random", "srrip"]),
    ("cache.write_miss", 8, &["around"]),
    ("l2.size", 2, &["64 KiB", "96 KiB", "1 MiB"]),
    ("l2.sharing", 3, &["shared", "group"]),
    ("l2.inclusion", 3, &["exclusive", "neither"]),
    ("l2.replacement", 5, &["random", "fifo", "srrip"]),
    ("l2.latency", 3, &["1 cycles", "50 cycles"]),
    ("l3.size", 5, &["2 MiB"]),
    ("l3.sharing", 3, &["shared"]),
    ("l3.inclusion", 3, &["exclusive", "neither"]),
    ("group.count", 8, &["2"]),
    ("prefetch.policy", 12, &["next-line", "stride"]),
    ("write_buffer.entries", 4, &["1", "8"]),
    ("tlb.entries", 12, &["16"]),
    ("protocol.name", 1, &["mesi", "moesi", "mesif", "mosi", "amsd", "pscr"]),
    ("protocol.supplier", 4, &["any-copy"]),
    ("protocol.asynchronous", 3, &["writes"]),
    ("protocol.private_kernel", 6, &["per-process"]),
    ("protocol.private_on_switch", 6, &["flush"]),
    ("bus.memory_read", 3, &["1 cycles", "400 cycles"]),
    ("bus.invalidate", 4, &["1 cycles", "90 cycles"]),
    ("bus.bytes_per_cycle", 4, &["1 B", "64 B"]),
    ("bus.memory_hold", 6, &["20 cycles"]),
    ("bus.arbitration", 3, &["fifo"]),
    ("interconnect.kind", 2, &["bus", "crossbar", "network"]),
    ("node.count", 3, &["2", "4"]),
    ("node.coherence", 2, &["snooping", "directory", "bash", "messages"]),
    ("node.threads", 4, &["fill", "round-robin", "pinned"]),
    ("node.placement", 4, &["striped", "remote"]),
    ("node.migration", 6, &["next-touch", "replicate", "tiering", "drain"]),
    ("node.migration_interval", 2, &["20000 cycles"]),
    ("memory.bank_time", 5, &["30 cycles"]),
    ("scheduler.policy", 2, &["affinity"]),
    ("scheduler.time_slice", 2, &["100 references", "5000 references"]),
    ("locks.arbitrated", 3, &["spinlocks", "off"]),
    ("clients.place", 5, &["elsewhere"]),
    ("disk.parallel", 4, &["1"]),
    ("perturbation.memory_delay", 4, &["0 cycles", "50 cycles"]),
    ("classification.replacement", 2, &["merged"]),
    ("classification.sharing", 6, &["at-miss"]),
];

/// The machine of these settings, if there can be one.
pub fn machine_of(settings: &[String]) -> Option<Machine> {
    Machine::from_toml("", "drawn", settings).ok()
}

/// Settings that a machine can have together, in the order in which they were drawn; those of `others` come before those that all
/// drawn machines have.
pub fn drawn(random: &mut RandomStream, others: &[Setting]) -> Vec<String> {
    let is_other = |key: &str| others.iter().any(|(other, ..)| *other == key);
    let (mut left, mut settings) = (others.to_vec(), Vec::new());
    left.extend(SETTINGS.iter().filter(|(key, ..)| !is_other(key)));
    while !left.is_empty() {
        let (key, one_in, values) = left.swap_remove(random.below(left.len() as u64) as usize);
        let value = values[random.below(values.len() as u64) as usize];
        if random.below(one_in) == 0 {
            settings.push(format!("{key}={value}"));
            if machine_of(&settings).is_none() {
                settings.pop();
            }
        }
    }
    settings
}

/// The captured trace that is shipped.
pub fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt")
}

/// Does something that ends when it is told to stop, which it is after `longest`.
pub fn before<R>(longest: Duration, work: impl FnOnce(&AtomicBool) -> R) -> R {
    let stop = AtomicBool::new(false);
    let (over, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_over = is_over;
            if is_over.recv_timeout(longest) == Err(RecvTimeoutError::Timeout) {
                stop.store(true, Ordering::Relaxed);
            }
        });
        let _over = over;
        work(&stop)
    })
}

/// Repeats something with one seed after another: `SERVSIM_FIRST_SEED` is the first, `SERVSIM_MINUTES` bounds it.
pub fn with_fresh_seeds(work: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let fresh =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 >> 16);
    let (first, minutes) =
        (number("SERVSIM_FIRST_SEED").unwrap_or_else(fresh), number("SERVSIM_MINUTES").unwrap_or(3));
    println!("first seed {first}");
    let began = Instant::now();
    let mut seed = first;
    while began.elapsed().as_secs() < 60 * minutes {
        work(seed);
        seed += 1;
    }
    println!("{} drawn", seed - first);
}
