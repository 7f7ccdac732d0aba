//! One answer beside the slow simulator, and what many of them say about a kind of model.

use super::truth::{Found, Known, Truth, PERCENTS, T95, T99, T999};
use serde::{Deserialize, Serialize};
use servsim_model::bands::Accuracy;
use servsim_model::solution::Interval;
use servsim_model::solvers::bounds::bounds;
use servsim_model::{Network, Solution};
use std::collections::BTreeMap;

/// What was seen of one model. Errors and widths are relative, and of the class that fares worst.
#[derive(Default, Debug, Serialize, Deserialize)]
pub struct Verdict {
    pub kind: String,
    pub seed: u64,
    /// Solver and nature.
    pub solver: String,
    /// Why there is no answer.
    pub refused: Option<String>,
    /// Refused, though no class falls behind.
    #[serde(default)]
    pub wrongly: bool,
    /// Throughputs and response times, and how many are within what the answer states.
    pub figures: usize,
    pub held: usize,
    /// Figures of stations and pools that the slow simulator knows, how many are within what an answer says (a band of
    /// requests at stations only), and which are not.
    #[serde(default)]
    pub places: usize,
    #[serde(default)]
    pub placed: usize,
    #[serde(default)]
    pub misplaced: Vec<String>,
    /// Classes that the slow simulator does not know well enough to judge.
    pub unknown: usize,
    /// Distance from the slow simulator: of throughput, of response time.
    pub error: [f64; 2],
    /// How well the slow simulator itself knows them.
    pub noise: [f64; 2],
    /// What the answer says that it is worth.
    pub stated: [f64; 2],
    /// Percentiles, those within a tenth of the slow simulator's, those withheld.
    pub percentiles: usize,
    pub right: usize,
    pub withheld: usize,
    pub bounds: usize,
    pub violated: usize,
    /// Which are violated.
    #[serde(skip)]
    pub outside: Vec<usize>,
    /// Seconds that answer and judgement took.
    pub answering: f64,
    pub judging: f64,
}

/// Numbers below which a figure of a place is not judged, and by which one may be off that has no error, such as the
/// utilisation of a station that is hardly ever idle.
const SELDOM: f64 = 0.01;
const ALWAYS: f64 = 1e-4;

impl Verdict {
    pub fn on(network: &Network, answer: &Solution, found: &Found) -> Self {
        let truth = &found.classes;
        let mut verdict = Self { solver: format!("{} {}", answer.solver, answer.nature), ..Self::default() };
        let band = match &answer.accuracy {
            Accuracy::Band { throughput, response, .. } => [*throughput, *response],
            // A band that is not known holds nothing.
            Accuracy::Unknown { .. } => [f64::NAN; 2],
            Accuracy::Exact | Accuracy::Interval => [0.0; 2],
        };
        for (class, truth) in answer.classes.iter().zip(truth) {
            let Some(truth) = truth else {
                verdict.unknown += 1;
                continue;
            };
            let figures = [
                (class.throughput, class.throughput_interval, truth.throughput),
                (class.response, class.response_interval, truth.response),
            ];
            for (i, (found, interval, known)) in figures.into_iter().enumerate() {
                let half = interval.map_or(band[i] * found, |i| 0.5 * (i.high - i.low));
                // Both are uncertain by chance, or only the slow simulator is.
                let allowed = match answer.nature {
                    "simulated" => half.hypot(T95 * known.error),
                    _ => half + T99 * known.error,
                };
                verdict.figures += 1;
                verdict.held += usize::from((found - known.mean).abs() <= allowed + 1e-12);
                verdict.error[i] = verdict.error[i].max((found / known.mean - 1.0).abs());
                verdict.noise[i] = verdict.noise[i].max(known.width());
                verdict.stated[i] = verdict.stated[i].max(half / found);
            }
            for (percent, known) in PERCENTS.iter().zip(&truth.percentiles) {
                verdict.percentiles += 1;
                match class.percentiles.iter().find(|p| (p.0 - percent).abs() < 1e-9) {
                    None => verdict.withheld += 1,
                    Some(&(_, found)) => {
                        let allowed = 0.1 * known.mean + T95 * known.error;
                        verdict.right += usize::from((found - known.mean).abs() <= allowed);
                    }
                }
            }
        }
        verdict.bound(network, truth);
        if truth.iter().all(Option::is_some) && !answer.accuracy.is_unknown() {
            verdict.place(network, answer, &found.places);
        }
        verdict
    }

