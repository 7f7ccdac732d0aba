//! A device at work: requests are submitted in order of time and started by the discipline; the
//! model says how long each takes.
//!
//! This is the seam for a server simulator: [`Device::submit`] a request at its time,
//! [`Device::advance`] to the present, and collect the [`Started`] services, whose completion
//! times are known as soon as they start.

use super::queue::{Queue, Waiting};
use super::Server;
use crate::features::{Command, Features, History, Start};
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What determines the physical service time of a request.
#[derive(Debug)]
pub struct ServiceContext<'a> {
    /// The request.
    pub command: &'a Command,
    /// What the device did before; see [`crate::features::FEATURE_NAMES`].
    pub features: &'a Features,
    /// Start of service, ns.
    pub start_ns: u64,
}

/// A model of physical service times. Models with a mechanism keep its state between calls.
pub trait ServiceModel {
    /// The service time of one request in ns, at least 1.
    fn service_ns(&mut self, context: &ServiceContext<'_>, rng: &mut Pcg64Mcg) -> u64;

    /// Whether the model looks at the features at all.
    fn uses_features(&self) -> bool {
        true
    }

    /// A device that has served nothing yet, with what the model asks of its past.
    fn history(&self) -> History {
        History::new(false, None, None)
    }
}

/// A service that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// The caller's number of the request.
    pub id: u64,
    /// Arrival, ns.
    pub arrival_ns: u64,
    /// Start of service, ns.
    pub start_ns: u64,
    /// Completion, ns.
    pub completion_ns: u64,
}

/// What a server simulator needs of a disk.
pub trait Device {
    /// A request arrives at `now_ns`; calls come in order of time.
    fn submit(&mut self, id: u64, command: Command, now_ns: u64, started: &mut dyn FnMut(Started));

    /// Starts every service that begins before `now_ns`.
    fn advance(&mut self, now_ns: u64, started: &mut dyn FnMut(Started));

    /// When the next service begins if nothing else arrives, ns.
    fn next_start_ns(&self) -> Option<u64>;

    /// Requests waiting, those in service left out.
    fn waiting(&self) -> usize;
}

/// One device: a queue, slots, a history and a model.
#[derive(Debug)]
pub struct Station<M> {
    queue: Queue,
    slots: usize,
    /// When each busy slot frees, earliest first; at most `slots` of them.
    busy_until: BinaryHeap<Reverse<u64>>,
    latest_completion: u64,
    last_arrival_ns: u64,
    history: History,
    model: M,
    rng: Pcg64Mcg,
}

impl<M: ServiceModel> Station<M> {
    /// An idle device.
    pub fn new(server: &Server, model: M, rng: Pcg64Mcg) -> Self {
        Station {
            queue: Queue::by_place(server.discipline, server.place_sectors),
            slots: server.slots.max(1) as usize,
            busy_until: BinaryHeap::new(),
            latest_completion: 0,
            last_arrival_ns: 0,
            history: model.history(),
            model,
            rng,
        }
    }

    #[inline]
    fn serve(&mut self, request: &Waiting, start_ns: u64) -> Started {
        while self.busy_until.peek().is_some_and(|Reverse(free)| *free <= start_ns) {
            self.busy_until.pop();
        }
        let idle_ns = start_ns.saturating_sub(self.latest_completion);
        let idle_ns = if self.latest_completion == 0 { 0 } else { idle_ns };
        let others = self.busy_until.len() as u32;
        let features = if self.model.uses_features() {
            self.history.features(&Start { command: request.command, start_ns, idle_ns, others })
        } else {
            Features::default()
        };
        let context = ServiceContext { command: &request.command, features: &features, start_ns };
        let completion_ns = start_ns.saturating_add(self.model.service_ns(&context, &mut self.rng));
        self.history.advance(&request.command, completion_ns);
        self.busy_until.push(Reverse(completion_ns));
        self.latest_completion = self.latest_completion.max(completion_ns);
        Started { id: request.id, arrival_ns: request.arrival_ns, start_ns, completion_ns }
    }
}

impl<M: ServiceModel> Device for Station<M> {
    fn submit(&mut self, id: u64, command: Command, now_ns: u64, started: &mut dyn FnMut(Started)) {
        self.advance(now_ns, started);
        self.last_arrival_ns = now_ns;
        self.queue.push(Waiting { id, arrival_ns: now_ns, command });
    }

    fn advance(&mut self, now_ns: u64, started: &mut dyn FnMut(Started)) {
        while let Some(start) = self.next_start_ns() {
            if start >= now_ns {
                return;
            }
            let request = self.queue.take(self.history.position()).expect("someone waits");
            let service = self.serve(&request, start);
            started(service);
        }
    }

    fn next_start_ns(&self) -> Option<u64> {
        if self.queue.is_empty() {
            return None;
        }
        if self.busy_until.len() == self.slots {
            let Reverse(free) = self.busy_until.peek()?;
            // Everything that waits arrived by then: no need to look for the earliest.
            if *free >= self.last_arrival_ns {
                return Some(*free);
            }
            return self.queue.earliest().map(|earliest| earliest.max(*free));
        }
        self.queue.earliest()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
