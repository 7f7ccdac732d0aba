//! Where the requests of a closed model can be, and what may happen next. Service is exponential, so what counts is
//! how many requests of which class are at which step of their itinerary; where service is in turn, also in which
//! order they came. Those who wait for a pool stand in line.
//!
//! A section of a fork is one place for each set of parts that may still be under way where its stations are shared,
//! and one number per branch where each serves in turn: then parts leave in the order in which requests came.

use crate::error::ModelError;
use crate::network::{Discipline, Network, Speed};
use crate::sim::program::{compile, Step};

/// Where a request can be.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// It thinks, this long on average, seconds.
    Think(f64),
    /// It is served at this station, this long on average when alone, seconds.
    Serve(usize, f64),
    /// It waits for a unit of this pool.
    Wait(usize),
    /// These parts of it are under way, at these stations, shared, with these means.
    Parts(Vec<(usize, f64)>),
    /// Its part at this station, in turn, with this mean.
    Part(usize, f64),
}

/// A place, and the pools that who is there holds.
#[derive(Debug, Clone)]
pub struct RoutePlace {
    /// What requests do there.
    pub kind: Activity,
    /// Whose requests.
    pub class: usize,
    /// Pools held meanwhile.
    pub holds: Vec<usize>,
    /// True where every request of the class comes once.
    pub once: bool,
    /// Index of the step that it is at; `usize::MAX` for thinking.
    pub(super) step: usize,
}

/// Numbers at all places, and in lines where several kinds of request stand the places of those who do, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Requests at each place.
    pub counts: Vec<u32>,
    pub(super) lines: Vec<Vec<u32>>,
}

impl State {
    /// As numbers in a row, from which [`Route::read`] makes it again.
    pub fn write(&self, row: &mut Vec<u32>) {
        row.clear();
        row.extend_from_slice(&self.counts);
        self.lines.iter().for_each(|line| row.extend_from_slice(line));
    }

    /// Takes the first in line out of it.
    pub(super) fn take_first(&mut self, line: Line) -> Option<usize> {
        let place = match line {
            Line::Alike(place) => (self.counts[place] > 0).then_some(place),
            Line::Kept(kept) => (!self.lines[kept].is_empty()).then(|| self.lines[kept].remove(0) as usize),
        }?;
        self.counts[place] -= 1;
        Some(place)
    }
}

/// How a station serves.
#[derive(Debug)]
pub(super) enum Order {
    /// All who are there share its speed.
    Shared,
    /// By lines, the first before the next, with so many servers.
    Lines(usize, Vec<Line>),
}

/// Who stands in line: requests at one place, all alike, or at several, whose order is kept at this index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line {
    Alike(usize),
    Kept(usize),
}

/// The places of a model and how requests go from one to the next.
#[derive(Debug)]
pub struct Route {
    /// Where requests can be.
    pub places: Vec<RoutePlace>,
    pub(super) programs: Vec<Vec<Step>>,
    /// Per class and step the first of its places, if requests stay there.
    pub(super) place_of: Vec<Vec<Option<usize>>>,
    /// Per class its place to think.
    pub(super) thinks: Vec<Option<usize>>,
    pub(super) sizes: Vec<usize>,
    pub(super) speeds: Vec<Speed>,
    /// Per station the places there.
    pub(super) there: Vec<Vec<usize>>,
    pub(super) orders: Vec<Order>,
    /// Per pool who waits.
    pub(super) waiting: Vec<Line>,
    /// Places of each line whose order is kept.
    pub kept: Vec<Vec<usize>>,
    pub(super) populations: Vec<usize>,
}

/// The stations that a class visits at a step of its own.
fn station_of(kind: &Activity) -> Vec<usize> {
    match kind {
        Activity::Serve(station, _) | Activity::Part(station, _) => vec![*station],
        Activity::Parts(parts) => parts.iter().map(|part| part.0).collect(),
        Activity::Think(_) | Activity::Wait(_) => Vec::new(),
    }
}

impl Route {
    /// The routes of all classes.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] for open classes, forks whose branches are served in different orders, and classes
    /// that may go round without being served.
    pub fn new(network: &Network) -> Result<Self, ModelError> {
        let unsupported = |feature: &str, place: &str| {
            Err(ModelError::unsupported("markov", feature, place, "use `simulation`"))
        };
        if let Some(&open) = network.open().first() {
            return unsupported("open classes", &network.classes[open].name);
        }
        let mut route = Self {
            places: Vec::new(),
            programs: Vec::new(),
            place_of: Vec::new(),
            thinks: Vec::new(),
            sizes: network.pools.iter().map(|p| p.size).collect(),
            speeds: network.stations.iter().map(|s| s.speed.clone()).collect(),
            there: Vec::new(),
            orders: Vec::new(),
            waiting: Vec::new(),
            kept: Vec::new(),
            populations: Vec::new(),
        };
        for (c, class) in network.classes.iter().enumerate() {
            let population = match class.load {
                crate::network::Load::Closed { population, .. } => population,
                crate::network::Load::Open { .. } => 0,
            };
            route.populations.push(population);
            let steps = compile(network, c)?;
            if let Err(station) = route.add_class(network, c, &steps) {
                let feature = "a fork whose branches are served in different orders";
                return unsupported(feature, &network.stations[station].name);
            }
            let certain = route.places.iter().any(|p| p.class == c && p.once);
            if !certain && population > 0 {
                return unsupported("visits all of which may be left out", &class.name);
            }
            route.programs.push(steps);
        }
        route.form_lines(network);
        Ok(route)
    }

