//! Finds the parameters of a [`Parallel`] device in a trace: those whose free run, given arrivals alone, is most
//! like what happened.
//!
//! The search goes from one parameter to the next, keeps what lowers the loss, and ends when a round gains
//! nothing; a mechanism that the trace does not show stays out, since it must gain to come in. The loss
//! is a proper score of single requests, of times and of their logarithms, beside how far the means
//! of reads and of writes are off where arrivals are dense and where they are not (that is what
//! another load asks about), and how far the autocorrelation is. Over 400 lines: the moves of
//! the search are to be read in one piece.

use super::likeness::Truth;
use super::parallel::{length_class, Channels, Collection, Parallel, Phases, Placement, Throttle, LENGTHS};
use super::throttles::{is_met, throttles};
use crate::metrics::median;
use crate::request::{Command, Op, Request};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Requests that the search runs; each costs some microseconds a round.
const SEARCHED: usize = 12_000;
/// Rounds of the search at most.
const ROUNDS: usize = 8;
/// Share of the loss that a change must gain, and one that brings in a mechanism.
const MUST_GAIN: f64 = 0.0005;
const MECHANISM_MUST_GAIN: f64 = 0.02;
/// A search that ended with a loss so little beyond the best found another explanation.
const RIVAL: f64 = 0.03;
/// How far a profile of the capacity goes at a time, and how often.
const CAPACITY_STEP: f64 = 1.2;
const CAPACITY_STEPS: i32 = 9;
/// Values kept of the quiet times of a class.
const QUIET: usize = 64;
/// Fewest requests that make a class of lengths.
const FEWEST: usize = 16;
/// A quiet request that took so many times as long as others like it may have met something after all.
const DISTURBED: f32 = 3.0;

/// Times of the requests that met least, by operation and class of length.
fn quiet(requests: &[Request], us: &[f64]) -> [Vec<Vec<f32>>; 2] {
    // What may still be going on: sectors asked for of late, forgotten within twenty typical times.
    let forget_ns = 20e3 * median(us).max(1.0);
    let (mut level, mut last_ns) = (0.0_f64, 0);
    let noise: Vec<f64> = requests
        .iter()
        .map(|request| {
            level *= (-((request.arrival_ns - last_ns) as f64) / forget_ns).exp();
            last_ns = request.arrival_ns;
            let before = level;
            level += 1.0 + f64::from(request.sectors) / 16.0;
            before
        })
        .collect();
    let quietest = |of: &dyn Fn(&Request) -> bool| {
        let mut found: Vec<(f64, f64)> = requests
            .iter()
            .enumerate()
            .filter(|(_, request)| of(request))
            .map(|(at, _)| (noise[at], us[at]))
            .collect();
        if found.len() < FEWEST {
            return None;
        }
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        found.truncate((found.len() / 5).max(FEWEST));
        let mut values: Vec<f32> = found.into_iter().map(|(_, us)| us as f32).collect();
        values.sort_unstable_by(f32::total_cmp);
        let n = values.len();
        Some(if n <= QUIET {
            values
        } else {
            (0..QUIET).map(|k| values[(2 * k + 1) * n / (2 * QUIET)]).collect()
        })
    };
    let all = quietest(&|_| true).unwrap_or_else(|| us.iter().map(|&us| us as f32).collect());
    [Op::Read, Op::Write].map(|op| {
        let of_op = quietest(&|request| request.op == op).unwrap_or_else(|| all.clone());
        let of_class =
            |class| quietest(&|request| request.op == op && length_class(request.sectors) == class);
        let mut classes: Vec<Option<Vec<f32>>> = (0..LENGTHS).map(of_class).collect();
        // A length not seen is like the nearest one that was.
        let seen: Vec<usize> = (0..LENGTHS).filter(|&class| classes[class].is_some()).collect();
        for class in 0..LENGTHS {
            if classes[class].is_none() {
                let nearest = seen.iter().min_by_key(|other| other.abs_diff(class));
                classes[class] = nearest.and_then(|&nearest| classes[nearest].clone());
            }
        }
        classes.into_iter().map(|class| class.unwrap_or_else(|| of_op.clone())).collect()
    })
}

/// Pauses for collection worth trying where programming a piece takes `program_us`.
fn collections(program_us: f64) -> impl Iterator<Item = Collection> {
    [8, 32, 128].into_iter().flat_map(move |pieces| {
        [0.1, 0.5, 2.0].map(|share| Collection { pieces, pause_us: share * f64::from(pieces) * program_us })
    })
}

