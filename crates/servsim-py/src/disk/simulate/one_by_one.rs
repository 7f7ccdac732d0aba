//! A model run on the requests of one device as they are read, if they come in order of arrival: the trace is not held, only
//! what percentiles are made of. Figures are those of the general way, which takes over for any other trace.

use super::super::fit::read_models;
use super::super::run::model_for;
use super::super::source::Source;
use super::super::written::Written;
use super::super::Outcome;
use super::{near_saturation, of_another, summary, SimulateRequest, Simulated};
use serde_json::json;
use servsim_disk::error::ImportError;
use servsim_disk::evaluate::ClosedLoop;
use servsim_disk::in_order::{ClosedInOrder, OpenInOrder};
use servsim_disk::metrics::percentiles::{ByOperation, Responses};
use servsim_disk::models::DeviceModel;
use servsim_disk::request::{Command, Op, Request, NO_START};
use servsim_disk::server::infer::ENOUGH;
use servsim_disk::server::station::Started;

/// What is known of the requests that have been served.
#[derive(Default)]
struct Tally<'a, 'b> {
    keeps_times: bool,
    arrivals_ns: Vec<u64>,
    responses_ns: Vec<u64>,
    written: Option<&'a mut Written<'b>>,
    /// Responses of reads and of writes in closed loop.
    by_operation: [Responses; 2],
    /// Sum of all responses: in us of a closed loop, in ms of an open one.
    sum: f64,
    busy_ns: u64,
    end_ns: u64,
}

impl Tally<'_, '_> {
    #[inline]
    fn closed(&mut self, op: Op, started: &Started) {
        let response_ns = started.completion_ns - started.arrival_ns;
        self.by_operation[op as usize].push(response_ns);
        self.sum += response_ns as f64 * 1e-3;
        self.busy_ns += started.completion_ns - started.start_ns;
        self.end_ns = self.end_ns.max(started.completion_ns);
        self.times(started.arrival_ns, response_ns);
    }

    #[inline]
    fn open(&mut self, arrival_ns: u64, response_ns: u64) {
        self.sum += response_ns as f64 * 1e-6;
        self.times(arrival_ns, response_ns);
    }

    #[inline]
    fn times(&mut self, arrival_ns: u64, response_ns: u64) {
        if self.keeps_times {
            self.arrivals_ns.push(arrival_ns);
            self.responses_ns.push(response_ns);
        }
        if let Some(written) = &mut self.written {
            written.push(arrival_ns, response_ns);
        }
    }

    /// What is told of a closed loop at `load`.
    fn figures(&mut self, model: &DeviceModel, load: f64) -> (serde_json::Value, Option<String>) {
        let parts = std::mem::take(&mut self.by_operation);
        let count = parts.iter().map(Responses::count).sum::<usize>();
        let (by_operation, p99_ms) = ByOperation::of_responses(parts);
        let busy = self.busy_ns as f64 / self.end_ns.max(1) as f64 / f64::from(model.places());
        let told = ClosedLoop {
            load,
            simulated_mean_ms: self.sum / count as f64 * 1e-3,
            simulated_p99_ms: p99_ms,
            utilization: busy.min(1.0),
            real_mean_ms: None,
            real_p99_ms: None,
            mean_error_percent: None,
            d_percent: None,
        };
        let warning = near_saturation(told.utilization);
        let mut told = json!(told);
        told["by_operation"] = json!(by_operation);
        (told, warning)
    }
}

/// The model at work.
enum Run<'a> {
    Closed(Box<ClosedInOrder<'a>>),
    Open(Box<OpenInOrder<'a>>),
}

impl Run<'_> {
    /// Serves `request`; false if it cannot be served in order of arrival.
    #[inline]
    fn push(&mut self, request: &Request, load: f64, tally: &mut Tally<'_, '_>) -> bool {
        match self {
            Run::Closed(run) => {
                let arrival_ns = (request.arrival_ns as f64 / load) as u64;
                run.push(arrival_ns, Command::from(request), &mut |op, started| tally.closed(op, &started));
                true
            }
            Run::Open(run) => run.push(request, &mut |drawn| tally.open(drawn.arrival_ns, drawn.response_ns)),
        }
    }

    fn finish(&mut self, tally: &mut Tally<'_, '_>) {
        match self {
            Run::Closed(run) => run.finish(&mut |op, started| tally.closed(op, &started)),
            Run::Open(run) => {
                run.finish(&mut |drawn| tally.open(drawn.arrival_ns, drawn.response_ns));
            }
        }
    }
}

/// The summary, arrivals and responses; `None` where that takes the general way, which also tells what is wrong. Part of them
/// may be in `written` then.
pub(super) fn simulate(
    source: &Source,
    request: &SimulateRequest,
    written: Option<&mut Written<'_>>,
) -> Outcome<Option<Simulated>> {
    let (using, load) = (&request.using, request.load);
    let is_closed = request.mode == "closed";
    if using.map.is_some() || !using.sets.is_empty() || !(load.is_finite() && load > 0.0) {
        return Ok(None);
    }
    let models = read_models(&using.model).unwrap_or_default();
    let [model] = &models[..] else { return Ok(None) };
    if !using.allow_unskilled && model.check_worth().is_err() {
        return Ok(None);
    }
    let run = match request.mode.as_str() {
        "closed" => ClosedInOrder::new(model, using.seed).map(|run| Run::Closed(Box::new(run))),
        "open" => OpenInOrder::new(model, using.seed).map(|run| Run::Open(Box::new(run))),
        _ => None,
    };
    let Some(mut run) = run else { return Ok(None) };
    let mut tally = Tally { keeps_times: request.times, written, ..Tally::default() };
    if let Some(written) = &mut tally.written {
        written.heading(false);
    }
    // The first requests, by which the class of the device is known.
    let mut head: Vec<Request> = Vec::new();
    let (mut first, mut latest_ns, mut is_ordered) = (None, 0, true);
    let streamed = source.arrivals_only(is_closed).stream(&mut |mut request| {
        let &mut (base_ns, device) = first.get_or_insert((request.arrival_ns, request.device));
        is_ordered = request.device == device && request.arrival_ns >= latest_ns.max(base_ns);
        latest_ns = request.arrival_ns;
        if is_ordered {
            request.arrival_ns -= base_ns;
            request.completion_ns -= base_ns;
            request.start_ns =
                request.recorded_start_ns().map_or(NO_START, |start| start.saturating_sub(base_ns));
            if head.len() < ENOUGH {
                head.push(request);
            }
            is_ordered = run.push(&request, load, &mut tally);
        }
        // Any error ends the reading.
        if is_ordered {
            Ok(())
        } else {
            Err(ImportError::Empty(String::new()))
        }
    });
    if !is_ordered {
        return Ok(None);
    }
    let report = streamed?;
    run.finish(&mut tally);
    let device = first.map_or(0, |(_, device)| usize::from(device));
    let name = &report.devices[device];
    let any_class = using.allow_other_device || report.arrivals_only;
    model_for(&models, name, &report.devices, &head, any_class)?;
    let mut warnings: Vec<String> = of_another(model, name).into_iter().collect();
    let figures = if is_closed {
        let (figures, warning) = tally.figures(model, load);
        warnings.extend(warning);
        figures
    } else {
        json!({"load": 1.0, "simulated_mean_ms": tally.sum / report.requests as f64})
    };
    let devices =
        [json!({"device": name, "requests": report.requests, "figures": figures, "warnings": warnings})];
    Ok(Some((summary(request, &report, &devices), tally.arrivals_ns, tally.responses_ns)))
}
