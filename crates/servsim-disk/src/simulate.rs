//! Running a model on the requests of one device.
//!
//! *Open loop* takes the queue (and so the wait) from the trace and draws only what the model
//! predicts: the mode of the 1997 paper, which says nothing about another load. *Closed loop*
//! replays the arrivals, at any load, and lets the server produce the queue.

use crate::error::ModelError;
use crate::features::{Command, Features};
use crate::in_order::{Batch, ClosedInOrder, Drawn, OpenInOrder};
use crate::metrics::mean;
use crate::models::parallel::Parallel;
use crate::models::{DeviceModel, Model, ResponseContext, ResponseModel, Service};
use crate::observed::Observed;
use crate::order::{services, Served, ServiceOrder};
use crate::request::{distance, Op, Request};
use crate::server::infer::ENOUGH;
use crate::server::station::{Device, ServiceContext, ServiceModel, Started, Station};
use crate::sets::array::{Array, MemberWork};
use crate::sets::layout::Layout;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
        let put = &mut |drawn: Drawn| responses[drawn.number] = drawn.response_ns;
        let mut in_order = OpenInOrder::new(model, seed).expect("a forest");
        if requests.iter().all(|request| in_order.push(request, put)) {
            in_order.finish(put);
            return responses;
        }
        let mut batch = Batch::new(&model.model, forest, rng);
        order.run(requests, &mut |served| batch.add(served, put));
        batch.flush(put);
        return responses;
    }
    let mut service = model.model.as_service().expect("a model predicts responses or services");
    let mut each = |served: &Served| {
        let command = Command::from(&served.request);
        let context =
            ServiceContext { command: &command, features: &Features::default(), start_ns: served.start_ns };
        responses[served.number] = served.wait_ns() + service.service_ns(&context, &mut rng);
    };
    order.run(requests, &mut each);
    responses
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
    let service = || model.model.as_service().expect("a model predicts responses or services");
    // A mechanism is changed by what it serves: every draw has one of its own, so that each serves all once.
    let mut services: Vec<Service<'_>> = (0..draws).map(|_| service()).collect();
    let mut device = Observed::of(&model.model, services[0].history());
    let handle = &mut |served: &Served| {
        let command = Command::from(&served.request);
        let features = device.features(served);
        let wait_us = served.wait_ns() as f64 * 1e-3;
        for (value, service) in values.iter_mut().zip(&mut services) {
            let context =
                ServiceContext { command: &command, features: &features, start_ns: served.start_ns };
            *value = wait_us + service.service_ns(&context, &mut rng) as f64 * 1e-3;
        }
        each(served.number, &mut values);
        device.completed(served, &features);
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
    let arrivals = arrivals(requests, load)?;
    let rng = Pcg64Mcg::seed_from_u64(seed);
    if let Some(response) = model.model.as_response() {
        return Ok(closed_responses(response, arrivals, rng));
    }
    if let Some(mut in_order) = ClosedInOrder::new(model, seed) {
        let mut results = Vec::with_capacity(requests.len());
        let each = &mut |_, started| results.push(started);
        arrivals.for_each(|(arrival_ns, command)| in_order.push(arrival_ns, command, each));
        in_order.finish(each);
        return Ok(results);
    }
    let service = model.model.as_service().expect("a model predicts responses or services");
    Ok(closed_services(model, service, arrivals, requests.len(), rng))
}

/// Difference between explanations of a trace, percent of the mean, beyond which it does not tell.
const TELLS_WITHIN: f64 = 10.0;
/// Mean response, in means of the trace, beyond which the answer is made of waits that it did not hold.
const WAITS_BEYOND: f64 = 2.0;
/// Runs of each explanation: one alone differs from the next.
const RIVAL_RUNS: u64 = 3;

/// Refuses a load at which other explanations of the trace that a parallel device was fitted to, as good
/// as the one taken, say another thing, or at which waits that the trace did not hold make the answer. A limit of the host
/// that the trace shows is met exactly, however long requests wait for it.
///
/// # Errors
/// [`ModelError::TraceDoesNotTell`], [`ModelError::WaitsBeyond`]; those of [`closed_loop`].
pub fn check_load(model: &DeviceModel, requests: &[Request], load: f64, seed: u64) -> Result<(), ModelError> {
    let Model::Parallel(best) = &model.model else { return Ok(()) };
    let mean_us = |parallel: &Parallel| {
        let model = DeviceModel { model: Model::Parallel(parallel.clone()), ..model.clone() };
        let runs = (0..RIVAL_RUNS).map(|run| closed_loop(&model, requests, load, seed.wrapping_add(run)));
        let means = runs.map(|run| Ok(mean(&responses_us(&run?)))).collect::<Result<Vec<_>, ModelError>>()?;
        Ok::<f64, ModelError>(mean(&means))
    };
    let said = mean_us(best)?;
    for rival in &best.rivals {
        let other = mean_us(rival)?;
        if 100.0 * (other / said - 1.0).abs() > TELLS_WITHIN {
            return Err(ModelError::TraceDoesNotTell {
                device: model.device.clone(),
                load,
                said_ms: said * 1e-3,
                other_ms: other * 1e-3,
                how: rival.difference(best),
            });
        }
    }
    let had = model.training.as_ref().map_or(said, |training| training.mean_response_us);
    if best.throttle.is_none() && said > WAITS_BEYOND * had {
        let (device, had_ms) = (model.device.clone(), had * 1e-3);
        return Err(ModelError::WaitsBeyond { device, load, said_ms: said * 1e-3, had_ms });
    }
    Ok(())
}

