//! A slow, obvious model of coherent caches, written from the papers and not from the engine, for
//! differential tests. Nothing but tests depends on it.
//!
//! Every cache is a list of sets, every set a list of entries with the most recent last; all
//! records are maps keyed by processor and block, as in the published pseudo-code; a word mask is a
//! set of word numbers; a transaction asks every cache in turn. Protocols are written as plain
//! `match`es from the printed tables, with dirty-only supply.
//!
//! Rules shared with the engine by specification: a line-crossing access touches each line in
//! ascending order; a block whose invalidated tag is present returns to that entry, otherwise an
//! unused entry, then the least recently used entry without a valid copy, then the least recently
//! used one is taken.

// What is expected inside these functions are invariants of this crate, not conditions on the caller.
#![allow(clippy::missing_panics_doc)]

pub mod drive;
mod protocols;

pub use protocols::Protocol;

use protocols::{Action, Response};
use servsim_core::{Op, Record};
use std::collections::{BTreeMap, BTreeSet};

/// Counters by name, user and kernel: `misses.cold`, `coherence.true_sharing`, `bus.read`.
pub type Counts = BTreeMap<String, [u64; 2]>;

/// Shape of every cache.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes per cache.
    pub size: u64,
    /// Ways.
    pub ways: usize,
    /// Bytes per line.
    pub line: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    block: u64,
    state: &'static str,
    /// The copy went because another cache fetched the block.
    removed: bool,
}

#[derive(Debug, Clone, Default)]
struct Sharing {
    new_words: BTreeSet<u64>,
    new_writers: BTreeSet<u32>,
    touched: BTreeSet<u64>,
    pending: Option<usize>,
}

/// The model.
#[derive(Debug)]
pub struct Oracle {
    shape: Shape,
    protocol: Protocol,
    caches: Vec<Vec<Vec<Entry>>>,
    shadow: Vec<Vec<u64>>,
    seen: BTreeSet<(usize, u64)>,
    sharing: BTreeMap<(usize, u64), Sharing>,
    /// What happened so far.
    pub counts: Counts,
}

impl Oracle {
    /// Empty caches of `processors` processors.
    pub fn new(processors: usize, shape: Shape, protocol: Protocol) -> Self {
        let sets = (shape.size / shape.line) as usize / shape.ways;
        Self {
            shape,
            protocol,
            caches: vec![vec![Vec::new(); sets]; processors],
            shadow: vec![Vec::new(); processors],
            seen: BTreeSet::new(),
            sharing: BTreeMap::new(),
            counts: Counts::new(),
        }
    }

    fn count(&mut self, name: &str, mode: usize) {
        self.counts.entry(name.to_owned()).or_default()[mode] += 1;
    }

    /// Applies one reference of processor `cpu`; `private` says whether its page is private.
    pub fn reference(&mut self, cpu: usize, record: &Record, private: bool) {
        let mode = usize::from(record.is_kernel());
        let name = match record.op {
            Op::Fetch => "references.fetch",
            Op::Load => "references.load",
            Op::Store => "references.store",
            Op::Event => return,
        };
        self.count(name, mode);
        let bytes: Vec<u64> = (0..u64::from(record.size)).map(|i| record.address + i).collect();
        let blocks: BTreeSet<u64> = bytes.iter().map(|b| b / self.shape.line).collect();
        for block in blocks {
            let words: BTreeSet<u64> = bytes
                .iter()
                .filter(|&&b| b / self.shape.line == block)
                .map(|b| b % self.shape.line / 4)
                .collect();
            let access =
                Touch { cpu, block, words, write: record.op == Op::Store, mode, private, task: record.task };
            while !self.access(&access) {}
        }
    }

    fn set(&mut self, cpu: usize, block: u64) -> &mut Vec<Entry> {
        let sets = self.caches[cpu].len() as u64;
        &mut self.caches[cpu][(block % sets) as usize]
    }

    fn entry(&mut self, cpu: usize, block: u64) -> Option<&mut Entry> {
        self.set(cpu, block).iter_mut().find(|e| e.block == block)
    }

