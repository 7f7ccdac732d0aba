//! Core groups: the processors of a group share the outermost level, and other groups have one of their own
//! (docs/adr/0335). A line may lie in the levels of several groups; what a transaction of one group means for those of
//! the others is here. States are kept by processor as on every machine, and the protocol sees two things more
//! ([`Around`]): whether the own group's level has the line, and whether another one's has.
//!
//! **Rules.** A copy that may be written without a transaction is in no level of another group; neither is one whose
//! dirty copy a processor has alone. At most one level holds a line that memory lacks. A level of the group whose
//! processor has the line dirty may hold an older copy, as any shared level.

use super::{Hierarchy, HierarchySpec, Supplier};
use crate::observer::Observer;
use crate::protocol::BusOp;
use crate::sparse::{Entry, Table};
use crate::system::{Access, Around, Outcome};
use crate::words::WordMask;
use servsim_core::{CacheId, CpuId, LineAddr};

servsim_core::counters! {
    /// What core groups had to do with one another.
    pub struct GroupCounters {
        within: u64 = "groups.within" [], "transactions", Parts, [summary],
            "Transactions that concerned no cache outside the core group of their processor, and no memory";
        between: u64 = "groups.between" [], "transactions", Parts, [summary],
            "Transactions that concerned caches of other core groups, or memory";
        from_caches: u64 = "groups.from_caches" [], "lines", Parts, [summary],
            "Lines fetched from processors' caches in other core groups";
        from_levels: u64 = "groups.from_levels" [], "lines", Parts, [summary],
            "Lines fetched from the levels that other core groups share";
        taken: u64 = "groups.taken" [], "lines", Parts, [summary],
            "Copies that levels of core groups lost because a processor of another group wrote the line";
    }
}

/// Which groups' levels have a line: one bit each.
#[derive(Debug, Clone, Copy)]
struct Holding {
    line: LineAddr,
    groups: u64,
}

const NO_LINE: LineAddr = LineAddr(u64::MAX);

impl Entry for Holding {
    type Key = LineAddr;
    const FREE: Self = Self { line: NO_LINE, groups: 0 };
    fn new(key: LineAddr) -> Self {
        Self { line: key, groups: 0 }
    }
    fn is(&self, key: LineAddr) -> bool {
        self.line == key
    }
    fn is_free(&self) -> bool {
        self.line == NO_LINE
    }
    fn key(&self) -> LineAddr {
        self.line
    }
    fn number(key: LineAddr) -> u64 {
        key.0
    }
}

/// The core groups of a machine; one of all processors on machines without.
#[derive(Debug)]
pub(super) struct Groups {
    /// How many.
    pub count: usize,
    /// Coherent caches of one.
    caches: usize,
    /// Processors of one.
    processors: usize,
    clean_supplies: bool,
    holding: Table<Holding>,
    pub counts: GroupCounters,
}

/// Groups of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSpec {
    /// How many; each has as many processors, and levels of its own in place of the shared ones. At most 64.
    pub count: usize,
    /// A level supplies other groups with clean copies too, not with those alone that memory lacks.
    pub clean_supplies: bool,
}

impl Default for GroupSpec {
    fn default() -> Self {
        Self { count: 1, clean_supplies: false }
    }
}

impl Groups {
    pub fn new(processors: usize, spec: &HierarchySpec) -> Self {
        let GroupSpec { count, clean_supplies } = spec.groups;
        assert!(processors.is_multiple_of(count) && count <= 64, "{count} groups of {processors} processors");
        assert!(count == 1 || spec.shared.len() == 1, "one level is the groups'");
        let processors = processors / count;
        let caches = processors * spec.coherent_caches();
        let (holding, counts) = (Table::default(), GroupCounters::default());
        Self { count, caches, processors, clean_supplies, holding, counts }
    }

    /// What the coherent system is told of them as long as nothing is known of a line.
    pub fn around(&self) -> Around {
        if self.count == 1 {
            Around::NOTHING
        } else {
            Around { per_group: self.caches, ..Around::NOTHING }
        }
    }

    pub fn of(&self, cache: CacheId) -> usize {
        if self.count == 1 {
            0
        } else {
            cache.0 / self.caches
        }
    }

    /// The first processor of a group.
    pub fn first_of(&self, group: usize) -> CpuId {
        CpuId(group * self.processors)
    }

    /// Groups other than `group` whose levels have `line`, one bit each.
    fn others(&self, line: LineAddr, group: usize) -> u64 {
        self.holding.get(line).map_or(0, |entry| entry.groups) & !(1 << group)
    }

    /// The level of `group` has a copy of `line` from now on, or none any more.
    pub fn placed(&mut self, group: usize, line: LineAddr, here: bool) {
        if self.count > 1 {
            let groups = &mut self.holding.at(line).groups;
            *groups = *groups & !(1 << group) | u64::from(here) << group;
        }
    }
}

