//! Up to three levels of caches around the coherent system: who is looked up, who is updated.
//!
//! What lies inside the point of coherence is here, what lies outside it (shared levels) in
//! `shared.rs`. The rules, with reasons, are in
//! docs/parts/hierarchy.md; every rule stands once in the code and once, in another form, in the
//! oracle. Over 400 lines: a line's way through the levels is to be read in one place.
//!
//! **Point of coherence.** Coherence is kept once per processor, between its outermost private cache
//! and the bus. Without private levels outside the first, that is the first level itself (two
//! coherent caches per processor when it is split). Otherwise a processor has one state per line,
//! valid as long as any of its levels holds the line; the levels decide where it lies.

mod groups;
mod hits;
mod left;
mod moves;
mod state;
mod timed;

pub use groups::{GroupCounters, GroupSpec};

use crate::array::{Array, Geometry};
use crate::counters::Counters;
use crate::interconnect::Supplier;
use crate::level::{Displaced, Level, LevelCounters};
use crate::observer::Observer;
use crate::prefetch::PrefetchSpec;
use crate::protocol::{BusOp, Table};
use crate::replacement::{by_name, Replacement};
use crate::shared::{Inside, Shared};
use crate::system::{Access, CoherentSystem, Outcome, Page, Snooped};
use crate::tlb::TlbSpec;
use crate::words::WordMask;
use groups::Groups;
use servsim_core::{CacheId, CpuId, LineAddr, RandomStream};

/// What a level keeps of the lines that levels further in hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// All of them; a line that it gives up goes from the levels further in too.
    Inclusive,
    /// None of them: it takes what they give up, and a hit moves the line in.
    Exclusive,
    /// It is filled on the way in and gives lines up on its own.
    Neither,
}

impl Inclusion {
    /// By the name that descriptions use.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "inclusive" => Some(Self::Inclusive),
            "exclusive" => Some(Self::Exclusive),
            "neither" => Some(Self::Neither),
            _ => None,
        }
    }
}

/// One level outside the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSpec {
    /// Size, ways and line of each of its caches.
    pub geometry: Geometry,
    /// Replacement policy, by name.
    pub replacement: String,
    /// What it keeps of the levels further in.
    pub inclusion: Inclusion,
    /// Shared levels: a line written from inside that is not there goes on outward instead of being placed.
    pub write_around: bool,
}

/// The shape of a hierarchy. The first level's geometry comes from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HierarchySpec {
    /// Whether the first level is an instruction and a data cache.
    pub split: bool,
    /// Replacement policy of the first level, by name.
    pub replacement: String,
    /// Stores that miss the first level are performed on the copy further out. Only with a private level
    /// outside it that is not exclusive.
    pub write_around: bool,
    /// Private levels outside the first, from the inside out.
    pub private: Vec<LevelSpec>,
    /// Shared levels, from the inside out; with core groups the one that each group has.
    pub shared: Vec<LevelSpec>,
    /// Core groups.
    pub groups: GroupSpec,
    /// Seed of random policies.
    pub seed: u64,
    /// What processors prefetch, if anything.
    pub prefetch: Option<PrefetchSpec>,
    /// Translation look-aside buffers, if there are any.
    pub tlb: Option<TlbSpec>,
}

impl Default for HierarchySpec {
    /// One private level, unified, LRU.
    fn default() -> Self {
        let replacement = "lru".to_owned();
        Self {
            split: false,
            replacement,
            write_around: false,
            private: Vec::new(),
            shared: Vec::new(),
            groups: GroupSpec::default(),
            seed: 0,
            prefetch: None,
            tlb: None,
        }
    }
}

impl HierarchySpec {
    /// The policy of one cache: `level` from 1, `index` within the level.
    ///
    /// # Panics
    /// For a policy that is not registered: descriptions are checked before.
    pub(crate) fn policy(&self, name: &str, geometry: Geometry, level: usize, index: usize) -> Replacement {
        let rng = RandomStream::new(self.seed, &format!("replacement {level} {index}"));
        let policy = by_name(name, geometry.sets(), geometry.ways as usize, rng);
        policy.unwrap_or_else(|| panic!("replacement policy `{name}` is not registered"))
    }

    /// Coherent caches of one processor.
    pub fn coherent_caches(&self) -> usize {
        if self.private.is_empty() && self.split {
            2
        } else {
            1
        }
    }
}

/// The levels of one processor inside its point of coherence.
#[derive(Debug)]
struct Domain {
    /// The first level (one or two caches), then the others from the inside out.
    levels: Vec<Level>,
}

