//! How one simulated station orders its work: infinite servers, processor sharing by virtual time,
//! shared by weight, first come first served and by priority on `m` servers, preemptive-resume or not.
//!
//! A station is told when a job arrives or when its alarm rings, and answers with the job that is
//! done and the time of its next alarm.

use crate::network::{Discipline, Speed, Station};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A time or amount of work with a total order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment(pub f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Job number.
pub type JobId = u32;

#[derive(Debug)]
enum Order {
    /// Virtual finishing times; every job present is served at speed(n)/n.
    Sharing { virtual_time: f64, finish: BinaryHeap<Reverse<(Moment, u64, JobId)>> },
    /// The same, of one server by weight: a job of weight `g` gets g / total of it.
    Weighted { virtual_time: f64, total: f64, finish: BinaryHeap<Reverse<(Moment, u64, JobId, Moment)>> },
    /// Jobs in service with their end, and those waiting by (priority, arrival); priorities are 0 where none count.
    Turns {
        servers: usize,
        ranked: bool,
        /// Servers kept by requests that are done and cannot go on.
        kept: usize,
        ends: BinaryHeap<Reverse<(Moment, u64, JobId)>>,
        waiting: VecDeque<(JobId, f64, i32)>,
    },
    /// Jobs by (priority, arrival) with the work left; the first, as many as servers, are in service.
    Priority { servers: usize, jobs: BTreeMap<(Reverse<i32>, u64), (JobId, f64)> },
}

/// A station during one replication.
#[derive(Debug)]
pub struct Server {
    speed: Speed,
    order: Order,
    updated: f64,
    arrivals: u64,
    present: usize,
    /// Integral over time of the speed in use.
    pub work_done: f64,
}

impl Server {
    /// An empty station.
    pub fn new(station: &Station) -> Self {
        let order = match (&station.discipline, &station.speed) {
            (Discipline::Priority, Speed::Servers(m)) => {
                Order::Priority { servers: *m, jobs: BTreeMap::new() }
            }
            (Discipline::Fcfs | Discipline::NonPreemptive, Speed::Servers(m)) => Order::Turns {
                servers: *m,
                ranked: station.discipline == Discipline::NonPreemptive,
                kept: 0,
                ends: BinaryHeap::new(),
                waiting: VecDeque::new(),
            },
            (Discipline::Weighted, _) => {
                Order::Weighted { virtual_time: 0.0, total: 0.0, finish: BinaryHeap::new() }
            }
            _ => Order::Sharing { virtual_time: 0.0, finish: BinaryHeap::new() },
        };
        let speed = station.speed.clone();
        Self { speed, order, updated: 0.0, arrivals: 0, present: 0, work_done: 0.0 }
    }

    /// Accounts for the time since the last change.
    pub fn advance(&mut self, now: f64) {
        let elapsed = now - self.updated;
        self.updated = now;
        if self.present == 0 || elapsed <= 0.0 {
            return;
        }
        let speed = match &self.order {
            Order::Turns { ends, .. } => ends.len() as f64,
            _ => self.speed.at(self.present),
        };
        self.work_done += elapsed * speed;
        match &mut self.order {
            Order::Sharing { virtual_time, .. } => *virtual_time += elapsed * speed / self.present as f64,
            Order::Priority { servers, jobs } => {
                jobs.values_mut().take(*servers).for_each(|(_, left)| *left -= elapsed);
            }
            Order::Weighted { virtual_time, total, .. } => *virtual_time += elapsed * speed / *total,
            Order::Turns { .. } => {}
        }
    }

    /// Takes in a job that needs `work` seconds of one server.
    pub fn arrive(&mut self, now: f64, job: JobId, work: f64, priority: i32, weight: f64) {
        self.advance(now);
        self.present += 1;
        self.arrivals += 1;
        match &mut self.order {
            Order::Sharing { virtual_time, finish } => {
                finish.push(Reverse((Moment(*virtual_time + work), self.arrivals, job)));
            }
            Order::Weighted { virtual_time, total, finish } => {
                let end = Moment(*virtual_time + work / weight);
                *total += weight;
                finish.push(Reverse((end, self.arrivals, job, Moment(weight))));
            }
            Order::Turns { servers, ranked, kept, ends, waiting } => {
                if ends.len() + *kept < *servers {
                    ends.push(Reverse((Moment(now + work), self.arrivals, job)));
                } else {
                    let rank = if *ranked { priority } else { 0 };
                    let behind = waiting.iter().rposition(|w| w.2 >= rank).map_or(0, |i| i + 1);
                    waiting.insert(behind, (job, work, rank));
                }
            }
            Order::Priority { jobs, .. } => {
                jobs.insert((Reverse(priority), self.arrivals), (job, work));
            }
        }
    }

    /// Time of the next completion if nothing else happens.
    pub fn alarm(&self) -> Option<f64> {
        match &self.order {
            Order::Sharing { virtual_time, finish } => finish.peek().map(|Reverse((end, ..))| {
                let rate = self.speed.at(self.present) / self.present as f64;
                self.updated + ((end.0 - virtual_time) / rate).max(0.0)
            }),
            Order::Weighted { virtual_time, total, finish } => finish
                .peek()
                .map(|Reverse((end, ..))| self.updated + ((end.0 - virtual_time) * total).max(0.0)),
            Order::Turns { ends, .. } => ends.peek().map(|Reverse((end, ..))| end.0),
            Order::Priority { servers, jobs } => {
                let soonest =
                    jobs.values().take(*servers).map(|(_, left)| left.max(0.0)).min_by(f64::total_cmp);
                soonest.map(|left| self.updated + left)
            }
        }
    }

    /// True where a server can be kept by who is done: delays keep nobody.
    pub fn holds(&self) -> bool {
        matches!(self.order, Order::Turns { .. })
    }

    /// The job whose completion the alarm announced; it stays, with its server.
    pub fn hold(&mut self, now: f64) -> Option<JobId> {
        self.advance(now);
        let Order::Turns { kept, ends, .. } = &mut self.order else { return None };
        let Reverse((_, _, job)) = ends.pop()?;
        *kept += 1;
        Some(job)
    }

    /// A job that stayed leaves, and its server begins with the next.
    pub fn release(&mut self, now: f64) {
        self.advance(now);
        self.present -= 1;
        let Order::Turns { kept, ends, waiting, .. } = &mut self.order else { return };
        *kept -= 1;
        if let Some((next, work, _)) = waiting.pop_front() {
            self.arrivals += 1;
            ends.push(Reverse((Moment(now + work), self.arrivals, next)));
        }
    }

    /// The job whose completion the alarm announced.
    pub fn complete(&mut self, now: f64) -> Option<JobId> {
        self.advance(now);
        let job = match &mut self.order {
            Order::Sharing { finish, .. } => finish.pop().map(|Reverse((_, _, job))| job),
            Order::Weighted { total, finish, .. } => finish.pop().map(|Reverse((_, _, job, weight))| {
                // Sums of weights are set right when nobody is left.
                *total = if finish.is_empty() { 0.0 } else { *total - weight.0 };
                job
            }),
            Order::Turns { ends, waiting, .. } => {
                let done = ends.pop().map(|Reverse((_, _, job))| job);
                if let Some((next, work, _)) = waiting.pop_front() {
                    self.arrivals += 1;
                    ends.push(Reverse((Moment(now + work), self.arrivals, next)));
                }
                done
            }
            Order::Priority { servers, jobs } => {
                let served = jobs.iter().take(*servers).min_by(|a, b| a.1 .1.total_cmp(&b.1 .1));
                served.map(|(key, _)| *key).and_then(|key| jobs.remove(&key)).map(|(job, _)| job)
            }
        }?;
        self.present -= 1;
        Some(job)
    }
}
