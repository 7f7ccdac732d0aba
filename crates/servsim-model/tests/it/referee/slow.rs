//! A plain event simulator, written from the description of the models alone: every request is a row with the work it
//! has left. When anybody comes to a station or leaves it, the rows there are brought up to date, the speed of each is
//! found anew, and with it who is served next; of all stations the soonest is what happens. Where all go at the same
//! speed, what each was given so far is kept instead, and at how much of it each is served. Shares nothing
//! with the crate's engine (but the drawing of one service time of a law), its queue of events, its stations or its
//! random numbers. Over 400 lines because it has to be read beside nothing else.

use crate::common::Draw;
use servsim_model::network::Part;
use servsim_model::{Discipline, Full, Load, Network, Speed};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One thing a request does.
#[derive(Clone, Debug)]
enum Act {
    Serve(usize, f64),
    Ask(usize),
    Give(usize),
    Split(Vec<Vec<Act>>),
}

/// What a request waits for at the moment.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Thinks,
    Station(usize),
    Pool(usize),
    /// Its parts are under way.
    Split,
    /// It wants to a station that is full, and keeps the server it has at another, if any.
    Blocked {
        wants: usize,
        mean: f64,
        keeps: Option<usize>,
    },
}

struct Row {
    class: usize,
    acts: Vec<Act>,
    next: usize,
    at: At,
    left: f64,
    /// Ticket of its arrival where it is.
    ticket: u64,
    began: f64,
    /// The request whose part this is.
    whole: Option<usize>,
    parts: usize,
    /// Its service has begun, where it is not interrupted.
    serving: bool,
    /// The station whose server it leaves when it goes on.
    from: Option<usize>,
    gone: bool,
}

/// A request that ended: when, and after how long.
#[derive(Clone, Copy)]
pub struct Ended {
    pub at: f64,
    pub response: f64,
}

/// Who is at a station, and how fast each goes.
#[derive(Default, Clone)]
struct StationState {
    /// In order of arrival; empty where all go at one speed.
    present: Vec<usize>,
    speeds: Vec<f64>,
    /// Where all go at one speed: who is served after how much work, work being given to everybody alike.
    sharing: BinaryHeap<Reverse<(u64, usize)>>,
    given: f64,
    /// When what is left of each was last brought up to date.
    since: f64,
    /// When the next is served, and who.
    soonest: Option<(f64, usize)>,
    changed: bool,
}

pub struct Simulation<'a> {
    network: &'a Network,
    draw: Draw,
    rows: Vec<Row>,
    free: Vec<usize>,
    places: Vec<StationState>,
    /// When each who thinks asks again; times are positive, so that their bits are in order.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    blocked: Vec<usize>,
    arrivals: Vec<f64>,
    units: Vec<usize>,
    lines: Vec<Vec<usize>>,
    pub now: f64,
    tickets: u64,
    /// By class.
    pub seen: Vec<Vec<Ended>>,
    pub ended: u64,
    /// How often a request was looked at.
    pub looks: u64,
    /// Integrals up to now, seconds: of the speed in use and the number present at each station, then of the units held
    /// and the number waiting of each pool.
    pub areas: Vec<f64>,
    /// What they were at moments on the way.
    pub history: Vec<(f64, Vec<f64>)>,
}

/// Requests after which the integrals are written down.
const NOTED: u64 = 100;

