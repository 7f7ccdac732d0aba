//! Finds where the platters stand in a trace: the turn, then the zones, then what the arm needs.

use super::{ready, turn, zones, Ended, Platters, Ready};
use crate::features::{may_be_cached, History, DISTANCE};
use crate::order::Served;
use crate::request::{Command, Op};

/// Accesses that are looked at.
const MOST: usize = 16_384;
/// Fewest that tell anything.
const FEWEST: usize = 400;
/// Writes that take less than this share of what reads take complete before they are on the medium.
const BUFFERED: f64 = 0.7;
/// Services quicker than this share of a usual read are the cache's.
const QUICK: f64 = 0.3;

/// The accesses of `served` that the medium answered, as far as that can be told.
fn accesses(served: &[Served]) -> Vec<Ended> {
    let mut history = History::default();
    let mut accesses = Vec::new();
    for service in served {
        let command = Command::from(&service.request);
        let features = history.features(&service.start());
        if !may_be_cached(&features) {
            accesses.push(Ended {
                op: command.op,
                end: service.request.end() as f64,
                sectors: f64::from(command.sectors),
                distance: f64::from(features[DISTANCE]),
                done_us: service.request.completion_ns as f64 * 1e-3,
                us: service.service_ns() as f64 * 1e-3,
            });
        }
        history.advance(&command, service.request.completion_ns);
        if accesses.len() >= MOST {
            break;
        }
    }
    let middle = |op: Op| {
        let mut times: Vec<f64> = accesses.iter().filter(|a| a.op == op).map(|a| a.us).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(0.0)
    };
    let quick = QUICK * middle(Op::Read);
    if middle(Op::Write) < BUFFERED * middle(Op::Read) {
        accesses.retain(|access| access.op == Op::Read);
    }
    accesses.retain(|access| access.us > quick);
    accesses
}

/// What `served`, of a device that serves one request at a time, tells of its platters; `None` if nothing.
pub fn infer(served: &[Served]) -> Option<Platters> {
    let mut accesses = accesses(served);
    if accesses.len() < FEWEST {
        return None;
    }
    let turns_us = turn::candidates_us(&accesses);
    accesses.sort_by(|a, b| a.end.total_cmp(&b.end));
    let found = turns_us.into_iter().find_map(|turn_us| zones::find(&accesses, turn_us))?;
    let none = Ready { knots: Vec::new(), angle: 0.0 };
    let mut platters =
        Platters { turn_us: found.turn_us, zones: found.zones, reads: none, writes: None, origin_us: 0.0 };
    platters.reads = ready::find(&platters, &accesses, Op::Read, 0.0)?;
    platters.writes = ready::find(&platters, &accesses, Op::Write, found.write_angle);
    let before_pass = |access: &Ended| platters.pass(&access.access()).map(|(us, _)| us - access.us);
    platters.origin_us = accesses.iter().filter_map(before_pass).fold(0.0, f64::max) + platters.turn_us;
    Some(platters)
}