/// The search: the best so far, and what it costs.
struct Search<'a> {
    truth: &'a Truth<'a>,
    best: Parallel,
    loss: f64,
}

impl<'a> Search<'a> {
    /// Where a search of a device with a write buffer begins: what it does later decides together.
    fn buffered(truth: &'a Truth<'a>, start: &Parallel) -> Parallel {
        let buffer = Some(1 << 24);
        let begin = Parallel { buffer, ..start.clone() };
        let mut search = Search { truth, loss: truth.loss(&begin), best: begin };
        for channels in [8, 32] {
            for times in [2.0, 8.0] {
                let program_us = start.read_us * times;
                let pauses = collections(program_us).map(Some);
                for collection in std::iter::once(None).chain(pauses) {
                    search.offer(|model| {
                        let start = start.clone();
                        *model = Parallel { channels, program_us, buffer, collection, ..start };
                    });
                }
            }
        }
        search.best
    }

    /// Takes a change of the best if it is better; whether it was.
    fn offer(&mut self, change: impl FnOnce(&mut Parallel)) -> bool {
        self.offer_for(MUST_GAIN, change)
    }

    fn offer_for(&mut self, must_gain: f64, change: impl FnOnce(&mut Parallel)) -> bool {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        if candidate == self.best || !candidate.is_sound() {
            return false;
        }
        let limit = candidate.throttle.filter(|_| candidate.throttle != self.best.throttle);
        if limit.is_some_and(|limit| !is_met(&limit, self.truth.requests)) {
            return false;
        }
        // The loss of a device that does always the same falls to nothing, and by chance below.
        let limit = self.loss - must_gain * self.loss.abs();
        let better = self.truth.loss_within(&candidate, limit).filter(|&loss| loss < limit);
        if let Some(loss) = better {
            (self.best, self.loss) = (candidate, loss);
        }
        better.is_some()
    }

    /// Goes on by `factor` and its inverse as long as that gains.
    fn scale(&mut self, factors: &[f64], change: impl Fn(&mut Parallel, f64)) {
        for &factor in factors {
            for factor in [factor, 1.0 / factor] {
                while self.offer(|model| change(model, factor)) {}
            }
        }
    }

    fn round(&mut self, start: &Parallel, throttles: &[Throttle]) {
        let steps: &[f64] = &[2.0, 1.2, 1.06];
        let whole = |value: u32, factor: f64| (f64::from(value) * factor).round().clamp(1.0, 4096.0) as u32;
        for placement in [Placement::First, Placement::Hidden, Placement::Striped] {
            for channels in [1, 2, 4, 8, 16, 32, 64, 128] {
                self.offer(|model| (model.placement, model.channels) = (placement, channels));
            }
        }
        self.scale(&[1.25], |model, factor| model.channels = whole(model.channels, factor));
        for sectors in [8, 16, 32, 64, 128, 1 << 20] {
            self.offer(|model| model.piece_sectors = sectors);
        }
        self.offer(|model| model.read_us = start.read_us);
        self.offer(|model| model.read_us = 0.0);
        self.scale(steps, |model, factor| model.read_us *= factor);
        for times in [0.0, 1.0, 4.0, 16.0] {
            self.offer(|model| model.program_us = start.read_us * times);
        }
        self.scale(steps, |model, factor| model.program_us *= factor);
        self.offer(|model| model.buffer = None);
        for pieces in [4, 16, 64, 256, 1024, 1 << 24] {
            self.offer(|model| model.buffer = Some(pieces));
        }
        self.scale(&[1.4, 1.1], |model, factor| {
            model.buffer = model.buffer.filter(|&pieces| pieces < 4096).map(|pieces| whole(pieces, factor));
        });
        self.offer_for(-MECHANISM_MUST_GAIN, |model| model.collection = None);
        if self.best.collection.is_none() {
            for collection in collections(self.best.program_us) {
                let must_gain = if self.best.collection.is_none() { MECHANISM_MUST_GAIN } else { MUST_GAIN };
                self.offer_for(must_gain, |model| model.collection = Some(collection));
            }
        }
        if self.best.collection.is_some() {
            self.scale(steps, |model, factor| {
                model.collection =
                    model.collection.map(|c| Collection { pause_us: c.pause_us * factor, ..c });
            });
            self.scale(&[2.0, 1.2], |model, factor| {
                model.collection =
                    model.collection.map(|c| Collection { pieces: whole(c.pieces, factor), ..c });
            });
        }
        self.offer_for(-MECHANISM_MUST_GAIN, |model| model.throttle = None);
        for &throttle in throttles {
            let must_gain = if self.best.throttle.is_none() { MECHANISM_MUST_GAIN } else { MUST_GAIN };
            self.offer_for(must_gain, |model| model.throttle = Some(throttle));
        }
        if self.best.throttle.is_some() {
            self.scale(&[1.1, 1.03, 1.01], |model, factor| {
                model.throttle = model.throttle.map(|t| Throttle { per_second: t.per_second * factor, ..t });
            });
            self.scale(&[2.0, 1.2], |model, factor| {
                model.throttle = model.throttle.map(|t| Throttle { burst: (t.burst * factor).max(1.0), ..t });
            });
        }
        for op in [0, 1] {
            self.scale(&[1.02], |model, factor| {
                model.undisturbed[op] = (model.undisturbed[op] * factor).min(1.0);
            });
            self.scale(&[1.5, 1.1, 1.03], |model, factor| model.scale[op] *= factor);
        }
        // What hardly changes the loss one by one: as much work in all, in other portions.
        self.scale(&[1.4, 1.1], |model, factor| {
            model.channels = whole(model.channels, factor);
            model.read_us *= factor;
            model.program_us *= factor;
            model.collection = model.collection.map(|c| Collection { pause_us: c.pause_us * factor, ..c });
        });
        self.scale(&[1.4, 1.1], |model, factor| {
            model.channels = whole(model.channels, factor);
            model.collection =
                model.collection.map(|c| Collection { pieces: whole(c.pieces, 1.0 / factor), ..c });
        });
        self.scale(&[1.4, 1.1], |model, factor| {
            model.program_us *= factor;
            model.collection = model.collection.map(|c| Collection { pause_us: c.pause_us / factor, ..c });
        });
        self.scale(&[1.4, 1.1], |model, factor| {
            model.collection = model
                .collection
                .map(|c| Collection { pause_us: c.pause_us * factor, pieces: whole(c.pieces, factor) });
        });
    }

