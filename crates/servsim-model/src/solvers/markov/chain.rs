//! The Markov chain of a closed model of one class: how many requests are at each place of its
//! itinerary. Service is exponential and shared equally, a pool's units go to who waits longest;
//! since those who wait at one place are alike, the numbers are all that matters.

use crate::error::ModelError;
use crate::network::{Discipline, Network, Speed};
use crate::sim::program::{compile, Step};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Where a request can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activity {
    /// It thinks, this long on average, seconds.
    Think(f64),
    /// It is served at this station, this long on average when alone, seconds.
    Serve(usize, f64),
    /// It waits for a unit of this pool.
    Wait(usize),
}

/// A place, and the pools that who is there holds.
#[derive(Debug, Clone)]
pub struct RoutePlace {
    /// What requests do there.
    pub kind: Activity,
    /// Pools held meanwhile.
    pub holds: Vec<usize>,
    /// Index of the step after it.
    next: usize,
}

/// The places of a model and how requests go from one to the next.
#[derive(Debug)]
pub struct Route {
    /// Where requests can be.
    pub places: Vec<RoutePlace>,
    steps: Vec<Step>,
    /// Per step its place, if requests stay there.
    place_of: Vec<Option<usize>>,
    /// Per pool the step after it was got.
    inside: Vec<usize>,
    sizes: Vec<usize>,
    speeds: Vec<Speed>,
    population: usize,
}

impl Route {
    /// The route of the only class.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] for visits that happen at times only, and for a station first come,
    /// first served that requests come to at several places.
    pub fn new(network: &Network) -> Result<Self, ModelError> {
        let steps = compile(network, 0)?;
        let unsupported = |feature: &str, station: usize, remedy: &str| {
            ModelError::unsupported("markov", feature, &network.stations[station].name, remedy)
        };
        let mut places = Vec::new();
        let think = network.classes[0].think();
        if think > 0.0 {
            places.push(RoutePlace { kind: Activity::Think(think), holds: Vec::new(), next: 0 });
        }
        let (mut place_of, mut inside) = (vec![None; steps.len()], vec![0; network.pools.len()]);
        let mut held: Vec<usize> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let kind = match *step {
                Step::Serve { station, probability, .. } if probability < 1.0 => {
                    return Err(unsupported("fractions of a visit", station, "give whole visits"));
                }
                Step::Serve { station, mean, .. } => Activity::Serve(station, mean),
                Step::Acquire(pool) => Activity::Wait(pool),
                Step::Release(pool) => {
                    held.retain(|&p| p != pool);
                    continue;
                }
                Step::Fork(_) => return Err(unsupported("forks", 0, "use `forkjoin` or `simulation`")),
            };
            place_of[index] = Some(places.len());
            places.push(RoutePlace { kind, holds: held.clone(), next: index + 1 });
            if let Activity::Wait(pool) = kind {
                inside[pool] = index + 1;
                held.push(pool);
            }
        }
        for (k, station) in network.stations.iter().enumerate() {
            let come = places.iter().filter(|p| matches!(p.kind, Activity::Serve(s, _) if s == k)).count();
            if station.discipline != Discipline::Ps && station.speed != Speed::Delay && come > 1 {
                let remedy = "set discipline = \"ps\", or use `simulation`";
                return Err(unsupported("first come, first served at several places", k, remedy));
            }
        }
        Ok(Self {
            places,
            steps,
            place_of,
            inside,
            sizes: network.pools.iter().map(|p| p.size).collect(),
            speeds: network.stations.iter().map(|s| s.speed.clone()).collect(),
            population: network.population(),
        })
    }

    /// A place where every request is served or thinks, once.
    pub fn first(&self) -> usize {
        self.places.iter().position(|p| !matches!(p.kind, Activity::Wait(_))).unwrap_or(0)
    }

    /// Units of each pool in use.
    pub fn held(&self, counts: &[u32]) -> Vec<u32> {
        let mut held = vec![0; self.sizes.len()];
        for (place, &count) in self.places.iter().zip(counts) {
            place.holds.iter().for_each(|&pool| held[pool] += count);
        }
        held
    }

    /// Completions per second at a place.
    pub fn rate(&self, place: usize, counts: &[u32]) -> f64 {
        let count = f64::from(counts[place]);
        match self.places[place].kind {
            _ if counts[place] == 0 => 0.0,
            Activity::Wait(_) => 0.0,
            Activity::Think(mean) => count / mean,
            Activity::Serve(station, mean) => {
                let present = self.present(station, counts);
                count / f64::from(present) * self.speeds[station].at(present as usize) / mean
            }
        }
    }

    /// Requests at a station.
    pub fn present(&self, station: usize, counts: &[u32]) -> u32 {
        let here = |place: &RoutePlace| matches!(place.kind, Activity::Serve(s, _) if s == station);
        self.places.iter().zip(counts).filter(|(place, _)| here(place)).map(|(_, &count)| count).sum()
    }

    /// Lets one request go on from a place.
    fn complete(&self, place: usize, counts: &mut [u32]) {
        let mut held = self.held(counts);
        counts[place] -= 1;
        self.proceed(self.places[place].next, counts, &mut held);
    }

    /// Lets a request go on until it stays somewhere.
    fn proceed(&self, mut step: usize, counts: &mut [u32], held: &mut [u32]) {
        loop {
            match self.steps.get(step) {
                None if matches!(self.places[0].kind, Activity::Think(_)) => {
                    counts[0] += 1;
                    return;
                }
                None => step = 0,
                Some(&Step::Acquire(pool)) if (held[pool] as usize) < self.sizes[pool] => {
                    held[pool] += 1;
                    step += 1;
                }
                Some(&Step::Release(pool)) => {
                    // The unit goes to who waits, or back.
                    let queue = self.place_of[self.inside[pool] - 1].unwrap_or(0);
                    if counts[queue] > 0 {
                        counts[queue] -= 1;
                        self.proceed(self.inside[pool], counts, held);
                    } else {
                        held[pool] -= 1;
                    }
                    step += 1;
                }
                Some(_) => {
                    counts[self.place_of[step].unwrap_or(0)] += 1;
                    return;
                }
            }
        }
    }

    /// All requests, new.
    fn start(&self) -> Vec<u32> {
        let (mut counts, mut held) = (vec![0; self.places.len()], vec![0; self.sizes.len()]);
        (0..self.population).for_each(|_| self.proceed(self.steps.len(), &mut counts, &mut held));
        counts
    }
}

