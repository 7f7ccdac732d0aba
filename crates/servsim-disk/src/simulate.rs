//! Running a model on the requests of one device.
//!
//! *Open loop* takes the queue (and so the wait) from the trace and draws only what the model
//! predicts: the mode of the 1997 paper, which says nothing about another load. *Closed loop*
//! replays the arrivals, at any load, and lets the server produce the queue.

use crate::error::ModelError;
use crate::features::{Features, History, Wanted};
use crate::models::forest::Forest;
use crate::models::{DeviceModel, Model, ResponseContext, ResponseModel, Service};
use crate::order::{Served, ServiceOrder};
use crate::request::{distance, Op, Request};
use crate::server::station::{Device, ServiceContext, ServiceModel, Started, Station};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests drawn together in open loop.
const BATCH: usize = 256;

/// Simulated response times in ns, one a request in arrival order, with the queue of the trace.
/// `requests` are those of one device in arrival order, with real completions.
pub fn open_loop(model: &DeviceModel, requests: &[Request], seed: u64) -> Vec<u64> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    if let Some(response) = model.model.as_response() {
        let contexts = crate::models::fit::response_contexts(requests);
        return contexts
            .iter()
            .map(|context| (f64::from(response.draw_us(context, &mut rng)) * 1e3) as u64)
            .collect();
    }
    let mut responses = vec![0; requests.len()];
    let mut order = ServiceOrder::new(model.server.slots as usize, model.server.recorded_start);
    if let Model::Forest(forest) = &model.model {
        let mut batch = Batch::new(forest, rng);
        let each = &mut |served: &Served| batch.add(served, &mut responses);
        order.run(requests, each);
        batch.flush(&mut responses);
        return responses;
    }
    let mut service = model.model.as_service().expect("a model predicts responses or services");
    let each = &mut |served: &Served| {
        let wanted = Wanted::from(&served.request);
        let context =
            ServiceContext { wanted: &wanted, features: &Features::default(), start_ns: served.start_ns };
        responses[served.number] = served.wait_ns() + service.service_ns(&context, &mut rng);
    };
    order.run(requests, each);
    responses
}

/// Draws for many requests at once.
struct Batch<'a> {
    forest: &'a Forest,
    rng: Pcg64Mcg,
    history: History,
    features: Vec<Features>,
    places: Vec<(usize, u64)>,
    draws: Vec<f32>,
}

impl<'a> Batch<'a> {
    fn new(forest: &'a Forest, rng: Pcg64Mcg) -> Self {
        let history = History::new(forest.uses_places());
        let (features, places) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Batch { forest, rng, history, features, places, draws: vec![0.0; BATCH] }
    }

    #[inline]
    fn add(&mut self, served: &Served, responses: &mut [u64]) {
        let wanted = Wanted::from(&served.request);
        self.features.push(self.history.features(&wanted, served.start_ns, served.idle_ns, served.others));
        self.places.push((served.number, served.wait_ns()));
        self.history.advance(&wanted, served.request.completion_ns);
        if self.features.len() == BATCH {
            self.flush(responses);
        }
    }

    fn flush(&mut self, responses: &mut [u64]) {
        let draws = &mut self.draws[..self.features.len()];
        self.forest.draw_many_us(&self.features, &mut self.rng, draws);
        for ((number, wait_ns), draw) in self.places.iter().zip(draws) {
            responses[*number] = wait_ns + (*draw * 1e3) as u64;
        }
        self.features.clear();
        self.places.clear();
    }
}

