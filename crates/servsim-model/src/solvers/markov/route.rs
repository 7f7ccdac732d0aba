//! Where the requests of a model can be, and what may happen next. Service is exponential, or of exponential phases,
//! so what counts is how many requests of which class are at which step of their itinerary; where service is in turn, also in which
//! order they came. Those who wait for a pool stand in line.
//!
//! A section of a fork is one place for each set of parts that may still be under way where its stations are shared,
//! and one number per branch where each serves in turn: then parts leave in the order in which requests came.

use crate::error::ModelError;
use crate::network::{Discipline, Full, Load, Network, Speed, Station};
use crate::service::Law;
use crate::sim::program::{compile, followers, may_pass, Step};

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
    /// Where service goes on from here, with what probability; what is missing to one ends it.
    pub(super) next: Vec<(usize, f64)>,
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
    /// Per class and step the places at which a request begins there, with probabilities; empty where none stays.
    pub(super) entries: Vec<Vec<Vec<(usize, f64)>>>,
    /// Per class how often a second requests come from outside; 0 for closed ones.
    pub(super) rates: Vec<f64>,
    /// Per class.
    pub(super) priorities: Vec<i32>,
    /// Room at each station; more is lost.
    pub(super) rooms: Vec<usize>,
    /// Weight of each place where service is shared by weight.
    pub(super) weights: Vec<f64>,
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
    /// Servers of each such line in which priorities count and services are not interrupted.
    pub(super) ranked: Vec<Option<usize>>,
    /// Requests of each class, or the most there can be.
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

/// The station and mean of each branch; a station of one that does more than one exponential service.
fn parts(steps: &[Step], branches: &[usize]) -> Result<Vec<(usize, f64)>, usize> {
    let part = |&begin: &usize| match (&steps[begin], &steps[begin + 1]) {
        (Step::Serve { station, mean, .. }, Step::Join) => Ok((*station, *mean)),
        (Step::Serve { station, .. }, _) => Err(*station),
        _ => Err(0),
    };
    branches.iter().map(part).collect()
}