/// A hierarchy.
#[derive(Debug)]
pub struct Hierarchy<W, O = ()> {
    /// Where coherence is kept.
    pub system: CoherentSystem<W, O>,
    domains: Vec<Domain>,
    /// Inclusion of the levels of a domain; those of the first level do not matter.
    inclusion: Vec<Inclusion>,
    /// Caches of the first level per processor.
    first: usize,
    /// Of all processors, or of each core group.
    shared: Vec<Shared>,
    groups: Groups,
    /// Stores that miss the first level leave it as it is.
    write_around: bool,
    /// Level that takes prefetched lines.
    prefetch_level: usize,
    /// Whether there are no levels but the first, so that a transaction concerns coherent caches only.
    flat: bool,
    /// Look-ups of first-level caches that are coherent themselves.
    lookups: Vec<u64>,
    /// By coherent cache: a store that missed is counted, and completes later.
    counted_ahead: Vec<bool>,
    back_invalidations: Vec<Taken>,
}

/// Copies that an inclusive level took from a coherent cache.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    copies: u64,
    dirty: u64,
}

impl<W: WordMask> Hierarchy<W> {
    /// Empty caches; `first` is the shape of each first-level cache, `shadow` as in
    /// [`CoherentSystem::new`].
    ///
    /// # Panics
    /// When the machine has more coherent caches than the index of copies holds, or for a policy that is
    /// not registered: descriptions are checked before.
    pub fn new(processors: usize, first: Geometry, table: Table, shadow: bool, spec: &HierarchySpec) -> Self {
        Self::watched(processors, first, table, shadow, spec, ())
    }
}

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// The same with someone who watches the point of coherence.
    ///
    /// # Panics
    /// As [`Hierarchy::new`].
    pub fn watched(
        processors: usize,
        first: Geometry,
        table: Table,
        shadow: bool,
        spec: &HierarchySpec,
        observer: O,
    ) -> Self {
        let per_processor = spec.coherent_caches();
        let caches = processors * per_processor;
        assert!(caches <= crate::MAX_CACHES, "{caches} coherent caches");
        let pooled = !spec.private.is_empty();
        let array = |index| {
            if pooled {
                Array::pool()
            } else {
                Array::new(first).with_replacement(spec.policy(&spec.replacement, first, 1, index))
            }
        };
        let arrays = (0..caches).map(array).collect();
        let domains = if pooled { processors } else { 0 };
        let mut inclusion = vec![Inclusion::Neither; 1 + usize::from(spec.split)];
        inclusion.extend(spec.private.iter().map(|level| level.inclusion));
        let mut system =
            CoherentSystem::of_arrays(arrays, spec.shadow_geometry(first), table, shadow, observer);
        let groups = Groups::new(processors, spec);
        system.per_processor = per_processor;
        system.around = groups.around();
        let flat = !pooled && spec.shared.is_empty() && groups.count == 1;
        Self {
            system,
            domains: CpuId::all(domains).map(|cpu| Domain::new(cpu, first, spec)).collect(),
            inclusion,
            first: 1 + usize::from(spec.split),
            shared: (0..groups.count).map(|group| Shared::new(spec, group)).collect(),
            groups,
            write_around: spec.write_around,
            prefetch_level: spec.prefetch.as_ref().map_or(1, |prefetch| prefetch.level),
            flat,
            lookups: vec![0; caches],
            counted_ahead: vec![false; caches],
            back_invalidations: vec![Taken::default(); caches],
        }
    }
}

impl HierarchySpec {
    /// The shadow is as large as the lines that the private levels hold together: the outermost,
    /// when it includes the others, otherwise all of them.
    fn shadow_geometry(&self, first: Geometry) -> Geometry {
        let Some(last) = self.private.last() else { return first };
        let inner = first.size * (1 + u64::from(self.split));
        let sizes = self.private.iter().map(|level| level.geometry.size);
        let inclusive = self.private.iter().all(|level| level.inclusion == Inclusion::Inclusive);
        let size = if inclusive { last.geometry.size } else { inner + sizes.sum::<u64>() };
        Geometry { size, ..first }
    }
}