    fn state(&mut self, cpu: usize, block: u64) -> &'static str {
        self.entry(cpu, block).map_or("I", |e| e.state)
    }

    /// One application; `true` when the access is complete.
    fn access(&mut self, a: &Touch) -> bool {
        let state = self.state(a.cpu, a.block);
        let action = self.protocol.processor(state, a.write);
        match action {
            Action::Hit(next) => {
                self.entry(a.cpu, a.block).expect("a hit has an entry").state = next;
                self.use_block(a, &BTreeSet::new());
                true
            }
            Action::Fetch { exclusive, again } => {
                self.count(if exclusive { "bus.read_exclusive" } else { "bus.read" }, a.mode);
                let (response, _) = self.ask_others(a, if exclusive { "X" } else { "R" });
                if response.supplied {
                    self.count("bus.cache_to_cache", a.mode);
                }
                self.miss(a);
                let next = self.protocol.filled(a.write, a.private, &response);
                self.place(a, next);
                let finished = Touch { write: a.write && !again, ..a.clone() };
                self.use_block(&finished, &BTreeSet::new());
                !again
            }
            Action::Announce { word } => {
                self.count(if word { "bus.write" } else { "bus.invalidate" }, a.mode);
                self.classify_transaction(a);
                let (response, updated) = self.ask_others(a, if word { "W" } else { "V" });
                let next = self.protocol.announced(&response);
                self.entry(a.cpu, a.block).expect("an upgrade has an entry").state = next;
                self.use_block(a, &updated);
                true
            }
        }
    }

    fn holders(&mut self, a: &Touch) -> Vec<usize> {
        (0..self.caches.len()).filter(|&c| c != a.cpu && self.state(c, a.block) != "I").collect()
    }

    fn ask_others(&mut self, a: &Touch, what: &str) -> (Response, BTreeSet<usize>) {
        let mut response = Response::default();
        let mut updated = BTreeSet::new();
        for other in self.holders(a) {
            let state = self.state(other, a.block);
            let next = self.protocol.snooped(state, what, a.private, &mut response);
            let entry = self.entry(other, a.block).expect("a holder has an entry");
            entry.state = next;
            entry.removed = next == "I" && what == "R";
            if next == "I" {
                if what == "R" {
                    self.count("removed.copies", a.mode);
                }
                self.lose(other, a.block);
            } else {
                updated.insert(other);
            }
        }
        (response, updated)
    }

    fn classify_transaction(&mut self, a: &Touch) {
        let holders = self.holders(a);
        let touched = |oracle: &Self, c: usize| {
            oracle.sharing.get(&(c, a.block)).is_some_and(|s| !s.touched.is_disjoint(&a.words))
        };
        let class = if holders.is_empty() {
            "needless"
        } else if a.private {
            "passive_sharing"
        } else if holders.iter().any(|&c| touched(self, c)) {
            "true_sharing"
        } else {
            "false_sharing"
        };
        self.count(&format!("coherence.{class}"), a.mode);
    }

    fn miss(&mut self, a: &Touch) {
        let tag = self.entry(a.cpu, a.block).map(|e| e.removed);
        if tag == Some(true) {
            self.count("removed.misses", a.mode);
        }
        let invalidation = match tag {
            None => false,
            Some(removed) => !removed || self.protocol.removal_is_invalidation(),
        };
        let key = (a.cpu, a.block);
        if !invalidation {
            let class = if !self.seen.contains(&key) {
                "cold"
            } else if self.shadow[a.cpu].contains(&a.block) {
                "conflict"
            } else {
                "capacity"
            };
            self.count(&format!("misses.{class}"), a.mode);
        }
        let sharing = self.sharing.entry(key).or_default();
        sharing.touched.clear();
        if invalidation && !a.private {
            sharing.pending = Some(a.mode);
        } else {
            sharing.new_words.clear();
            sharing.new_writers.clear();
        }
        if invalidation && a.private {
            self.count("misses.passive_sharing", a.mode);
        }
        self.seen.insert(key);
    }

    fn place(&mut self, a: &Touch, state: &'static str) {
        let ways = self.shape.ways;
        let set = self.set(a.cpu, a.block);
        let mut gone = None;
        if let Some(index) = set.iter().position(|e| e.block == a.block) {
            set.remove(index);
        } else if set.len() == ways {
            let index = set.iter().position(|e| e.state == "I").unwrap_or(0);
            gone = Some(set.remove(index));
        }
        set.push(Entry { block: a.block, state, removed: false });
        if let Some(gone) = gone.filter(|e| e.state != "I") {
            if self.protocol.writes_back(gone.state) {
                self.count("bus.update", a.mode);
            }
            self.lose(a.cpu, gone.block);
        }
    }

    /// Touches the words, makes the block most recent, and commits a write.
    fn use_block(&mut self, a: &Touch, updated: &BTreeSet<usize>) {
        let set = self.set(a.cpu, a.block);
        let index = set.iter().position(|e| e.block == a.block).expect("present");
        let entry = set.remove(index);
        set.push(entry);
        let shadow = &mut self.shadow[a.cpu];
        shadow.retain(|&b| b != a.block);
        shadow.push(a.block);
        if shadow.len() as u64 > self.shape.size / self.shape.line {
            shadow.remove(0);
        }
        self.touch(a);
        if !a.write {
            return;
        }
        for other in (0..self.caches.len()).filter(|c| *c != a.cpu && !updated.contains(c)) {
            let sharing = self.sharing.entry((other, a.block)).or_default();
            sharing.new_words.extend(&a.words);
            sharing.new_writers.insert(a.task);
        }
    }

    fn touch(&mut self, a: &Touch) {
        let sharing = self.sharing.entry((a.cpu, a.block)).or_default();
        sharing.touched.extend(&a.words);
        if let Some(mode) = sharing.pending {
            if !sharing.new_words.is_disjoint(&a.words) {
                sharing.pending = None;
                sharing.new_words.clear();
                let by_self = sharing.new_writers == BTreeSet::from([a.task]);
                sharing.new_writers.clear();
                self.count("misses.true_sharing", mode);
                if by_self {
                    self.count("misses.true_by_self", mode);
                }
            }
        }
    }

    fn lose(&mut self, cpu: usize, block: u64) {
        let sharing = self.sharing.entry((cpu, block)).or_default();
        if let Some(mode) = sharing.pending.take() {
            self.count("misses.false_sharing", mode);
        }
    }

    /// Ends the run and returns the counts.
    pub fn finish(mut self) -> Counts {
        let keys: Vec<_> = self.sharing.keys().copied().collect();
        for (cpu, block) in keys {
            self.lose(cpu, block);
        }
        self.counts
    }
}

#[derive(Debug, Clone)]
struct Touch {
    cpu: usize,
    block: u64,
    words: BTreeSet<u64>,
    write: bool,
    mode: usize,
    private: bool,
    task: u32,
}
