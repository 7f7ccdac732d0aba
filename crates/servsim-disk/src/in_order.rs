//! Running a model on requests that come one by one, in order of arrival, on a device that serves them in that
//! order: nothing is held but a few of them, however long the trace. Results are those of [`crate::simulate`], byte
//! for byte, which does the same with requests that it has all.

use crate::features::{Command, Features, History, Start, FEATURES};
use crate::models::bulk::{keys, set_time_keys, Guesses, Keys, Walker, LANES};
use crate::models::forest::Forest;
use crate::models::{service_ns, DeviceModel, Model};
use crate::observed::Observed;
use crate::order::{Served, ServiceOrder};
use crate::request::{Op, Request};
use crate::server::station::Started;
use crate::server::Discipline;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Requests drawn together in open loop; their features share the nearest cache with the trees.
const BATCH: usize = 64;

/// A request whose response has been drawn.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    /// Rank of its arrival, from 0.
    pub number: usize,
    /// When it arrived, ns.
    pub arrival_ns: u64,
    /// Its response, ns.
    pub response_ns: u64,
}

/// Draws for many requests at once.
pub(crate) struct Batch<'a> {
    walker: Walker<'a>,
    rng: Pcg64Mcg,
    device: Observed,
    features: Box<[Features; BATCH]>,
    /// What has been added, with its wait for its response.
    waiting: [Drawn; BATCH],
    draws: [f32; BATCH],
    length: usize,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(model: &'a Model, forest: &'a Forest, rng: Pcg64Mcg) -> Self {
        Batch {
            walker: Walker::new(forest),
            rng,
            device: Observed::of(model, forest.history()),
            features: Box::new([Features::default(); BATCH]),
            waiting: [Drawn { number: 0, arrival_ns: 0, response_ns: 0 }; BATCH],
            draws: [0.0; BATCH],
            length: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, served: &Served, put: &mut impl FnMut(Drawn)) {
        let at = self.length % BATCH;
        self.features[at] = self.device.features(served);
        self.waiting[at] = Drawn {
            number: served.number,
            arrival_ns: served.request.arrival_ns,
            response_ns: served.wait_ns(),
        };
        self.device.completed(served, &self.features[at]);
        self.length += 1;
        if self.length == BATCH {
            self.flush(put);
        }
    }

    /// Hands on what has been added.
    pub(crate) fn flush(&mut self, put: &mut impl FnMut(Drawn)) {
        let draws = &mut self.draws[..self.length];
        self.walker.draw_many_us(&self.features[..self.length], &mut self.rng, draws);
        for (drawn, draw) in self.waiting.iter().zip(draws) {
            put(Drawn { response_ns: drawn.response_ns + (draw.max(0.0) * 1e3) as i64 as u64, ..*drawn });
        }
        self.length = 0;
    }
}

/// Open loop: the queue is the trace's.
pub struct OpenInOrder<'a> {
    batch: Batch<'a>,
    order: ServiceOrder,
}

impl<'a> OpenInOrder<'a> {
    /// `None` for a model without trees.
    pub fn new(model: &'a DeviceModel, seed: u64) -> Option<Self> {
        let Model::Forest(forest) = &model.model else { return None };
        Some(OpenInOrder {
            batch: Batch::new(&model.model, forest, Pcg64Mcg::seed_from_u64(seed)),
            order: ServiceOrder::new(model.server.slots as usize, model.server.recorded_start),
        })
    }

    /// The next arrival; `put` is told of those that are drawn. False if it was not
    /// served in order of arrival: then only [`crate::simulate::open_loop`] can tell.
    #[inline(always)]
    pub fn push(&mut self, request: &Request, put: &mut impl FnMut(Drawn)) -> bool {
        let served = self.order.next_in_order(request);
        served.map(|served| self.batch.add(&served, put)).is_some()
    }

