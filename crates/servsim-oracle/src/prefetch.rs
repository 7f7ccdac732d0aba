//! Prefetchers, from the papers and docs/parts/prefetch.md: after every block of every reference the
//! policy is asked, and what it names is fetched at once.

use crate::protocols::Action;
use crate::{Oracle, Touch};
use std::collections::{BTreeMap, BTreeSet};

/// What is prefetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// The next blocks.
    NextLine,
    /// What continues an instruction's stride, with so many table entries.
    Stride(u64),
}

/// An instruction of the reference prediction table.
#[derive(Debug, Clone, Copy)]
struct Row {
    instruction: u64,
    address: i128,
    stride: i128,
    state: &'static str,
}

#[derive(Debug)]
pub(crate) struct Prefetching {
    what: Ahead,
    degree: u64,
    outside_first: bool,
    /// Copies not used yet.
    unused: BTreeSet<(usize, u64)>,
    behind: BTreeMap<usize, u64>,
    table: BTreeMap<(usize, u64), Row>,
    /// Something to follow happened since the last look.
    happened: bool,
    /// A page walk is under way, which nothing follows.
    walking: bool,
}

impl Oracle {
    /// The same machine with prefetchers; `outside_first`: the second level takes what they fetch.
    #[must_use]
    pub fn prefetching(self, what: Ahead, degree: u64, outside_first: bool) -> Self {
        let (unused, behind, table) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let prefetching = Prefetching {
            what,
            degree,
            outside_first,
            unused,
            behind,
            table,
            happened: false,
            walking: false,
        };
        Self { prefetching: Some(prefetching), ..self }
    }

    /// A page walk begins or ends.
    pub(crate) fn prefetch_walking(&mut self, walking: bool) {
        if let Some(p) = &mut self.prefetching {
            p.walking = walking;
        }
    }

    /// A reference missed.
    pub(crate) fn prefetch_missed(&mut self) {
        if let Some(p) = &mut self.prefetching {
            p.happened = true;
        }
    }

    /// A reference uses a copy.
    pub(crate) fn prefetch_used(&mut self, cache: usize, block: u64) {
        let Some(p) = &mut self.prefetching else { return };
        if p.unused.remove(&(cache, block)) {
            p.happened = true;
            self.count("prefetch.useful", 0);
        }
    }

    /// A copy is lost.
    pub(crate) fn prefetch_lost(&mut self, cache: usize, block: u64) {
        let Some(p) = &mut self.prefetching else { return };
        if p.unused.remove(&(cache, block)) {
            self.count("prefetch.useless", 0);
        }
    }

    /// The share of block `a.block` of a reference of `size` bytes from `address` on is done; `first` if
    /// it was the first block.
    pub(crate) fn prefetch_after(
        &mut self,
        a: &Touch,
        fetch: bool,
        first: bool,
        (address, size): (u64, u64),
    ) {
        let line = self.shape.line;
        let Some(p) = &mut self.prefetching else { return };
        let happened = std::mem::take(&mut p.happened);
        if p.walking {
            return;
        }
        let mut blocks = Vec::new();
        match p.what {
            Ahead::NextLine if happened => blocks.extend(a.block + 1..=a.block + p.degree),
            Ahead::Stride(rows) if first && !fetch => {
                let instruction = p.behind.get(&a.processor).copied().unwrap_or(address / 4096);
                let stride = follow(&mut p.table, (a.processor, rows), instruction, i128::from(address));
                for times in 1..=i128::from(p.degree) {
                    let next = i128::from(address) + stride * times;
                    if stride != 0 && next / 4096 == i128::from(address) / 4096 && next >= 0 {
                        blocks.push(next as u64 / line);
                    }
                }
            }
            _ => {}
        }
        if first && fetch {
            p.behind.insert(a.processor, address + size);
        }
        for block in blocks {
            if block * line / 4096 == a.block * line / 4096 {
                let ahead = Touch { block, words: BTreeSet::new(), write: false, ..a.clone() };
                self.prefetch(&ahead, fetch);
            }
        }
    }

    fn prefetch(&mut self, a: &Touch, fetch: bool) {
        let (cache, half) = self.place_of_data(a.processor, fetch);
        let a = &Touch { cpu: cache, ..a.clone() };
        if self.state(cache, a.block) != "I" {
            return;
        }
        let Action::Fetch { .. } = self.protocol.processor("I", false) else { unreachable!("a read miss") };
        self.count("bus.read", a.mode);
        self.count("prefetch.issued", 0);
        let (response, _) = self.ask_others(a, "R");
        if response.supplied {
            self.count("bus.cache_to_cache", a.mode);
        }
        let key = (cache, a.block);
        self.private_copies.insert(key, a.private);
        let sharing = self.sharing.entry(key).or_default();
        sharing.touched.clear();
        sharing.new_words.clear();
        sharing.new_writers.clear();
        self.seen.insert(key);
        self.last_user.remove(&key);
        let next = self.protocol.filled(false, a.private, &response, self.variant);
        self.place(a, next);
        let gone = self.levels.is_some().then(|| self.take_in(a)).flatten();
        if self.levels.is_some() {
            self.beyond(a, &response, response.dirty, Some(false), gone);
            let outside_first = self.prefetching.as_ref().is_some_and(|p| p.outside_first);
            self.prefetched_in(a, half, outside_first);
        }
        if let Some(p) = &mut self.prefetching {
            p.unused.insert(key);
        }
    }
}

/// Notes an address in the table of a processor; the stride to follow, 0 for none.
fn follow(
    table: &mut BTreeMap<(usize, u64), Row>,
    (processor, rows): (usize, u64),
    instruction: u64,
    address: i128,
) -> i128 {
    let place = (processor, instruction % rows);
    let Some(row) = table.get(&place).copied().filter(|row| row.instruction == instruction) else {
        table.insert(place, Row { instruction, address, stride: 0, state: "initial" });
        return 0;
    };
    let correct = row.address + row.stride == address;
    let (state, keeps) = match (row.state, correct) {
        ("initial" | "transient" | "steady", true) => ("steady", true),
        ("none", true) => ("transient", true),
        ("initial", false) => ("transient", false),
        ("steady", false) => ("initial", true),
        _ => ("none", false),
    };
    let stride = if keeps { row.stride } else { address - row.address };
    table.insert(place, Row { instruction, address, stride, state });
    if state == "none" {
        0
    } else {
        stride
    }
}