/// The numbers of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        first
    })
}

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// What core groups had to do with one another; none on machines without.
    pub fn group_counts(&self) -> Option<GroupCounters> {
        (self.groups.count > 1).then_some(self.groups.counts)
    }

    /// Whether the transaction that `access` needs concerns nothing outside its core group.
    pub fn stays_within(&self, access: &Access<W>) -> bool {
        let inner = self.at_coherence(access);
        self.groups.count > 1 && self.system.needed(&inner).is_some_and(|op| self.within(&inner, op))
    }

    /// The same, with `op` known.
    fn within(&self, access: &Access<W, CacheId>, op: BusOp) -> bool {
        let group = self.groups.of(access.at);
        let has_data = || {
            self.shared[group].levels.iter().any(|level| level.holds(access.line))
                || self.system.is_supplied(access, op, |cache| self.groups.of(cache) == group)
        };
        let elsewhere = || {
            self.groups.others(access.line, group) != 0
                || self.system.first_holder(access.line, |cache| self.groups.of(cache) != group).is_some()
        };
        (!op.is_fetch() || has_data()) && (op == BusOp::Read || !elsewhere())
    }

    /// Tells the coherent system where levels have the line of `access`, which needs a transaction; whether that stays
    /// within the group.
    pub(super) fn look_around(&mut self, access: &Access<W, CacheId>) -> bool {
        if self.groups.count == 1 {
            return false;
        }
        let group = self.groups.of(access.at);
        let near = self.shared[group].levels.iter().any(|level| level.holds(access.line));
        let elsewhere = self.groups.others(access.line, group) != 0;
        self.system.around = Around { near, elsewhere, ..self.system.around };
        self.system.needed(access).is_some_and(|op| self.within(access, op))
    }

    /// What a transaction means for the levels of all groups; the level that supplied the block, if one did.
    pub(super) fn after_between(
        &mut self,
        access: &Access<W, CacheId>,
        outcome: &mut Outcome,
    ) -> Option<Supplier> {
        let op = outcome.op?;
        let (line, group) = (access.line, self.groups.of(access.at));
        let giver = outcome.supplied_by.map(|cache| self.groups.of(cache));
        if outcome.to_memory {
            let (shared, mut inside) = self.sides(access, giver.unwrap_or(group));
            shared.write(0, line, &mut inside);
        }
        let passes = op.is_fetch() && giver != Some(group);
        let mut found = None;
        let mut supplier = None;
        if passes {
            let (shared, mut inside) = self.sides(access, group);
            found = shared.look_up(line, &mut inside);
            supplier = match (found, giver) {
                (Some(level), _) => Some(Supplier::Shared(level)),
                (None, Some(_)) => None,
                (None, None) => self.supplying(line, group),
            };
            self.groups.counts.from_caches += u64::from(giver.is_some());
            self.groups.counts.from_levels += u64::from(matches!(supplier, Some(Supplier::Group(_))));
            self.shared[group].memory_reads += u64::from(supplier.is_none() && giver.is_none());
        }
        if op != BusOp::Read {
            for other in bits(self.groups.others(line, group)) {
                for level in &mut self.shared[other].levels {
                    level.erase(line);
                }
                self.groups.placed(other, line, false);
                self.groups.counts.taken += 1;
            }
        }
        let counts = &mut self.groups.counts;
        *(if outcome.within_group { &mut counts.within } else { &mut counts.between }) += 1;
        let (shared, mut inside) = self.sides(access, group);
        // Into the group's own level, so that the interconnect has nothing to do with it.
        if let Some(line) = outcome.write_back.take() {
            shared.given_up(line, true, &mut inside);
        }
        if let Some(line) = outcome.dropped_clean {
            shared.given_up(line, false, &mut inside);
        }
        if passes {
            shared.fill(line, found, &mut inside);
        }
        supplier
    }

    /// The group other than `group` whose level supplies `line`, if one does: that whose copy memory lacks, or else the
    /// first.
    fn supplying(&self, line: LineAddr, group: usize) -> Option<Supplier> {
        let others = self.groups.others(line, group);
        let dirty = |&other: &usize| self.shared[other].levels.iter().any(|level| level.is_dirty(line));
        let clean = || bits(others).next().filter(|_| self.groups.clean_supplies);
        let other = bits(others).find(dirty).or_else(clean)?;
        Some(Supplier::Group(self.groups.first_of(other)))
    }

    /// Enters what the levels hold, after their state was restored.
    pub(super) fn note_levels(&mut self) {
        self.groups.holding = Table::default();
        for (group, shared) in self.shared.iter().enumerate() {
            for line in shared.levels.iter().flat_map(crate::level::Level::lines) {
                self.groups.placed(group, line, true);
            }
        }
    }
}