impl Domain {
    fn new(cpu: CpuId, first: Geometry, spec: &HierarchySpec) -> Self {
        let per_processor = 1 + usize::from(spec.split);
        let mut levels: Vec<Level> = (0..per_processor)
            .map(|which| {
                let index = cpu.0 * per_processor + which;
                Level::first(first, spec.policy(&spec.replacement, first, 1, index))
            })
            .collect();
        for (number, level) in spec.private.iter().enumerate() {
            let policy = spec.policy(&level.replacement, level.geometry, number + 2, cpu.0);
            levels.push(Level::new(level.geometry, policy));
        }
        Self { levels }
    }

    fn holds(&self, line: LineAddr) -> bool {
        self.levels.iter().any(|level| level.holds(line))
    }
}

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// Counters of each processor: those of its coherent caches together.
    pub fn processor_counters(&self) -> Vec<Counters> {
        let together = |caches: &[Counters]| {
            let mut sum = Counters::default();
            caches.iter().for_each(|counters| sum.add(counters));
            sum
        };
        self.system.counters.chunks(self.system.per_processor).map(together).collect()
    }

    /// Performs one line's share of a reference; `page` is asked only when the bus is needed, once for each transaction, and
    /// told whether the cache has the tag of the line: otherwise nothing is asked of sharing.
    #[inline]
    pub fn access(&mut self, access: &Access<W>, page: impl FnMut(bool) -> Page) {
        let inner = self.at_coherence(access);
        let found = self.system.hit_or_find(&inner);
        self.complete(access, &inner, found, page);
    }

    /// The same for a share of the reference that a run of hits has just ended at, which need not be searched for again.
    #[inline]
    pub fn access_behind_hits(&mut self, access: &Access<W>, page: impl FnMut(bool) -> Page) {
        let inner = self.at_coherence(access);
        let missing = self.system.missing.take() == Some((inner.at, inner.line));
        debug_assert!(
            !missing || self.system.arrays[inner.at].find(inner.line).is_none(),
            "it came meanwhile"
        );
        let found = if missing { Err(None) } else { self.system.hit_or_find(&inner) };
        self.complete(access, &inner, found, page);
    }

    /// Completes an access with what [`CoherentSystem::hit_or_find`] said of it.
    #[inline]
    fn complete(
        &mut self,
        access: &Access<W>,
        inner: &Access<W, CacheId>,
        found: Result<(), Option<usize>>,
        mut page: impl FnMut(bool) -> Page,
    ) {
        match found {
            Ok(()) => {
                self.completed(inner);
            }
            Err(found) => {
                let approached = self.approach(inner, found);
                let first = page(found.is_some());
                if !self.transact_missed(inner, approached, first) {
                    while !self.transact(access, page(true)).0.done {}
                }
            }
        }
    }

    /// The level that has the line: the own first level, then those further out, then the other half
    /// of a split first level.
    fn look_up(&mut self, cache: CacheId, which: usize, line: LineAddr) -> Option<usize> {
        let levels = &mut self.domains[cache].levels;
        let order = std::iter::once(which).chain(self.first..levels.len());
        for index in order {
            if levels[index].look_up(line) {
                return Some(index);
            }
        }
        (0..self.first).find(|&other| other != which && levels[other].holds(line))
    }

    /// Places a line that was found at `found` (outside the domain without it) at `into` and in the levels
    /// that it passes on the way there.
    fn bring_in(&mut self, access: &Access<W, CacheId>, into: usize, found: Option<usize>) {
        let (cache, line) = (access.at, access.line);
        let mut dirty = false;
        let next = self.first.max(into + 1);
        let passed = match found {
            Some(index) if index < self.first => next..next,
            Some(index) => {
                if self.inclusion[index] == Inclusion::Exclusive {
                    dirty = self.domains[cache].levels[index].erase(line) == Some(true);
                }
                next..index
            }
            None => next..self.inclusion.len(),
        };
        // From the outside in: what an inclusive level gives up leaves the others first.
        for index in passed.rev() {
            if self.inclusion[index] != Inclusion::Exclusive {
                self.insert(access, index, line, false);
            }
        }
        self.insert(access, into, line, dirty);
    }

    fn insert(&mut self, access: &Access<W, CacheId>, index: usize, line: LineAddr, dirty: bool) {
        let cache = access.at;
        match self.domains[cache].levels[index].insert(line, dirty) {
            Some(Displaced { line, valid: true, dirty }) => self.give_up(access, index, line, dirty),
            Some(Displaced { line, valid: false, .. }) => self.forget(access, line),
            None => {}
        }
    }

    /// Level `index` gave `line` up: where it goes.
    fn give_up(&mut self, access: &Access<W, CacheId>, index: usize, line: LineAddr, mut dirty: bool) {
        let cache = access.at;
        let own = index.max(self.first - 1);
        let levels = &mut self.domains[cache].levels;
        if index >= self.first && self.inclusion[index] == Inclusion::Inclusive {
            for level in &mut levels[..index] {
                if let Some(written) = level.erase(line) {
                    level.counters.back_invalidations += 1;
                    dirty |= written;
                }
            }
        }
        let next = own + 1;
        let outward = match self.inclusion.get(next) {
            Some(Inclusion::Exclusive) if !levels[..=own].iter().any(|level| level.holds(line)) => true,
            // The outermost level, or one that keeps nothing that is still held inside: the copy
            // inside takes over the duty to write back.
            None | Some(Inclusion::Exclusive) => {
                if dirty {
                    if let Some(inside) = levels[..=own].iter_mut().find(|level| level.holds(line)) {
                        inside.write(line);
                    }
                }
                false
            }
            // It has what levels further in have.
            Some(Inclusion::Inclusive) if !dirty => return,
            Some(_) if dirty && levels[next].write(line) => {
                levels[index].counters.write_backs += 1;
                return;
            }
            Some(_) => dirty,
        };
        if outward {
            levels[index].counters.write_backs += u64::from(dirty);
            self.insert(access, next, line, dirty);
        } else if !self.domains[cache].holds(line) {
            self.release(access, index, line);
        }
    }

    /// No level of the processor holds `line` any more.
    fn release(&mut self, access: &Access<W, CacheId>, index: usize, line: LineAddr) {
        let cache = access.at;
        for level in &mut self.domains[cache].levels {
            level.erase(line);
        }
        if let Some(dirty) = self.system.release(access, cache, line) {
            self.domains[cache].levels[index].counters.write_backs += u64::from(dirty);
            if dirty && self.groups.count == 1 {
                self.system.note_written_back(cache, line);
            }
            let (shared, mut inside) = self.sides(access, self.groups.of(cache));
            if !shared.levels.is_empty() {
                shared.given_up(line, dirty, &mut inside);
            }
        }
    }

    /// A tag without a copy went: nothing is known of the line once no level has one.
    fn forget(&mut self, access: &Access<W, CacheId>, line: LineAddr) {
        let cache = access.at;
        if !self.domains[cache].levels.iter().any(|level| level.has_tag(line)) {
            self.system.release(access, cache, line);
        }
    }

    /// What a transaction means for the levels on both sides of the bus.
    /// Returns the shared level that supplied the block, if one did.
    fn after(&mut self, access: &Access<W, CacheId>, outcome: &mut Outcome) -> Option<Supplier> {
        let line = access.line;
        // One domain for each coherent cache, or none at all. A hit made no transaction, and changed no copies.
        if !self.domains.is_empty() && outcome.op.is_some() {
            for &(cache, how) in &self.system.snooped {
                for level in &mut self.domains[cache].levels {
                    match how {
                        Snooped::Lost => level.invalidate(line),
                        Snooped::Cleaned => level.clean(line),
                    }
                }
            }
        }
        if self.shared[0].levels.is_empty() {
            return None;
        }
        if self.groups.count > 1 {
            return self.after_between(access, outcome);
        }
        let (shared, mut inside) = self.sides(access, 0);
        if outcome.to_memory {
            shared.write(0, line, &mut inside);
        }
        let fetched = outcome.op.is_some_and(BusOp::is_fetch) && !outcome.from_cache;
        let found = fetched.then(|| shared.look_up(line, &mut inside));
        if let Some(line) = outcome.write_back {
            shared.given_up(line, true, &mut inside);
        }
        if let Some(line) = outcome.dropped_clean {
            shared.given_up(line, false, &mut inside);
        }
        if let Some(found) = found {
            shared.memory_reads += u64::from(found.is_none());
            shared.fill(line, found, &mut inside);
        }
        found.flatten().map(Supplier::Shared)
    }

    /// Whether an access may take lines from other processors that it does not ask for: an inclusive level that several
    /// share takes those that it gives up.
    pub fn takes_other_lines(&self) -> bool {
        self.shared.iter().any(Shared::is_inclusive)
    }

    /// The shared levels of a group, and its private caches as these see them.
    fn sides<'a>(
        &'a mut self,
        access: &'a Access<W, CacheId>,
        group: usize,
    ) -> (&'a mut Shared, Private<'a, W, O>) {
        let Self { system, domains, back_invalidations, shared, groups, .. } = self;
        (&mut shared[group], Private { access, system, domains, back_invalidations, groups, group })
    }

    /// What the levels counted, from the inside out, with their names: `l1` (or `l1i` and `l1d`),
    /// `l2`, `l3`. Call it after [`CoherentSystem::finish`].
    pub fn counters(&self) -> Vec<(String, LevelCounters)> {
        let halves = if self.first == 2 { ["l1i", "l1d"].as_slice() } else { &["l1"] };
        let mut all: Vec<(String, LevelCounters)> =
            halves.iter().map(|name| ((*name).to_owned(), LevelCounters::default())).collect();
        for (cache, &lookups) in self.lookups.iter().enumerate().filter(|_| self.domains.is_empty()) {
            let counters = &self.system.counters[cache];
            let misses = counters.total_misses();
            all[cache % self.first].1.add(&LevelCounters {
                hits: lookups - misses,
                misses,
                evictions: self.system.evictions[cache],
                write_backs: counters.bus_total(BusOp::WriteBack) - self.back_invalidations[cache].dirty,
                back_invalidations: self.back_invalidations[cache].copies,
                unfilled: self.system.unfilled[cache],
            });
        }
        for domain in &self.domains {
            for (index, level) in domain.levels.iter().enumerate() {
                if index == all.len() {
                    all.push((format!("l{}", index + 2 - self.first), LevelCounters::default()));
                }
                all[index].1.add(&level.counters);
            }
        }
        for (index, level) in self.shared[0].levels.iter().enumerate() {
            let number = all.len() + 2 - self.first;
            let mut counters = level.counters;
            self.shared[1..].iter().for_each(|group| counters.add(&group.levels[index].counters));
            all.push((format!("l{number}"), counters));
        }
        all
    }

    /// Lines read from and written to memory.
    pub fn memory_traffic(&self) -> (u64, u64) {
        let sum = |of: fn(&Shared) -> u64| self.shared.iter().map(of).sum();
        (sum(|shared| shared.memory_reads), sum(|shared| shared.memory_writes))
    }

    /// What the caches of `cpu` that are kept coherent counted.
    pub fn counted_at(&self, CpuId(cpu): CpuId) -> &[Counters] {
        let each = if self.domains.is_empty() { self.first } else { 1 };
        &self.system.counters[cpu * each..(cpu + 1) * each]
    }

    /// Host memory in use, in bytes.
    pub fn host_bytes(&self) -> usize {
        let private = self.domains.iter().flat_map(|domain| &domain.levels);
        let shared = self.shared.iter().flat_map(|shared| &shared.levels);
        let levels: usize = private.chain(shared).map(Level::host_bytes).sum();
        self.system.host_bytes() + levels
    }
}

