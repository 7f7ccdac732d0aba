//! Processor cores as a memory system sees them: how many instructions a cycle takes, and how far a
//! core runs on while loads are under way. It knows no caches and no time: the engine tells it what
//! is dispatched, what misses and what returns, and asks whether the next instruction may enter.
//!
//! **Out of order**: instructions enter an instruction window (reorder buffer) in order, `width` a
//! cycle, and leave it in order when complete. A load that misses stays until its data arrive; when
//! it is the oldest and the window is full behind it, nothing enters. A load whose address comes from
//! an incomplete load begins when that one completes. This is the interval view of a superscalar core
//! (Karkhanis & Smith, ISCA 2004): execution between misses is bounded by the width alone.
//!
//! **In order**: the same, but nothing enters from the first instruction that uses a load's data on
//! (blocking at use); where that distance is not known, from the next instruction on.
//!
//! Left out: functional units and their latencies, the latency of hits, limits of the issue queues,
//! wrong-path references, replays of loads that were performed too early for the memory order.

use std::collections::VecDeque;

/// What a core is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Instructions that enter per cycle.
    pub width: u64,
    /// Instructions that may be in the window at once.
    pub window: u64,
    /// Loads that may be under way at once.
    pub misses: usize,
    /// Blocks at the first use of a load's data.
    pub in_order: bool,
}

/// A load that is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flight<T> {
    /// Its own number: a load that crosses lines has two flights.
    id: u64,
    /// Its number among the core's loads.
    load: u64,
    /// What the engine wants to remember of it.
    access: T,
    /// Its instruction's number.
    instruction: u64,
    /// Instructions from its own on that may enter before it completes.
    room: u64,
    /// The flight that must complete first.
    after: Option<u64>,
}

impl<T> Flight<T> {
    /// Whether it asks for its data: it waits for no other load.
    fn is_issued(&self) -> bool {
        self.after.is_none()
    }
}

/// A core.
#[derive(Debug)]
pub struct Core<T> {
    parameters: Parameters,
    /// Instructions that entered.
    entered: u64,
    /// Those of the current cycle.
    slots: u64,
    /// Loads that entered.
    loads: u64,
    /// Flights so far.
    next: u64,
    /// Distances do not reach back beyond this load: another context made it.
    barrier: u64,
    flights: VecDeque<Flight<T>>,
}

