//! Fitting models to traces, as a stream: memory grows with the sample kept, not with the trace.
//!
//! The first requests of a device are held back until its server has been inferred; then every
//! request passes once through the order of service, and each so-many-th is kept for the trees. The
//! stride doubles whenever the sample is full, so it stays evenly spread over any length of trace.

use super::calibrate::calibrate;
use super::forest::{self, Allowed, Forest};
use super::paper::Paper;
use super::parallel::Parallel;
use super::unconditional::Unconditional;
use super::{kind, DeviceModel, Model, ResponseContext, Training, Trial};
use crate::cache;
use crate::error::ModelError;
use crate::features::{with_pass, Command, Features, History};
use crate::mechanics::{self, Mechanics};
use crate::order::{services, Served, ServiceOrder};
use crate::platters::{self, Platters};
use crate::request::{arrival_seeks, by_device, queue_lengths, Request};
use crate::server::infer::{infer, Inference, ENOUGH};
use crate::server::{Discipline, Server};
use std::sync::Arc;

/// The sample for the trees holds between half of this and this many requests.
const SAMPLE_LIMIT: usize = 1 << 16;

/// Slots of a device whose model knows itself what waits for what: more than any queue is long.
pub const SIDE_BY_SIDE: u32 = 1 << 20;

/// What a trial of a device that serves requests side by side, or may do so, settled.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// Requests it serves at a time.
    pub slots: u32,
    /// Whether the mechanism of a parallel device did best, which counts them itself.
    pub parallel: bool,
    /// How a fit with so many did.
    pub trial: Trial,
}

/// Settles the slots of a device, given its first requests and the number inferred; see [`crate::trial`].
pub type TryOut = fn(&[Request], &FitOptions, u32) -> Option<Tried>;

/// How to fit.
#[derive(Debug, Clone, Copy, Default)]
pub struct FitOptions {
    /// Seed of the trees.
    pub seed: u64,
    /// Use this discipline instead of inferring one.
    pub discipline: Option<Discipline>,
    /// Use this number of slots instead of inferring it.
    pub slots: Option<u32>,
    /// The model will be asked about other layouts: it must not know blocks by their place.
    pub movable: bool,
    /// How slots are settled where inference finds several, or cannot tell.
    pub try_out: Option<TryOut>,
}

/// Contexts of the response-time models for the requests of one device, in arrival order.
pub fn response_contexts(requests: &[Request]) -> Vec<ResponseContext> {
    let (queues, seeks) = (queue_lengths(requests), arrival_seeks(requests));
    let rows = requests.iter().zip(queues).zip(seeks);
    rows.map(|((request, queue), seek)| ResponseContext {
        is_write: request.op == crate::request::Op::Write,
        sectors: request.sectors,
        queue,
        seek,
    })
    .collect()
}

/// Fits the model called `kind_name` to each device of `requests` (names in `devices`).
///
/// # Errors
/// When the kind does not exist or cannot be fitted, or a device has too few requests.
pub fn fit(
    kind_name: &str,
    requests: &[Request],
    devices: &[String],
    options: &FitOptions,
) -> Result<Vec<DeviceModel>, ModelError> {
    let kind = kind(kind_name)?;
    if !kind.fitted {
        return Err(ModelError::Invalid(format!(
            "`{}` is not fitted: it comes from a drive's parameters; name the drive instead",
            kind.name
        )));
    }
    let name_of = |device: u16| devices.get(usize::from(device)).map_or("disk", String::as_str);
    by_device(requests)
        .iter()
        .map(|(device, part)| fit_device(kind.name, part, name_of(*device), options))
        .collect()
}

