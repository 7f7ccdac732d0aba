//! One replication: an event queue, the requests in flight and the stations and pools they use.
//! Deterministic for a given seed. The random numbers are PCG XSL RR 128/64 (O'Neill 2014).

mod measured;
mod rooms;

use super::calendar::{Calendar, Event};
use super::keeping_up;
use super::program::Step;
use super::server::{JobId, Server};
use crate::error::ModelError;
use crate::network::{Load, Network};
use crate::service::Law;
pub use measured::{Measured, PARTS};
use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rooms::Rooms;
use std::collections::VecDeque;

/// Events between two looks at the interrupt flag.
const CHECK_EVERY: u64 = 1 << 16;

#[derive(Debug, Clone)]
struct Job {
    class: usize,
    step: usize,
    began: f64,
    /// The request this task belongs to, when it is one branch of a fork.
    parent: Option<JobId>,
    /// Branch tasks still running.
    outstanding: usize,
    /// The station whose server it keeps until it can go on, in a network that blocks.
    keeps: Option<usize>,
}

struct Pool {
    free: usize,
    waiting: VecDeque<JobId>,
    size: usize,
}

fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// A replication in progress.
pub struct Engine<'a> {
    network: &'a Network,
    programs: &'a [Vec<Step>],
    random: Pcg64Mcg,
    now: f64,
    calendar: Calendar,
    jobs: Vec<Job>,
    free_jobs: Vec<JobId>,
    servers: Vec<Server>,
    pools: Vec<Pool>,
    /// Requests at each station, by class.
    counts: Vec<Vec<u32>>,
    /// Requests in the system, by class.
    in_system: Vec<u32>,
    rooms: Rooms,
    /// When the measures of each station, pool and class were settled last, seconds.
    touched: Vec<f64>,
    measured: Measured,
    measuring: bool,
    measure_from: f64,
}

impl<'a> Engine<'a> {
    /// All closed customers thinking, open classes about to arrive.
    pub fn new(network: &'a Network, programs: &'a [Vec<Step>], seed: u64) -> Self {
        let classes = network.classes.len();
        let stations = network.stations.len();
        let pool = |p: &crate::network::Pool| Pool { free: p.size, waiting: VecDeque::new(), size: p.size };
        let mut engine = Self {
            network,
            programs,
            random: Pcg64Mcg::seed_from_u64(seed),
            now: 0.0,
            calendar: Calendar::new(stations, classes),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            servers: network.stations.iter().map(Server::new).collect(),
            pools: network.pools.iter().map(pool).collect(),
            counts: vec![vec![0; classes]; stations],
            in_system: vec![0; classes],
            rooms: Rooms::new(network),
            touched: vec![0.0; stations + network.pools.len() + classes],
            measured: Measured::nothing(classes, stations, network.pools.len()),
            measuring: false,
            measure_from: 0.0,
        };
        engine.populate();
        engine
    }

    fn populate(&mut self) {
        for c in 0..self.network.classes.len() {
            match self.network.classes[c].load {
                Load::Closed { population, .. } => {
                    for _ in 0..population {
                        let job = self.new_job(c, None);
                        self.think(job);
                    }
                }
                Load::Open { rate } => {
                    let at = self.exponential(1.0 / rate);
                    self.calendar.set_arrival(c, at);
                }
            }
        }
    }

    /// Runs for `warmup` seconds unmeasured, then measures for `span` seconds. Now and then `interrupted` is asked whether
    /// to stop, and told the time that it is in the model, seconds.
    ///
    /// # Errors
    /// [`ModelError::Interrupted`].
    pub fn run(
        mut self,
        warmup: f64,
        span: f64,
        interrupted: impl Fn(f64) -> bool,
    ) -> Result<Measured, ModelError> {
        self.run_until(warmup, &interrupted)?;
        self.begin_measuring();
        for part in 1..=PARTS {
            self.measured.begin_part();
            self.run_until(warmup + span * part as f64 / PARTS as f64, &interrupted)?;
            self.settle_counts();
        }
        self.settle_all();
        self.measured.span = span;
        for (k, server) in self.servers.iter().enumerate() {
            self.measured.work[k] = server.work_done;
        }
        Ok(self.measured)
    }

    fn run_until(&mut self, end: f64, interrupted: &impl Fn(f64) -> bool) -> Result<(), ModelError> {
        let mut count = 0u64;
        while let Some((at, event)) = self.calendar.pop(end) {
            count += 1;
            if count & (CHECK_EVERY - 1) == 0 {
                if interrupted(at) {
                    return Err(ModelError::Interrupted);
                }
                self.check_number()?;
            }
            self.now = at;
            self.handle(event);
        }
        self.now = end;
        Ok(())
    }

    /// A line that outgrows memory says that its class gets ahead of what serves it.
    fn check_number(&self) -> Result<(), ModelError> {
        let most = self.network.open().into_iter().max_by_key(|&c| self.in_system[c]);
        match most.filter(|&c| self.in_system[c] as usize > super::MOST_CUSTOMERS) {
            Some(class) => {
                Err(keeping_up::outgrown(&self.network.classes[class].name, super::MOST_CUSTOMERS))
            }
            None => Ok(()),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival(class) => {
                let job = self.new_job(class, None);
                self.begin(job);
                if let Load::Open { rate } = self.network.classes[class].load {
                    let next = self.now + self.exponential(1.0 / rate);
                    self.calendar.set_arrival(class, next);
                }
            }
            Event::Begin(job) => self.begin(job),
            Event::Alarm(station) => {
                self.settle_station(station);
                if self.rooms.block && self.servers[station].holds() {
                    if let Some(job) = self.servers[station].hold(self.now) {
                        self.set_alarm(station);
                        self.jobs[job as usize].keeps = Some(station);
                        self.served(job);
                    }
                } else if let Some(job) = self.servers[station].complete(self.now) {
                    self.counts[station][self.jobs[job as usize].class] -= 1;
                    self.set_alarm(station);
                    if self.rooms.block {
                        self.let_in(station);
                    }
                    self.served(job);
                }
            }
        }
    }

