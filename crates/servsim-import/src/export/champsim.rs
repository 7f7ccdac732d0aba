//! ChampSim's 64-byte records (see the importer): a fetch and the loads and stores up to the next.
//! What does not fit one record goes into further ones with the same address, each of which is one
//! more fetch. Branches and registers are unknown and left zero.

use super::{Holds, Reference, Writer};
use crate::champsim::{LOADS, RECORD, STORES};
use servsim_core::Op;
use std::ops::Range;

/// What champsim holds.
pub const HOLDS: Holds = Holds { size: None, single: false, ..Holds::REFERENCES };

/// Writes champsim.
#[derive(Default)]
pub struct ChampSim {
    record: Option<[u8; RECORD]>,
    address: u64,
    task: u32,
    added: u64,
    nowhere: u64,
    reordered: u64,
    stored: bool,
}

impl ChampSim {
    fn flush(&mut self, out: &mut Vec<u8>) {
        self.stored = false;
        if let Some(record) = self.record.take() {
            out.extend_from_slice(&record);
        }
    }

    fn start(&mut self, address: u64) {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&address.to_le_bytes());
        self.record = Some(record);
    }

    /// Puts an address into the first free place of `range`; `false` when there is none.
    fn put(&mut self, range: Range<usize>, address: u64) -> bool {
        let Some(record) = &mut self.record else { return false };
        let Some(place) = record[range].chunks_exact_mut(8).find(|place| place.iter().all(|&b| b == 0))
        else {
            return false;
        };
        place.copy_from_slice(&address.to_le_bytes());
        true
    }
}

impl Writer for ChampSim {
    fn reference(&mut self, reference: &Reference, out: &mut Vec<u8>) {
        if reference.op == Op::Fetch {
            self.flush(out);
            (self.address, self.task) = (reference.address, reference.task);
            self.start(reference.address);
            return;
        }
        if reference.address == 0 {
            self.nowhere += 1;
            return;
        }
        let range = if reference.op == Op::Store { STORES } else { LOADS };
        self.reordered += u64::from(self.stored && reference.op == Op::Load);
        if reference.task != self.task || !self.put(range.clone(), reference.address) {
            self.flush(out);
            self.task = reference.task;
            self.added += 1;
            self.start(self.address);
            self.put(range, reference.address);
        }
        self.stored |= reference.op == Op::Store;
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
    }

    fn losses(&self) -> Vec<String> {
        let mut losses = vec!["branches and registers, which the trace does not tell".into()];
        let mut say = |n: u64, what: &str| losses.extend((n > 0).then(|| format!("{n} {what}")));
        say(self.added, "instructions with more accesses than fit (each added a fetch)");
        say(self.nowhere, "accesses to address 0, which means none there");
        say(self.reordered, "loads that followed a store of the same instruction (they now precede it)");
        losses
    }
}