impl<T: Copy> Core<T> {
    /// A core with an empty window.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, entered: 0, slots: 0, loads: 0, next: 0, barrier: 0, flights: VecDeque::new() }
    }

    /// `count` instructions enter; returns the cycles that takes.
    #[inline]
    pub fn enter(&mut self, count: u64) -> u64 {
        self.entered += count;
        self.slots += count;
        let cycles = self.slots / self.parameters.width;
        self.slots %= self.parameters.width;
        cycles
    }

    /// Whether an incomplete load keeps the next instruction out.
    #[inline]
    pub fn is_full(&self) -> bool {
        // In order of age, but in-order cores may have a nearer limit behind a farther one.
        self.flights.iter().any(|flight| self.entered + 1 >= flight.instruction + flight.room)
    }

    /// Whether as many loads ask for data as can.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.flights.len() >= self.parameters.misses
            && self.flights.iter().filter(|flight| flight.is_issued()).count() >= self.parameters.misses
    }

    /// Whether more loads wait than the window holds: only in a trace without fetches.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.flights.len() as u64 >= self.parameters.window
    }

    /// Whether no load is under way.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// The incomplete load on which the next load depends: the one `distance` loads back (0: none).
    #[inline]
    pub fn producer(&self, distance: u64) -> Option<u64> {
        if self.parameters.in_order || distance == 0 || distance > self.loads - self.barrier {
            return None;
        }
        let load = self.loads - distance;
        self.flights.iter().rev().find(|flight| flight.load == load).map(|flight| flight.id)
    }

    /// The youngest incomplete load that satisfies `matches`.
    pub fn find(&self, matches: impl Fn(&T) -> bool) -> Option<u64> {
        self.flights.iter().rev().find(|flight| matches(&flight.access)).map(|flight| flight.id)
    }

    /// A load (or, if not `load`, a store) is done with entering.
    #[inline]
    pub fn count_load(&mut self, load: bool) {
        self.loads += u64::from(load);
    }

    /// A load that must wait, for memory or for flight `after`; returns its flight. `distance` as
    /// recorded: on an in-order core the instructions to the first use of its data.
    pub fn miss(&mut self, access: T, after: Option<u64>, distance: u64) -> u64 {
        let Parameters { window, in_order, .. } = self.parameters;
        let room = if in_order { distance.max(1).min(window) } else { window };
        let id = self.next;
        self.next += 1;
        let (load, instruction) = (self.loads, self.entered);
        self.flights.push_back(Flight { id, load, access, instruction, room, after });
        id
    }

    /// The access of an incomplete load.
    pub fn access(&mut self, id: u64) -> Option<&mut T> {
        self.flights.iter_mut().find(|flight| flight.id == id).map(|flight| &mut flight.access)
    }

    /// A load completes: those that waited for it are issued, oldest first, and returned.
    pub fn complete(&mut self, id: u64) -> Vec<(u64, T)> {
        self.flights.retain(|flight| flight.id != id);
        let mut issued = Vec::new();
        for flight in self.flights.iter_mut().filter(|flight| flight.after == Some(id)) {
            flight.after = None;
            issued.push((flight.id, flight.access));
        }
        issued
    }

    /// Another context runs from now on: its loads do not depend on earlier ones.
    pub fn change_context(&mut self) {
        self.barrier = self.loads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Parameters = Parameters { width: 4, window: 8, misses: 2, in_order: false };

    #[test]
    fn width_instructions_enter_per_cycle_and_the_rest_is_carried_over() {
        let mut core = Core::<()>::new(WIDE);
        assert_eq!([core.enter(3), core.enter(1), core.enter(9), core.enter(3)], [0, 1, 2, 1]);
    }

    #[test]
    fn the_window_closes_behind_the_oldest_incomplete_load() {
        let mut core = Core::new(WIDE);
        core.enter(1);
        core.miss('a', None, 0);
        core.enter(6);
        assert!(!core.is_full(), "the load and six others: one place is left");
        core.enter(1);
        assert!(core.is_full());
        core.complete(0);
        assert!(!core.is_full());
    }

    #[test]
    fn an_in_order_core_stops_before_the_first_use() {
        let mut core = Core::new(Parameters { in_order: true, ..WIDE });
        core.enter(1);
        core.miss('a', None, 3);
        core.enter(1);
        assert!(!core.is_full());
        core.enter(1);
        assert!(core.is_full(), "the third instruction after the load uses it");
        core.complete(0);
        core.count_load(true);
        core.miss('b', None, 0);
        assert!(core.is_full(), "an unknown use is the next instruction");
    }

    #[test]
    fn a_load_that_depends_on_another_is_issued_when_that_completes() {
        let mut core = Core::new(WIDE);
        let first = core.miss('a', None, 0);
        core.count_load(true);
        core.count_load(true);
        core.count_load(false);
        assert_eq!((core.producer(1), core.producer(2), core.producer(3)), (None, Some(first), None));
        let second = core.miss('b', Some(first), 2);
        assert!(!core.is_busy(), "one asks for data, one waits");
        core.miss('c', None, 0);
        assert!(core.is_busy());
        assert_eq!(core.complete(first), [(second, 'b')]);
        assert!(core.is_busy());
    }

    #[test]
    fn another_contexts_loads_are_no_producers() {
        let mut core = Core::new(WIDE);
        core.miss('a', None, 0);
        core.count_load(true);
        assert_eq!(core.producer(1), Some(0));
        core.change_context();
        assert_eq!(core.producer(1), None);
    }
}