    /// The places of one class; a station that no place can describe.
    fn add_class(&mut self, network: &Network, class: usize, steps: &[Step]) -> Result<(), usize> {
        let think = network.classes[class].think();
        self.thinks.push((think > 0.0).then_some(self.places.len()));
        let mut held: Vec<usize> = Vec::new();
        if think > 0.0 {
            self.add(Activity::Think(think), class, usize::MAX, &held, true);
        }
        let mut place_of = vec![None; steps.len()];
        for (index, step) in steps.iter().enumerate() {
            let here = self.places.len();
            match step {
                Step::Serve { station, mean, probability } => {
                    self.add(Activity::Serve(*station, *mean), class, index, &held, *probability >= 1.0);
                }
                Step::Acquire(pool) => {
                    self.add(Activity::Wait(*pool), class, index, &held, false);
                    held.push(*pool);
                }
                Step::Release(pool) => {
                    held.retain(|p| p != pool);
                    continue;
                }
                Step::Fork(parts) if parts.is_empty() => continue,
                Step::Fork(parts) => self.add_fork(network, class, index, parts)?,
            }
            place_of[index] = Some(here);
        }
        self.place_of.push(place_of);
        Ok(())
    }

    fn add(&mut self, kind: Activity, class: usize, step: usize, held: &[usize], once: bool) {
        self.places.push(RoutePlace { kind, class, holds: held.to_vec(), once, step });
    }

    fn add_fork(
        &mut self,
        network: &Network,
        class: usize,
        step: usize,
        parts: &[(usize, f64)],
    ) -> Result<(), usize> {
        let station = |part: &&(usize, f64)| &network.stations[part.0];
        let shared = |part: &&(usize, f64)| {
            let s = station(part);
            s.speed == Speed::Delay || s.discipline == Discipline::Ps || matches!(s.speed, Speed::Rates(_))
        };
        if parts.iter().all(|part| shared(&part)) && parts.len() <= 8 {
            // The whole set first, so that a request that comes finds its place at the step's.
            for set in (1..1usize << parts.len()).rev() {
                let of = parts.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, part)| *part);
                self.add(Activity::Parts(of.collect()), class, step, &[], false);
            }
            let whole = self.places.len() - ((1 << parts.len()) - 1);
            self.places[whole].once = true;
            return Ok(());
        }
        let in_turn = |part: &&(usize, f64)| !shared(part) && station(part).speed.is_single();
        // In turn the parts of several classes would have to be told apart.
        if let Some(odd) = parts.iter().find(|part| !in_turn(part) || network.classes.len() > 1) {
            return Err(odd.0);
        }
        for (i, &(station, mean)) in parts.iter().enumerate() {
            self.add(Activity::Part(station, mean), class, step, &[], i == 0);
        }
        Ok(())
    }

    fn form_lines(&mut self, network: &Network) {
        let at = |places: &[RoutePlace], k: usize| -> Vec<usize> {
            (0..places.len()).filter(|&p| station_of(&places[p].kind).contains(&k)).collect()
        };
        self.there = (0..network.stations.len()).map(|k| at(&self.places, k)).collect();
        for (k, station) in network.stations.iter().enumerate() {
            let order = match (station.discipline, &station.speed) {
                (Discipline::Fcfs, Speed::Servers(servers)) => {
                    let line = self.line(self.there[k].clone());
                    Order::Lines(*servers, line.into_iter().collect())
                }
                (Discipline::Priority, Speed::Servers(servers)) => {
                    let rank = |&p: &usize| network.classes[self.places[p].class].priority;
                    let mut ranks: Vec<i32> = self.there[k].iter().map(rank).collect();
                    ranks.sort_unstable_by(|a, b| b.cmp(a));
                    ranks.dedup();
                    let of = |r: i32| self.there[k].iter().copied().filter(|p| rank(p) == r).collect();
                    let groups: Vec<Vec<usize>> = ranks.into_iter().map(of).collect();
                    Order::Lines(*servers, groups.into_iter().filter_map(|group| self.line(group)).collect())
                }
                _ => Order::Shared,
            };
            self.orders.push(order);
        }
        for pool in 0..network.pools.len() {
            let waits =
                (0..self.places.len()).filter(|&p| self.places[p].kind == Activity::Wait(pool)).collect();
            let line = self.line(waits).unwrap_or(Line::Alike(0));
            self.waiting.push(line);
        }
    }

    fn line(&mut self, places: Vec<usize>) -> Option<Line> {
        if places.len() <= 1 {
            return places.first().map(|&place| Line::Alike(place));
        }
        self.kept.push(places);
        Some(Line::Kept(self.kept.len() - 1))
    }

    /// The state that was written as this row.
    pub fn read(&self, row: &[u32]) -> State {
        let (counts, mut rest) = row.split_at(self.places.len());
        let take = |places: &Vec<usize>| {
            let length: u32 = places.iter().map(|&p| counts[p]).sum();
            let (line, after) = rest.split_at(length as usize);
            rest = after;
            line.to_vec()
        };
        State { lines: self.kept.iter().map(take).collect(), counts: counts.to_vec() }
    }
}
