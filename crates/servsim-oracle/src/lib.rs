//! A slow, obvious model of coherent caches, written from the papers and not from the engine, for
//! differential tests. Nothing but tests depends on it.
//!
//! Every cache is a list of sets, every set a list of entries with the most recent last; all
//! records are maps keyed by processor and block, as in the published pseudo-code; a word mask is a
//! set of word numbers; a transaction asks every cache in turn. Protocols are written as plain
//! `match`es from the printed tables. Over 400 lines: an access and all that follows from it is to
//! be read in one piece, beside the papers.
//!
//! Rules shared with the engine by specification: a line-crossing access touches each line in
//! ascending order; a block whose invalidated tag is present returns to that entry, otherwise an
//! unused entry, then the least recently used entry without a valid copy, then the least recently
//! used one is taken.

// What is expected inside these functions are invariants of this crate, not conditions on the caller.
#![allow(clippy::missing_panics_doc)]

pub mod drive;
pub mod flash;
mod levels;
pub mod migration;
pub mod mutation;
pub mod ordered;
mod prefetch;
mod protocols;
pub mod scoreboard;
mod switches;
mod translation;

pub use levels::{Keeps, Layout, Outer};
pub use prefetch::Ahead;
pub use protocols::{Protocol, Variant};
pub use translation::Buffers;

use protocols::{Action, Response};
use servsim_core::{Op, Record};
use std::collections::{BTreeMap, BTreeSet};
use switches::{Journey, Lost};

/// What is counted of a processor's references, by the registered paths of the simulator's counters.
pub const COUNTED: [&str; 12] = [
    "references_by_kind",
    "misses",
    "misses_true_by_self",
    "misses_by_owner",
    "misses_by_loss",
    "coherence",
    "coherence_by_owner",
    "context_switch_misses",
    "flushed_copies",
    "removed",
    "bus",
    "bus.cache_to_cache",
];

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
    pending: Option<(usize, usize)>,
}

/// Page facts of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The page belongs to one process.
    pub private: bool,
    /// The page is the kernel's.
    pub kernel: bool,
}

