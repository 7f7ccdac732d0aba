//! Disk models behind one interface: one file per model, registered in [`KINDS`].
//!
//! A model predicts either the whole *response* time given the queue (`paper`, `unconditional`) or
//! the *physical* service time (`forest`, `parallel`, `mechanical`, `ssd`), to which a server adds the wait.

pub mod augment;
pub mod bulk;
pub mod calibrate;
mod earliest;
pub mod file;
pub mod fit;
pub mod forest;
pub mod grow;
mod likeness;
pub mod mechanical;
pub mod paper;
pub mod parallel;
pub mod ssd;
pub mod support;
pub mod tail;
mod throttles;
pub mod unconditional;

use crate::error::{suggestion, ModelError};
use crate::features::History;
use crate::server::infer::Inference;
use crate::server::station::{ServiceContext, ServiceModel};
use crate::server::Server;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// The name and purpose of a kind of model.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Kind {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Whether it is fitted to a trace (else it comes from a drive's parameters).
    pub fitted: bool,
}

/// All kinds of models; the first is the default.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "forest",
        about: "physical service time by regression trees, inside an inferred server",
        fitted: true,
    },
    Kind {
        name: "parallel",
        about: "channels, write buffer, collection, throttle and phases of a solid-state or virtual disk",
        fitted: true,
    },
    Kind { name: "paper", about: "response-time tables of Thornock et al. 1997", fitted: true },
    Kind { name: "unconditional", about: "one histogram of response times", fitted: true },
    Kind {
        name: "mechanical",
        about: "seek curve, rotation, skews and read-ahead of a known drive",
        fitted: false,
    },
    Kind { name: "ssd", about: "channels, dies, programming, erasure and garbage collection", fitted: false },
];

/// The kind called `name`.
///
/// # Errors
/// When there is none; the message suggests the nearest.
pub fn kind(name: &str) -> Result<&'static Kind, ModelError> {
    KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        ModelError::UnknownKind {
            name: name.to_owned(),
            nearest: suggestion(name, &names),
            known: names.join(", "),
        }
    })
}

/// What decides a response time in the models that predict it whole, as the paper does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResponseContext {
    /// Whether it writes.
    pub is_write: bool,
    /// Length in sectors.
    pub sectors: u32,
    /// Requests on the device, itself included.
    pub queue: u32,
    /// Start-to-start seek from the previous arrival, sectors.
    pub seek: i64,
}

/// A model that predicts whole response times.
pub trait ResponseModel {
    /// A draw of the response time, us.
    fn draw_us(&self, context: &ResponseContext, rng: &mut Pcg64Mcg) -> f32;

    /// Whether the training part holds requests like this one.
    fn knows(&self, context: &ResponseContext) -> bool;
}

/// The model of one device.
#[derive(Debug, Clone, PartialEq)]
pub enum Model {
    /// Regression trees on the physical service time.
    Forest(forest::Forest),
    /// The mechanism of a device that serves requests side by side.
    Parallel(parallel::Parallel),
    /// The paper's tables.
    Paper(paper::Paper),
    /// One histogram.
    Unconditional(unconditional::Unconditional),
    /// A drive from its parameters.
    Mechanical(mechanical::Drive),
    /// A solid-state drive from its parameters.
    Ssd(ssd::Ssd),
}

impl Model {
    /// Name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Model::Forest(_) => "forest",
            Model::Parallel(_) => "parallel",
            Model::Paper(_) => "paper",
            Model::Unconditional(_) => "unconditional",
            Model::Mechanical(_) => "mechanical",
            Model::Ssd(_) => "ssd",
        }
    }

    /// The model as one of whole response times, if it is one.
    pub fn as_response(&self) -> Option<&dyn ResponseModel> {
        match self {
            Model::Paper(paper) => Some(paper),
            Model::Unconditional(unconditional) => Some(unconditional),
            _ => None,
        }
    }

    /// The model as one of physical service times, in its initial state, if it is one.
    pub fn as_service(&self) -> Option<Service<'_>> {
        match self {
            Model::Forest(forest) => Some(Service::Forest(forest)),
            Model::Parallel(parallel) => Some(Service::Parallel(parallel::Channels::new(parallel))),
            Model::Mechanical(drive) => Some(Service::Mechanical(mechanical::Arm::new(drive))),
            Model::Ssd(ssd) => Some(Service::Ssd(Box::new(ssd::Dies::new(ssd)))),
            _ => None,
        }
    }
}

