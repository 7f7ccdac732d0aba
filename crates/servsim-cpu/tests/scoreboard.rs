//! The core against a scoreboard that asks every instruction in every cycle. While places for loads under
//! way suffice, every entry and the last completion agree to the cycle. Where they do not, the core gives
//! them in program order and waits, the scoreboard gives them to whoever has its address first: the
//! second test states how far the two are apart.

use servsim_core::code::{Class, Instruction, CLASSES};
use servsim_core::{Cycles, LineAddr, RandomStream};
use servsim_cpu::{Core, Entry, Issue, Parameters};
use servsim_oracle::scoreboard::{self, Found, Machine, Step};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const REGISTERS: u64 = 6;
const STEPS: usize = 60;

const ALL: [Class; CLASSES] = [
    Class::None,
    Class::Integer,
    Class::Multiply,
    Class::Divide,
    Class::FloatAdd,
    Class::FloatMultiply,
    Class::FloatDivide,
];

struct Case {
    parameters: Parameters,
    memory: u64,
    list: Vec<(Instruction, Option<Found>)>,
}

fn case(random: &mut RandomStream, misses: usize) -> Case {
    let mut latencies = std::array::from_fn(|_| 1 + random.below(12));
    latencies[0] = 0;
    let agen = random.below(3);
    let parameters = Parameters {
        width: 1 + random.below(5),
        window: 1 + random.below(24) as usize,
        misses,
        in_order: random.below(3) == 0,
        latencies: latencies.map(Cycles),
        agen: Cycles(agen),
        load: Cycles(agen + random.below(4)),
    };
    let memory = 20 + random.below(100);
    let far = random.below(4);
    let list = (0..STEPS).map(|_| step(random, far)).collect();
    Case { parameters, memory, list }
}

fn step(random: &mut RandomStream, far: u64) -> (Instruction, Option<Found>) {
    let mut some =
        |most: u64| (0..random.below(most + 1)).fold(0, |set, _| set | 1 << random.below(REGISTERS));
    let (address, reads, writes) = (some(2), some(2), some(2));
    let load = match random.below(8) {
        0..=1 => Some(Found::First),
        2 if far > 0 => Some(Found::Farther(1 + random.below(20))),
        3 if far > 1 => Some(Found::Memory),
        _ => None,
    };
    let class = ALL[random.below(CLASSES as u64) as usize];
    let address = if load.is_some() { address } else { 0 };
    (Instruction { address, reads, writes, class }, load)
}