/// Factor by which a model may miss the mean service time of the first requests of a trace; the same device asked for
/// other things misses it by less, another device often by more.
const UNLIKE: f64 = 2.0;

/// Refuses trees fitted to another device, where the trace tells how long its requests took: the queue is the trace's, so
/// that only service times count. `requests` are those of the device called `name`, in arrival order.
///
/// # Errors
/// [`ModelError::UnlikeTimes`], with both means.
pub fn check_times(model: &DeviceModel, requests: &[Request], name: &str) -> Result<(), ModelError> {
    if model.training.is_none() || !matches!(model.model, Model::Forest(_)) {
        return Ok(());
    }
    let head = &requests[..requests.len().min(ENOUGH)];
    let served = services(head, model.server.slots as usize, model.server.recorded_start);
    let mean_ms = |sum_ns: u64| sum_ns as f64 * 1e-6 / head.len().max(1) as f64;
    let waits_ns = served.iter().map(Served::wait_ns).sum::<u64>();
    let had_ms = mean_ms(served.iter().map(Served::service_ns).sum());
    let said_ms = mean_ms(open_loop(model, head, 0).iter().sum::<u64>() - waits_ns);
    if had_ms > 0.0 && !(said_ms / UNLIKE..=said_ms * UNLIKE).contains(&had_ms) {
        return Err(ModelError::UnlikeTimes { device: name.to_owned(), had_ms, said_ms });
    }
    Ok(())
}

/// What a set of drives did with the requests of one device.
#[derive(Debug, Clone)]
pub struct SetRun {
    /// One a request, in arrival order.
    pub services: Vec<Started>,
    /// What each drive did.
    pub members: Vec<MemberWork>,
}

/// [`closed_loop`] on a set of drives, each like `model`, instead of one drive. Every drive draws from
/// a random stream of its own.
///
/// # Errors
/// When `load` is not a positive number, or the model knows no physical service times.
pub fn closed_set(
    model: &DeviceModel,
    layout: Layout,
    requests: &[Request],
    load: f64,
    seed: u64,
) -> Result<SetRun, ModelError> {
    let mut members = Vec::new();
    for member in 0..layout.members as u64 {
        let service = model.model.as_service().ok_or_else(|| {
            ModelError::Invalid(format!(
                "a set needs a model of physical service times (forest, mechanical, ssd); `{}` has whole responses",
                model.model.kind()
            ))
        })?;
        let rng = Pcg64Mcg::seed_from_u64(seed ^ (member + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        members.push(Station::new(&model.server, service, rng));
    }
    let mut array = Array::new(layout, members);
    let services = run_device(&mut array, arrivals(requests, load)?, requests.len());
    Ok(SetRun { services, members: array.work().to_vec() })
}

/// Arrivals `load` times as dense.
fn arrivals(
    requests: &[Request],
    load: f64,
) -> Result<impl Iterator<Item = (u64, Command)> + '_, ModelError> {
    if !(load.is_finite() && load > 0.0) {
        return Err(ModelError::Invalid(format!(
            "load {load} is not a positive factor; 1.2 means 20 % more"
        )));
    }
    Ok(requests
        .iter()
        .map(move |request| ((request.arrival_ns as f64 / load) as u64, Command::from(request))))
}

fn closed_services(
    model: &DeviceModel,
    service: Service<'_>,
    arrivals: impl Iterator<Item = (u64, Command)>,
    count: usize,
    rng: Pcg64Mcg,
) -> Vec<Started> {
    let mut station = Station::new(&model.server, service, rng);
    run_device(&mut station, arrivals, count)
}

fn run_device(
    device: &mut impl Device,
    arrivals: impl Iterator<Item = (u64, Command)>,
    count: usize,
) -> Vec<Started> {
    let nothing = Started { id: 0, arrival_ns: 0, start_ns: 0, completion_ns: 0 };
    let mut results = vec![nothing; count];
    let started = &mut |service: Started| results[service.id as usize] = service;
    for (id, (now_ns, command)) in arrivals.enumerate() {
        device.submit(id as u64, command, now_ns, started);
    }
    device.advance(u64::MAX, started);
    results
}

/// The tables of the paper with a simulated queue: each response is drawn given the queue that the
/// earlier draws leave.
fn closed_responses(
    model: &dyn ResponseModel,
    arrivals: impl Iterator<Item = (u64, Command)>,
    mut rng: Pcg64Mcg,
) -> Vec<Started> {
    let mut outstanding = BinaryHeap::new();
    let mut previous: Option<u64> = None;
    let mut results = Vec::new();
    for (id, (now_ns, command)) in arrivals.enumerate() {
        while outstanding.peek().is_some_and(|&Reverse(done)| done <= now_ns) {
            outstanding.pop();
        }
        let context = ResponseContext {
            is_write: command.op == Op::Write,
            sectors: command.sectors,
            queue: outstanding.len() as u32 + 1,
            seek: previous.map_or(0, |previous| distance(command.lba, previous)),
        };
        previous = Some(command.lba);
        let response_ns = (f64::from(model.draw_us(&context, &mut rng)) * 1e3) as u64;
        let completion_ns = now_ns.saturating_add(response_ns);
        outstanding.push(Reverse(completion_ns));
        results.push(Started { id: id as u64, arrival_ns: now_ns, start_ns: now_ns, completion_ns });
    }
    results
}

/// Response times of simulated services, us.
pub fn responses_us(services: &[Started]) -> Vec<f64> {
    services.iter().map(|service| (service.completion_ns - service.arrival_ns) as f64 * 1e-3).collect()
}
