//! Processor cores as a memory system sees them: when each instruction enters, has its operands and
//! completes. It knows no caches and no queue of events: the engine tells it the time, what enters,
//! where loads found their data and when those that miss return.
//!
//! **Entering.** Instructions enter in order, `width` a cycle. **Out of order**: an instruction enters
//! when the one `window` places before it has left; they leave in order, when complete. It executes when
//! its operands are there (registers are renamed: only true dependences count), and completes after the
//! latency of its class. **In order**: it enters only when its operands are there. This is the view of a
//! dependence-limited superscalar core (Karkhanis & Smith, ISCA 2004), instruction by instruction.
//!
//! **Loads** ask for their data `agen` cycles after the registers of their address are there. A
//! first-level hit has them `load` cycles after that moment; a hit farther out is under way for the
//! latency of its level, a miss until the engine says so. At most `misses` of these are under way: the
//! next one keeps everything behind it out. A load of a line that is under way waits for it.
//!
//! **Unknown code**: operands are there at once and nothing takes time but loads outside the first level;
//! in an in-order core the next instruction uses the data of all loads before it.
//!
//! Left out: limits of the issue queues; functional units are as many as the width and accept an
//! instruction every cycle; dependences through memory; speculation along wrong paths; replays of loads
//! that were performed too early for the memory order.

// Instructions enter in one loop.
#![allow(clippy::inline_always)]

mod loads;
#[cfg(test)]
mod tests;
mod waiting;

pub use loads::Issue;

use loads::Loads;
use servsim_core::code::{Instruction, CLASSES, LOADED, REGISTERS};
use servsim_core::Cycles;
use waiting::{Need, Target, Waiting, WaitingList};

/// Later than any cycle: not known yet. The maximum with it is not known either.
pub const UNKNOWN: u64 = u64::MAX;

/// Places for registers: as many as bits of a set, so that no number of one is beyond the end.
const PLACES: usize = 64;
const _: () = assert!(REGISTERS <= PLACES);

/// The numbers of a set of registers.
#[inline(always)]
fn numbers(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = set.trailing_zeros() as usize % PLACES;
        let is_there = set != 0;
        set &= set.wrapping_sub(1);
        is_there.then_some(number)
    })
}

/// When the value of each register is there.
#[derive(Debug)]
struct Registers {
    /// One more: the number of no register, which is there at 0.
    times: [u64; PLACES + 1],
}

impl Default for Registers {
    fn default() -> Self {
        Self { times: [0; PLACES + 1] }
    }
}

impl Registers {
    /// When all of `set` are there. Nearly all sets have two or fewer, and how many the host cannot guess.
    #[inline(always)]
    fn ready(&self, set: u64) -> u64 {
        let rest = set & set.wrapping_sub(1);
        let at = self.times[set.trailing_zeros() as usize].max(self.times[rest.trailing_zeros() as usize]);
        let others = numbers(rest & rest.wrapping_sub(1));
        others.fold(at, |at, register| at.max(self.times[register]))
    }

    /// Those of `set` are there at `at`.
    #[inline(always)]
    fn set(&mut self, set: u64, at: u64) {
        let rest = set & set.wrapping_sub(1);
        self.times[set.trailing_zeros() as usize] = at;
        self.times[rest.trailing_zeros() as usize] = at;
        self.times[PLACES] = 0;
        numbers(rest & rest.wrapping_sub(1)).for_each(|register| self.times[register] = at);
    }
}

/// What a core is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Instructions that enter per cycle.
    pub width: u64,
    /// Instructions that may be in the window at once.
    pub window: usize,
    /// Loads outside the first level that may be under way at once.
    pub misses: usize,
    /// Enters with all operands only.
    pub in_order: bool,
    /// Latency of each class of instructions ([`servsim_core::code::Class`]); the first is 0.
    pub latencies: [Cycles; CLASSES],
    /// From the registers of an address to the address.
    pub agen: Cycles,
    /// From the registers of an address to the data of a first-level hit.
    pub load: Cycles,
}

/// Whether an instruction enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It has entered; the next can from this cycle on.
    Entered(u64),
    /// It can from cycle `at` on, and waits for a load outside the first level if `load`.
    Later {
        /// The cycle.
        at: u64,
        /// What it waits for.
        load: bool,
    },
    /// It waits for a load that misses.
    Blocked,
}

/// When an instruction completes, and whether a load outside the first level is what it completes with.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    at: u64,
    load: bool,
}