/// A model of physical service times at work, with the state of its mechanism.
#[derive(Debug)]
pub enum Service<'a> {
    /// Trees have no state.
    Forest(&'a forest::Forest),
    /// The channels.
    Parallel(parallel::Channels<'a>),
    /// The arm and the platters.
    Mechanical(mechanical::Arm<'a>),
    /// The dies and the mapping.
    Ssd(Box<ssd::Dies<'a>>),
}

/// A drawn service time in ns, at least 1.
#[inline]
pub(crate) fn service_ns(drawn_us: f32) -> u64 {
    (f64::from(drawn_us) * 1e3).max(1.0) as u64
}

impl ServiceModel for Service<'_> {
    #[inline]
    fn service_ns(&mut self, context: &ServiceContext<'_>, rng: &mut Pcg64Mcg) -> u64 {
        match self {
            Service::Forest(forest) => service_ns(forest.draw_us(context.features, rng)),
            Service::Parallel(channels) => channels.service_ns(context.command, context.start_ns, rng),
            Service::Mechanical(arm) => arm.service_ns(context.command, context.start_ns, rng),
            Service::Ssd(dies) => dies.service_ns(context.command, context.start_ns),
        }
    }

    fn uses_features(&self) -> bool {
        matches!(self, Service::Forest(..))
    }

    fn history(&self) -> History {
        match self {
            Service::Forest(forest) => forest.history(),
            _ => History::new(false, None, None),
        }
    }
}

/// Skill over a histogram below which a model is not worth running.
pub const SKILL_FLOOR: f64 = 0.1;
/// What a trial must show: skill, error of the mean in percent, and by how much neighbours may be less or more alike.
const TRIAL_SKILL: f64 = 0.3;
const TRIAL_MEAN: f64 = 5.0;
const TRIAL_AUTOCORRELATION: f64 = 0.1;
/// Error of the mean, percent, over all that was tried: more than on what was held out, where chance has fewer rare requests to miss.
const TRIAL_WHOLE_MEAN: f64 = 10.0;

/// How a fit to the first three quarters of a trace did on the last, run freely (see [`crate::trial`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Requests judged.
    pub requests: u64,
    /// Skill over a histogram of the first part.
    pub skill: f64,
    /// Error of the mean response, percent.
    pub mean_error_percent: f64,
    /// Autocorrelation of the logarithms of neighbouring responses, less the true one; files of older versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocorrelation_error: Option<f64>,
    /// Error of the mean response over all that was tried, the part it was fitted to included, percent; files of older versions
    /// lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_mean_error_percent: Option<f64>,
}

impl Trial {
    /// What is wrong, if it is not worth running.
    pub fn problem(&self) -> Option<String> {
        if self.skill < TRIAL_SKILL {
            return Some(format!(
                "it predicts single requests hardly better than a histogram (skill {:.2}, at least {TRIAL_SKILL} wanted)",
                self.skill
            ));
        }
        let error = self.mean_error_percent;
        if error.abs() > TRIAL_MEAN {
            return Some(format!(
                "its mean response is off by {error:+.0} % (at most {TRIAL_MEAN} % wanted)"
            ));
        }
        if let Some(error) = self.whole_mean_error_percent.filter(|error| error.abs() > TRIAL_WHOLE_MEAN) {
            return Some(format!(
                "and through what it was fitted to, its mean response is off by {error:+.0} % (at most \
                 {TRIAL_WHOLE_MEAN} % wanted): the trace holds waits that it has no cause for"
            ));
        }
        let unlike = self.autocorrelation_error.filter(|error| error.abs() > TRIAL_AUTOCORRELATION)?;
        let how = if unlike < 0.0 { "less" } else { "more" };
        Some(format!(
            "neighbouring requests are {how} alike than they are (autocorrelation off by {unlike:+.2}, at most \
             {TRIAL_AUTOCORRELATION} wanted)"
        ))
    }
}

/// What a fit was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Requests of the device in the training part.
    pub requests: u64,
    /// Requests the trees were grown on.
    pub sampled: u64,
    /// Mean response, us.
    pub mean_response_us: f64,
    /// Mean physical service time, us; `None` for models of whole responses.
    pub mean_service_us: Option<f64>,
    /// Seed of the fit.
    pub seed: u64,
    /// The trial of the fit, for devices that serve requests side by side.
    #[serde(default)]
    pub trial: Option<Trial>,
}

/// A model of one device, with the server around it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceModel {
    /// Name of the device in the training trace, or of the drive.
    pub device: String,
    /// The server.
    pub server: Server,
    /// How the server was inferred, for fitted models.
    pub inference: Option<Inference>,
    /// The training part, for fitted models.
    pub training: Option<Training>,
    /// The model.
    pub model: Model,
}

impl DeviceModel {
    /// Refuses a trace of another class of device than the model's, if the trace shows its class.
    ///
    /// # Errors
    /// [`ModelError::OtherDevice`].
    pub fn check_class(&self, trace: &Inference) -> Result<(), ModelError> {
        let unknown = trace.inconclusive;
        let (model, trace) = (self.server.class(), trace.server.class());
        if model == trace || unknown {
            return Ok(());
        }
        Err(ModelError::OtherDevice { model: model.to_owned(), trace: trace.to_owned() })
    }

    /// Requests it can be busy with at a time.
    pub fn places(&self) -> u32 {
        match &self.model {
            Model::Parallel(parallel) => parallel.channels,
            _ => self.server.slots,
        }
    }

    /// Refuses a model that failed its trial.
    ///
    /// # Errors
    /// [`ModelError::NotWorthUsing`], with what was found.
    pub fn check_worth(&self) -> Result<(), ModelError> {
        let trial = self.training.as_ref().and_then(|training| training.trial);
        match trial.and_then(|trial| trial.problem()) {
            Some(problem) => Err(ModelError::NotWorthUsing { device: self.device.clone(), problem }),
            None => Ok(()),
        }
    }

    /// A description for people and programs; sizes in bytes, times in us.
    pub fn describe(&self) -> serde_json::Value {
        let details = match &self.model {
            Model::Forest(forest) => forest.describe(),
            Model::Parallel(parallel) => parallel.describe(),
            Model::Paper(paper) => paper.describe(),
            Model::Unconditional(unconditional) => unconditional.describe(),
            Model::Mechanical(drive) => serde_json::json!(drive),
            Model::Ssd(ssd) => serde_json::json!(ssd),
        };
        serde_json::json!({
            "device": self.device,
            "kind": self.model.kind(),
            "server": self.server,
            "inference": self.inference,
            "training": self.training,
            "model": details,
        })
    }
}
