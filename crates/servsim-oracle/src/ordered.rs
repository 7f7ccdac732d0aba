//! Snooping, directory and BASH once more, with one processor a node: who has which line in which state, whom the home
//! of a line believes to share it, and how many messages of each kind a request costs. Plain sets, looked through in
//! full for every request; nothing is shared with the simulator.

use std::collections::{BTreeMap, BTreeSet};

/// How requests travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Travel {
    /// All to everybody.
    Snooping,
    /// All to the home, which passes them on.
    Directory,
    /// To everybody or to the home, which asks again.
    Bash,
}

/// Messages by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Messages {
    /// Requests made to everybody.
    pub broadcasts: u64,
    /// Requests made to a home.
    pub unicasts: u64,
    /// Requests sent again.
    pub retries: u64,
    /// Of these, to everybody.
    pub retries_to_all: u64,
    /// Requests passed on to an owner.
    pub forwards: u64,
    /// Sharers told to give up a copy.
    pub invalidations: u64,
}

/// What became of a request that was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is needed any more.
    Nothing,
    /// It was performed; `true` if another cache had the block that was fetched, `None` without a fetch.
    Performed(Option<bool>),
    /// It is to be ordered again.
    Again,
}

/// All nodes and one home for each line.
#[derive(Debug)]
pub struct Ordered {
    travel: Travel,
    nodes: usize,
    /// State of each line at each node: `S`, `O` or `M`.
    copies: Vec<BTreeMap<u64, char>>,
    /// Nodes that fetched a line since it was last written.
    readers: BTreeMap<u64, BTreeSet<usize>>,
    /// By node: how often its request failed, and whom it goes to next.
    failed: BTreeMap<usize, (u64, BTreeSet<usize>)>,
    /// What was sent so far.
    pub messages: Messages,
}

impl Ordered {
    /// Nobody has anything.
    pub fn new(travel: Travel, nodes: usize) -> Self {
        Self {
            travel,
            nodes,
            copies: vec![BTreeMap::new(); nodes],
            readers: BTreeMap::new(),
            failed: BTreeMap::new(),
            messages: Messages::default(),
        }
    }

    /// State of `line` at `node`, `I` without a copy.
    pub fn state(&self, node: usize, line: u64) -> char {
        self.copies[node].get(&line).copied().unwrap_or('I')
    }

    /// `node` makes room.
    pub fn evict(&mut self, node: usize, line: u64) {
        self.copies[node].remove(&line);
    }

    /// The request of `node` comes to its turn. `alone` says what it chose, if it is made now and has the choice.
    pub fn ask(&mut self, node: usize, (line, home): (u64, usize), write: bool, alone: bool) -> Verdict {
        let failed = self.failed.remove(&node);
        let own = self.state(node, line);
        if own == 'M' || (!write && own != 'I') {
            return Verdict::Nothing;
        }
        let owner = (0..self.nodes).find(|&other| "MO".contains(self.state(other, line)));
        let mut concerned: BTreeSet<usize> = owner.into_iter().collect();
        if write {
            concerned.extend(self.readers.get(&line).into_iter().flatten());
        }
        concerned.remove(&node);
        let all: BTreeSet<usize> = (0..self.nodes).collect();
        let told = match (&failed, self.travel) {
            (Some((_, told)), _) => told.clone(),
            (None, Travel::Directory) => [home].into(),
            (None, Travel::Bash) if alone => [home].into(),
            (None, _) => all.clone(),
        };
        if failed.is_none() {
            let everybody = self.travel == Travel::Snooping || self.travel == Travel::Bash && !alone;
            self.messages.broadcasts += u64::from(everybody);
            self.messages.unicasts += u64::from(!everybody);
        }
        if self.travel == Travel::Directory {
            let forwards = u64::from(owner.is_some_and(|owner| owner != node));
            self.messages.forwards += forwards;
            self.messages.invalidations += concerned.len() as u64 - forwards;
        } else if concerned.iter().any(|other| *other != home && !told.contains(other)) {
            let times = failed.map_or(0, |(times, _)| times) + 1;
            let last = times == 3;
            self.messages.retries += 1;
            self.messages.retries_to_all += u64::from(last);
            self.failed.insert(node, (times, if last { all } else { concerned }));
            return Verdict::Again;
        }
        self.perform(node, line, write);
        Verdict::Performed((own == 'I').then_some(owner.is_some()))
    }

    fn perform(&mut self, node: usize, line: u64, write: bool) {
        let readers = self.readers.entry(line).or_default();
        if write {
            readers.clear();
            self.copies.iter_mut().for_each(|copies| {
                copies.remove(&line);
            });
            self.copies[node].insert(line, 'M');
            return;
        }
        readers.insert(node);
        for copies in &mut self.copies {
            copies.entry(line).and_modify(|state| *state = if *state == 'S' { 'S' } else { 'O' });
        }
        self.copies[node].insert(line, 'S');
    }
}
