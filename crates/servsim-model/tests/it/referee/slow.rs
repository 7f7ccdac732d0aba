//! A slow, obvious event simulator, written from the description of the models alone: every request is a row with
//! the work it has left; at each event the speed of every request is found anew and the smallest remaining time
//! elapses. Shares nothing with the crate's engine, its queue of events, its stations or its random numbers.

use crate::common::Draw;
use servsim_model::{Discipline, Load, Network, Speed};

/// One thing a request does.
#[derive(Clone, Debug)]
enum Act {
    Serve(usize, f64),
    Ask(usize),
    Give(usize),
    Split(Vec<(usize, f64)>),
}

/// What a request waits for at the moment.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Thinks,
    Station(usize),
    Pool(usize),
    /// Its parts are under way.
    Split,
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
    let branches: Vec<usize> = network.forks.iter().flat_map(|f| f.branches.clone()).collect();
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
        level(network, class, None, &mut acts);
    }
    for fork in &network.forks {
        let part = |&k: &usize| (k, network.stations[k].demands[class]);
        let parts: Vec<(usize, f64)> = fork.branches.iter().map(part).filter(|p| p.1 > 0.0).collect();
        if !parts.is_empty() {
            acts.push(Act::Split(parts));
        }
    }
    acts
}

/// The work of a level of pools, then the pools inside it.
fn level(network: &Network, class: usize, pool: Option<usize>, acts: &mut Vec<Act>) {
    for k in 0..network.stations.len() {
        let held: f64 = network.pools.iter().map(|p| p.holds[k]).sum();
        let work = pool.map_or(network.stations[k].demands[class] - held, |p| network.pools[p].holds[k]);
        if work > 1e-15 {
            acts.push(Act::Serve(k, work));
        }
    }
    for inner in (0..network.pools.len()).filter(|&p| network.pools[p].parent == pool) {
        acts.push(Act::Ask(inner));
        level(network, class, Some(inner), acts);
        acts.push(Act::Give(inner));
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
            gone: false,
        };
        if let Some(free) = self.free.pop() {
            self.rows[free] = new;
            return free;
        }
        self.rows.push(new);
        self.rows.len() - 1
    }

    /// Speed of each request; zero for those who wait.
    fn speeds(&self) -> Vec<f64> {
        let mut speeds = vec![0.0; self.rows.len()];
        let mut there: Vec<Vec<usize>> = vec![Vec::new(); self.network.stations.len()];
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| !row.gone) {
            match row.at {
                At::Thinks => speeds[i] = 1.0,
                At::Station(k) => there[k].push(i),
                At::Pool(_) | At::Split => {}
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
                (Discipline::Fcfs, Speed::Servers(servers)) => {
                    present.sort_by_key(|&i| self.rows[i].ticket);
                    present.iter().take(*servers).for_each(|&i| speeds[i] = 1.0);
                }
                _ => present.iter().for_each(|&i| speeds[i] = rate / present.len() as f64),
            }
        }
        speeds
    }

    /// Lets the next thing happen.
    pub fn event(&mut self) {
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
        let Some(whole) = self.rows[i].whole else { return self.go_on(i) };
        self.rows[i].gone = true;
        self.free.push(i);
        self.rows[whole].parts -= 1;
        if self.rows[whole].parts == 0 {
            self.go_on(whole);
        }
    }

    fn go_on(&mut self, i: usize) {
        loop {
            let Some(act) = self.rows[i].acts.get(self.rows[i].next).cloned() else { return self.end(i) };
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
                    for (station, mean) in parts {
                        let part = self.row(self.rows[i].class, Some(i));
                        self.come(part, station, mean);
                    }
                    return;
                }
            }
        }
    }

    fn come(&mut self, i: usize, station: usize, mean: f64) {
        self.tickets += 1;
        let left = self.exponential(mean);
        let row = &mut self.rows[i];
        (row.at, row.left, row.ticket) = (At::Station(station), left, self.tickets);
    }

    fn end(&mut self, i: usize) {
        let (class, response) = (self.rows[i].class, self.now - self.rows[i].began);
        self.ended += 1;
        if self.measuring {
            self.seen[class].responses.push(response);
        }
        if let Load::Closed { think, .. } = self.network.classes[class].load {
            self.rows[i].at = At::Thinks;
            self.rows[i].left = self.exponential(think);
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
