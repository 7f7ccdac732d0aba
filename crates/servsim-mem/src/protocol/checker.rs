//! Exhaustive exploration of a protocol table for a few caches and one block.
//!
//! Values are reduced to fresh (equal to the last serialised write) and stale. Every reachable
//! state is held to: single writer or many readers; every valid copy fresh; memory fresh unless a
//! dirty copy exists; no copy dirty while memory is fresh; no impossible cell met; evicting every copy drains to an empty system with
//! fresh memory. Cells never met are reported as dead. With P arbitrary on every access, a
//! protocol that uses P is explored with both values.

use super::table::{BusOp, Lines, OnAccess, OnEvict, OnSnoop, Snoop, State, Table, INVALID};
use std::collections::{BTreeSet, HashSet, VecDeque};

/// What an exploration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exploration {
    /// Distinct reachable states.
    pub states: usize,
    /// Cells that no reachable state meets, as `STATE/COLUMN`.
    pub dead_cells: Vec<String>,
}

/// A reachable violation, with the accesses that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub what: String,
    /// The shortest sequence of accesses that shows it.
    pub path: Vec<String>,
    /// The same, to be replayed.
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    copies: Vec<(State, bool)>,
    memory_fresh: bool,
}

/// One thing that happens to one block; the numbers are those of caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A load or fetch, of a private page if so.
    Read(usize, bool),
    /// A store, to a private page if so.
    Write(usize, bool),
    /// The cache makes room.
    Evict(usize),
}

impl Step {
    fn text(self) -> String {
        let p = |p: bool| if p { " (P)" } else { "" };
        match self {
            Self::Read(c, private) => format!("cache {c} reads{}", p(private)),
            Self::Write(c, private) => format!("cache {c} writes{}", p(private)),
            Self::Evict(c) => format!("cache {c} evicts"),
        }
    }
}

type Cells = BTreeSet<(State, &'static str)>;

struct Explorer<'a> {
    table: &'a Table,
    met: Cells,
}

impl Explorer<'_> {
    fn apply(&mut self, world: &World, step: Step) -> Result<Option<World>, String> {
        let mut world = world.clone();
        match step {
            Step::Evict(c) => {
                if world.copies[c].0 == INVALID {
                    return Ok(None);
                }
                self.evict(&mut world, c)?;
            }
            Step::Read(c, private) => while self.access(&mut world, c, false, private)? {},
            Step::Write(c, private) => while self.access(&mut world, c, true, private)? {},
        }
        self.check(&world)?;
        Ok(Some(world))
    }

    fn evict(&mut self, world: &mut World, c: usize) -> Result<(), String> {
        let (state, fresh) = world.copies[c];
        self.met.insert((state, "Evict"));
        match self.table.rows[usize::from(state)].evict {
            OnEvict::Impossible => return Err(self.impossible(state, "Evict")),
            OnEvict::Silent => {}
            OnEvict::WriteBack => world.memory_fresh = fresh,
        }
        world.copies[c] = (INVALID, false);
        Ok(())
    }

    /// One application of an access; `true` when it must be applied again.
    fn access(&mut self, world: &mut World, c: usize, write: bool, p: bool) -> Result<bool, String> {
        let state = world.copies[c].0;
        let row = &self.table.rows[usize::from(state)];
        let (event, access) = if write { ("PrWr", &row.write) } else { ("PrRd", &row.read) };
        self.met.insert((state, event));
        match access {
            OnAccess::Local(next) => {
                world.copies[c].0 = *next;
                if write {
                    Self::commit(world, c, &[]);
                }
                Ok(false)
            }
            OnAccess::Bus { op, branches, again } => {
                let (lines, updated) = self.snoop(world, c, *op, p)?;
                let next = Table::resolve(branches, lines, p);
                if next == INVALID {
                    return Err(format!("{} ends in I after {}", op.short(), event));
                }
                world.copies[c].0 = next;
                if write && !again {
                    let before = world.memory_fresh;
                    Self::commit(world, c, &updated);
                    // A word written through leaves memory as good as it was.
                    world.memory_fresh = *op == BusOp::Write && self.table.words_to_memory && before;
                }
                Ok(*again)
            }
        }
    }

    fn snoop(
        &mut self,
        world: &mut World,
        c: usize,
        op: BusOp,
        private: bool,
    ) -> Result<(Lines, Vec<usize>), String> {
        let column = Snoop::of(op, private && self.table.uses_private);
        let (mut lines, mut updated, mut fresh) = (Lines::NONE, Vec::new(), None);
        for other in (0..world.copies.len()).filter(|&o| o != c) {
            let (state, has_fresh) = world.copies[other];
            self.met.insert((state, column.heading()));
            match self.table.rows[usize::from(state)].snoop[column as usize] {
                OnSnoop::Impossible => return Err(self.impossible(state, column.heading())),
                OnSnoop::Act { raise, supply, memory, update, next } => {
                    lines = lines.and(raise);
                    if supply {
                        fresh = Some(fresh.unwrap_or(true) && has_fresh);
                    }
                    if memory {
                        world.memory_fresh = has_fresh;
                    }
                    if update {
                        updated.push(other);
                    }
                    world.copies[other] = (next, has_fresh && next != INVALID);
                }
            }
        }
        if op.is_fetch() {
            world.copies[c].1 = fresh.unwrap_or(world.memory_fresh);
        }
        Ok((lines, updated))
    }

    fn commit(world: &mut World, c: usize, updated: &[usize]) {
        for (other, copy) in world.copies.iter_mut().enumerate() {
            copy.1 = other == c || (copy.1 && updated.contains(&other));
        }
        world.memory_fresh = false;
    }

    fn impossible(&self, state: State, column: &str) -> String {
        missing(self.table.state_name(state), column)
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let info = |state: State| self.table.rows[usize::from(state)].info;
        let valid: Vec<_> = world.copies.iter().filter(|(s, _)| *s != INVALID).collect();
        if valid.len() > 1 && valid.iter().any(|(s, _)| info(*s).exclusive) {
            return Err("an exclusive copy beside another copy".into());
        }
        if valid.iter().filter(|(s, _)| info(*s).single).count() > 1 {
            return Err("two copies in states of which one may exist".into());
        }
        if valid.iter().any(|(_, fresh)| !fresh) {
            return Err("a readable copy is stale".into());
        }
        if !world.memory_fresh && !valid.iter().any(|(s, _)| info(*s).dirty) {
            return Err("memory is stale and no dirty copy exists".into());
        }
        if world.memory_fresh && valid.iter().any(|(s, _)| info(*s).dirty) {
            return Err("a copy is to be written back though memory has every word".into());
        }
        Ok(())
    }

    fn drain(&mut self, world: &World) -> Result<(), String> {
        let mut world = world.clone();
        for c in 0..world.copies.len() {
            if world.copies[c].0 != INVALID {
                self.evict(&mut world, c)?;
            }
        }
        if world.memory_fresh {
            Ok(())
        } else {
            Err("memory stale after draining".into())
        }
    }

    fn dead_cells(&self) -> Vec<String> {
        let mut dead = Vec::new();
        for (state, row) in self.table.rows.iter().enumerate() {
            let state = state as State;
            let mut expect = vec!["PrRd", "PrWr"];
            if row.evict != OnEvict::Impossible {
                expect.push("Evict");
            }
            for column in Snoop::ALL {
                let possible = row.snoop[column as usize] != OnSnoop::Impossible;
                if possible && state != INVALID {
                    expect.push(column.heading());
                }
            }
            let missing = expect.into_iter().filter(|e| !self.met.contains(&(state, *e)));
            dead.extend(missing.map(|e| format!("{}/{e}", self.table.state_name(state))));
        }
        dead
    }
}

