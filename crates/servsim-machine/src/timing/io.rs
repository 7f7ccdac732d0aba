//! The described I/O system at work in a run: requests go in, completions come back as timed events.

use super::engine::{Engine, TimedEvent};
use crate::storage::results::{Accesses, StorageResult};
use crate::storage::Plan;
use servsim_mem::WordMask;
use servsim_os::{Completion, Storage, StorageCounts};

/// Name of what lies in no known file.
const ELSEWHERE: &str = "(elsewhere)";

/// Disks, buses, and what was asked of which relation.
pub struct IoSystem<'a> {
    plan: &'a Plan,
    storage: Storage<'a>,
    /// When the engine was last told to look again.
    look_at: u64,
    /// Reads and writes by what they concern; the last entry is for what lies elsewhere.
    accesses: Vec<[u64; 2]>,
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

impl<W: WordMask> Engine<'_, W> {
    /// Hands a request of the trace to the disks, if they are described.
    pub(super) fn submit_io(&mut self, request: u64, at: (u32, u64), bytes: u32, write: bool, now: u64) {
        let Some(io) = &mut self.io else { return };
        let (device, sector) = at;
        let parts = io.plan.locate(device, sector, u64::from(bytes), write);
        if bytes > 0 {
            let last = io.accesses.len() - 1;
            let what = io.plan.file_at(device, sector).unwrap_or(last);
            io.accesses[what][usize::from(write)] += 1;
        }
        io.storage.submit(request, &parts, write, now);
        self.look_at_io();
    }

    /// Makes sure that the engine looks when something happens next in the disks.
    fn look_at_io(&mut self) {
        let Some(io) = &mut self.io else { return };
        let next = io.storage.next_time().unwrap_or(u64::MAX);
        if next < io.look_at {
            io.look_at = next;
            self.schedule(next, TimedEvent::Io);
        }
    }

    /// The disks' own time has come.
    pub(super) fn io_happens(&mut self, now: u64) {
        let Some(io) = &mut self.io else { return };
        io.look_at = u64::MAX;
        let done = io.storage.advance(now);
        for Completion { request, submitted, completed, write } in done {
            self.recorder.disk(submitted, completed, write);
            self.disk_done(request, completed);
        }
        self.look_at_io();
    }
}