/// `draws` service or response times in us for every request, with the queue (and wait) of the
/// trace, handed to `each` with the request's rank of arrival: what CRPS needs.
pub fn open_loop_draws(
    model: &DeviceModel,
    requests: &[Request],
    draws: usize,
    seed: u64,
    each: &mut dyn FnMut(usize, &mut [f64]),
) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut values = vec![0.0; draws];
    if let Some(response) = model.model.as_response() {
        for (number, context) in crate::models::fit::response_contexts(requests).iter().enumerate() {
            values.iter_mut().for_each(|value| *value = f64::from(response.draw_us(context, &mut rng)));
            each(number, &mut values);
        }
        return;
    }
    let mut order = ServiceOrder::new(model.server.slots as usize, model.server.recorded_start);
    let mut history = History::default();
    let mut service = model.model.as_service().expect("a model predicts responses or services");
    let handle = &mut |served: &Served| {
        let wanted = Wanted::from(&served.request);
        let features = history.features(&wanted, served.start_ns, served.idle_ns, served.others);
        let wait_us = served.wait_ns() as f64 * 1e-3;
        for value in &mut values {
            let context = ServiceContext { wanted: &wanted, features: &features, start_ns: served.start_ns };
            *value = wait_us + service.service_ns(&context, &mut rng) as f64 * 1e-3;
        }
        each(served.number, &mut values);
        history.advance(&wanted, served.request.completion_ns);
    };
    order.run(requests, handle);
}

/// Simulated services, one a request in arrival order, of `requests` (one device, in arrival order)
/// with arrivals `load` times as dense; the server produces the queue.
///
/// # Errors
/// When `load` is not a positive number.
pub fn closed_loop(
    model: &DeviceModel,
    requests: &[Request],
    load: f64,
    seed: u64,
) -> Result<Vec<Started>, ModelError> {
    if !(load.is_finite() && load > 0.0) {
        return Err(ModelError::Invalid(format!(
            "load {load} is not a positive factor; 1.2 means 20 % more"
        )));
    }
    let rng = Pcg64Mcg::seed_from_u64(seed);
    let arrivals =
        requests.iter().map(|request| ((request.arrival_ns as f64 / load) as u64, Wanted::from(request)));
    if let Some(response) = model.model.as_response() {
        return Ok(closed_responses(response, arrivals, rng));
    }
    let service = model.model.as_service().expect("a model predicts responses or services");
    Ok(closed_services(model, service, arrivals, requests.len(), rng))
}

fn closed_services(
    model: &DeviceModel,
    service: Service<'_>,
    arrivals: impl Iterator<Item = (u64, Wanted)>,
    count: usize,
    rng: Pcg64Mcg,
) -> Vec<Started> {
    let mut station = Station::new(&model.server, service, rng);
    let nothing = Started { id: 0, arrival_ns: 0, start_ns: 0, completion_ns: 0 };
    let mut results = vec![nothing; count];
    let started = &mut |service: Started| results[service.id as usize] = service;
    for (id, (now_ns, wanted)) in arrivals.enumerate() {
        station.submit(id as u64, wanted, now_ns, started);
    }
    station.advance(u64::MAX, started);
    results
}

/// The tables of the paper with a simulated queue: each response is drawn given the queue that the
/// earlier draws leave.
fn closed_responses(
    model: &dyn ResponseModel,
    arrivals: impl Iterator<Item = (u64, Wanted)>,
    mut rng: Pcg64Mcg,
) -> Vec<Started> {
    let mut outstanding = BinaryHeap::new();
    let mut previous: Option<u64> = None;
    let mut results = Vec::new();
    for (id, (now_ns, wanted)) in arrivals.enumerate() {
        while outstanding.peek().is_some_and(|&Reverse(done)| done <= now_ns) {
            outstanding.pop();
        }
        let context = ResponseContext {
            is_write: wanted.op == Op::Write,
            sectors: wanted.sectors,
            queue: outstanding.len() as u32 + 1,
            seek: previous.map_or(0, |previous| distance(wanted.lba, previous)),
        };
        previous = Some(wanted.lba);
        let completion_ns = now_ns + (f64::from(model.draw_us(&context, &mut rng)) * 1e3) as u64;
        outstanding.push(Reverse(completion_ns));
        results.push(Started { id: id as u64, arrival_ns: now_ns, start_ns: now_ns, completion_ns });
    }
    results
}

/// Response times of simulated services, us.
pub fn responses_us(services: &[Started]) -> Vec<f64> {
    services.iter().map(|service| (service.completion_ns - service.arrival_ns) as f64 * 1e-3).collect()
}
