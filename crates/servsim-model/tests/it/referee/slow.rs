//! A slow, obvious event simulator, written from the description of the models alone: every request is a row with
//! the work it has left; at each event the speed of every request is found anew and the smallest remaining time
//! elapses. Shares nothing with the crate's engine (but the drawing of one service time of a law), its queue of events, its stations or its random numbers. Over 400 lines because it has to be read beside nothing else.

use crate::common::Draw;
use servsim_model::network::Part;
use servsim_model::{Discipline, Full, Load, Network, Speed, Station};

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

/// What was seen of a class.
#[derive(Default, Clone)]
pub struct Seen {
    pub throughput: f64,
    pub responses: Vec<f64>,
}

pub struct Simulation<'a> {
    network: &'a Network,
    draw: Draw,
    rows: Vec<Row>,
    free: Vec<usize>,
    arrivals: Vec<f64>,
    units: Vec<usize>,
    lines: Vec<Vec<usize>>,
    now: f64,
    tickets: u64,
    measuring: bool,
    pub seen: Vec<Seen>,
    pub ended: u64,
}

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
            arrivals: vec![f64::INFINITY; network.classes.len()],
            units: network.pools.iter().map(|p| p.size).collect(),
            lines: vec![Vec::new(); network.pools.len()],
            now: 0.0,
            tickets: 0,
            measuring: false,
            seen: vec![Seen::default(); network.classes.len()],
            ended: 0,
        };
        for (c, class) in network.classes.iter().enumerate() {
            match class.load {
                Load::Open { rate } => simulation.arrivals[c] = simulation.exponential(1.0 / rate),
                Load::Closed { population, think } => {
                    for _ in 0..population {
                        let row = simulation.row(c, None);
                        simulation.rows[row].left = simulation.exponential(think);
                    }
                }
            }
        }
        simulation
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.draw.unit()).ln()
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
        let here = |row: &&Row| match row.at {
            At::Station(at) => at == k,
            At::Blocked { keeps, .. } => keeps == Some(k),
            _ => false,
        };
        self.rows.iter().filter(|row| !row.gone).filter(here).count()
    }

    fn kept(&self, k: usize) -> usize {
        let here = |row: &&Row| matches!(row.at, At::Blocked { keeps, .. } if keeps == Some(k));
        self.rows.iter().filter(|row| !row.gone).filter(here).count()
    }

    /// Begins services that are not interrupted wherever a server is free.
    fn begin_services(&mut self) {
        let turns = |s: &Station| {
            matches!(s.discipline, Discipline::Fcfs | Discipline::NonPreemptive)
                && matches!(s.speed, Speed::Servers(_))
        };
        for (k, station) in self.network.stations.iter().enumerate().filter(|(_, s)| turns(s)) {
            let Speed::Servers(servers) = station.speed else { continue };
            let there = |row: &Row| !row.gone && row.at == At::Station(k);
            let busy = self.rows.iter().filter(|row| there(row) && row.serving).count() + self.kept(k);
            let mut waiting: Vec<usize> =
                (0..self.rows.len()).filter(|&i| there(&self.rows[i]) && !self.rows[i].serving).collect();
            let ranked = station.discipline == Discipline::NonPreemptive;
            let rank = |i: usize| if ranked { -self.network.classes[self.rows[i].class].priority } else { 0 };
            waiting.sort_by_key(|&i| (rank(i), self.rows[i].ticket));
            for &i in waiting.iter().take(servers.saturating_sub(busy)) {
                self.rows[i].serving = true;
            }
        }
    }

    /// Lets in who has waited longest, as long as there is room anywhere.
    fn unblock(&mut self) {
        loop {
            let free = |row: &Row| match row.at {
                At::Blocked { wants, .. } if !row.gone => {
                    self.network.stations[wants].room.is_none_or(|room| self.present(wants) < room.most)
                }
                _ => false,
            };
            let first =
                (0..self.rows.len()).filter(|&i| free(&self.rows[i])).min_by_key(|&i| self.rows[i].ticket);
            let Some(i) = first else { return };
            let At::Blocked { wants, mean, .. } = self.rows[i].at else { return };
            self.enter(i, wants, mean);
        }
    }

    /// Speed of each request; zero for those who wait.
    fn speeds(&self) -> Vec<f64> {
        let mut speeds = vec![0.0; self.rows.len()];
        let mut there: Vec<Vec<usize>> = vec![Vec::new(); self.network.stations.len()];
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| !row.gone) {
            match row.at {
                At::Thinks => speeds[i] = 1.0,
                At::Station(k) => there[k].push(i),
                At::Pool(_) | At::Split | At::Blocked { .. } => {}
            }
        }
        for (station, present) in self.network.stations.iter().zip(&mut there) {
            if present.is_empty() {
                continue;
            }
            let rate = station.speed.at(present.len());
            match (station.discipline, &station.speed) {
                (Discipline::Priority, Speed::Servers(servers)) => {
                    let rank = |&i: &usize| {
                        (-self.network.classes[self.rows[i].class].priority, self.rows[i].ticket)
                    };
                    present.sort_by_key(rank);
                    present.iter().take(*servers).for_each(|&i| speeds[i] = 1.0);
                }
                (Discipline::Fcfs | Discipline::NonPreemptive, Speed::Servers(_)) => {
                    present.iter().filter(|&&i| self.rows[i].serving).for_each(|&i| speeds[i] = 1.0);
                }
                (Discipline::Weighted, _) => {
                    let weight = |i: usize| station.weights.get(self.rows[i].class).copied().unwrap_or(1.0);
                    let all: f64 = present.iter().map(|&i| weight(i)).sum();
                    present.iter().for_each(|&i| speeds[i] = weight(i) / all);
                }
                _ => present.iter().for_each(|&i| speeds[i] = rate / present.len() as f64),
            }
        }
        speeds
    }

    /// Lets the next thing happen.
    pub fn event(&mut self) {
        self.unblock();
        self.begin_services();
        let speeds = self.speeds();
        let mut soonest = (f64::INFINITY, None);
        for (i, speed) in speeds.iter().enumerate().filter(|(_, s)| **s > 0.0) {
            let at = self.now + self.rows[i].left / speed;
            if at < soonest.0 {
                soonest = (at, Some(i));
            }
        }
        let arrives = (0..self.arrivals.len()).min_by(|&a, &b| self.arrivals[a].total_cmp(&self.arrivals[b]));
        let class = arrives.filter(|&c| self.arrivals[c] < soonest.0);
        let until = class.map_or(soonest.0, |c| self.arrivals[c]);
        for (row, speed) in self.rows.iter_mut().zip(&speeds) {
            row.left -= (until - self.now) * speed;
        }
        self.now = until;
        match (class, soonest.1) {
            (Some(c), _) => {
                let Load::Open { rate } = self.network.classes[c].load else { return };
                self.arrivals[c] = self.now + self.exponential(1.0 / rate);
                let row = self.row(c, None);
                self.begin(row);
            }
            (None, Some(i)) if self.rows[i].at == At::Thinks => self.begin(i),
            (None, Some(i)) => self.served(i),
            (None, None) => panic!("nothing can happen"),
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
        match self.network.stations[station].room {
            Some(room) if self.present(station) >= room.most => {
                if room.full == Full::Lose {
                    return self.leave(i);
                }
                self.tickets += 1;
                self.rows[i].ticket = self.tickets;
            }
            _ => self.enter(i, station, mean),
        }
    }

    fn enter(&mut self, i: usize, station: usize, mean: f64) {
        self.tickets += 1;
        let law = self.network.stations[station].law(self.rows[i].class).clone();
        let left = mean * law.draw(&mut || self.draw.unit());
        let row = &mut self.rows[i];
        row.serving = false;
        (row.at, row.left, row.ticket) = (At::Station(station), left, self.tickets);
    }

    fn end(&mut self, i: usize) {
        let (class, response) = (self.rows[i].class, self.now - self.rows[i].began);
        self.ended += 1;
        if self.measuring {
            self.seen[class].responses.push(response);
        }
        self.leave(i);
    }

    /// Thinks again, or is gone.
    fn leave(&mut self, i: usize) {
        let class = self.rows[i].class;
        if let Load::Closed { think, .. } = self.network.classes[class].load {
            self.rows[i].at = At::Thinks;
            self.rows[i].left = self.exponential(think);
            if think > 0.0 {
                self.rows[i].from = None;
            }
        } else {
            self.rows[i].gone = true;
            self.free.push(i);
        }
    }

    /// Runs for `warm` requests unmeasured, then for `requests`.
    pub fn run(mut self, warm: u64, requests: u64) -> Vec<Seen> {
        while self.ended < warm {
            self.event();
        }
        let (from, first) = (self.now, self.ended);
        self.measuring = true;
        while self.ended - first < requests {
            self.event();
        }
        let span = self.now - from;
        for seen in &mut self.seen {
            seen.throughput = seen.responses.len() as f64 / span;
        }
        self.seen
    }
}