/// States that can be reached, and the rates among them.
#[derive(Debug)]
pub struct Chain {
    /// Per place the number there in each state.
    counts: Vec<Vec<u32>>,
    /// Rate out of each state, per second.
    pub out: Vec<f64>,
    /// Per state where its entries of `sources` begin; one more at the end.
    pub begin: Vec<usize>,
    /// States that lead into it, with their rates per second.
    pub sources: Vec<(u32, f64)>,
}

impl Chain {
    /// Follows the route from its start; `None` beyond `limit` states.
    pub fn explore(route: &Route, limit: usize) -> Option<Self> {
        let start = route.start();
        let width = start.len();
        let mut known: HashMap<Box<[u32]>, u32, BuildHasherDefault<Folding>> = HashMap::default();
        known.insert(start.clone().into(), 0);
        let (mut counts, mut moves, mut out) = (start, Vec::new(), Vec::new());
        let (mut here, mut there) = (vec![0; width], vec![0; width]);
        while out.len() * width < counts.len() {
            let from = out.len();
            here.copy_from_slice(&counts[from * width..][..width]);
            let mut sum = 0.0;
            for place in 0..width {
                let rate = route.rate(place, &here);
                if rate <= 0.0 {
                    continue;
                }
                there.copy_from_slice(&here);
                route.complete(place, &mut there);
                if there == here {
                    continue;
                }
                let to = known.get(there.as_slice()).copied().unwrap_or_else(|| {
                    let next = known.len() as u32;
                    known.insert(there.clone().into(), next);
                    counts.extend_from_slice(&there);
                    next
                });
                if known.len() > limit {
                    return None;
                }
                sum += rate;
                moves.push((from as u32, to, rate));
            }
            out.push(sum);
        }
        let column = |place: usize| counts.iter().skip(place).step_by(width).copied().collect();
        Some(Self::assemble((0..width).map(column).collect(), out, &moves))
    }

    fn assemble(counts: Vec<Vec<u32>>, out: Vec<f64>, moves: &[(u32, u32, f64)]) -> Self {
        let mut begin = vec![0; out.len() + 1];
        moves.iter().for_each(|&(_, to, _)| begin[to as usize + 1] += 1);
        for state in 0..out.len() {
            begin[state + 1] += begin[state];
        }
        let (mut free, mut sources) = (begin.clone(), vec![(0, 0.0); moves.len()]);
        for &(from, to, rate) in moves {
            sources[free[to as usize]] = (from, rate);
            free[to as usize] += 1;
        }
        Self { counts, out, begin, sources }
    }

    /// Number of states.
    pub fn size(&self) -> usize {
        self.out.len()
    }

    /// Per place the number there in each state.
    pub fn counts(&self) -> &[Vec<u32>] {
        &self.counts
    }

    /// Numbers at the places in a state.
    pub fn at(&self, state: usize) -> Vec<u32> {
        self.counts.iter().map(|column| column[state]).collect()
    }
}

/// A hash of a few small numbers: nobody chooses them to collide.
#[derive(Default)]
struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for four in bytes.chunks(4) {
            let number = four.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
            // An odd constant without structure: 2^64 over the golden ratio.
            self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
