//! An observer hears of exactly what the counters count, and follows every copy.

use servsim_core::{CacheId, LineAddr, RandomStream};
use servsim_mem::protocol::{by_name, BusOp, Options, State, INVALID, PROTOCOLS};
use servsim_mem::{
    Access, By, CoherenceClass, CoherentSystem, Geometry, MissClass, Observer, Transition, WordMask,
};
use std::collections::HashMap;

#[derive(Default)]
struct Listener {
    misses: [u64; 6],
    pending: u64,
    coherence: [u64; 4],
    removals: u64,
    states: HashMap<(CacheId, LineAddr), State>,
}

impl Observer for Listener {
    fn miss(&mut self, _: &By, class: Option<MissClass>) {
        match class {
            Some(class) => self.misses[class as usize] += 1,
            None => self.pending += 1,
        }
    }

    fn judged(&mut self, _: CacheId, _: LineAddr, class: MissClass) {
        self.pending -= 1;
        self.misses[class as usize] += 1;
    }

    fn coherence(&mut self, _: &By, op: BusOp, class: CoherenceClass) {
        assert!(!op.is_fetch());
        self.coherence[class as usize] += 1;
    }

    fn removal(&mut self, by: &By, cache: CacheId) {
        assert_ne!(by.cache, cache);
        self.removals += 1;
    }

    fn transition(&mut self, _: &By, step: &Transition) {
        let before = self.states.insert((step.cache, step.line), step.to).unwrap_or(INVALID);
        assert_eq!(before, step.from, "{step:?}");
    }
}

/// The `n`-th pair of words of a line of 32 bytes.
fn word(n: u64) -> u16 {
    u16::of_bytes(n * 8, n * 8 + 7)
}

fn run(name: &str, seed: u64) -> CoherentSystem<u16, Listener> {
    let geometry = Geometry { size: 256, ways: 2, line: 32 };
    let table = by_name(name, &Options::default()).unwrap();
    let mut system = CoherentSystem::watched(3, geometry, table, true, Listener::default());
    let mut random = RandomStream::new(seed, "observer");
    for _ in 0..2000 {
        let write = random.below(2) == 0;
        let access = Access {
            at: CacheId(random.below(3) as usize),
            line: LineAddr(random.below(14)),
            words: word(random.below(4)),
            write,
            kernel: random.below(2) == 0,
            task: random.below(4) as u32,
            slot: if write { 2 } else { 1 },
        };
        let private = random.below(3) == 0;
        while !system.transact(&access, private).done {}
    }
    system.finish();
    system
}

#[test]
fn an_observer_hears_of_exactly_what_is_counted() {
    for (name, _) in PROTOCOLS {
        let system = run(name, 5);
        let (heard, counted) = (&system.observer, system.total());
        let sum = |table: [[u64; 6]; 2]| std::array::from_fn(|i| table[0][i] + table[1][i]);
        assert_eq!(heard.misses, sum(counted.misses), "{name}");
        assert_eq!(heard.pending, 0, "{name}");
        let sum: [u64; 4] = std::array::from_fn(|i| counted.coherence[0][i] + counted.coherence[1][i]);
        assert_eq!(heard.coherence, sum, "{name}");
        assert_eq!(heard.removals, counted.removed[0][0] + counted.removed[1][0], "{name}");
        assert!(heard.removals > 0 || !["amsd", "pscr"].contains(name));
    }
}

#[test]
fn the_transitions_lead_to_the_states_of_the_copies() {
    for (name, make) in PROTOCOLS {
        let (system, table) = (run(name, 6), make(&Options::default()));
        for (&(cache, line), &state) in &system.observer.states {
            assert_eq!(system.state_of(cache, line), table.state_name(state), "{name}");
        }
        assert!(system.observer.states.len() > 20);
    }
}