    fn place(&mut self, network: &Network, answer: &Solution, places: &[Known]) {
        let population = network.population().max(1 << 20);
        let band = match answer.accuracy {
            Accuracy::Band { present, .. } => Some(present),
            _ => None,
        };
        let stations = network.stations.iter().zip(&answer.stations).flat_map(|(station, found)| {
            // Nobody is in the way of another at a delay.
            let capacity = Some(station.speed.capacity(population)).filter(|c| c.is_finite());
            let present = found.queue.iter().sum();
            let busy = capacity
                .filter(|_| band.is_none())
                .map_or((f64::NAN, None, 1.0), |c| (found.utilization, found.utilization_interval, c));
            [(&found.name, busy), (&found.name, (present, found.present_interval, 1.0))]
        });
        let pools =
            network.pools.iter().filter(|_| band.is_none()).zip(&answer.pools).flat_map(|(pool, found)| {
                let held = (found.utilization, found.utilization_interval, pool.size as f64);
                [(&found.name, held), (&found.name, (found.waiting, found.waiting_interval, 1.0))]
            });
        for (i, ((name, (figure, interval, whole)), known)) in stations.chain(pools).zip(places).enumerate() {
            let known = Known { mean: known.mean / whole, error: known.error / whole };
            // What hardly ever happens may not have happened in some of the runs.
            if figure.is_nan() || known.mean < SELDOM || T95 * known.error > 0.05 * known.mean {
                continue;
            }
            let half = |i: Interval| (i.high - figure).max(figure - i.low);
            let allowed = match interval {
                Some(interval) => half(interval).hypot(T95 * known.error),
                None => band.unwrap_or(0.0) * figure + T99 * known.error,
            };
            self.places += 1;
            if (figure - known.mean).abs() <= allowed + ALWAYS {
                self.placed += 1;
            } else {
                let what = if i % 2 == 0 { "in use" } else { "there" };
                self.misplaced.push(format!(
                    "{name} {what}: {figure:.4} is {:.4} ± {:.4}",
                    known.mean,
                    T95 * known.error
                ));
            }
        }
    }

    fn bound(&mut self, network: &Network, truth: &[Option<Truth>]) {
        let Ok(all) = bounds(network) else { return };
        for (c, (bound, truth)) in all.iter().zip(truth).enumerate() {
            let Some(truth) = truth else { continue };
            let ranges = [(truth.throughput, bound.throughput), (truth.response, bound.response)];
            for (i, (known, range)) in ranges.into_iter().enumerate() {
                self.bounds += 1;
                if outside(known, T999 * known.error, range.low, range.high) {
                    self.outside.push(2 * c + i);
                }
            }
        }
        self.violated = self.outside.len();
    }

    /// Keeps those violations that another look finds as well.
    pub fn look_again(&mut self, network: &Network, truth: &[Option<Truth>]) {
        let mut again = Self::default();
        again.bound(network, truth);
        self.violated = self.outside.iter().filter(|&which| again.outside.contains(which)).count();
    }
}

/// Of a model without chance, a figure may equal its bound, and the two are sums of the same times in another order.
const ROUNDING: f64 = 1e-9;

fn outside(known: Known, slack: f64, low: f64, high: f64) -> bool {
    let slack = slack + ROUNDING * known.mean;
    known.mean + slack < low || known.mean - slack > high
}

/// The value that a share of all does not exceed, per cent.
fn point(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = (share * values.len() as f64) as usize;
    values.get(at.min(values.len().saturating_sub(1))).map_or(f64::NAN, |v| 100.0 * v)
}