fn fit_device(
    kind: &'static str,
    requests: &[Request],
    device: &str,
    options: &FitOptions,
) -> Result<DeviceModel, ModelError> {
    if kind == "forest" {
        let mut fitter = Fitter::new(device, *options);
        requests.iter().for_each(|request| fitter.push(*request));
        return fitter.finish();
    }
    require(kind, requests.len())?;
    if requests.iter().all(|request| request.response_ns() == 0) {
        return Err(ModelError::NoTime { device: device.to_owned() });
    }
    let mut inference = settled(infer(requests), options);
    if kind == "parallel" {
        inference.server = Server { slots: SIDE_BY_SIDE, ..Server::FCFS };
    }
    let response = |request: &Request| request.response_ns() as f32 * 1e-3;
    let model = if kind == "paper" {
        let rows: Vec<_> =
            response_contexts(requests).into_iter().zip(requests.iter().map(response)).collect();
        Model::Paper(Paper::fit(&rows))
    } else if kind == "parallel" {
        Model::Parallel(calibrate(requests, options.seed))
    } else {
        Model::Unconditional(Unconditional::fit(requests.iter().map(response).collect()))
    };
    let sum: f64 = requests.iter().map(|request| request.response_ns() as f64 * 1e-3).sum();
    let n = requests.len() as u64;
    let mean = sum / n as f64;
    let training = Training {
        requests: n,
        sampled: n,
        mean_response_us: mean,
        mean_service_us: None,
        seed: options.seed,
        trial: None,
    };
    Ok(DeviceModel {
        device: device.to_owned(),
        server: inference.server,
        inference: Some(inference),
        training: Some(training),
        model,
    })
}

fn require(model: &'static str, have: usize) -> Result<(), ModelError> {
    if have < forest::MINIMUM {
        return Err(ModelError::TooShort {
            model,
            have,
            need: forest::MINIMUM,
            missing: forest::MINIMUM - have,
        });
    }
    Ok(())
}

/// The inference with what the options impose.
fn settled(mut inference: Inference, options: &FitOptions) -> Inference {
    let server = &mut inference.server;
    server.discipline = options.discipline.unwrap_or(server.discipline);
    server.slots = options.slots.unwrap_or(server.slots);
    inference
}

/// Fits the default model to one device, request by request in arrival order.
#[derive(Debug)]
pub struct Fitter {
    device: String,
    options: FitOptions,
    /// Requests held back until the server is known; empty afterwards.
    held: Vec<Request>,
    pass: Option<Pass>,
}

/// What is gathered once the server is known.
#[derive(Debug)]
struct Pass {
    inference: Inference,
    trial: Option<Trial>,
    parallel: Option<Parallel>,
    order: ServiceOrder,
    sample: Sample,
}

/// Every so-many-th service with its features.
#[derive(Debug)]
struct Sample {
    cache: Option<cache::Law>,
    mechanics: Option<Mechanics>,
    history: History,
    platters: Option<Arc<Platters>>,
    features: Vec<Features>,
    /// Where the platters are known, the features that would be told if they were not.
    plain: Vec<Features>,
    service_us: Vec<f32>,
    /// A power of two.
    stride: u64,
    seen: u64,
    response_ns: u64,
    service_ns: u64,
}

impl Sample {
    fn new(cache: Option<cache::Law>, mechanics: Option<Mechanics>, platters: Option<Arc<Platters>>) -> Self {
        Sample {
            history: History::new(true, cache, mechanics.map(|found| found.radius)),
            cache,
            mechanics,
            platters,
            features: Vec::new(),
            plain: Vec::new(),
            service_us: Vec::new(),
            stride: 1,
            seen: 0,
            response_ns: 0,
            service_ns: 0,
        }
    }

    #[inline]
    fn add(&mut self, served: &Served) {
        let command = Command::from(&served.request);
        let service_ns = served.service_ns();
        if self.seen & (self.stride - 1) == 0 {
            let features = self.history.features(&served.start());
            if let Some(platters) = &self.platters {
                self.plain.push(features);
                self.features.push(with_pass(features, &served.start(), platters));
            } else {
                self.features.push(features);
            }
            self.service_us.push(service_ns as f32 * 1e-3);
            if self.features.len() >= SAMPLE_LIMIT {
                self.halve();
            }
        }
        self.seen += 1;
        self.response_ns += served.request.response_ns();
        self.service_ns += service_ns;
        self.history.advance(&command, served.request.completion_ns);
    }

    fn halve(&mut self) {
        every_other(&mut self.features);
        every_other(&mut self.plain);
        every_other(&mut self.service_us);
        self.stride *= 2;
    }
}

