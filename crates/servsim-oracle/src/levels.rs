//! Hierarchies of caches, from the rules of docs/parts/hierarchy.md: every cache is a map from set
//! and way to what lies there, every question is answered by looking everywhere. Over 400 lines,
//! because private and shared levels follow one set of rules, to be read together.

use crate::{Lost, Oracle, Shape, Touch};
use servsim_core::RandomStream;
use std::collections::{BTreeMap, BTreeSet};

/// What a level keeps of the levels inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// All.
    All,
    /// Nothing.
    Nothing,
    /// Either.
    Either,
}

/// A level outside the first.
#[derive(Debug, Clone)]
pub struct Outer {
    /// Its shape.
    pub shape: Shape,
    /// `lru`, `fifo`, `tree-plru`, `random` or `srrip`.
    pub policy: &'static str,
    /// What it keeps of the levels inside it.
    pub keeps: Keeps,
    /// Shared: data from inside that find no copy go past it.
    pub around: bool,
}

/// The levels of a machine.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The first level is an instruction and a data cache.
    pub split: bool,
    /// Policy of the first level.
    pub policy: &'static str,
    /// Stores that find no copy in the first level go past it.
    pub around: bool,
    /// Private levels outside the first.
    pub private: Vec<Outer>,
    /// Shared levels; with several groups the one that each has.
    pub shared: Vec<Outer>,
    /// Core groups, of neighbours.
    pub groups: usize,
    /// A group's level gives clean copies to other groups.
    pub clean_supplies: bool,
    /// Seed of the random policy.
    pub seed: u64,
}

#[derive(Debug, Clone)]
struct Slot {
    block: u64,
    valid: bool,
    dirty: bool,
    when: u64,
}

/// One cache.
#[derive(Debug)]
pub(crate) struct Store {
    sets: u64,
    ways: u64,
    policy: &'static str,
    keeps: Keeps,
    around: bool,
    random: RandomStream,
    slots: BTreeMap<(u64, u64), Slot>,
    /// Of a range of ways of a set: whether its lower half was used last.
    lower_last: BTreeMap<(u64, u64, u64), bool>,
    intervals: BTreeMap<(u64, u64), u8>,
    /// Every filling of a way, in order.
    fillings: Vec<(u64, u64)>,
    /// Sets all of whose ways have been valid at once.
    filled: BTreeSet<u64>,
    time: u64,
    name: String,
    events: BTreeMap<&'static str, u64>,
}

impl Store {
    fn new(
        shape: Shape,
        policy: &'static str,
        keeps: Keeps,
        seed: u64,
        place: (usize, usize),
        name: String,
    ) -> Self {
        Self {
            sets: shape.size / shape.line / shape.ways as u64,
            ways: shape.ways as u64,
            policy,
            keeps,
            around: false,
            random: RandomStream::new(seed, &format!("replacement {} {}", place.0, place.1)),
            slots: BTreeMap::new(),
            lower_last: BTreeMap::new(),
            intervals: BTreeMap::new(),
            fillings: Vec::new(),
            filled: BTreeSet::new(),
            time: 0,
            name,
            events: BTreeMap::new(),
        }
    }

    fn event(&mut self, what: &'static str) {
        *self.events.entry(what).or_default() += 1;
    }

    fn place_of(&self, block: u64) -> Option<(u64, u64)> {
        self.slots.iter().find(|(_, slot)| slot.block == block).map(|(place, _)| *place)
    }

    fn slot(&mut self, block: u64) -> Option<&mut Slot> {
        self.slots.values_mut().find(|slot| slot.block == block)
    }

    fn tagged(&self, block: u64) -> bool {
        self.place_of(block).is_some()
    }

    fn has(&self, block: u64) -> bool {
        self.slots.values().any(|slot| slot.block == block && slot.valid)
    }

