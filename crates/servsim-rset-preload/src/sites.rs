//! Which places of the program allocate how much: what a rule by allocation site can name.

use crate::modules;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Sites that can be told apart; those that find no room are counted together.
const MOST_SITES: usize = 8192;
/// Sites of a report, those first that allocate most.
const SHOWN: usize = 100;

struct Site {
    address: AtomicUsize,
    allocations: AtomicU64,
    bytes: AtomicU64,
}

static WANTED: AtomicBool = AtomicBool::new(false);
/// The last is of those without room.
static SITES: [Site; MOST_SITES + 1] = [const {
    Site { address: AtomicUsize::new(0), allocations: AtomicU64::new(0), bytes: AtomicU64::new(0) }
}; MOST_SITES + 1];

/// From now on counts.
pub fn want() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Something was allocated for whoever called from `address`; allocates nothing.
pub fn count(address: usize, bytes: usize) {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let site = find(address);
    site.allocations.fetch_add(1, Ordering::Relaxed);
    site.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// The entry of an address: near where its bits say, the next free one otherwise.
fn find(address: usize) -> &'static Site {
    // Fibonacci hashing: the upper bits of a product with 2^64 over the golden ratio.
    let first = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51;
    for step in 0..64 {
        let site = &SITES[(first + step) % MOST_SITES];
        let found = site.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
        if found.is_ok_and(|before| before == 0) || found == Err(address) {
            return site;
        }
    }
    &SITES[MOST_SITES]
}

/// What was counted, the largest first.
pub fn report() -> Value {
    let modules = modules::loaded();
    let own = modules.iter().find(|module| module.holds(report as *const () as usize));
    let is_own = |address| own.is_some_and(|own| own.holds(address));
    let mut found: Vec<_> = SITES
        .iter()
        .map(|site| {
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            (of(&site.bytes), of(&site.allocations), site.address.load(Ordering::Relaxed))
        })
        .filter(|&(_, allocations, address)| allocations > 0 && !is_own(address))
        .collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    found
        .into_iter()
        .take(SHOWN)
        .map(|(bytes, allocations, address)| {
            let site = if address == 0 { "others".to_owned() } else { modules::place(&modules, address) };
            json!({"site": site, "allocations": allocations, "bytes": bytes})
        })
        .collect()
}