/// What a violation says when the table has no cell for a pair.
pub fn missing(state: &str, event: &str) -> String {
    format!("impossible cell met: {state}/{event}")
}

fn steps(caches: usize, uses_private: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for c in 0..caches {
        for p in [false, true] {
            if !p || uses_private {
                steps.extend([Step::Read(c, p), Step::Write(c, p)]);
            }
        }
        steps.push(Step::Evict(c));
    }
    steps
}

/// Explores `table` with `caches` caches from an empty system.
///
/// # Errors
/// The first violation in breadth-first order, with its path.
pub fn explore(table: &Table, caches: usize) -> Result<Exploration, Violation> {
    let start = World { copies: vec![(INVALID, false); caches], memory_fresh: true };
    let mut explorer = Explorer { table, met: Cells::new() };
    let mut seen = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([(start, Vec::new())]);
    let steps = steps(caches, table.uses_private);
    while let Some((world, path)) = queue.pop_front() {
        let fail = |what, path: &[Step]| Violation {
            what,
            path: path.iter().map(|step| step.text()).collect(),
            steps: path.to_vec(),
        };
        explorer.drain(&world).map_err(|what| fail(what, &path))?;
        for &step in &steps {
            let mut longer = path.clone();
            longer.push(step);
            let next = explorer.apply(&world, step).map_err(|what| fail(what, &longer))?;
            if let Some(next) = next.filter(|next| seen.insert(next.clone())) {
                queue.push_back((next, longer));
            }
        }
    }
    Ok(Exploration { states: seen.len(), dead_cells: explorer.dead_cells() })
}

/// Applies `steps` to a system of `caches` empty caches.
///
/// # Errors
/// What is violated first, by the last of the returned number of steps.
pub fn replay(table: &Table, caches: usize, steps: &[Step]) -> Result<(), (usize, String)> {
    let mut world = World { copies: vec![(INVALID, false); caches], memory_fresh: true };
    let mut explorer = Explorer { table, met: Cells::new() };
    for (position, &step) in steps.iter().enumerate() {
        match explorer.apply(&world, step) {
            Ok(Some(next)) => world = next,
            Ok(None) => {}
            Err(what) => return Err((position + 1, what)),
        }
    }
    Ok(())
}