/// The engine's part, for one processor and a memory without contention.
struct Driver {
    core: Core<usize>,
    agen: u64,
    memory: u64,
    found: Vec<Option<Found>>,
    returns: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Driver {
    fn go_on(&mut self, load: u64, at: u64) {
        let mut work = vec![(load, at)];
        while let Some((load, when)) = work.pop() {
            for issue in self.core.arrived(load, when) {
                if let Some(when) = self.issue(&issue, at) {
                    work.push((issue.load, when));
                }
            }
        }
    }

    fn issue(&mut self, issue: &Issue<usize>, now: u64) -> Option<u64> {
        let line = issue.access as u64;
        match self.found[issue.access]? {
            Found::First => Some(self.core.hit_of(issue, LineAddr(line), now, Cycles(0))),
            Found::Farther(cycles) => Some(self.core.hit_of(issue, LineAddr(line), now, Cycles(cycles))),
            Found::Memory => {
                self.core.ask(issue.load);
                self.returns.push(Reverse((issue.start + self.agen + self.memory, issue.load)));
                None
            }
        }
    }

    /// Returns by `now`; with `one` the next, whenever it is. The time of the last.
    fn deliver(&mut self, now: u64, one: bool) -> u64 {
        let mut last = now;
        let mut force = one;
        while let Some(&Reverse((at, load))) = self.returns.peek() {
            if at > now && !force {
                break;
            }
            force = false;
            self.returns.pop();
            self.go_on(load, at);
            last = last.max(at);
        }
        last
    }

    /// Performs the load of the instruction that has just entered.
    fn load(&mut self, index: usize, mut now: u64) -> u64 {
        let Some(found) = self.found[index] else { return now };
        if self.core.address().is_none() {
            self.core.wait_for_address(index);
            return now;
        }
        while found != Found::First && self.core.is_busy(now) {
            let miss = self.returns.peek().map(|&Reverse((at, _))| at);
            let next = miss.into_iter().chain(self.core.next_return(now)).min().unwrap();
            now = self.deliver(next, false).max(next);
            self.core.hold(now);
        }
        match found {
            Found::First => self.core.hit(LineAddr(index as u64), now, Cycles(0)),
            Found::Farther(cycles) => self.core.hit(LineAddr(index as u64), now, Cycles(cycles)),
            Found::Memory => {
                let at = self.core.address().unwrap() + self.memory;
                let load = self.core.miss(index);
                self.returns.push(Reverse((at, load)));
            }
        }
        now
    }
}

/// Entries, and when everything is complete.
fn simulate(case: &Case) -> (Vec<u64>, u64) {
    let found = case.list.iter().map(|(_, found)| *found).collect();
    let (parameters, memory) = (case.parameters, case.memory);
    let core = Core::new(parameters);
    let mut driver = Driver { core, agen: parameters.agen.0, memory, found, returns: BinaryHeap::new() };
    let (mut now, mut entries) = (0, Vec::new());
    for (index, (instruction, load)) in case.list.iter().enumerate() {
        loop {
            now = driver.deliver(now, false);
            match driver.core.enter(now, Some(instruction), load.is_some()) {
                Entry::Entered(next) => {
                    entries.push(now);
                    now = driver.load(index, now).max(next);
                    break;
                }
                Entry::Later { at, .. } => now = at,
                Entry::Blocked => now = driver.deliver(now, true),
            }
        }
    }
    loop {
        if let Some(end) = driver.core.drained() {
            return (entries, end);
        }
        driver.deliver(0, true);
    }
}

fn expected(case: &Case) -> (Vec<u64>, u64) {
    let p = &case.parameters;
    let machine = Machine {
        width: p.width as usize,
        window: p.window,
        in_order: p.in_order,
        agen: p.agen.0,
        load: p.load.0,
        memory: case.memory,
        misses: p.misses,
    };
    let bits = |set: u64| (0..64).filter(|r| set >> r & 1 != 0).collect::<Vec<usize>>();
    let step = |(i, load): &(Instruction, Option<Found>)| Step {
        address: bits(i.address),
        reads: bits(i.reads),
        writes: bits(i.writes),
        latency: p.latencies[i.class as usize].0,
        load: *load,
    };
    let steps: Vec<Step> = case.list.iter().map(step).collect();
    let times = scoreboard::run(&machine, &steps);
    let end = times.iter().map(|&(_, done)| done).max().unwrap();
    (times.into_iter().map(|(entered, _)| entered).collect(), end)
}

#[test]
fn entries_and_the_end_agree_to_the_cycle() {
    let mut random = RandomStream::new(1, "scoreboard");
    let mut waited = 0;
    for number in 0..3000 {
        let case = case(&mut random, usize::MAX);
        let (got, wanted) = (simulate(&case), expected(&case));
        assert_eq!(got, wanted, "case {number}: {:?} {:?}", case.parameters, case.list);
        waited += usize::from(wanted.1 > 2 * STEPS as u64 / case.parameters.width);
    }
    assert!(waited > 1500, "most cases must be bounded by dependences and loads: {waited}");
}

#[test]
fn with_few_places_for_loads_under_way_the_two_are_close() {
    let mut random = RandomStream::new(2, "scoreboard");
    let mut differences = Vec::new();
    for _ in 0..3000 {
        let misses = 1 + random.below(4) as usize;
        let case = case(&mut random, misses);
        let (got, wanted) = (simulate(&case).1 as f64, expected(&case).1 as f64);
        differences.push((got - wanted) / wanted);
    }
    differences.sort_by(f64::total_cmp);
    let at = |share: f64| differences[((differences.len() - 1) as f64 * share) as usize];
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    let exact = differences.iter().filter(|d| **d == 0.0).count() as f64 / differences.len() as f64;
    println!(
        "exact {exact:.3}, mean {mean:.4}, 1 % {:.3}, 10 % {:.3}, median {:.3}, 90 % {:.3}, 99 % {:.3}",
        at(0.01),
        at(0.1),
        at(0.5),
        at(0.9),
        at(0.99)
    );
    assert!(exact > 0.3 && mean.abs() < 0.05, "{exact} {mean}");
}
