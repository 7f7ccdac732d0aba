//! Every state that one line can reach with a home and a few nodes, held to: no pair without a cell; one writer or many
//! readers; whatever may be read is fresh; with nothing under way the home knows of every copy; and no state from which
//! messages alone do not lead to one with nothing under way. An access that may wait is a message that stays where it is.
//!
//! The last is reachability backwards, over the steps of the protocol, from the states with nothing under way: an access
//! that can never complete is found even when something else goes on for ever. States are told apart by 128 bits of hash:
//! two of some millions agree by chance with a probability below 1e-24.

use super::world::{Cell, Protocol, Step, World};
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};

/// What an exploration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exploration {
    /// Distinct reachable states.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// Those with nothing under way.
    pub quiet: usize,
    /// Cells that no reachable state meets, as `TABLE STATE/EVENT`.
    pub dead_cells: Vec<String>,
}

/// A reachable violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub what: String,
    /// The shortest way there.
    pub path: Vec<String>,
    /// The same, to be replayed.
    pub steps: Vec<Step>,
}

/// How each state was found first.
#[derive(Debug, Default)]
struct Found {
    numbers: HashMap<u128, u32>,
    /// By state: the one before it, and the step from there.
    from: Vec<(u32, Step)>,
    /// By delivery: from which state to which.
    deliveries: Vec<(u32, u32)>,
    quiet: Vec<u32>,
}

impl Found {
    /// The number of a state, and whether it is new.
    fn number(&mut self, world: &World, from: u32, step: Step) -> (u32, bool) {
        let next = self.from.len() as u32;
        match self.numbers.entry(fingerprint(world)) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(place) => {
                place.insert(next);
                self.from.push((from, step));
                if world.is_quiet() {
                    self.quiet.push(next);
                }
                (next, true)
            }
        }
    }

    /// The steps to a state, and one more if so.
    fn steps_to(&self, mut state: u32, last: Option<Step>) -> Vec<Step> {
        let mut steps: Vec<Step> = last.into_iter().collect();
        while state != 0 {
            let (before, step) = self.from[state as usize];
            steps.push(step);
            state = before;
        }
        steps.reverse();
        steps
    }

    /// The first state from which deliveries never lead to one with nothing under way.
    fn stuck(&mut self) -> Option<u32> {
        self.deliveries.sort_unstable_by_key(|&(_, to)| to);
        let mut drains = vec![false; self.from.len()];
        let mut queue = self.quiet.clone();
        queue.iter().for_each(|&state| drains[state as usize] = true);
        while let Some(state) = queue.pop() {
            let first = self.deliveries.partition_point(|&(_, to)| to < state);
            for &(from, _) in self.deliveries[first..].iter().take_while(|&&(_, to)| to == state) {
                if !std::mem::replace(&mut drains[from as usize], true) {
                    queue.push(from);
                }
            }
        }
        drains.iter().position(|drains| !drains).map(|state| state as u32)
    }
}

fn fingerprint(world: &World) -> u128 {
    let half = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, world).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// Explores `protocol` with a home and `agents` other nodes.
///
/// # Errors
/// The violation that fewest steps lead to, with these.
pub fn explore(protocol: &Protocol, agents: usize) -> Result<Exploration, Violation> {
    let start = World::new(agents);
    let mut found = Found::default();
    found.number(&start, 0, Step::Deliver(0));
    let mut queue = VecDeque::from([(0, start)]);
    let (mut steps, mut met) = (0, BTreeSet::new());
    while let Some((number, world)) = queue.pop_front() {
        for step in world.steps(protocol) {
            met.insert(world.cell_of(step));
            let next = match world.after(protocol, step) {
                Ok(None) => continue,
                Ok(Some((next, _))) => next,
                Err(what) => {
                    return Err(violation(agents, protocol, what, found.steps_to(number, Some(step))))
                }
            };
            steps += 1;
            let (to, new) = found.number(&next, number, step);
            if step.is_delivery() {
                found.deliveries.push((number, to));
            }
            if new {
                queue.push_back((to, next));
            }
        }
    }
    if let Some(state) = found.stuck() {
        let what = "messages alone never lead to a state with nothing under way".to_owned();
        return Err(violation(agents, protocol, what, found.steps_to(state, None)));
    }
    Ok(Exploration {
        states: found.from.len(),
        steps,
        quiet: found.quiet.len(),
        dead_cells: dead_cells(protocol, &met),
    })
}

fn dead_cells(protocol: &Protocol, met: &BTreeSet<Cell>) -> Vec<String> {
    let at_home = protocol.home.cells().into_iter().map(|(state, event)| (true, state, event));
    let at_nodes = protocol.nodes.cells().into_iter().map(|(state, event)| (false, state, event));
    let dead = at_home.chain(at_nodes).filter(|cell| !met.contains(cell));
    dead.map(|(home, state, event)| format!("{} {state}/{event}", if home { "home" } else { "node" }))
        .collect()
}

/// A violation with its way in words.
fn violation(agents: usize, protocol: &Protocol, what: String, steps: Vec<Step>) -> Violation {
    let mut world = World::new(agents);
    let mut path = Vec::new();
    for &step in &steps {
        path.push(world.text(step));
        if let Ok(Some((next, _))) = world.after(protocol, step) {
            world = next;
        }
    }
    Violation { what, path, steps }
}

/// Applies `steps` to a line that nobody has beside its home.
///
/// # Errors
/// What is violated first, by the last of the returned number of steps.
pub fn replay(protocol: &Protocol, agents: usize, steps: &[Step]) -> Result<World, (usize, String)> {
    let mut world = World::new(agents);
    for (place, &step) in steps.iter().enumerate() {
        match world.after(protocol, step) {
            Ok(Some((next, _))) => world = next,
            Ok(None) => {}
            Err(what) => return Err((place + 1, what)),
        }
    }
    Ok(world)
}