fn every_other<T>(items: &mut Vec<T>) {
    let mut at = 0;
    items.retain(|_| {
        at += 1;
        at % 2 == 1
    });
}

impl Fitter {
    /// A fit of the device called `device`.
    pub fn new(device: &str, options: FitOptions) -> Self {
        Fitter { device: device.to_owned(), options, held: Vec::new(), pass: None }
    }

    /// The next request, in arrival order.
    pub fn push(&mut self, request: Request) {
        if let Some(pass) = &mut self.pass {
            let sample = &mut pass.sample;
            pass.order.push(request, &mut |served| sample.add(served));
            return;
        }
        self.held.push(request);
        if self.held.len() >= ENOUGH {
            self.begin();
        }
    }

    /// Infers the server from the requests held back and passes them on.
    fn begin(&mut self) {
        let held = std::mem::take(&mut self.held);
        let mut inference = settled(infer(&held), &self.options);
        let open = inference.server.slots > 1 || inference.inconclusive;
        let tried = self
            .options
            .try_out
            .filter(|_| open)
            .and_then(|try_out| try_out(&held, &self.options, inference.server.slots));
        if let Some(tried) = tried {
            inference.server.slots = tried.slots;
        }
        let parallel = tried.filter(|tried| tried.parallel).map(|_| calibrate(&held, self.options.seed));
        let server: Server = inference.server;
        let order = ServiceOrder::new(server.slots as usize, server.recorded_start);
        let (cache, mechanics) = if self.options.movable && server.slots == 1 {
            let served = services(&held, 1, server.recorded_start);
            let cache = cache::infer(&served);
            (cache, mechanics::infer(&served, cache))
        } else {
            (None, None)
        };
        let trial = tried.map(|tried| tried.trial);
        // Blocks that will move are known by no place; completions on ticks of a clock tell no angle.
        let turns = server.slots == 1 && !self.options.movable && inference.completion_tick_ms.is_none();
        let platters = turns.then(|| services(&held, 1, server.recorded_start));
        let platters = platters.and_then(|served| platters::find::infer(&served)).map(Arc::new);
        let sample = Sample::new(cache, mechanics, platters);
        self.pass = Some(Pass { inference, trial, parallel, order, sample });
        held.into_iter().for_each(|request| self.push(request));
    }

    /// Grows the trees.
    ///
    /// # Errors
    /// [`ModelError::TooShort`] when the device had too few requests, [`ModelError::NoTime`] when none took any time.
    pub fn finish(mut self) -> Result<DeviceModel, ModelError> {
        if self.pass.is_none() {
            require("forest", self.held.len())?;
            self.begin();
        }
        let Pass { inference, trial, parallel, mut order, mut sample } =
            self.pass.expect("the pass has begun");
        order.finish(&mut |served| sample.add(served));
        if sample.response_ns == 0 {
            return Err(ModelError::NoTime { device: self.device });
        }
        let allowed = Allowed {
            place: !self.options.movable,
            // Where it would tell the service, it is part of the answer.
            idleness: inference.completion_tick_ms.is_none(),
        };
        let seed = self.options.seed;
        let on = |features: &[Features]| {
            Forest::fit(features, &sample.service_us, allowed, sample.cache, sample.mechanics, seed)
        };
        let forest = || match &sample.platters {
            None => on(&sample.features),
            Some(platters) => Forest::fit_on_platters(
                &sample.features,
                &sample.plain,
                &sample.service_us,
                on(&sample.plain),
                platters.clone(),
                seed,
            ),
        };
        let mean_us = |sum_ns: u64| sum_ns as f64 * 1e-3 / sample.seen as f64;
        let training = Training {
            requests: sample.seen,
            sampled: sample.features.len() as u64,
            mean_response_us: mean_us(sample.response_ns),
            mean_service_us: Some(mean_us(sample.service_ns)),
            seed: self.options.seed,
            trial,
        };
        Ok(DeviceModel {
            device: self.device,
            server: inference.server,
            inference: Some(inference),
            training: Some(training),
            model: parallel.map_or_else(|| Model::Forest(forest()), Model::Parallel),
        })
    }
}