fn itinerary(network: &Network, class: usize, draw: &mut Draw) -> Vec<Act> {
    let mut acts = Vec::new();
    let branches: Vec<usize> = network.forks.iter().flat_map(servsim_model::Fork::stations).collect();
    if let Some(routing) = network.routing(class) {
        // A walk from start to end.
        let mut place = None;
        loop {
            let mut at = draw.unit();
            let hop = routing.hops.iter().filter(|h| h.from == place).find(|h| {
                at -= h.probability;
                at < 0.0
            });
            place = hop.and_then(|h| h.to);
            let Some((phase, station)) = place else { return acts };
            acts.push(Act::Serve(station, routing.service[phase][station]));
        }
    }
    if network.pools.is_empty() {
        // One visit to each station in turn, as long as any is left; what is left of a visit happens or not.
        let plain = |k: &usize| !branches.contains(k) && network.stations[*k].demands[class] > 0.0;
        let used: Vec<usize> = (0..network.stations.len()).filter(plain).collect();
        let most = used.iter().map(|&k| network.stations[k].visits[class]).fold(0.0, f64::max);
        let mut round = 0.0;
        while round < most - 1e-12 {
            for &k in &used {
                let (visits, demand) =
                    (network.stations[k].visits[class], network.stations[k].demands[class]);
                if visits - round > 1e-12 && (visits - round >= 1.0 || draw.unit() < visits - round) {
                    acts.push(Act::Serve(k, demand / visits));
                }
            }
            round += 1.0;
        }
    } else {
        level(network, class, None, 1.0, draw, &mut acts);
    }
    for index in 0..network.forks.len() {
        if !network.forks.iter().any(|f| f.inner().any(|i| i == index)) {
            acts.extend(split(network, class, index));
        }
    }
    acts
}

/// A fork, if the class has anything to do in it.
fn split(network: &Network, class: usize, index: usize) -> Option<Act> {
    let part = |part: &Part| match *part {
        Part::Station(k) if network.stations[k].demands[class] > 0.0 => {
            Some(Act::Serve(k, network.stations[k].demands[class]))
        }
        Part::Station(_) => None,
        Part::Fork(inner) => split(network, class, inner),
    };
    let branches =
        network.forks[index].branches.iter().map(|b| b.iter().filter_map(part).collect::<Vec<_>>());
    let busy: Vec<Vec<Act>> = branches.filter(|b| !b.is_empty()).collect();
    (!busy.is_empty()).then_some(Act::Split(busy))
}

/// The work of a level of pools, then the pools inside it.
fn level(
    network: &Network,
    class: usize,
    pool: Option<usize>,
    times: f64,
    draw: &mut Draw,
    acts: &mut Vec<Act>,
) {
    for k in 0..network.stations.len() {
        let of = |p: usize| network.pools[p].holds[k * network.classes.len() + class];
        let held: f64 = (0..network.pools.len()).map(of).sum();
        let work = pool.map_or(network.stations[k].demands[class] - held, |p| of(p) / times);
        if work > 1e-15 {
            acts.push(Act::Serve(k, work));
        }
    }
    for inner in (0..network.pools.len()).filter(|&p| network.pools[p].parent == pool) {
        let calls = network.pools[inner].calls;
        let often = calls.floor() as usize + usize::from(draw.unit() < calls.fract());
        for _ in 0..often {
            acts.push(Act::Ask(inner));
            level(network, class, Some(inner), times * calls, draw, acts);
            acts.push(Act::Give(inner));
        }
    }
}