/// The youngest instruction, while its loads come in.
#[derive(Debug)]
struct Current {
    instruction: Instruction,
    /// Its code is known.
    known: bool,
    entered: u64,
    /// It got a place for its load then.
    held: u64,
    /// Its data are there then, as far as known.
    loaded: u64,
    /// Its loads whose data are not.
    loading: Vec<u64>,
    /// A load of it went outside the first level.
    load: bool,
    /// It may still get loads.
    open: bool,
}

/// A core; `T` is what the engine wants to remember of a load.
#[derive(Debug)]
pub struct Core<T> {
    parameters: Parameters,
    /// What instructions without code are taken for.
    unknown: Instruction,
    /// Cycle of the last entry, and entries in it.
    cycle: u64,
    slots: u64,
    /// Instructions that entered.
    entered: u64,
    /// The last `window` of them, and the place of the next.
    ring: Vec<Done>,
    place: usize,
    /// When the instructions before those have left.
    left: u64,
    /// When all loads that waited are complete, and what waited for them.
    last: u64,
    /// When the value of each register is there, and who makes it: up to date where that is not known.
    registers: Registers,
    makers: [u64; PLACES],
    /// Registers whose value a load outside the first level makes, in a core in order.
    by_load: u64,
    current: Current,
    waiting: WaitingList,
    loads: Loads<T>,
}

impl<T: Copy> Core<T> {
    /// A core with an empty window.
    pub fn new(parameters: Parameters) -> Self {
        let all = if parameters.in_order { 1 << LOADED } else { 0 };
        let unknown = Instruction { reads: all, writes: all, ..Instruction::UNKNOWN };
        Self {
            parameters,
            unknown,
            cycle: 0,
            slots: 0,
            entered: 0,
            ring: vec![Done::default(); parameters.window],
            place: 0,
            left: 0,
            last: 0,
            registers: Registers::default(),
            makers: [0; PLACES],
            by_load: 0,
            current: Current {
                instruction: Instruction::UNKNOWN,
                known: false,
                entered: 0,
                held: 0,
                loaded: 0,
                loading: Vec::new(),
                load: false,
                open: false,
            },
            waiting: WaitingList::default(),
            loads: Loads::default(),
        }
    }

    /// The next instruction wants to enter at `now`; `None` is one whose code is not known. Without `may_load` it has no
    /// loads, so that what it makes of its operands is known at once.
    #[inline(always)]
    pub fn enter(&mut self, now: u64, instruction: Option<&Instruction>, may_load: bool) -> Entry {
        self.seal();
        let known = instruction.is_some();
        let instruction = *instruction.unwrap_or(&self.unknown);
        let next = match self.admit(now, &instruction) {
            Ok(next) => next,
            Err(entry) => return entry,
        };
        if !may_load {
            self.finish(&instruction, now, false);
            return Entry::Entered(next);
        }
        let current = &mut self.current;
        (current.instruction, current.entered, current.open) = (instruction, now, true);
        (current.known, current.held, current.loaded, current.load) = (known, 0, 0, false);
        Entry::Entered(next)
    }

    /// Lets `instruction` in, the one before it being sealed: from when on the next can enter, or why it does not.
    #[inline(always)]
    fn admit(&mut self, now: u64, instruction: &Instruction) -> Result<u64, Entry> {
        // A place that nobody had yet was left at 0.
        let oldest = self.ring[self.place];
        if oldest.at == UNKNOWN {
            return Err(Entry::Blocked);
        }
        self.left = self.left.max(oldest.at);
        if self.left > now {
            return Err(Entry::Later { at: self.left, load: oldest.load });
        }
        if self.parameters.in_order {
            let operands = instruction.reads | instruction.address;
            match self.ready(operands) {
                UNKNOWN => return Err(Entry::Blocked),
                at if at > now => {
                    return Err(Entry::Later { at, load: self.is_made_by_load(operands, now) });
                }
                _ => {}
            }
        }
        if now > self.cycle {
            (self.cycle, self.slots) = (now, 0);
        }
        self.slots += 1;
        self.entered += 1;
        Ok(now + u64::from(self.slots == self.parameters.width))
    }

    /// When all of `registers` have their values.
    #[inline(always)]
    fn ready(&self, registers: u64) -> u64 {
        self.registers.ready(registers)
    }

    /// Whether a load outside the first level makes one of `registers` after `now`.
    fn is_made_by_load(&self, registers: u64, now: u64) -> bool {
        numbers(registers & self.by_load).any(|register| self.registers.times[register] > now)
    }