/// The model.
#[derive(Debug)]
pub struct Oracle {
    shape: Shape,
    protocol: Protocol,
    caches: Vec<Vec<Vec<Entry>>>,
    shadow: Vec<Vec<u64>>,
    shadow_blocks: u64,
    levels: Option<levels::Levels>,
    translation: Option<translation::Translation>,
    prefetching: Option<prefetch::Prefetching>,
    seen: BTreeSet<(usize, u64)>,
    sharing: BTreeMap<(usize, u64), Sharing>,
    variant: Variant,
    /// Flush private copies when a task leaves its processor.
    flush: bool,
    /// Judge sharing by the missing words alone.
    at_miss: bool,
    handlers: BTreeSet<u32>,
    current: Vec<Option<u32>>,
    quanta: usize,
    journeys: BTreeMap<u32, Journey>,
    /// Per cache and block: every loss, with the number of quanta begun by then.
    losses: BTreeMap<(usize, u64), Vec<(Lost, usize)>>,
    /// Copies whose page was private when they were fetched, with their last user.
    private_copies: BTreeMap<(usize, u64), bool>,
    last_user: BTreeMap<(usize, u64), u32>,
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
            shadow_blocks: shape.size / shape.line,
            levels: None,
            translation: None,
            prefetching: None,
            seen: BTreeSet::new(),
            sharing: BTreeMap::new(),
            variant: Variant::default(),
            flush: false,
            at_miss: false,
            handlers: BTreeSet::new(),
            current: vec![None; processors],
            quanta: 0,
            journeys: BTreeMap::new(),
            losses: BTreeMap::new(),
            private_copies: BTreeMap::new(),
            last_user: BTreeMap::new(),
            counts: Counts::new(),
        }
    }

    /// The same with the open points decided so.
    #[must_use]
    pub fn deciding(self, variant: Variant) -> Self {
        Self { variant, ..self }
    }

    /// The same, flushing private copies at switches, judging sharing at the miss, and with these
    /// tasks as interrupt handlers.
    #[must_use]
    pub fn with(self, flush: bool, at_miss: bool, handlers: BTreeSet<u32>) -> Self {
        Self { flush, at_miss, handlers, ..self }
    }

    fn count(&mut self, name: &str, mode: usize) {
        self.counts.entry(name.to_owned()).or_default()[mode] += 1;
    }

    /// Applies one reference of processor `cpu`, or, not `counted`, the second part of one whose
    /// pages lie apart; `facts` tells what is known of the page of an address.
    pub fn reference(&mut self, cpu: usize, record: &Record, counted: bool, facts: &dyn Fn(u64) -> Facts) {
        let mode = usize::from(record.is_kernel());
        let name = match record.op {
            Op::Fetch => "references_by_kind.fetch",
            Op::Load => "references_by_kind.load",
            Op::Store => "references_by_kind.store",
            Op::Event => return,
        };
        if counted {
            self.count(name, mode);
        }
        self.switch(cpu, record.task);
        let bytes: Vec<u64> = (0..u64::from(record.size)).map(|i| record.address + i).collect();
        let blocks: BTreeSet<u64> = bytes.iter().map(|b| b / self.shape.line).collect();
        let first_block = blocks.iter().next().copied();
        for block in blocks {
            let words: BTreeSet<u64> = bytes
                .iter()
                .filter(|&&b| b / self.shape.line == block)
                .map(|b| b % self.shape.line / 4)
                .collect();
            let first = bytes.iter().find(|&&b| b / self.shape.line == block).expect("a byte of the block");
            let facts = facts(*first);
            let access = Touch {
                cpu,
                processor: cpu,
                block,
                words,
                write: record.op == Op::Store,
                mode,
                private: facts.private,
                owner: usize::from(facts.kernel),
                task: record.task,
            };
            if self.levels.is_some() {
                self.through_levels(&access, record.op == Op::Fetch);
            } else {
                while !self.access(&access) {}
            }
            let whole = (record.address, u64::from(record.size));
            let first = counted && first_block == Some(block);
            self.prefetch_after(&access, record.op == Op::Fetch, first, whole);
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
                if self.levels.is_some() {
                    self.use_in(a);
                }
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
                let next = self.protocol.filled(a.write, a.private, &response, self.variant);
                self.place(a, next);
                let gone = self.levels.is_some().then(|| self.take_in(a)).flatten();
                let finished = Touch { write: a.write && !again, ..a.clone() };
                self.use_block(&finished, &BTreeSet::new());
                if self.levels.is_some() {
                    self.beyond(a, &response, response.dirty, Some(exclusive), gone);
                }
                !again
            }
            Action::Announce { word } => {
                self.count(if word { "bus.write" } else { "bus.invalidate" }, a.mode);
                self.classify_transaction(a);
                let (response, updated) = self.ask_others(a, if word { "W" } else { "V" });
                let next = self.protocol.announced(&response, self.variant);
                self.entry(a.cpu, a.block).expect("an upgrade has an entry").state = next;
                self.use_block(a, &updated);
                if self.levels.is_some() {
                    self.use_in(a);
                    self.beyond(a, &response, word, None, None);
                }
                true
            }
        }
    }

    /// What a transaction means beyond the bus: memory takes the data when somebody had them alone
    /// (`owned`) and nobody owns them now; otherwise a fetch (`Some`, and whether to write) that no cache near by
    /// supplied is served there. A write takes the block out of the levels of other core groups. `gone` is what made
    /// room inside.
    fn beyond(
        &mut self,
        a: &Touch,
        response: &Response,
        owned: bool,
        fetch: Option<bool>,
        gone: Option<(u64, bool)>,
    ) {
        let owner = (0..self.caches.len()).any(|c| {
            let state = self.state(c, a.block);
            self.protocol.writes_back(state)
        });
        if self.has_shared() && owned && !owner {
            self.flushed(a, response.owner.unwrap_or(a.cpu));
        }
        let takes_all = fetch != Some(false);
        if self.has_shared() && fetch.is_some() && !response.near {
            return self.fetched(a, gone, response.supplied, takes_all);
        }
        if self.has_shared() && takes_all {
            self.taken(a);
        }
        if let Some((block, written)) = gone {
            self.handed_out(a, block, written);
        }
    }

    /// The coherent cache of a processor's references, and the half of its first level.
    fn place_of_data(&self, cpu: usize, fetch: bool) -> (usize, usize) {
        self.levels.as_ref().map_or((cpu, 0), |levels| levels.place_of(cpu, fetch))
    }

    /// Whether processor `cpu` has a valid copy of the data at `address`.
    fn has_at(&mut self, cpu: usize, address: u64) -> bool {
        let block = address / self.shape.line;
        let (cache, _) = self.place_of_data(cpu, false);
        self.state(cache, block) != "I"
    }

    fn holders(&mut self, a: &Touch) -> Vec<usize> {
        (0..self.caches.len()).filter(|&c| c != a.cpu && self.state(c, a.block) != "I").collect()
    }

    fn ask_others(&mut self, a: &Touch, what: &str) -> (Response, BTreeSet<usize>) {
        let mut response = Response::default();
        let mut updated = BTreeSet::new();
        if self.levels.is_some() && self.in_another_group(a.cpu, a.block) {
            response.kept_elsewhere();
        }
        for other in self.holders(a) {
            let state = self.state(other, a.block);
            let mut one = Response::default();
            let next = self.protocol.snooped(state, what, a.private, &mut one, self.variant);
            let near = self.levels.is_none() || self.same_group(a.cpu, other);
            one.supplied &= near || self.may_give(a.cpu, other, a.block);
            one.near = one.supplied && near;
            one.owner = one.dirty.then_some(other);
            response.join(&one);
            let entry = self.entry(other, a.block).expect("a holder has an entry");
            entry.state = next;
            entry.removed = next == "I" && what == "R";
            let clean = !self.protocol.writes_back(next);
            if self.levels.is_some() && clean {
                self.snooped_in(other, a.block, next == "I");
            }
            if next == "I" {
                if what == "R" {
                    self.count("removed.copies", a.mode);
                }
                self.lose(other, a.block, Lost::Snoop);
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
        self.count(&format!("coherence_by_owner.{class}"), a.owner);
    }

    fn miss(&mut self, a: &Touch) {
        self.prefetch_missed();
        self.misses_alone(a);
        let tag = self.entry(a.cpu, a.block).map(|e| e.removed);
        if tag == Some(true) {
            self.count("removed.misses", a.mode);
        }
        let invalidation = match tag {
            None => false,
            Some(removed) => !removed || self.protocol.removal_is_invalidation(),
        };
        let key = (a.cpu, a.block);
        let last_loss = self.losses.get(&key).and_then(|losses| losses.last());
        let by_loss = match last_loss {
            None => "never_held",
            Some((Lost::Snoop, _)) => "invalidated",
            Some((Lost::Fill(_), _)) => "replaced",
            Some((Lost::Flush, _)) => "flushed",
        };
        self.count(&format!("misses_by_loss.{by_loss}"), a.mode);
        if !invalidation {
            let class = if !self.seen.contains(&key) {
                "cold"
            } else if self.shadow[a.cpu].contains(&a.block) {
                "conflict"
            } else {
                "capacity"
            };
            self.count_miss(class, a.mode, a.owner);
            if let Some(cause) = self.switch_cause(a) {
                self.count(&format!("context_switch_misses.{cause}"), a.mode);
            }
        }
        if invalidation && !a.private && self.at_miss {
            self.judge_now(a);
        }
        self.private_copies.insert(key, a.private);
        let at_miss = self.at_miss;
        let sharing = self.sharing.entry(key).or_default();
        sharing.touched.clear();
        if invalidation && !a.private && !at_miss {
            sharing.pending = Some((a.mode, a.owner));
        } else {
            sharing.new_words.clear();
            sharing.new_writers.clear();
        }
        if invalidation && a.private {
            self.count_miss("passive_sharing", a.mode, a.owner);
        }
        self.seen.insert(key);
    }

    fn count_miss(&mut self, class: &str, mode: usize, owner: usize) {
        self.count(&format!("misses.{class}"), mode);
        self.count(&format!("misses_by_owner.{class}"), owner);
    }

    fn judge_now(&mut self, a: &Touch) {
        let sharing = self.sharing.entry((a.cpu, a.block)).or_default().clone();
        if sharing.new_words.is_disjoint(&a.words) {
            self.count_miss("false_sharing", a.mode, a.owner);
            return;
        }
        self.count_miss("true_sharing", a.mode, a.owner);
        if sharing.new_writers == BTreeSet::from([a.task]) {
            self.count("misses_true_by_self", a.mode);
        }
    }

    fn place(&mut self, a: &Touch, state: &'static str) {
        let ways = if self.levels.is_some() { usize::MAX } else { self.shape.ways };
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
                self.count("bus.write_back", a.mode);
            }
            self.lose(a.cpu, gone.block, Lost::Fill(a.task));
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
        if shadow.len() as u64 > self.shadow_blocks {
            shadow.remove(0);
        }
        self.touch(a);
        self.last_user.insert((a.cpu, a.block), a.task);
        if let Some(journey) = self.journeys.get_mut(&a.task) {
            let quantum = journey.quanta.last().expect("a journey has begun").0;
            let quanta = journey.used.entry(a.block).or_default();
            if quanta.last() != Some(&quantum) {
                quanta.push(quantum);
            }
        }
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
        self.prefetch_used(a.cpu, a.block);
        let sharing = self.sharing.entry((a.cpu, a.block)).or_default();
        sharing.touched.extend(&a.words);
        if let Some((mode, owner)) = sharing.pending {
            if !sharing.new_words.is_disjoint(&a.words) {
                sharing.pending = None;
                sharing.new_words.clear();
                let by_self = sharing.new_writers == BTreeSet::from([a.task]);
                sharing.new_writers.clear();
                self.count_miss("true_sharing", mode, owner);
                if by_self {
                    self.count("misses_true_by_self", mode);
                }
            }
        }
    }

    fn lose(&mut self, cpu: usize, block: u64, how: Lost) {
        self.prefetch_lost(cpu, block);
        self.losses.entry((cpu, block)).or_default().push((how, self.quanta));
        self.resolve(cpu, block);
    }

    /// The lifetime of a copy is over: a miss still pending was false sharing.
    fn resolve(&mut self, cpu: usize, block: u64) {
        let sharing = self.sharing.entry((cpu, block)).or_default();
        if let Some((mode, owner)) = sharing.pending.take() {
            self.count_miss("false_sharing", mode, owner);
        }
    }

    /// Ends the run and returns the counts.
    pub fn finish(mut self) -> Counts {
        let keys: Vec<_> = self.sharing.keys().copied().collect();
        for (cpu, block) in keys {
            self.resolve(cpu, block);
        }
        self.count_levels();
        self.counts
    }
}

#[derive(Debug, Clone)]
struct Touch {
    /// The coherent cache; the processor, until that is known.
    cpu: usize,
    processor: usize,
    block: u64,
    words: BTreeSet<u64>,
    write: bool,
    mode: usize,
    private: bool,
    owner: usize,
    task: u32,
}