    /// The end of the trace.
    pub fn finish(&mut self, put: &mut impl FnMut(Drawn)) {
        self.batch.flush(put);
    }
}

/// A device that serves one request at a time in order of arrival: what is in the way of the next.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    free_ns: u64,
    last_write_ns: Option<u64>,
}

impl Ahead {
    /// When a request that arrives at `arrival_ns` starts; sets what of its row depends on that.
    #[inline(always)]
    fn start_ns(&self, arrival_ns: u64, row: &mut Keys) -> u64 {
        let start_ns = arrival_ns.max(self.free_ns);
        let idle_ns = if self.free_ns == 0 { 0 } else { start_ns - self.free_ns };
        set_time_keys(row, idle_ns, self.last_write_ns.map(|at| start_ns - at));
        start_ns
    }

    #[inline(always)]
    fn complete(&mut self, op: Op, completion_ns: u64) {
        self.free_ns = completion_ns;
        if op == Op::Write {
            self.last_write_ns = Some(completion_ns);
        }
    }
}

/// Closed loop on a device that serves one request at a time: nothing needs to wait in a list, since a start
/// is known when the request arrives. Several walk the trees together, with guesses of their starts.
pub struct ClosedInOrder<'a> {
    guesses: Guesses<'a>,
    history: History,
    rows: [Keys; LANES],
    commands: [(u64, Command); LANES],
    length: usize,
    ahead: Ahead,
    served: u64,
    rng: Pcg64Mcg,
}

impl<'a> ClosedInOrder<'a> {
    /// `None` for a model that is not of such a device, or knows where its platters stand.
    pub fn new(model: &'a DeviceModel, seed: u64) -> Option<Self> {
        let (Model::Forest(forest @ Forest { platters: None, .. }), Discipline::Fcfs, 1) =
            (&model.model, model.server.discipline, model.server.slots)
        else {
            return None;
        };
        Some(ClosedInOrder {
            guesses: Guesses::new(forest),
            history: forest.history(),
            rows: [[0; FEATURES]; LANES],
            commands: [(0, Command { lba: 0, sectors: 0, op: Op::Read }); LANES],
            length: 0,
            ahead: Ahead::default(),
            served: 0,
            rng: Pcg64Mcg::seed_from_u64(seed),
        })
    }

    /// The next arrival; `each` is told what has been served, in order.
    #[inline(always)]
    pub fn push(&mut self, arrival_ns: u64, command: Command, each: &mut impl FnMut(Op, Started)) {
        let features = self.history.features(&Start { command, start_ns: 0, idle_ns: 0, others: 0 });
        self.rows[self.length] = keys(&features);
        self.history.advance(&command, 0);
        self.commands[self.length] = (arrival_ns, command);
        self.length += 1;
        if self.length == LANES {
            self.finish(each);
        }
    }

    /// Serves what has arrived.
    pub fn finish(&mut self, each: &mut impl FnMut(Op, Started)) {
        let ClosedInOrder { guesses, rows, commands, ahead, rng, .. } = self;
        if self.length == 0 {
            return;
        }
        let mut guessed = *ahead;
        let lanes = guesses.walk(rows, self.length, rng, |lane, row, mean_ns| {
            let (arrival_ns, Command { op, .. }) = commands[lane];
            let start_ns = guessed.start_ns(arrival_ns, row);
            guessed.complete(op, start_ns.saturating_add(mean_ns));
        });
        for lane in 0..self.length {
            let (arrival_ns, Command { op, .. }) = commands[lane];
            let start_ns = ahead.start_ns(arrival_ns, &mut rows[lane]);
            let drawn_ns = service_ns(guesses.end(&lanes, lane, &rows[lane], rng));
            let completion_ns = start_ns.saturating_add(drawn_ns);
            ahead.complete(op, completion_ns);
            each(op, Started { id: self.served, arrival_ns, start_ns, completion_ns });
            self.served += 1;
        }
        self.length = 0;
    }
}
