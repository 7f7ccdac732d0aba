//! Finding the server in a trace: how many requests a device serves at a time, and in which order
//! it takes them.
//!
//! Order: whenever service starts with a choice, each discipline names the request it would have
//! taken; the one that names the right request most often wins. What counts as one place to it (a
//! cylinder, say) is found in the same way. Slots: with recorded starts, how
//! far services overlap; without, whether the times between completions are too short for a device
//! that does one thing at a time.

use super::queue::{place_of, place_of_arm};
use super::{Discipline, Server, DISCIPLINES};
use crate::clock::idle_tells_service;
use crate::order::{services, Served};
use crate::request::{distance, queue_lengths, Op, Request};
use serde::{Deserialize, Serialize};

/// Requests looked at; more settle nothing.
pub const ENOUGH: usize = 65_536;
/// Share of overlapping recorded services that is more than clock noise.
const OVERLAP_SHARE: f64 = 0.02;
/// Share of impossibly short services that refutes a device with one slot.
const TOO_SHORT_SHARE: f64 = 0.15;
/// Most requests a device serves at a time here.
const SLOT_LIMIT: u32 = 1024;
/// Choices needed to tell orders apart.
const CHOICES: usize = 30;

/// A cylinder has at most this many sectors (log2).
const PLACE_LIMIT: u32 = 16;
/// Share of the choices that a coarser place must explain beyond a finer one: a place that explains
/// nothing more would only blur distances.
const PLACE_MUST_GAIN: f64 = 0.002;
/// Services looked at for places: there are many places to try.
const PLACE_SERVICES: usize = 16_384;

/// What was inferred, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inference {
    /// The server found.
    pub server: Server,
    /// Service starts with more than one request waiting.
    pub choices: usize,
    /// Share of the choices each discipline would have made, in the order of [`DISCIPLINES`].
    pub agreement: [f64; 3],
    /// Share of busy services too short for one slot (or overlapping, with recorded starts).
    pub concurrent_share: f64,
    /// Whether too few requests found the device free to tell how many it serves at a time.
    #[serde(default)]
    pub inconclusive: bool,
    /// Period, ms, of a clock on which completions fall while arrivals do not: the idle time before a
    /// request then tells its service, and no model is given it.
    #[serde(default)]
    pub completion_tick_ms: Option<f64>,
}

/// Infers the server of one device from its `requests`, in arrival order.
pub fn infer(requests: &[Request]) -> Inference {
    let requests = &requests[..requests.len().min(ENOUGH)];
    let recorded_start = requests.iter().all(|request| request.recorded_start_ns().is_some());
    let (slots, concurrent_share, inconclusive) =
        if recorded_start { overlap(requests) } else { too_short(requests) };
    let mut inference = Inference {
        server: Server { slots, recorded_start, ..Server::FCFS },
        choices: 0,
        agreement: [1.0; 3],
        concurrent_share,
        inconclusive,
        completion_tick_ms: None,
    };
    if slots == 1 {
        let served = services(requests, 1, recorded_start);
        inference.completion_tick_ms = idle_tells_service(&served).map(|tick| tick.period_ns * 1e-6);
        (inference.choices, inference.agreement) = agreement(&served, 1);
        if inference.choices >= CHOICES {
            let best =
                (0..3).rev().max_by(|&a, &b| inference.agreement[a].total_cmp(&inference.agreement[b]));
            let best = best.expect("three disciplines");
            inference.server.discipline = DISCIPLINES[best];
            if DISCIPLINES[best] != Discipline::Fcfs {
                inference.server.place_sectors = place(&served, best);
                let place = u64::from(inference.server.place_sectors);
                inference.agreement[best] = agreement(&served, place).1[best];
            }
        }
    }
    inference
}

/// Depth that covers all but one arrival in a thousand.
pub fn depth(requests: &[Request]) -> u32 {
    let mut lengths = queue_lengths(requests);
    lengths.sort_unstable();
    lengths
        .get(lengths.len().saturating_sub(1 + lengths.len() / 1000))
        .copied()
        .unwrap_or(1)
        .clamp(2, SLOT_LIMIT)
}