impl Route {
    /// The routes of all classes.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] for open classes without a limit, blocking, loss in the midst of a request, forks
    /// whose branches are served in different orders or at several stations, and classes that may go round without
    /// being served.
    pub fn new(network: &Network) -> Result<Self, ModelError> {
        let unsupported = |feature: &str, place: &str| {
            Err(ModelError::unsupported("markov", feature, place, "use `simulation`"))
        };
        let room = |s: &Station| s.room.map_or(usize::MAX, |room| room.most);
        if let Some(s) = network.stations.iter().find(|s| s.room.is_some_and(|r| r.full == Full::Block)) {
            return unsupported("blocking", &s.name);
        }
        let mut route = Self {
            places: Vec::new(),
            programs: Vec::new(),
            entries: Vec::new(),
            rates: Vec::new(),
            priorities: network.classes.iter().map(|c| c.priority).collect(),
            rooms: network.stations.iter().map(room).collect(),
            weights: Vec::new(),
            thinks: Vec::new(),
            sizes: network.pools.iter().map(|p| p.size).collect(),
            speeds: network.stations.iter().map(|s| s.speed.clone()).collect(),
            there: Vec::new(),
            orders: Vec::new(),
            waiting: Vec::new(),
            kept: Vec::new(),
            ranked: Vec::new(),
            populations: Vec::new(),
        };
        for (c, class) in network.classes.iter().enumerate() {
            let steps = compile(network, c)?;
            let (population, rate) = match class.load {
                Load::Closed { population, .. } => (population, 0.0),
                Load::Open { rate } => {
                    let visited =
                        network.stations.iter().filter(|s| s.demands[c] > 0.0 && room(s) < usize::MAX);
                    if visited.clone().count()
                        < network.stations.iter().filter(|s| s.demands[c] > 0.0).count()
                    {
                        return unsupported("open classes where any number may be", &class.name);
                    }
                    (visited.map(room).sum(), rate)
                }
            };
            route.populations.push(population);
            route.rates.push(rate);
            if let Some((_, k)) =
                followers(&steps, false).into_iter().find(|pair| route.rooms[pair.1] < usize::MAX)
            {
                return unsupported("loss in the midst of a request", &network.stations[k].name);
            }
            if let Err(station) = route.add_class(network, c, &steps) {
                let feature = "a fork whose branches are served in different orders, or at several stations";
                return unsupported(feature, &network.stations[station].name);
            }
            if rate == 0.0 && population > 0 && class.think() == 0.0 && may_pass(&steps) {
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
            self.add(Activity::Think(think), class, usize::MAX, &held);
        }
        let mut entries = vec![Vec::new(); steps.len()];
        let mut behind = 0;
        for (index, step) in steps.iter().enumerate() {
            // What branches do belongs to the fork before them.
            if index < behind {
                continue;
            }
            let here = self.places.len();
            entries[index] = vec![(here, 1.0)];
            match step {
                Step::Serve { station, mean, .. } => {
                    entries[index] = self.add_service(network, class, index, (*station, *mean), &held)?;
                }
                Step::Acquire(pool) => {
                    self.add(Activity::Wait(*pool), class, index, &held);
                    held.push(*pool);
                }
                Step::Fork { branches, after } => {
                    behind = *after;
                    self.add_fork(network, class, index, &parts(steps, branches)?)?;
                }
                Step::Release(_) | Step::Join | Step::Jump(_) => {
                    if let Step::Release(pool) = step {
                        held.retain(|p| p != pool);
                    }
                    entries[index].clear();
                }
            }
        }
        self.entries.push(entries);
        Ok(())
    }

    /// The places of one service: one for each phase of its law. Where it begins, or its station if its law has no phases.
    fn add_service(
        &mut self,
        network: &Network,
        class: usize,
        step: usize,
        (station, mean): (usize, f64),
        held: &[usize],
    ) -> Result<Vec<(usize, f64)>, usize> {
        let here = self.places.len();
        match network.stations[station].law(class) {
            Law::Exponential => {
                self.add(Activity::Serve(station, mean), class, step, held);
                Ok(vec![(here, 1.0)])
            }
            Law::Phases(law) => {
                let places = |row: &[f64]| -> Vec<(usize, f64)> {
                    row.iter().enumerate().filter(|(_, p)| **p > 0.0).map(|(i, p)| (here + i, *p)).collect()
                };
                for (time, row) in law.means.iter().zip(&law.next) {
                    self.add(Activity::Serve(station, mean * time), class, step, held);
                    self.places.last_mut().expect("just added").next = places(row);
                }
                Ok(places(&law.start))
            }
            Law::Constant | Law::Histogram(_) => Err(station),
        }
    }

    fn add(&mut self, kind: Activity, class: usize, step: usize, held: &[usize]) {
        self.places.push(RoutePlace { kind, class, holds: held.to_vec(), next: Vec::new(), step });
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
        let odd = |part: &&(usize, f64)| {
            let s = station(part);
            !s.law(class).is_exponential()
                || matches!(s.discipline, Discipline::NonPreemptive | Discipline::Weighted)
        };
        if let Some(odd) = parts.iter().find(odd) {
            return Err(odd.0);
        }
        if parts.iter().all(|part| shared(&part)) && parts.len() <= 8 {
            // The whole set first, so that a request that comes finds its place at the step's.
            for set in (1..1usize << parts.len()).rev() {
                let of = parts.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, part)| *part);
                self.add(Activity::Parts(of.collect()), class, step, &[]);
            }
            return Ok(());
        }
        let in_turn = |part: &&(usize, f64)| !shared(part) && station(part).speed.is_single();
        // In turn the parts of several classes would have to be told apart.
        if let Some(odd) = parts.iter().find(|part| !in_turn(part) || network.classes.len() > 1) {
            return Err(odd.0);
        }
        for &(station, mean) in parts {
            self.add(Activity::Part(station, mean), class, step, &[]);
        }
        Ok(())
    }

    fn form_lines(&mut self, network: &Network) {
        let at = |places: &[RoutePlace], k: usize| -> Vec<usize> {
            (0..places.len()).filter(|&p| station_of(&places[p].kind).contains(&k)).collect()
        };
        self.there = (0..network.stations.len()).map(|k| at(&self.places, k)).collect();
        let weight = |place: &RoutePlace| match place.kind {
            Activity::Serve(k, _) if network.stations[k].discipline == Discipline::Weighted => {
                network.stations[k].weight(place.class)
            }
            _ => 1.0,
        };
        self.weights = self.places.iter().map(weight).collect();
        for (k, station) in network.stations.iter().enumerate() {
            let order = match (station.discipline, &station.speed) {
                (Discipline::Fcfs, Speed::Servers(servers)) => {
                    let line = self.line(self.there[k].clone());
                    Order::Lines(*servers, line.into_iter().collect())
                }
                (Discipline::NonPreemptive, Speed::Servers(servers)) => {
                    let line = self.line(self.there[k].clone());
                    if let Some(Line::Kept(kept)) = line {
                        self.ranked[kept] = Some(*servers);
                    }
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
        self.ranked.push(None);
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