    fn begin(&mut self, job: JobId) {
        let now = self.now;
        let state = &mut self.jobs[job as usize];
        state.began = now;
        state.step = 0;
        let class = state.class;
        self.settle_class(class);
        self.in_system[class] += 1;
        self.proceed(job);
    }

    /// A visit ended.
    fn served(&mut self, job: JobId) {
        self.jobs[job as usize].step += 1;
        self.proceed(job);
    }

    /// Follows the itinerary until the request has to wait.
    fn proceed(&mut self, job: JobId) {
        let programs = self.programs;
        loop {
            let (class, step) = (self.jobs[job as usize].class, self.jobs[job as usize].step);
            match programs[class].get(step) {
                None => {
                    // Who does not think asks for the next request's first station from where it is.
                    let customer = &self.network.classes[class];
                    if !customer.is_closed() || customer.think() > 0.0 {
                        self.vacate(job);
                    }
                    return self.finish(job);
                }
                Some(Step::Serve { station, mean, probability }) => {
                    if *probability >= 1.0 || self.uniform() < *probability {
                        return self.ask(job, *station, *mean);
                    }
                }
                Some(Step::Acquire(pool)) => {
                    self.settle_pool(*pool);
                    let state = &mut self.pools[*pool];
                    if state.free == 0 {
                        state.waiting.push_back(job);
                        return;
                    }
                    state.free -= 1;
                }
                Some(Step::Release(pool)) => self.release(*pool),
                Some(Step::Fork { branches, .. }) => return self.fork(job, branches),
                Some(Step::Join) => return self.join(job),
                Some(Step::Jump(targets)) => {
                    let mut at = self.uniform();
                    let chosen = targets.iter().find(|(p, _)| {
                        at -= p;
                        at < 0.0
                    });
                    // Rounding must not end a list of probabilities that sum to one.
                    self.jobs[job as usize].step = chosen.or(targets.last()).map_or(usize::MAX, |t| t.1);
                    continue;
                }
            }
            self.jobs[job as usize].step += 1;
        }
    }

    fn release(&mut self, pool: usize) {
        self.settle_pool(pool);
        match self.pools[pool].waiting.pop_front() {
            Some(next) => {
                // The unit passes on at once; the next request resumes after its Acquire.
                self.jobs[next as usize].step += 1;
                self.proceed(next);
            }
            None => self.pools[pool].free += 1,
        }
    }

    fn fork(&mut self, job: JobId, branches: &[usize]) {
        let class = self.jobs[job as usize].class;
        self.jobs[job as usize].outstanding = branches.len();
        for &step in branches {
            let task = self.new_job(class, Some(job));
            self.jobs[task as usize].step = step;
            self.proceed(task);
        }
    }

    /// A task ends; the last of them lets its request go on.
    fn join(&mut self, task: JobId) {
        let Some(parent) = self.jobs[task as usize].parent else { return };
        self.free_jobs.push(task);
        let request = &mut self.jobs[parent as usize];
        request.outstanding -= 1;
        if request.outstanding > 0 {
            return;
        }
        if let Some(Step::Fork { after, .. }) = self.programs[request.class].get(request.step) {
            request.step = *after;
            self.proceed(parent);
        }
    }

    fn enter(&mut self, job: JobId, station: usize, mean: f64) {
        let class = self.jobs[job as usize].class;
        let place = &self.network.stations[station];
        let work = match place.law(class) {
            Law::Exponential => self.exponential(mean),
            law => mean * law.draw(&mut || uniform(&mut self.random)),
        };
        self.settle_station(station);
        self.counts[station][class] += 1;
        let priority = self.network.classes[class].priority;
        self.servers[station].arrive(self.now, job, work, priority, place.weight(class));
        self.set_alarm(station);
    }

    fn set_alarm(&mut self, station: usize) {
        self.calendar.set_alarm(station, self.servers[station].alarm());
    }

    fn finish(&mut self, job: JobId) {
        let Job { class, began, .. } = self.jobs[job as usize];
        if self.measuring {
            let response = self.now - began;
            self.measured.completed[class] += 1;
            self.measured.response[class] += response;
            self.measured.histogram[class].add(response);
        }
        self.dismiss(job);
    }

    fn dismiss(&mut self, job: JobId) {
        let class = self.jobs[job as usize].class;
        self.settle_class(class);
        self.in_system[class] -= 1;
        if self.network.classes[class].is_closed() {
            self.think(job);
        } else {
            self.free_jobs.push(job);
        }
    }

    fn think(&mut self, job: JobId) {
        let think = self.network.classes[self.jobs[job as usize].class].think();
        let until = self.now + if think > 0.0 { self.exponential(think) } else { 0.0 };
        self.calendar.think(job, until);
    }

    fn new_job(&mut self, class: usize, parent: Option<JobId>) -> JobId {
        let job = Job { class, step: 0, began: self.now, parent, outstanding: 0, keeps: None };
        if let Some(id) = self.free_jobs.pop() {
            self.jobs[id as usize] = job;
            return id;
        }
        self.jobs.push(job);
        (self.jobs.len() - 1) as JobId
    }

    fn uniform(&mut self) -> f64 {
        uniform(&mut self.random)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }
}