    /// The current instruction has all its loads: what it makes of them.
    #[inline(always)]
    fn seal(&mut self) {
        if self.current.open {
            self.current.open = false;
            let Current { instruction, entered, loaded, load, .. } = self.current;
            self.finish(&instruction, entered.max(loaded), load);
        }
    }

    /// What the youngest instruction makes of operands that are there and of loads that have returned by `known`; one of
    /// these was outside the first level if `load`.
    #[inline(always)]
    fn finish(&mut self, instruction: &Instruction, known: u64, load: bool) {
        let Instruction { address, reads, writes, class } = *instruction;
        let latency = self.parameters.latencies[class as usize];
        let (number, place) = (self.entered - 1, self.place);
        self.place = if place + 1 == self.ring.len() { 0 } else { place + 1 };
        let ready = known.max(self.ready(reads | address));
        let mut at = UNKNOWN;
        if ready == UNKNOWN || !self.current.loading.is_empty() {
            let target = Target::Completion(number);
            self.wait_for_operands(reads | address, Waiting { target, known, latency, writes });
            numbers(writes).for_each(|register| self.makers[register] = number);
        } else {
            at = ready + latency;
        }
        self.ring[place] = Done { at, load };
        self.registers.set(writes, at);
        if self.parameters.in_order {
            self.by_load = self.by_load & !writes | if load { writes } else { 0 };
        }
    }

    #[inline(never)]
    fn wait_for_operands(&mut self, operands: u64, waiting: Waiting) {
        let loads = std::mem::take(&mut self.current.loading);
        self.wait(operands, waiting, &loads);
        self.current.loading = loads;
        self.current.loading.clear();
    }

    /// It waits for `registers` and `loads`, of which some are not known.
    fn wait(&mut self, registers: u64, waiting: Waiting, loads: &[u64]) {
        let is_unknown = |register: &usize| self.registers.times[*register] == UNKNOWN;
        let there = numbers(registers).filter(|register| !is_unknown(register));
        let known = there.fold(waiting.known, |known, register| known.max(self.registers.times[register]));
        let needs =
            numbers(registers).filter(is_unknown).map(|register| Need::instruction(self.makers[register]));
        let needs = needs.chain(loads.iter().copied().map(Need::load));
        self.waiting.push(Waiting { known, ..waiting }, needs);
    }

    /// When the last instruction completes, `None` if a load that misses decides it: what comes behind
    /// a mispredicted branch is not known before.
    pub fn resolved(&mut self) -> Option<u64> {
        self.seal();
        let last = if self.place == 0 { self.ring.len() } else { self.place } - 1;
        Some(self.ring[last].at).filter(|&at| at != UNKNOWN)
    }

    /// When everything is complete, `None` if a load that misses decides it.
    pub fn drained(&mut self) -> Option<u64> {
        self.seal();
        let in_window = self.ring.iter().map(|done| done.at).max().unwrap_or(0);
        (self.waiting.is_empty() && self.loads.is_empty()).then_some(self.last.max(self.left).max(in_window))
    }

    /// Another context runs from now on: its registers hold other values.
    pub fn change_context(&mut self) {
        self.seal();
        (self.registers, self.by_load) = (Registers::default(), 0);
    }

    /// What `need` stands for is there at `at`: everything that waits for it alone goes on. Returns
    /// the loads whose addresses are known now.
    fn resolve(&mut self, need: Need, at: u64) -> Vec<u64> {
        let mut addresses = Vec::new();
        self.waiting.provide(need, at);
        while let Some(Waiting { target, known, latency, writes }) = self.waiting.next_ready() {
            match target {
                Target::Address(load) => {
                    self.loads.begin(load, known);
                    addresses.push(load);
                }
                Target::Completion(number) => {
                    let at = known + latency;
                    self.complete(number, at, writes);
                    self.waiting.provide(Need::instruction(number), at);
                }
            }
        }
        addresses.sort_unstable();
        addresses
    }

    /// Instruction `number`, of unknown time so far, completes at `at`.
    fn complete(&mut self, number: u64, at: u64, writes: u64) {
        let place = (number % self.ring.len() as u64) as usize;
        self.ring[place].at = at;
        self.last = self.last.max(at);
        for register in numbers(writes) {
            if self.registers.times[register] == UNKNOWN && self.makers[register] == number {
                self.registers.times[register] = at;
            }
        }
    }
}
