//! What moving blocks would bring: to the requests that a map is drawn from, and to others.

use crate::error::ModelError;
use crate::models::{DeviceModel, Model};
use crate::reorganize::{heat, plan_by, BlockMap, Policy, BLOCK_SECTORS};
use crate::request::{arrival_seeks, Request};
use crate::simulate::{closed_loop, responses_us};
use serde::Serialize;
use std::collections::HashSet;

/// Parts of a trace of which each is moved, in turn, by the map of the others.
pub const PARTS: usize = 4;
/// Replications of a prediction.
const REPLICATIONS: u64 = 8;
/// Two-sided 95 % point of Student's t with 7 degrees of freedom.
const T_95: f64 = 2.365;

/// What a move does to the seeks, by arithmetic, and to times, by prediction.
#[derive(Debug, Clone, Serialize)]
pub struct Prediction {
    /// Blocks that move.
    pub moved_blocks: usize,
    /// Share of requests that begin in the hottest blocks.
    pub covered: f64,
    /// Change of the total start-to-start seek distance in arrival order, percent.
    pub seek_distance_change_percent: f64,
    /// Share of requests with seek 0 before.
    pub zero_seek_before: f64,
    /// Share of requests with seek 0 after.
    pub zero_seek_after: f64,
    /// Predicted mean response before, ms.
    pub before_ms: f64,
    /// Predicted mean response after, ms.
    pub after_ms: f64,
    /// Predicted change of the mean response, percent; mean of the replications.
    pub change_percent: f64,
    /// Half width of its 95 % interval, percent points: of the draws and, where that was tested, of the model.
    pub half_width_percent: f64,
    /// The part of the model in it, percent points; `None` where it was never tested.
    pub model_error_percent: Option<f64>,
    /// Replications.
    pub replications: u64,
    /// Share of requests unlike any in the training part, after the move.
    pub outside_support: f64,
    /// Whether the model knows blocks by their place, and so mistakes a block for what lay there
    /// before; fit with [`crate::models::fit::FitOptions::movable`].
    pub bound_to_place: bool,
}

/// Error of the default model, percent points, at the trace's own load: of 144 moves of hot blocks on random
/// drives not looked at before 141 were within it, of 96 others 91 (docs/parts/disk.md).
const MODEL_ERROR: f64 = 5.0;

/// Predicts what `map` would do to `requests` (one device, in arrival order) with `model`.
///
/// # Errors
/// When `load` is no positive number.
pub fn predict(
    model: &DeviceModel,
    requests: &[Request],
    map: &BlockMap,
    covered: f64,
    load: f64,
    seed: u64,
) -> Result<Prediction, ModelError> {
    Unmoved::of(model, requests, load, seed)?.by_map(map, covered)
}

/// Requests of one device, in arrival order, as they lie, and how long they take by a model.
pub struct Unmoved<'a> {
    model: &'a DeviceModel,
    requests: &'a [Request],
    load: f64,
    seed: u64,
    /// Mean response of each replication, ms.
    means_ms: Vec<f64>,
}

impl<'a> Unmoved<'a> {
    /// Simulates them.
    ///
    /// # Errors
    /// When `load` is no positive number.
    pub fn of(
        model: &'a DeviceModel,
        requests: &'a [Request],
        load: f64,
        seed: u64,
    ) -> Result<Self, ModelError> {
        let mut unmoved = Self { model, requests, load, seed, means_ms: Vec::new() };
        unmoved.means_ms = unmoved.means_ms_of(requests)?;
        Ok(unmoved)
    }

    /// What `map` would do to these very requests, of which `covered` begin in the hottest blocks.
    ///
    /// # Errors
    /// When the load is no positive number.
    pub fn by_map(&self, map: &BlockMap, covered: f64) -> Result<Prediction, ModelError> {
        self.compare(&map.apply(self.requests), map.len(), covered)
    }

    /// What the map that `policy` makes of the `count` hottest blocks is worth for requests that it was not drawn from: each
    /// of [`PARTS`] parts of the trace is moved by the map of the others. A block that is asked for once is hot in its own
    /// part only.
    ///
    /// # Errors
    /// When the load is no positive number.
    pub fn held_out(&self, count: usize, policy: Policy) -> Result<Prediction, ModelError> {
        let (mut moved, mut hits, mut blocks) = (Vec::with_capacity(self.requests.len()), 0, 0);
        let bound = |part: usize| part * self.requests.len() / PARTS;
        for part in 0..PARTS {
            let (before, rest) = self.requests.split_at(bound(part));
            let (held, after) = rest.split_at(bound(part + 1) - bound(part));
            let heat = heat(&[before, after].concat());
            let map = plan_by(&heat, count, policy);
            let hottest: HashSet<u64> = heat.iter().take(count).map(|(block, _)| *block).collect();
            hits += held.iter().filter(|request| hottest.contains(&(request.lba / BLOCK_SECTORS))).count();
            blocks += map.len();
            moved.extend(map.apply(held));
        }
        self.compare(&moved, blocks / PARTS, hits as f64 / self.requests.len().max(1) as f64)
    }

    fn means_ms_of(&self, requests: &[Request]) -> Result<Vec<f64>, ModelError> {
        let mean = |replication| {
            let seed = self.seed.wrapping_add(replication);
            let responses = responses_us(&closed_loop(self.model, requests, self.load, seed)?);
            Ok(crate::metrics::mean(&responses) * 1e-3)
        };
        (0..REPLICATIONS).map(mean).collect()
    }

    fn compare(
        &self,
        moved: &[Request],
        moved_blocks: usize,
        covered: f64,
    ) -> Result<Prediction, ModelError> {
        let (before, after) = (&self.means_ms, self.means_ms_of(moved)?);
        let changes: Vec<f64> =
            before.iter().zip(&after).map(|(old, new)| 100.0 * (new / old - 1.0)).collect();
        let change = crate::metrics::mean(&changes);
        let variance = changes.iter().map(|x| (x - change).powi(2)).sum::<f64>() / (REPLICATIONS - 1) as f64;
        let distance = |requests: &[Request]| {
            arrival_seeks(requests).iter().map(|seek| seek.unsigned_abs() as f64).sum::<f64>()
        };
        let model = self.model;
        let bound_to_place = matches!(&model.model, Model::Forest(forest) if forest.uses_place());
        let as_tested = matches!(model.model, Model::Forest(_)) && model.server.slots == 1 && !bound_to_place;
        let model_error = (as_tested && (self.load - 1.0).abs() < 1e-9).then_some(MODEL_ERROR);
        let zero = |requests: &[Request]| {
            arrival_seeks(requests).iter().skip(1).filter(|seek| **seek == 0).count() as f64
                / requests.len().max(1) as f64
        };
        Ok(Prediction {
            moved_blocks,
            covered,
            seek_distance_change_percent: 100.0 * (distance(moved) / distance(self.requests).max(1.0) - 1.0),
            zero_seek_before: zero(self.requests),
            zero_seek_after: zero(moved),
            before_ms: crate::metrics::mean(before),
            after_ms: crate::metrics::mean(&after),
            change_percent: change,
            half_width_percent: (T_95 * (variance / REPLICATIONS as f64).sqrt())
                .hypot(model_error.unwrap_or(0.0)),
            model_error_percent: model_error,
            replications: REPLICATIONS,
            outside_support: crate::evaluate::outside(model, moved, 0),
            bound_to_place,
        })
    }
}
