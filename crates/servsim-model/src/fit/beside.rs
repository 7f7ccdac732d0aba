//! What a station does besides requests, a constant behind the demands: whether the samples prove it, and intervals
//! that hold with it and without. Both methods estimate with and without, and are judged here.

use super::linear::Matrix;
use super::{Background, Demand, Fit, Measurements};
use crate::special::student_quantile;

/// Half the width of an interval, relative to the estimate, beyond which a demand is reported as weak.
const WEAK: f64 = 0.5;
/// Samples beyond one per class that an estimate of background needs.
const SPARE: usize = 3;
/// Level of intervals.
const LEVEL: f64 = 0.95;
/// Level at which background must differ from none: higher than that of intervals, for it changes the demands. Its own
/// interval and those of the demands beside it are at this level too. Samples that happen to prove background tell too
/// much of it: at 95 % the interval held 90 of 100 demands and 84 of 100 backgrounds that were proven; so 97 and 93.
const CERTAIN: f64 = 0.99;
/// Utilisation below which background is not worth a word.
const LEAST: f64 = 0.005;

/// How far estimates scatter, in the order of their columns.
pub struct Errors {
    /// Estimates, seconds; the last is busy servers, where it is background.
    pub estimates: Vec<f64>,
    /// Covariance of the estimates.
    pub covariance: Matrix,
    /// Degrees of freedom of Student's distribution; infinite for the normal one.
    pub degrees: f64,
}

impl Errors {
    fn half_width(&self, column: usize, level: f64) -> f64 {
        student_quantile(self.degrees, 0.5 + 0.5 * level) * self.covariance[column][column].max(0.0).sqrt()
    }

    /// Ends of the interval of each column.
    fn ends(&self, level: f64) -> Vec<[f64; 2]> {
        let end = |(i, estimate): (usize, &f64)| {
            let half = self.half_width(i, level);
            [estimate - half, estimate + half]
        };
        self.estimates.iter().enumerate().map(end).collect()
    }
}

/// What samples tell of work that a station does besides requests.
#[derive(Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It is there beyond doubt: the estimate with it holds.
    Proven,
    /// It is not proven, and not ruled out.
    Possible,
    /// There are too few samples to tell.
    Untold,
}

impl Verdict {
    /// Level of the intervals beside it.
    fn level(self) -> f64 {
        match self {
            Self::Proven => CERTAIN,
            Self::Possible | Self::Untold => LEVEL,
        }
    }
}

/// Whether so many samples can tell demands of `classes` from background.
pub fn enough(samples: usize, classes: usize) -> bool {
    samples >= classes + SPARE
}

/// Judges the estimates `without` and `with` background, which is the last column: what the samples tell of it, and the
/// intervals of the estimate that holds. Where there may or may not be any, intervals hold for both: a small amount, too
/// little to be proven by some samples, would make demands that much smaller.
pub fn judge(
    without: Option<&Errors>,
    with: Option<&Errors>,
    servers: f64,
) -> (Verdict, Option<Vec<[f64; 2]>>) {
    let mut narrow = without.map(|errors| errors.ends(LEVEL));
    let Some(with) = with else { return (Verdict::Untold, narrow) };
    let last = with.estimates.len() - 1;
    let share = with.estimates[last];
    if share > LEAST * servers && share > with.half_width(last, CERTAIN) {
        return (Verdict::Proven, Some(with.ends(Verdict::Proven.level())));
    }
    for (i, (ends, [low, high])) in narrow.iter_mut().flatten().zip(with.ends(LEVEL)).enumerate() {
        // Where none is estimated there can only be more.
        let falls = with.covariance[i][last] < 0.0;
        ends[0] = if share > 0.0 || falls { ends[0].min(low) } else { ends[0] };
        ends[1] = if share > 0.0 || !falls { ends[1].max(high) } else { ends[1] };
    }
    (Verdict::Possible, narrow)
}

/// Writes down the demands of station `k` and what it does besides. `estimates` has one entry per class, and background
/// behind them where it is proven; `reasons` tells per class why it cannot be identified; `ends` has the classes that
/// can be, in their order.
pub fn record(
    measurements: &Measurements,
    k: usize,
    (verdict, ends): (Verdict, Option<Vec<[f64; 2]>>),
    estimates: &[f64],
    reasons: &[Option<String>],
    found: &mut Fit,
) {
    let (name, servers) = (&measurements.stations[k], measurements.servers_of(k));
    let mut ends = ends.map(Vec::into_iter);
    let confidence = verdict.level();
    for ((class, reason), estimate) in measurements.classes.iter().zip(reasons).zip(estimates) {
        let own = if reason.is_none() { ends.as_mut().and_then(Iterator::next) } else { None };
        found.demands.push(demand(name, class, *estimate, (own, confidence), reason.as_ref()));
    }
    if verdict == Verdict::Proven {
        let share = estimates[measurements.classes.len()] / servers;
        let own = ends.as_mut().and_then(Iterator::next).unwrap_or_default();
        let [low, high] = own.map(|end| (end / servers).max(0.0));
        found.background.push(Background {
            station: name.clone(),
            utilization: share,
            low,
            high,
            confidence,
        });
    }
    if verdict == Verdict::Untold {
        found.presumed.push(name.clone());
    }
}

fn demand(
    station: &str,
    class: &str,
    value: f64,
    (ends, confidence): (Option<[f64; 2]>, f64),
    reason: Option<&String>,
) -> Demand {
    let identifiable = reason.is_none();
    let weak = ends.is_some_and(|[low, high]| value > 0.0 && high - low > 2.0 * WEAK * value);
    let note = reason.cloned().or_else(|| match ends {
        None => Some("too few samples for an interval".into()),
        Some(_) => weak.then(|| "weak: the interval is wider than the estimate".into()),
    });
    Demand {
        station: station.into(),
        class: class.into(),
        demand: identifiable.then_some(value),
        low: ends.map(|[low, _]| low.max(0.0)),
        high: ends.map(|[_, high]| high),
        confidence: ends.map(|_| confidence),
        identifiable,
        note,
    }
}
