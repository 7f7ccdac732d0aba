//! The described I/O system of a run and what was asked of it; `disks.rs` hands it requests.

use crate::storage::results::{Accesses, StorageResult};
use crate::storage::Plan;
use servsim_os::{Storage, StorageCounts};

/// Name of what lies in no known file.
const ELSEWHERE: &str = "(elsewhere)";

/// Disks, buses, and what was asked of which relation.
pub struct IoSystem<'a> {
    pub(super) plan: &'a Plan,
    pub(super) storage: Storage<'a>,
    /// When the engine was last told to look again.
    pub(super) look_at: u64,
    /// Reads and writes by what they concern; the last entry is for what lies elsewhere.
    pub(super) accesses: Vec<[u64; 2]>,
}

/// What was counted when the measured window began.
#[derive(Debug, Clone, Default)]
pub struct IoBase {
    counts: StorageCounts,
    accesses: Vec<[u64; 2]>,
}

impl<'a> IoSystem<'a> {
    /// Idle disks and buses; `seed` is that of the replication.
    pub fn new(plan: &'a Plan, seed: u64) -> Self {
        let accesses = vec![[0; 2]; plan.names().len() + 1];
        Self { plan, storage: plan.build(seed), look_at: u64::MAX, accesses }
    }

    /// What was counted up to `now`.
    pub fn base(&mut self, now: u64) -> IoBase {
        IoBase { counts: self.storage.counts(now), accesses: self.accesses.clone() }
    }

    /// What sequence between `base` and `end`.
    pub fn result(&mut self, base: Option<&IoBase>, end: u64) -> StorageResult {
        let mut counts = self.storage.counts(end);
        let mut requests = self.accesses.clone();
        if let Some(base) = base {
            counts = counts.since(&base.counts);
            for (now, then) in requests.iter_mut().zip(&base.accesses) {
                (now[0], now[1]) = (now[0] - then[0], now[1] - then[1]);
            }
        }
        let names = self.plan.names().iter().map(String::as_str).chain([ELSEWHERE]);
        let mut accesses: Vec<Accesses> = names
            .zip(requests)
            .filter(|(_, requests)| *requests != [0, 0])
            .map(|(name, requests)| Accesses { name: name.to_owned(), requests })
            .collect();
        accesses.sort_by_key(|a| (std::cmp::Reverse(a.requests[0] + a.requests[1]), a.name.clone()));
        let slots = self.storage.slots();
        let buses = (0..slots.len()).map(|disk| self.plan.bus_of(disk)).collect();
        StorageResult { counts, slots, buses, accesses }
    }
}