impl<'a> Simulation<'a> {
    pub fn new(network: &'a Network, seed: u64) -> Self {
        let mut simulation = Self {
            network,
            draw: Draw(seed),
            rows: Vec::new(),
            free: Vec::new(),
            places: vec![StationState::default(); network.stations.len()],
            thinking: BinaryHeap::new(),
            blocked: Vec::new(),
            arrivals: vec![f64::INFINITY; network.classes.len()],
            units: network.pools.iter().map(|p| p.size).collect(),
            lines: vec![Vec::new(); network.pools.len()],
            now: 0.0,
            tickets: 0,
            seen: vec![Vec::new(); network.classes.len()],
            ended: 0,
            looks: 0,
            areas: vec![0.0; 2 * (network.stations.len() + network.pools.len())],
            history: Vec::new(),
        };
        for (c, class) in network.classes.iter().enumerate() {
            match class.load {
                Load::Open { rate } => simulation.arrivals[c] = simulation.exponential(1.0 / rate),
                Load::Closed { population, think } => {
                    for _ in 0..population {
                        let row = simulation.row(c, None);
                        simulation.think(row, think);
                    }
                }
            }
        }
        simulation
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.draw.unit()).ln()
    }

    fn think(&mut self, i: usize, mean: f64) {
        let until = self.now + self.exponential(mean);
        self.rows[i].at = At::Thinks;
        self.thinking.push(Reverse((until.to_bits(), i)));
    }

    fn row(&mut self, class: usize, whole: Option<usize>) -> usize {
        let (began, at) = (self.now, At::Thinks);
        let new = Row {
            class,
            acts: Vec::new(),
            next: 0,
            at,
            left: 0.0,
            ticket: 0,
            began,
            whole,
            parts: 0,
            serving: false,
            from: None,
            gone: false,
        };
        if let Some(free) = self.free.pop() {
            self.rows[free] = new;
            return free;
        }
        self.rows.push(new);
        self.rows.len() - 1
    }

    /// Requests for which a station has no further room: those there, and those who keep a server.
    fn present(&self, k: usize) -> usize {
        self.places[k].present.len() + self.places[k].sharing.len() + self.kept(k)
    }

    fn kept(&self, k: usize) -> usize {
        let here = |&&i: &&usize| matches!(self.rows[i].at, At::Blocked { keeps, .. } if keeps == Some(k));
        self.blocked.iter().filter(here).count()
    }

    /// Lets in who has waited longest, as long as there is room anywhere.
    fn unblock(&mut self) {
        loop {
            let free = |&i: &usize| match self.rows[i].at {
                At::Blocked { wants, .. } => {
                    self.network.stations[wants].room.is_none_or(|room| self.present(wants) < room.most)
                }
                _ => false,
            };
            let first = self.blocked.iter().copied().filter(free).min_by_key(|&i| self.rows[i].ticket);
            let Some(i) = first else { return };
            let At::Blocked { wants, mean, .. } = self.rows[i].at else { return };
            self.enter(i, wants, mean);
        }
    }

    /// Who may be in service: in turn, those who came first (a service once begun is not interrupted).
    fn nearest(&self, k: usize) -> usize {
        let number = self.places[k].present.len();
        match (self.network.stations[k].discipline, &self.network.stations[k].speed) {
            (Discipline::Fcfs, Speed::Servers(servers)) => number.min(*servers),
            _ => number,
        }
    }

    /// True where everybody present goes at the same speed.
    fn shares(&self, k: usize) -> bool {
        let station = &self.network.stations[k];
        match station.discipline {
            Discipline::Weighted => false,
            Discipline::Ps => true,
            _ => !matches!(station.speed, Speed::Servers(_)),
        }
    }

    /// Brings what is left of everybody at a station up to date: someone is about to come or go.
    fn touch(&mut self, k: usize) {
        let place = &mut self.places[k];
        if place.changed {
            return; // at this very moment
        }
        let passed = self.now - place.since;
        for (&i, speed) in place.present.iter().zip(&place.speeds) {
            self.rows[i].left -= passed * speed;
        }
        if !place.sharing.is_empty() {
            place.given += passed * place.speeds[0];
        }
        (place.since, place.changed) = (self.now, true);
    }

    /// Begins services that are not interrupted, if a server is free.
    fn begin_services(&mut self, k: usize) {
        let station = &self.network.stations[k];
        let (Discipline::Fcfs | Discipline::NonPreemptive, Speed::Servers(servers)) =
            (station.discipline, &station.speed)
        else {
            return;
        };
        let near = &self.places[k].present[..self.nearest(k)];
        let busy = near.iter().filter(|&&i| self.rows[i].serving).count() + self.kept(k);
        let ranked = station.discipline == Discipline::NonPreemptive;
        let rank =
            |row: &Row| (if ranked { -self.network.classes[row.class].priority } else { 0 }, row.ticket);
        let waiting =
            |rows: &[Row]| near.iter().copied().filter(|&i| !rows[i].serving).min_by_key(|&i| rank(&rows[i]));
        for _ in busy..*servers {
            let Some(first) = waiting(&self.rows) else { return };
            self.rows[first].serving = true;
        }
    }

    /// Finds anew how fast everybody at a station goes, and who is served next.
    fn renew(&mut self, k: usize) {
        self.places[k].changed = false;
        if self.shares(k) {
            return self.share(k);
        }
        self.begin_services(k);
        let near = self.nearest(k);
        let station = &self.network.stations[k];
        let place = &mut self.places[k];
        let (rows, classes) = (&self.rows, &self.network.classes);
        place.speeds.clear();
        place.speeds.resize(near, 0.0);
        let each = place.speeds.iter_mut().zip(&place.present);
        match (station.discipline, &station.speed) {
            (Discipline::Priority, Speed::Servers(servers)) => {
                let rank = |i: usize| (-classes[rows[i].class].priority, rows[i].ticket);
                let mut order: Vec<usize> = (0..near).collect();
                order.sort_by_key(|&at| rank(place.present[at]));
                order.iter().take(*servers).for_each(|&at| place.speeds[at] = 1.0);
            }
            (Discipline::Weighted, _) => {
                let weight = |i: usize| station.weights.get(rows[i].class).copied().unwrap_or(1.0);
                let all: f64 = place.present.iter().map(|&i| weight(i)).sum();
                each.for_each(|(speed, &i)| *speed = weight(i) / all);
            }
            _ => each.filter(|(_, &i)| rows[i].serving).for_each(|(speed, _)| *speed = 1.0),
        }
        place.soonest = None;
        for (&i, speed) in place.present.iter().zip(&place.speeds).filter(|(_, s)| **s > 0.0) {
            let at = self.now + rows[i].left.max(0.0) / speed;
            if place.soonest.is_none_or(|(soonest, _)| at < soonest) {
                place.soonest = Some((at, i));
            }
        }
        self.looks += near as u64;
    }

    /// The same where everybody goes at one speed.
    fn share(&mut self, k: usize) {
        let place = &mut self.places[k];
        let number = place.sharing.len();
        place.soonest = place.sharing.peek().map(|Reverse((until, row))| {
            let speed = self.network.stations[k].speed.at(number) / number as f64;
            place.speeds = vec![speed];
            (self.now + (f64::from_bits(*until) - place.given).max(0.0) / speed, *row)
        });
        if number == 0 {
            place.given = 0.0;
        }
        self.looks += 1;
    }

    /// Lets the next thing happen.
    pub fn event(&mut self) {
        self.unblock();
        for k in 0..self.places.len() {
            if self.places[k].changed {
                self.renew(k);
            }
        }
        self.looks += 1;
        let served = self.places.iter().filter_map(|p| p.soonest).min_by(|a, b| a.0.total_cmp(&b.0));
        let served = served.unwrap_or((f64::INFINITY, 0));
        let asks = self.thinking.peek().map_or(f64::INFINITY, |Reverse((at, _))| f64::from_bits(*at));
        let comes = (0..self.arrivals.len()).min_by(|&a, &b| self.arrivals[a].total_cmp(&self.arrivals[b]));
        let arrives = comes.map_or(f64::INFINITY, |c| self.arrivals[c]);
        let next = served.0.min(asks).min(arrives);
        assert!(next.is_finite(), "nothing can happen");
        self.measure(next - self.now);
        self.now = next;
        if served.0 <= self.now {
            self.served(served.1);
        } else if asks <= self.now {
            let Some(Reverse((_, row))) = self.thinking.pop() else { return };
            self.begin(row);
        } else {
            let Some(c) = comes else { return };
            let Load::Open { rate } = self.network.classes[c].load else { return };
            self.arrivals[c] = self.now + self.exponential(1.0 / rate);
            let row = self.row(c, None);
            self.begin(row);
        }
    }

    /// Nothing changes for so long, seconds.
    fn measure(&mut self, passed: f64) {
        for k in 0..self.places.len() {
            let place = &self.places[k];
            let alike = place.sharing.len() as f64 * place.speeds.first().unwrap_or(&0.0);
            let speed = if self.shares(k) { alike } else { place.speeds.iter().sum() };
            self.areas[2 * k] += passed * speed;
            self.areas[2 * k + 1] += passed * self.present(k) as f64;
        }
        for (p, pool) in self.network.pools.iter().enumerate() {
            let at = 2 * (self.places.len() + p);
            self.areas[at] += passed * (pool.size - self.units[p]) as f64;
            self.areas[at + 1] += passed * self.lines[p].len() as f64;
        }
    }

    fn begin(&mut self, i: usize) {
        let class = self.rows[i].class;
        self.rows[i].acts = itinerary(self.network, class, &mut self.draw);
        (self.rows[i].next, self.rows[i].began) = (0, self.now);
        self.go_on(i);
    }

    fn served(&mut self, i: usize) {
        if let At::Station(k) = self.rows[i].at {
            self.touch(k);
            if self.shares(k) {
                self.places[k].sharing.pop();
            } else {
                self.places[k].present.retain(|&other| other != i);
            }
            self.rows[i].from = (self.network.stations[k].speed != Speed::Delay).then_some(k);
        }
        self.rows[i].serving = false;
        self.go_on(i);
    }

    fn part_ended(&mut self, i: usize, whole: usize) {
        self.rows[i].gone = true;
        self.free.push(i);
        self.rows[whole].parts -= 1;
        if self.rows[whole].parts == 0 {
            self.go_on(whole);
        }
    }

    fn go_on(&mut self, i: usize) {
        loop {
            let Some(act) = self.rows[i].acts.get(self.rows[i].next).cloned() else {
                return match self.rows[i].whole {
                    Some(whole) => self.part_ended(i, whole),
                    None => self.end(i),
                };
            };
            self.rows[i].next += 1;
            match act {
                Act::Serve(station, mean) => return self.come(i, station, mean),
                Act::Ask(pool) if self.units[pool] > 0 => self.units[pool] -= 1,
                Act::Ask(pool) => {
                    self.rows[i].at = At::Pool(pool);
                    self.lines[pool].push(i);
                    return;
                }
                Act::Give(pool) if self.lines[pool].is_empty() => self.units[pool] += 1,
                Act::Give(pool) => {
                    let first = self.lines[pool].remove(0);
                    self.go_on(first);
                }
                Act::Split(parts) => {
                    (self.rows[i].at, self.rows[i].parts) = (At::Split, parts.len());
                    for acts in parts {
                        let part = self.row(self.rows[i].class, Some(i));
                        self.rows[part].acts = acts;
                        self.go_on(part);
                    }
                    return;
                }
            }
        }
    }

    fn come(&mut self, i: usize, station: usize, mean: f64) {
        let keeps = self.rows[i].from.take();
        // Where it was it is no longer counted, unless it has to stay.
        self.rows[i].at = At::Blocked { wants: station, mean, keeps };
        self.blocked.push(i);
        match self.network.stations[station].room {
            Some(room) if self.present(station) >= room.most => {
                if room.full == Full::Lose {
                    self.unblocked(i);
                    return self.leave(i);
                }
                self.tickets += 1;
                self.rows[i].ticket = self.tickets;
            }
            _ => self.enter(i, station, mean),
        }
    }

    /// No longer blocked: the server it kept is free.
    fn unblocked(&mut self, i: usize) {
        self.blocked.retain(|&other| other != i);
        if let At::Blocked { keeps: Some(kept), .. } = self.rows[i].at {
            self.touch(kept);
        }
    }

    fn enter(&mut self, i: usize, station: usize, mean: f64) {
        self.unblocked(i);
        self.touch(station);
        self.tickets += 1;
        let law = self.network.stations[station].law(self.rows[i].class).clone();
        let left = mean * law.draw(&mut || self.draw.unit());
        let row = &mut self.rows[i];
        row.serving = false;
        (row.at, row.left, row.ticket) = (At::Station(station), left, self.tickets);
        let sharing = self.shares(station);
        let place = &mut self.places[station];
        if sharing {
            place.sharing.push(Reverse(((place.given + left).to_bits(), i)));
        } else {
            place.present.push(i);
        }
    }

    fn end(&mut self, i: usize) {
        let (class, response) = (self.rows[i].class, self.now - self.rows[i].began);
        self.ended += 1;
        if self.ended.is_multiple_of(NOTED) {
            self.history.push((self.now, self.areas.clone()));
        }
        self.seen[class].push(Ended { at: self.now, response });
        self.leave(i);
    }

    /// Thinks again, or is gone.
    fn leave(&mut self, i: usize) {
        let class = self.rows[i].class;
        if let Load::Closed { think, .. } = self.network.classes[class].load {
            self.think(i, think);
            if think > 0.0 {
                self.rows[i].from = None;
            }
        } else {
            self.rows[i].gone = true;
            self.free.push(i);
        }
    }

    /// Runs until so many requests have ended.
    pub fn until(&mut self, requests: u64) {
        while self.ended < requests {
            self.event();
        }
    }
}