fn overlap(requests: &[Request]) -> (u32, f64, bool) {
    let served = services(requests, 1, true);
    let overlapping =
        served.windows(2).filter(|pair| pair[1].start_ns < pair[0].request.completion_ns).count();
    let share = overlapping as f64 / served.len().max(1) as f64;
    (if share > OVERLAP_SHARE { depth(requests) } else { 1 }, share, false)
}

fn too_short(requests: &[Request]) -> (u32, f64, bool) {
    let served = services(requests, 1, false);
    let busy: Vec<&Served> = served.iter().filter(|service| service.wait_ns() > 0).collect();
    let (mut short, mut considered) = (0_usize, 0_usize);
    for op in [Op::Read, Op::Write] {
        let alone = served.iter().filter(|service| service.wait_ns() == 0 && service.request.op == op);
        let mut alone: Vec<u64> = alone.map(Served::service_ns).collect();
        if alone.len() < CHOICES {
            continue;
        }
        alone.sort_unstable();
        let least = alone[alone.len() / 200] * 4 / 5;
        let of_op = busy.iter().filter(|service| service.request.op == op);
        considered += of_op.clone().count();
        short += of_op.filter(|service| service.service_ns() < least).count();
    }
    let share = if considered >= CHOICES { short as f64 / considered as f64 } else { 0.0 };
    let inconclusive = considered < CHOICES && busy.len() >= CHOICES;
    (if share > TOO_SHORT_SHARE { depth(requests) } else { 1 }, share, inconclusive)
}

/// Sectors that are one place to discipline number `discipline`: powers of two first, then what lies
/// between the best of them and its neighbours.
fn place(served: &[Served], discipline: usize) -> u32 {
    let served = &served[..served.len().min(PLACE_SERVICES)];
    let share = |place: u32| agreement(served, u64::from(place)).1[discipline];
    let mut best = (share(1), 1);
    let better = |best: &mut (f64, u32), place: u32| {
        let share = share(place);
        if share > best.0 + PLACE_MUST_GAIN {
            *best = (share, place);
        }
    };
    (1..=PLACE_LIMIT).for_each(|power| better(&mut best, 1 << power));
    let coarse = best.1;
    if coarse > 4 {
        (5..=15).filter(|eighths| *eighths != 8).for_each(|eighths| better(&mut best, coarse / 8 * eighths));
    }
    best.1
}

/// Number of choices, and the share of them each discipline would have made.
/// `place_sectors` sectors are one place.
fn agreement(served: &[Served], place_sectors: u64) -> (usize, [f64; 3]) {
    let mut by_arrival: Vec<usize> = (0..served.len()).collect();
    by_arrival.sort_by_key(|&at| served[at].number);
    let mut arrivals = by_arrival.into_iter().peekable();
    let mut waiting: Vec<usize> = Vec::new();
    let mut position = 0;
    let (mut choices, mut right) = (0, [0_usize; 3]);
    for (at, service) in served.iter().enumerate() {
        while let Some(next) = arrivals.next_if(|&next| served[next].request.arrival_ns <= service.start_ns) {
            // Recorded starts may put a service before one that completed earlier.
            if next >= at {
                waiting.push(next);
            }
        }
        if waiting.len() > 1 && at > 0 {
            choices += 1;
            for (count, discipline) in right.iter_mut().zip(DISCIPLINES) {
                *count += usize::from(choice(discipline, &waiting, served, position, place_sectors) == at);
            }
        }
        waiting.retain(|&other| other != at);
        position = service.request.end();
    }
    (choices, right.map(|count| count as f64 / choices.max(1) as f64))
}

fn choice(
    discipline: Discipline,
    waiting: &[usize],
    served: &[Served],
    position: u64,
    place_sectors: u64,
) -> usize {
    let arm = place_of_arm(position, place_sectors);
    let seek = |&at: &usize| distance(place_of(served[at].request.lba, place_sectors), arm);
    let number = |&at: &usize| served[at].number;
    let chosen = match discipline {
        Discipline::Fcfs => waiting.iter().min_by_key(|at| number(at)),
        Discipline::Sstf => waiting.iter().min_by_key(|at| (seek(at).abs(), number(at))),
        // Ahead first, by distance; those behind after all of them, from the lowest.
        Discipline::CScan => waiting.iter().min_by_key(|at| (seek(at) < 0, seek(at), number(at))),
    };
    *chosen.expect("someone waits")
}