    /// The phases of the host: what nothing else explains.
    fn phases(&mut self) {
        self.offer_for(-MECHANISM_MUST_GAIN, |model| model.phases = None);
        let gap_us = self.truth.requests.last().map_or(1.0, |last| last.arrival_ns as f64 * 1e-3)
            / self.truth.requests.len() as f64;
        for share in [0.5, 0.9] {
            for gaps in [2.0, 10.0, 50.0, 250.0] {
                let must_gain = if self.best.phases.is_none() { MECHANISM_MUST_GAIN } else { MUST_GAIN };
                self.offer_for(must_gain, |model| {
                    model.phases = Some(Phases { share, last_us: gap_us * gaps });
                });
            }
        }
        if self.best.phases.is_some() {
            self.scale(&[2.0, 1.3], |model, factor| {
                model.phases = model.phases.map(|p| Phases { last_us: p.last_us * factor, ..p });
            });
            self.scale(&[1.1], |model, factor| {
                model.phases = model.phases.map(|p| Phases { share: (p.share * factor).min(1.0), ..p });
            });
        }
    }
}

/// Most requests that arrived within a tenth of a second.
pub fn most_in_tenth(arrivals_ns: impl Iterator<Item = u64>) -> u64 {
    let mut within = std::collections::VecDeque::new();
    let count = |at: u64| {
        within.push_back(at);
        while within.front().is_some_and(|&first| first + 100_000_000 < at) {
            within.pop_front();
        }
        within.len() as u64
    };
    arrivals_ns.map(count).max().unwrap_or(0)
}