    /// Notes the use in every half of the ways that contains the way.
    fn note_use(&mut self, (set, way): (u64, u64), filled: bool) {
        self.time += 1;
        self.slots.get_mut(&(set, way)).expect("used").when = self.time;
        self.intervals.insert((set, way), if filled { 2 } else { 0 });
        if filled {
            self.fillings.push((set, way));
        }
        let (mut low, mut high) = (0, self.ways);
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            self.lower_last.insert((set, low, high), way < middle);
            if way < middle {
                high = middle;
            } else {
                low = middle;
            }
        }
    }

    fn victim(&mut self, set: u64) -> u64 {
        let age = |way: &u64| match self.slots.get(&(set, *way)) {
            None => (0, 0),
            Some(slot) => (u64::from(slot.valid), slot.when),
        };
        let oldest = (0..self.ways).min_by_key(age).expect("ways");
        if age(&oldest).0 == 0 || self.policy == "lru" {
            return oldest;
        }
        match self.policy {
            "random" => self.random.below(self.ways),
            "fifo" => {
                let last_filled = |way: &u64| self.fillings.iter().rposition(|&place| place == (set, *way));
                (0..self.ways).min_by_key(last_filled).expect("ways")
            }
            "srrip" => loop {
                let distant = (0..self.ways).find(|way| self.intervals[&(set, *way)] == 3);
                if let Some(way) = distant {
                    return way;
                }
                for way in 0..self.ways {
                    *self.intervals.get_mut(&(set, way)).expect("filled") += 1;
                }
            },
            _ => {
                let (mut low, mut high) = (0, self.ways);
                while high - low > 1 {
                    let middle = u64::midpoint(low, high);
                    if self.lower_last.get(&(set, low, high)) == Some(&true) {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                low
            }
        }
    }

    /// Puts a block in; what lay where it is now.
    fn put(&mut self, block: u64, dirty: bool) -> Option<Slot> {
        let set = block % self.sets;
        let place = self.place_of(block).unwrap_or_else(|| (set, self.victim(set)));
        let old = self.slots.insert(place, Slot { block, valid: true, dirty, when: 0 });
        self.note_use(place, true);
        if (0..self.ways).all(|way| self.slots.get(&(set, way)).is_some_and(|slot| slot.valid)) {
            self.filled.insert(set);
        }
        let old = old.filter(|slot| slot.block != block);
        if old.as_ref().is_some_and(|slot| slot.valid) {
            self.event("evictions");
        }
        old
    }

    /// Looks a block up for a reference.
    fn ask(&mut self, block: u64) -> bool {
        let found = self.has(block);
        self.event(if found { "hits" } else { "misses" });
        if found {
            let place = self.place_of(block).expect("found");
            self.note_use(place, false);
        } else {
            self.note_unfilled(block);
        }
        found
    }

    fn note_unfilled(&mut self, block: u64) {
        if !self.filled.contains(&(block % self.sets)) && !self.tagged(block) {
            self.event("unfilled");
        }
    }

    fn remove(&mut self, block: u64) -> Option<Slot> {
        let place = self.place_of(block)?;
        self.slots.remove(&place).filter(|slot| slot.valid)
    }
}

/// The caches of a machine with levels.
#[derive(Debug)]
pub(crate) struct Levels {
    layout: Layout,
    /// Per coherent cache: first level, then outward.
    private: Vec<Vec<Store>>,
    first: usize,
    /// By group, from the inside out.
    shared: Vec<Vec<Store>>,
    memory: [u64; 2],
    between: BTreeMap<&'static str, u64>,
}

impl Levels {
    fn new(processors: usize, first: Shape, layout: Layout) -> Self {
        let halves = 1 + usize::from(layout.split);
        let name = |which: usize| {
            let names = if layout.split { ["l1i", "l1d"] } else { ["l1", ""] };
            names[which].to_owned()
        };
        let inner = |index: usize, which: usize| {
            Store::new(first, layout.policy, Keeps::Either, layout.seed, (1, index), name(which))
        };
        let outer = |level: &Outer, number: usize, index: usize| {
            let place = (number, index);
            let name = format!("l{number}");
            let store = Store::new(level.shape, level.policy, level.keeps, layout.seed, place, name);
            Store { around: level.around, ..store }
        };
        let mut private = Vec::new();
        for cpu in 0..processors {
            let mut own: Vec<Store> = (0..halves).map(|which| inner(cpu * halves + which, which)).collect();
            if layout.private.is_empty() {
                private.extend(own.into_iter().map(|store| vec![store]));
                continue;
            }
            own.extend(layout.private.iter().enumerate().map(|(i, level)| outer(level, i + 2, cpu)));
            private.push(own);
        }
        let beyond = layout.private.len() + 2;
        let of_group = |group: usize| {
            let levels = layout.shared.iter().enumerate();
            levels.map(|(i, level)| outer(level, beyond + i, group)).collect()
        };
        let shared = (0..layout.groups).map(of_group).collect();
        let first = if layout.private.is_empty() { 1 } else { halves };
        Self { private, first, shared, memory: [0; 2], between: BTreeMap::new(), layout }
    }

    fn alone(&self) -> bool {
        self.layout.private.is_empty()
    }

    /// The coherent cache of a processor's references, and the half of its first level.
    pub(crate) fn place_of(&self, cpu: usize, fetch: bool) -> (usize, usize) {
        let which = usize::from(self.layout.split && !fetch);
        (self.domain(cpu, which), which)
    }

    fn domain(&self, cpu: usize, which: usize) -> usize {
        if self.alone() {
            cpu * (1 + usize::from(self.layout.split)) + which
        } else {
            cpu
        }
    }
}

impl Oracle {
    /// The same machine with these levels around and beside the first.
    #[must_use]
    pub fn with_levels(mut self, layout: Layout) -> Self {
        let processors = self.caches.len();
        let shape = self.shape;
        let sizes: Vec<u64> = layout.private.iter().map(|level| level.shape.size).collect();
        let halves = 1 + u64::from(layout.split);
        let bytes = match sizes.last() {
            None => shape.size,
            Some(last) if layout.private.iter().all(|level| level.keeps == Keeps::All) => *last,
            Some(_) => shape.size * halves + sizes.iter().sum::<u64>(),
        };
        self.shadow_blocks = bytes / shape.line;
        let levels = Levels::new(processors, shape, layout);
        self.caches = vec![vec![Vec::new()]; levels.private.len()];
        self.shadow = vec![Vec::new(); levels.private.len()];
        self.levels = Some(levels);
        self
    }

    /// A reference misses the coherent cache, which is its processor's only one or one of two.
    pub(crate) fn misses_alone(&mut self, a: &Touch) {
        if let Some(levels) = self.levels.as_mut().filter(|levels| levels.alone()) {
            levels.private[a.cpu][0].note_unfilled(a.block);
        }
    }

    fn levels(&mut self) -> &mut Levels {
        self.levels.as_mut().expect("levels")
    }

    /// One block's share of a reference on a machine with levels.
    pub(crate) fn through_levels(&mut self, a: &Touch, fetch: bool) {
        let levels = self.levels();
        let which = usize::from(levels.layout.split && !fetch);
        let domain = levels.domain(a.cpu, which);
        let a = Touch { cpu: domain, ..a.clone() };
        if levels.alone() {
            let valid = levels.private[domain][0].has(a.block);
            levels.private[domain][0].event(if valid { "hits" } else { "misses" });
            while !self.access(&a) {}
            return;
        }
        let order: Vec<usize> =
            std::iter::once(which).chain(levels.first..levels.private[domain].len()).collect();
        let mut found = None;
        for index in order {
            if levels.private[domain][index].ask(a.block) {
                found = Some(index);
                break;
            }
        }
        let first = levels.first;
        let beside = (0..first).find(|&i| i != which && levels.private[domain][i].has(a.block));
        let found = found.or(beside);
        while !self.access(&a) {}
        // Where the access works: a store that goes past the first level works on the copy found there or
        // next to it, which lies in the innermost of the other levels once the data have come.
        let mut target = which;
        if a.write && self.levels().layout.around && found != Some(which) {
            target = if found == beside { found.unwrap_or(first) } else { first };
        }
        if found != Some(target) {
            self.move_in(&a, target, found);
        }
        let state = self.state(domain, a.block);
        if a.write && self.protocol.writes_back(state) {
            self.levels().private[domain][target].slot(a.block).expect("moved in").dirty = true;
        }
    }

    fn move_in(&mut self, a: &Touch, which: usize, found: Option<usize>) {
        let levels = self.levels();
        let first = levels.first;
        let count = levels.private[a.cpu].len();
        let mut dirty = false;
        if let Some(index) = found.filter(|&index| index >= first) {
            if levels.private[a.cpu][index].keeps == Keeps::Nothing {
                dirty = levels.private[a.cpu][index].remove(a.block).is_some_and(|slot| slot.dirty);
            }
        }
        let end = found.unwrap_or(count).max(first);
        for index in (first..end).rev().filter(|&index| index > which) {
            if self.levels().private[a.cpu][index].keeps != Keeps::Nothing {
                self.put_private(a, index, a.block, false);
            }
        }
        self.put_private(a, which, a.block, dirty);
    }

    /// A block that was prefetched goes into the levels of its processor.
    pub(crate) fn prefetched_in(&mut self, a: &Touch, which: usize, outside_first: bool) {
        if self.levels().alone() {
            return;
        }
        if !outside_first {
            return self.move_in(a, which, None);
        }
        let (first, count) = (self.levels().first, self.levels().private[a.cpu].len());
        for index in (first..count).rev() {
            if index == first || self.levels().private[a.cpu][index].keeps != Keeps::Nothing {
                self.put_private(a, index, a.block, false);
            }
        }
    }

    fn put_private(&mut self, a: &Touch, index: usize, block: u64, dirty: bool) {
        let Some(old) = self.levels().private[a.cpu][index].put(block, dirty) else { return };
        if !old.valid {
            if !self.levels().private[a.cpu].iter().any(|store| store.tagged(old.block)) {
                self.caches[a.cpu][0].retain(|e| e.block != old.block);
            }
            return;
        }
        let (block, mut dirty) = (old.block, old.dirty);
        let levels = self.levels();
        let first = levels.first;
        let stores = &mut levels.private[a.cpu];
        if index >= first && stores[index].keeps == Keeps::All {
            for inner in &mut stores[..index] {
                if let Some(slot) = inner.remove(block) {
                    inner.event("back_invalidations");
                    dirty |= slot.dirty;
                }
            }
        }
        let next = if index < first { first } else { index + 1 };
        let inside = (0..next).find(|&i| i != index && stores[i].has(block));
        let keeps = stores.get(next).map(|store| store.keeps);
        let stays = inside.filter(|_| keeps.is_none() || keeps == Some(Keeps::Nothing));
        if let Some(inside) = stays {
            stores[inside].slot(block).expect("has").dirty |= dirty;
        } else if keeps == Some(Keeps::Nothing) {
            if dirty {
                stores[index].event("write_backs");
            }
            self.put_private(a, next, block, dirty);
        } else if keeps.is_some() && dirty {
            stores[index].event("write_backs");
            if stores[next].has(block) {
                stores[next].slot(block).expect("has").dirty = true;
            } else {
                self.put_private(a, next, block, true);
            }
        }
        if !self.levels().private[a.cpu].iter().any(|store| store.has(block)) {
            let written = self.leave(a, a.cpu, block);
            if written {
                self.levels().private[a.cpu][index].event("write_backs");
            }
            self.handed_out(a, block, written);
        }
    }

    /// The last copy of `block` at coherent cache `cpu` goes, tags and all; whether it is written back.
    fn leave(&mut self, a: &Touch, cpu: usize, block: u64) -> bool {
        for store in &mut self.levels().private[cpu] {
            store.remove(block);
        }
        let state = self.state(cpu, block);
        self.caches[cpu][0].retain(|e| e.block != block);
        let written = self.protocol.writes_back(state);
        if written {
            self.count("bus.write_back", a.mode);
        }
        self.lose(cpu, block, Lost::Fill(a.task));
        written
    }

    /// A coherent first level takes the block that was fetched; what that drove out, if valid.
    pub(crate) fn take_in(&mut self, a: &Touch) -> Option<(u64, bool)> {
        if !self.levels().alone() {
            return None;
        }
        let old = self.levels().private[a.cpu][0].put(a.block, false)?;
        if !old.valid {
            self.caches[a.cpu][0].retain(|e| e.block != old.block);
            return None;
        }
        let written = self.leave(a, a.cpu, old.block);
        if written {
            self.levels().private[a.cpu][0].event("write_backs");
        }
        Some((old.block, written))
    }

    /// A coherent first level uses a block that it has.
    pub(crate) fn use_in(&mut self, a: &Touch) {
        if self.levels().alone() {
            let store = &mut self.levels().private[a.cpu][0];
            let place = store.place_of(a.block).expect("has");
            store.note_use(place, false);
        }
    }

    /// Coherent cache `cpu` lost its copy to a transaction, or it became clean.
    pub(crate) fn snooped_in(&mut self, cpu: usize, block: u64, lost: bool) {
        for store in &mut self.levels().private[cpu] {
            if let Some(slot) = store.slot(block) {
                slot.valid &= !lost;
                slot.dirty = false;
            }
        }
    }

    pub(crate) fn has_shared(&mut self) -> bool {
        !self.levels().layout.shared.is_empty()
    }

    fn group(&mut self, cache: usize) -> usize {
        let levels = self.levels();
        cache * levels.layout.groups / levels.private.len()
    }

    /// Whether the caches of a group have the block.
    fn held(&mut self, group: usize, block: u64) -> bool {
        (0..self.caches.len()).any(|cpu| self.group(cpu) == group && self.state(cpu, block) != "I")
    }

    fn held_inside(&mut self, group: usize, index: usize, block: u64) -> bool {
        self.levels().shared[group][..index].iter().any(|store| store.has(block)) || self.held(group, block)
    }

    /// Groups other than that of `cache` whose level has the block.
    fn groups_with(&mut self, cache: usize, block: u64) -> Vec<usize> {
        let own = self.group(cache);
        let levels = self.levels();
        let with =
            |group: &usize| *group != own && levels.shared[*group].iter().any(|store| store.has(block));
        (0..levels.layout.groups).filter(with).collect()
    }

    /// Whether `giver` may send the block to `asker`: one of the same group always; another only if the asker's group
    /// has no copy in its level.
    pub(crate) fn may_give(&mut self, asker: usize, giver: usize, block: u64) -> bool {
        let group = self.group(asker);
        self.group(giver) == group || !self.levels().shared[group].iter().any(|store| store.has(block))
    }

    /// Whether a group other than that of `cache` has the block in its level, so that nobody has it alone.
    pub(crate) fn in_another_group(&mut self, cache: usize, block: u64) -> bool {
        !self.groups_with(cache, block).is_empty()
    }

    pub(crate) fn same_group(&mut self, a: usize, b: usize) -> bool {
        self.group(a) == self.group(b)
    }

    fn between(&mut self, what: &'static str) {
        *self.levels().between.entry(what).or_default() += 1;
    }

    /// A fetch that no cache of the own group supplied: looked up first, then what made room inside goes out, then the
    /// levels are filled. `far`: a cache of another group supplied it.
    pub(crate) fn fetched(&mut self, a: &Touch, gone: Option<(u64, bool)>, far: bool, takes_all: bool) {
        let own = self.group(a.cpu);
        let count = self.levels().shared[own].len();
        let found = (0..count).find(|&index| self.levels().shared[own][index].ask(a.block));
        if far {
            self.between("from_caches");
        } else if found.is_none() {
            let others = self.groups_with(a.cpu, a.block);
            let levels = self.levels();
            let dirty = |group: &usize| {
                levels.shared[*group]
                    .iter_mut()
                    .any(|store| store.slot(a.block).is_some_and(|slot| slot.dirty))
            };
            if others.iter().any(dirty) || levels.layout.clean_supplies && !others.is_empty() {
                self.between("from_levels");
            } else {
                levels.memory[0] += 1;
            }
        }
        if let Some(index) = found.filter(|&i| self.levels().shared[own][i].keeps == Keeps::Nothing) {
            if self.levels().shared[own][index].remove(a.block).is_some_and(|slot| slot.dirty) {
                self.written(a, own, index + 1, a.block);
            }
        }
        if takes_all {
            self.taken(a);
        }
        if let Some((block, written)) = gone {
            self.handed_out(a, block, written);
        }
        for index in (0..found.unwrap_or(count)).rev() {
            if self.levels().shared[own][index].keeps != Keeps::Nothing {
                self.put_shared(a, own, index, a.block, false);
            }
        }
    }

    /// A write takes the block out of the levels of all other groups.
    pub(crate) fn taken(&mut self, a: &Touch) {
        for group in self.groups_with(a.cpu, a.block) {
            self.levels().shared[group].iter_mut().for_each(|store| {
                store.remove(a.block);
            });
            self.between("taken");
        }
    }

    /// Data reach shared level `index` of a group from inside.
    fn written(&mut self, a: &Touch, group: usize, index: usize, block: u64) {
        let Some(store) = self.levels().shared[group].get_mut(index) else {
            self.levels().memory[1] += 1;
            return;
        };
        let (keeps, around) = (store.keeps, store.around);
        if store.has(block) {
            store.slot(block).expect("has").dirty = true;
        } else if around || keeps == Keeps::Nothing && self.held_inside(group, index, block) {
            self.written(a, group, index + 1, block);
        } else {
            self.put_shared(a, group, index, block, true);
        }
    }

    /// The data of a block that cache `giver` alone had go outward.
    pub(crate) fn flushed(&mut self, a: &Touch, giver: usize) {
        let group = self.group(giver);
        self.written(a, group, 0, a.block);
    }

    /// A private cache gave a block up.
    pub(crate) fn handed_out(&mut self, a: &Touch, block: u64, written: bool) {
        if self.levels().layout.shared.is_empty() {
            return;
        }
        let own = self.group(a.cpu);
        if written {
            self.written(a, own, 0, block);
        } else if self.levels().shared[own][0].keeps == Keeps::Nothing && !self.held(own, block) {
            self.put_shared(a, own, 0, block, false);
        }
    }

    fn put_shared(&mut self, a: &Touch, group: usize, index: usize, block: u64, dirty: bool) {
        let Some(old) = self.levels().shared[group][index].put(block, dirty) else { return };
        let (block, mut dirty) = (old.block, old.dirty);
        if self.levels().shared[group][index].keeps == Keeps::All {
            for inner in &mut self.levels().shared[group][..index] {
                if let Some(slot) = inner.remove(block) {
                    inner.event("back_invalidations");
                    dirty |= slot.dirty;
                }
            }
            for cpu in 0..self.caches.len() {
                if self.group(cpu) == group && self.state(cpu, block) != "I" {
                    for store in &mut self.levels().private[cpu] {
                        if store.has(block) {
                            store.event("back_invalidations");
                        }
                    }
                    dirty |= self.leave(a, cpu, block);
                }
            }
        }
        if dirty {
            self.levels().shared[group][index].event("write_backs");
            self.written(a, group, index + 1, block);
            return;
        }
        let next = self.levels().shared[group].get(index + 1).map(|store| store.keeps);
        if next == Some(Keeps::Nothing) && !self.held_inside(group, index + 1, block) {
            self.put_shared(a, group, index + 1, block, false);
        }
    }

    /// Writes what the levels counted into the counts, as `level.NAME.EVENT`.
    pub(crate) fn count_levels(&mut self) {
        let Some(levels) = self.levels.take() else { return };
        for store in levels.private.iter().flatten().chain(levels.shared.iter().flatten()) {
            for (event, count) in &store.events {
                let name = format!("level.{}.{event}", store.name);
                self.counts.entry(name).or_default()[0] += count;
            }
        }
        for (name, count) in ["memory.reads", "memory.writes"].into_iter().zip(levels.memory) {
            if count > 0 && !levels.layout.shared.is_empty() {
                self.counts.insert(name.into(), [count, 0]);
            }
        }
        for (what, count) in levels.between {
            if levels.layout.groups > 1 {
                self.counts.insert(format!("groups.{what}"), [count, 0]);
            }
        }
    }
}