/// The private caches of a core group, or of the machine, while `access` is performed.
struct Private<'a, W, O> {
    access: &'a Access<W, CacheId>,
    system: &'a mut CoherentSystem<W, O>,
    domains: &'a mut [Domain],
    back_invalidations: &'a mut [Taken],
    groups: &'a mut Groups,
    group: usize,
}

impl<W: WordMask, O: Observer> Private<'_, W, O> {
    fn first_holder(&self, line: LineAddr) -> Option<CacheId> {
        self.system.first_holder(line, |cache| self.groups.of(cache) == self.group)
    }
}

impl<W: WordMask, O: Observer> Inside for Private<'_, W, O> {
    fn hold(&mut self, line: LineAddr) -> bool {
        self.first_holder(line).is_some()
    }

    fn take(&mut self, line: LineAddr) -> bool {
        let mut dirty = false;
        while let Some(cache) = self.first_holder(line) {
            if let Some(domain) = self.domains.get_mut(cache.0) {
                for level in &mut domain.levels {
                    level.counters.back_invalidations += u64::from(level.erase(line).is_some());
                }
            }
            let written = self.system.release(self.access, cache, line) == Some(true);
            let taken = &mut self.back_invalidations[cache];
            taken.copies += 1;
            taken.dirty += u64::from(written);
            dirty |= written;
            if written && self.groups.count == 1 {
                self.system.note_written_back(cache, line);
            }
        }
        dirty
    }

    fn placed(&mut self, line: LineAddr, here: bool) {
        self.groups.placed(self.group, line, here);
    }

    fn to_memory(&mut self, line: LineAddr) {
        // What the private caches give up goes to the level of their group; what that gives up takes the interconnect.
        if self.groups.count > 1 {
            self.system.note_written_back(self.access.at, line);
        }
    }
}
