//! Drives behind one interface: fixed times, known mechanisms and fitted models, each with a queue.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use servsim_core::{Cycles, DiskRequest, Drive, RandomStream, SECTOR};
use servsim_disk::features::{Command, Features, History, Start};
use servsim_disk::models::{DeviceModel, Service};
use servsim_disk::request::Op;
use servsim_disk::server::queue::{Queue, Waiting};
use servsim_disk::server::station::{ServiceContext, ServiceModel};
use servsim_disk::server::Discipline;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NANOS: u128 = 1_000_000_000;

/// Fixed times, and the rate over the medium.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) read: Cycles,
    pub(super) write: Cycles,
    /// Bytes a second; 0 for no time beside the fixed one.
    pub(super) medium: u64,
    /// Cycles a second.
    pub(super) hertz: u64,
}

impl Times {
    fn of(&self, request: &DiskRequest) -> Cycles {
        let fixed = if request.write { self.write } else { self.read };
        let data = u128::from(request.bytes) * u128::from(self.hertz);
        fixed + Cycles(if self.medium == 0 { 0 } else { data.div_ceil(u128::from(self.medium)) as u64 })
    }
}

enum Mechanism<'a> {
    Fixed(Times),
    Model { service: Service<'a>, rng: Pcg64Mcg, hertz: u64 },
}

/// A drive with a queue.
pub(super) struct Queued<'a> {
    queue: Queue,
    mechanism: Mechanism<'a>,
    history: History,
    slots: usize,
    /// When mechanisms under way end, ns.
    busy_until: BinaryHeap<Reverse<u64>>,
    latest_end: u64,
}

impl<'a> Queued<'a> {
    pub(super) fn fixed(times: Times, discipline: Discipline) -> Self {
        Self::new(discipline, Mechanism::Fixed(times), 1, History::new(false, None, None))
    }

    /// `disk` tells the random numbers of equal drives apart.
    ///
    /// # Panics
    /// For a model of whole responses, which is refused before.
    pub(super) fn modelled(
        model: &'a DeviceModel,
        discipline: Discipline,
        hertz: u64,
        seed: u64,
        disk: usize,
    ) -> Self {
        let service = model.model.as_service().expect("checked when the description was read");
        let mut stream = RandomStream::new(seed, "disk");
        let seed = (0..=disk).map(|_| stream.next_u64()).last().unwrap_or(seed);
        let history = service.history();
        let mechanism = Mechanism::Model { service, rng: Pcg64Mcg::seed_from_u64(seed), hertz };
        let mut drive = Self::new(discipline, mechanism, model.server.slots.max(1) as usize, history);
        drive.queue = Queue::by_place(discipline, model.server.place_sectors);
        drive
    }

    fn new(discipline: Discipline, mechanism: Mechanism<'a>, slots: usize, history: History) -> Self {
        Self {
            queue: Queue::new(discipline),
            mechanism,
            history,
            slots,
            busy_until: BinaryHeap::new(),
            latest_end: 0,
        }
    }
}

fn command(request: &DiskRequest) -> Command {
    let op = if request.write { Op::Write } else { Op::Read };
    Command { lba: request.sector, sectors: request.bytes.div_ceil(SECTOR) as u32, op }
}

impl Drive for Queued<'_> {
    fn push(&mut self, id: usize, request: DiskRequest, now: u64) {
        // The queue only compares arrivals, so cycles do as well as nanoseconds.
        self.queue.push(Waiting { id: id as u64, arrival_ns: now, command: command(&request) });
    }

    fn take(&mut self) -> Option<usize> {
        self.queue.take(self.history.position()).map(|waiting| waiting.id as usize)
    }

    fn mechanism(&mut self, request: &DiskRequest, now: u64) -> Cycles {
        let command = command(request);
        let Mechanism::Model { service, rng, hertz } = &mut self.mechanism else {
            self.history.advance(&command, now);
            let Mechanism::Fixed(times) = &self.mechanism else { unreachable!("there are two kinds") };
            return times.of(request);
        };
        let hertz = u128::from(*hertz);
        let start_ns = (u128::from(now) * NANOS / hertz) as u64;
        while self.busy_until.peek().is_some_and(|Reverse(end)| *end <= start_ns) {
            self.busy_until.pop();
        }
        let idle_ns = if self.latest_end == 0 { 0 } else { start_ns.saturating_sub(self.latest_end) };
        let others = self.busy_until.len() as u32;
        let features = if service.uses_features() {
            self.history.features(&Start { command, start_ns, idle_ns, others })
        } else {
            Features::default()
        };
        let context = ServiceContext { command: &command, features: &features, start_ns };
        let end = start_ns + service.service_ns(&context, rng);
        self.history.advance(&command, end);
        self.busy_until.push(Reverse(end));
        self.latest_end = self.latest_end.max(end);
        Cycles((((u128::from(end - start_ns)) * hertz + NANOS / 2) / NANOS) as u64)
    }

    fn slots(&self) -> usize {
        self.slots
    }
}