/// The parallel device that is most like `requests` (one device, in arrival order, at least some hundred).
pub fn calibrate(requests: &[Request], seed: u64) -> Parallel {
    let seen_in_tenth = most_in_tenth(requests.iter().map(|request| request.arrival_ns));
    let quietest = {
        let us: Vec<f64> = requests.iter().map(|r| r.response_ns() as f64 * 1e-3).collect();
        quiet(requests, &us)
    };
    let typical = f64::from(quietest[0][0][quietest[0][0].len() / 2]).max(1.0);
    let truth = Truth::new(&requests[..requests.len().min(SEARCHED)], seed);
    let start = Parallel {
        channels: 8,
        placement: Placement::Hidden,
        piece_sectors: 16,
        read_us: typical * 0.7,
        program_us: typical * 0.7,
        buffer: None,
        collection: None,
        throttle: None,
        phases: None,
        scale: [1.0; 2],
        undisturbed: [1.0; 2],
        quiet_us: quietest,
        seen_in_tenth,
        rivals: Vec::new(),
    };
    let throttles = throttles(truth.requests);
    let undisturbed = [0, 1].map(|op| {
        let (few, all) = start.quiet_us[op].iter().fold((0, 0), |(few, all), class| {
            let limit = DISTURBED * class[class.len() / 2];
            (few + class.partition_point(|&us| us <= limit), all + class.len())
        });
        few as f64 / all as f64
    });
    let clean = Parallel { undisturbed, ..start.clone() };
    let begins = [Search::buffered(&truth, &clean), clean, start.clone()];
    let ends = begins.map(|begin| {
        let mut search = Search { loss: truth.loss(&begin), truth: &truth, best: begin };
        for phases in [false, true] {
            for _ in 0..ROUNDS {
                let before = search.loss;
                search.round(&start, &throttles);
                if phases {
                    search.phases();
                }
                if before - search.loss < 2.0 * MUST_GAIN * before.abs() {
                    break;
                }
            }
        }
        (search.loss, search.best)
    });
    let mut ends = ends.to_vec();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let limit = ends[0].0 + RIVAL * ends[0].0.abs();
    let as_good = ends[1..].iter().filter(|end| end.0 <= limit);
    let mut models: Vec<Parallel> = as_good.map(|end| end.1.clone()).collect();
    let mut best = ends[0].1.clone();
    models.extend(fullest(&truth, &best).map(|pieces| Parallel { buffer: Some(pieces), ..best.clone() }));
    models.extend(capacities(&truth, &best, limit));
    // A limit that gained little may be none: at other loads all depends on it.
    let unlimited = Parallel { throttle: None, ..best.clone() };
    models.extend((best.throttle.is_some() && truth.loss(&unlimited) <= limit).then_some(unlimited));
    best.rivals = models;
    best
}

/// The devices of least and of most capacity that explain the trace as well as `best`, within `limit` of loss: few requests wait in a
/// quiet trace, so that it tells little of how much a device can do.
fn capacities(truth: &Truth<'_>, best: &Parallel, limit: f64) -> Vec<Parallel> {
    let mut found = Vec::new();
    for scaling in [more_channels as Scaling, less_occupied] {
        for step in [CAPACITY_STEP, 1.0 / CAPACITY_STEP] {
            let (mut last, mut scale) = (None, best.scale);
            for at in 1..=CAPACITY_STEPS {
                let mut begin = Parallel { scale, ..best.clone() };
                scaling(&mut begin, step.powi(at));
                if !begin.is_sound() {
                    break;
                }
                let mut search = Search { loss: truth.loss(&begin), best: begin, truth };
                // What a request takes by itself makes up for what it no longer waits.
                for op in [0, 1] {
                    search.scale(&[1.1, 1.03], |model, factor| model.scale[op] *= factor);
                }
                if search.loss > limit {
                    break;
                }
                scale = search.best.scale;
                last = Some(search.best);
            }
            found.extend(last);
        }
    }
    found
}

/// What a profile of the capacity scales.
type Scaling = fn(&mut Parallel, f64);

fn more_channels(model: &mut Parallel, factor: f64) {
    model.channels = (f64::from(model.channels) * factor).round().clamp(1.0, 4096.0) as u32;
}

fn less_occupied(model: &mut Parallel, factor: f64) {
    model.read_us /= factor;
    model.program_us /= factor;
}

/// Pieces that the buffer of `model` ever holds, if that is fewer than it could: one just as large would
/// have done the same.
fn fullest(truth: &Truth<'_>, model: &Parallel) -> Option<u32> {
    let size = model.buffer?;
    let mut rng = Pcg64Mcg::seed_from_u64(truth.seed);
    let mut channels = Channels::new(model);
    let mut most = 1;
    for request in truth.requests {
        channels.service_ns(&Command::from(request), request.arrival_ns, &mut rng);
        most = most.max(channels.buffered(request.arrival_ns));
    }
    (most < size).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::NO_START;

    #[test]
    fn a_device_that_does_always_the_same_is_found_though_nothing_is_lost() {
        let request = |at: u64| Request {
            arrival_ns: at * 50_000,
            start_ns: NO_START,
            completion_ns: at * 50_000 + 40_000,
            lba: at * 8,
            sectors: 8,
            device: 0,
            op: Op::Read,
            by_tracer: false,
        };
        let requests: Vec<Request> = (0..400).map(request).collect();
        let found = calibrate(&requests, 0);
        let time_ns = Channels::new(&found).service_ns(
            &Command::from(&requests[0]),
            0,
            &mut Pcg64Mcg::seed_from_u64(1),
        );
        assert!(time_ns.abs_diff(40_000) < 100, "{time_ns}");
    }
}