/// Prints what was seen of a kind; what of it must not be.
pub fn summary(kind: &str, all: &[Verdict]) -> Vec<String> {
    let of = || all.iter().filter(|v| v.kind == kind && v.refused.is_none());
    let sum = |count: fn(&Verdict) -> usize| of().map(count).sum::<usize>();
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let (figures, held) = (sum(|v| v.figures), sum(|v| v.held));
    let (percentiles, right, withheld) = (sum(|v| v.percentiles), sum(|v| v.right), sum(|v| v.withheld));
    let mut solvers: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for v in of() {
        let counts = solvers.entry(&v.solver).or_default();
        counts.iter_mut().zip([1, v.held, v.figures]).for_each(|(sum, n)| *sum += n);
    }
    let p95 = |of: &dyn Fn(&Verdict) -> f64| {
        point(all.iter().filter(|v| v.kind == kind && v.refused.is_none()).map(of), 0.95)
    };
    // Of the distance between both, what the slow simulator cannot be blamed for.
    let beyond = |i: usize| move |v: &Verdict| (v.error[i].powi(2) - v.noise[i].powi(2)).max(0.0).sqrt();
    println!(
        "{kind}: {} models, {} refused; held {held} of {figures} ({:.1} %), {} classes not known",
        of().count(),
        all.iter().filter(|v| v.kind == kind && v.refused.is_some()).count(),
        share(held, figures),
        sum(|v| v.unknown),
    );
    for (i, name) in ["throughput", "response"].into_iter().enumerate() {
        println!(
            "  {name}: 95 of 100 within {:.2} % of the slow simulator, {:.2} % beyond its own interval of {:.2} %; stated {:.2} %",
            p95(&|v| v.error[i]),
            p95(&beyond(i)),
            p95(&|v| v.noise[i]),
            p95(&|v| v.stated[i]),
        );
    }
    println!(
        "  stations and pools: {} of {} figures hold; percentiles: {:.2} % of {} within 10 %, {:.1} % withheld; bounds violated {} of {}",
        sum(|v| v.placed),
        sum(|v| v.places),
        share(right, percentiles - withheld),
        percentiles - withheld,
        share(withheld, percentiles),
        sum(|v| v.violated),
        sum(|v| v.bounds),
    );
    println!(
        "  seconds a model: {:.2} answering, {:.2} judging; models, held, figures by solver: {solvers:?}",
        of().map(|v| v.answering).sum::<f64>() / of().count().max(1) as f64,
        of().map(|v| v.judging).sum::<f64>() / of().count().max(1) as f64,
    );
    for v in all.iter().filter(|v| v.kind == kind) {
        match &v.refused {
            Some(why) => {
                println!("  seed {}: {}refused: {why}", v.seed, if v.wrongly { "wrongly " } else { "" });
            }
            None if v.held < v.figures || v.violated > 0 => println!(
                "  seed {} by {}: held {} of {}, off by {:.2?}, known to {:.2?}, stated {:.2?}",
                v.seed,
                v.solver,
                v.held,
                v.figures,
                v.error.map(|x| 100.0 * x),
                v.noise.map(|x| 100.0 * x),
                v.stated.map(|x| 100.0 * x),
            ),
            None => {}
        }
        if !v.misplaced.is_empty() {
            println!(
                "  seed {} by {}: {} of {} places hold, not {}",
                v.seed,
                v.solver,
                v.placed,
                v.places,
                v.misplaced.join(", ")
            );
        }
    }
    // One in twenty may not hold, and of few models some more by chance: figures of one model go together.
    let chance = 4.0 * (0.05 * 0.95 * figures as f64).sqrt();
    let mut faults = Vec::new();
    if (figures - held) as f64 > 0.05 * figures as f64 + chance {
        faults.push(format!("{kind}: {} of {figures} figures do not hold", figures - held));
    }
    let (places, placed) = (sum(|v| v.places), sum(|v| v.placed));
    let chance = 8.0 * (0.05 * 0.95 * places as f64).sqrt();
    if (places - placed) as f64 > 0.05 * places as f64 + chance {
        faults.push(format!(
            "{kind}: {} of {places} figures of stations and pools do not hold",
            places - placed
        ));
    }
    let wrongly = all.iter().filter(|v| v.kind == kind && v.wrongly).count();
    if wrongly > 0 {
        faults.push(format!("{kind}: {wrongly} models wrongly refused"));
    }
    if sum(|v| v.violated) > 0 {
        faults.push(format!("{kind}: bounds violated"));
    }
    let off = percentiles - withheld - right;
    if off * 100 > 2 * percentiles {
        faults.push(format!("{kind}: {off} of {percentiles} percentiles beyond 10 %"));
    }
    faults
}
